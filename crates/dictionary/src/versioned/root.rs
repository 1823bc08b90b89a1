//! The root of a structure whose checkpoint is one piece of bytes.

use super::Stamp;
use crate::blob::{self, Blob, Root};
use crate::read::Files;
use alluvium_base::Purpose;
use alluvium_storage::extents::Extent;
use alluvium_storage::store::Store;
use alluvium_storage::{NodePointer, Place, Result};

/// Writes the root of a structure, once for each contents.
#[derive(Debug, Default)]
pub struct RootWriter {
    /// The newest root that was written, and of which contents it is.
    root: Option<(u64, Vec<u8>)>,
    /// Where the contents are that it points to.
    blob: Option<Blob>,
}

impl RootWriter {
    /// Opens a structure by its root. `decode` decodes the contents, which are in a place. It is
    /// the root of the first version's contents.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt), or as the device says.
    pub fn open<C>(
        store: &Store,
        root: &[u8],
        place: &Place,
        decode: impl FnOnce(&[u8], &Place) -> Result<C>,
    ) -> Result<(RootWriter, C)> {
        let mut blob = None;
        let contents = match Root::decode(root, place, store.page_size())? {
            Root::Here(bytes) => decode(bytes, place)?,
            Root::Apart(pointer) => {
                let (opened, bytes) = Blob::open(store, &pointer)?;
                blob = Some(opened);
                decode(&bytes, &pointer.node.place())?
            }
        };
        let root = Some((0, root.to_vec()));
        Ok((RootWriter { root, blob }, contents))
    }

    /// Returns the root of a version. It is written unless that of the same contents is. `encode`
    /// encodes them; up to `inline` bytes of them are in the root itself.
    ///
    /// # Errors
    /// A full disk, which changes nothing; after a failed write the store takes no changes.
    ///
    /// # Panics
    /// When the root of newer contents is written.
    pub fn write(
        &mut self,
        store: &Store,
        version: &Stamp,
        inline: usize,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Result<&[u8]> {
        let written = self.root.as_ref().map(|(contents, _)| *contents);
        if written != Some(version.contents) {
            assert!(
                written.is_none_or(|written| written < version.contents),
                "a root is of contents that there were"
            );
            let contents = encode();
            let (root, blob) = if contents.len() <= inline {
                (Root::Here(&contents).encode(), None)
            } else {
                let blob = store.judge(Blob::write(store, &contents))?;
                (Root::Apart(*blob.pointer()).encode(), Some(blob))
            };
            if let Some(before) = std::mem::replace(&mut self.blob, blob) {
                before.release(store);
            }
            self.root = Some((version.contents, root));
        }
        let (_, root) = self.root.as_ref().expect("it was just written");
        Ok(root)
    }

    /// Returns the extents that the newest root leads to for the contents alone.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.blob.iter().flat_map(|blob| blob.extents().iter().copied())
    }
}

/// Reads the contents that a root leads to, past the cache, and returns the nodes that hold them.
///
/// # Errors
/// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) when they are damaged; as the device says.
pub fn read_root<C>(
    files: Files<'_>,
    root: &[u8],
    place: &Place,
    purpose: Purpose,
    decode: impl FnOnce(&[u8], &Place) -> Result<C>,
) -> Result<(C, Vec<NodePointer>)> {
    match Root::decode(root, place, files.page_size)? {
        Root::Here(bytes) => Ok((decode(bytes, place)?, Vec::new())),
        Root::Apart(pointer) => {
            let (bytes, nodes) = blob::read(files, &pointer, purpose)?;
            Ok((decode(&bytes, &pointer.node.place())?, nodes))
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_storage::Structure;
    use alluvium_storage::store::StoreOptions;
    use std::sync::Arc;

    const INLINE: usize = 100;

    #[test]
    fn a_root_is_written_once_for_its_contents_and_gives_up_the_one_before() {
        let directory = Arc::new(MemoryDirectory::new());
        let store = Store::create(directory, &StoreOptions::default(), b"").unwrap();
        let place = Place::new(Structure::Node, "a root", 0);
        let (mut writer, mut stamp) = (RootWriter::default(), Stamp::first(0));
        for len in [0, INLINE, INLINE + 1, 300_000, 1] {
            stamp = stamp.changed(stamp.cut + 1);
            let bytes = vec![7; len];
            let root = writer.write(&store, &stamp, INLINE, || bytes.clone());
            let root = root.unwrap().to_vec();
            let again = writer.write(&store, &stamp.advanced(9), INLINE, || unreachable!());
            assert_eq!(again.unwrap(), root);
            let reachable: Vec<(Extent, u32)> = writer.extents().map(|extent| (extent, 1)).collect();
            assert_eq!(reachable.is_empty(), len <= INLINE);
            assert_eq!(store.check(reachable.into_iter()).unwrap(), Vec::<String>::new());
            let decode = |bytes: &[u8], _: &Place| Ok(bytes.to_vec());
            let (opened, read) = RootWriter::open(&store, &root, &place, decode).unwrap();
            assert!(opened.extents().eq(writer.extents()));
            assert_eq!(read, bytes);
            let files = Files::of(&store);
            let (read, nodes) = read_root(files, &root, &place, Purpose::Check, decode).unwrap();
            assert_eq!((read, nodes.is_empty()), (bytes, len <= INLINE));
        }
    }
}
