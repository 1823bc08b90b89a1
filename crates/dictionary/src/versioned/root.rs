//! The root of a structure that writes each checkpoint as a single blob.

use super::VersionStamp;
use crate::blob::{self, Blob, BlobRoot};
use crate::read::DataFiles;
use alluvium_base::Purpose;
use alluvium_storage::extents::Extent;
use alluvium_storage::store::Store;
use alluvium_storage::{DiskLocation, NodePointer, Result};

/// Writes the root of a structure, and reuses it while the contents stay the same.
#[derive(Debug, Default)]
pub struct RootWriter {
    /// The number of the contents that were written last, and their root.
    root: Option<(u64, Vec<u8>)>,
    /// The blob that the root points to, unless the root itself stores the contents.
    blob: Option<Blob>,
}

impl RootWriter {
    /// Opens a structure from its root, which is also the root of the first version's contents.
    /// `decode` decodes the contents and receives the location that they were read from.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt); I/O errors.
    pub fn open<C>(
        store: &Store,
        root: &[u8],
        place: &DiskLocation,
        decode: impl FnOnce(&[u8], &DiskLocation) -> Result<C>,
    ) -> Result<(RootWriter, C)> {
        let mut blob = None;
        let contents = match BlobRoot::decode(root, place, store.page_size())? {
            BlobRoot::Here(bytes) => decode(bytes, place)?,
            BlobRoot::Apart(pointer) => {
                let (opened, bytes) = Blob::open(store, &pointer)?;
                blob = Some(opened);
                decode(&bytes, &pointer.node.place())?
            }
        };
        let root = Some((0, root.to_vec()));
        Ok((RootWriter { root, blob }, contents))
    }

    /// Returns the root of a version, and writes it only if the contents have changed since the
    /// last call. `encode` encodes the contents. The root itself stores contents of at most
    /// `inline` bytes.
    ///
    /// # Errors
    /// A full disk, in which case nothing has changed. After any other failed write, the store
    /// accepts no changes.
    ///
    /// # Panics
    /// If a root of newer contents has already been written.
    pub fn write(
        &mut self,
        store: &Store,
        version: &VersionStamp,
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
                (BlobRoot::Here(&contents).encode(), None)
            } else {
                let blob = store.poison_on_error(Blob::write(store, &contents))?;
                (BlobRoot::Apart(*blob.pointer()).encode(), Some(blob))
            };
            if let Some(before) = std::mem::replace(&mut self.blob, blob) {
                before.release(store);
            }
            self.root = Some((version.contents, root));
        }
        let (_, root) = self.root.as_ref().expect("it was just written");
        Ok(root)
    }

    /// Returns the extents of the blob that the last root points to.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.blob.iter().flat_map(|blob| blob.extents().iter().copied())
    }
}

/// Reads the contents of a root, bypassing the cache. Returns them with pointers to the nodes that
/// store them.
///
/// # Errors
/// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if the contents are damaged; I/O errors.
pub fn read_root<C>(
    files: DataFiles<'_>,
    root: &[u8],
    place: &DiskLocation,
    purpose: Purpose,
    decode: impl FnOnce(&[u8], &DiskLocation) -> Result<C>,
) -> Result<(C, Vec<NodePointer>)> {
    match BlobRoot::decode(root, place, files.page_size)? {
        BlobRoot::Here(bytes) => Ok((decode(bytes, place)?, Vec::new())),
        BlobRoot::Apart(pointer) => {
            let (bytes, nodes) = blob::read(files, &pointer, purpose)?;
            Ok((decode(&bytes, &pointer.node.place())?, nodes))
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_storage::OnDiskObject;
    use alluvium_storage::store::StoreOptions;
    use std::sync::Arc;

    const INLINE: usize = 100;

    #[test]
    fn a_root_is_written_once_for_its_contents_and_gives_up_the_one_before() {
        let directory = Arc::new(MemoryDirectory::new());
        let store = Store::create(directory, &StoreOptions::default(), b"").unwrap();
        let place = DiskLocation::new(OnDiskObject::Node, "a root", 0);
        let (mut writer, mut stamp) = (RootWriter::default(), VersionStamp::first(0));
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
            let decode = |bytes: &[u8], _: &DiskLocation| Ok(bytes.to_vec());
            let (opened, read) = RootWriter::open(&store, &root, &place, decode).unwrap();
            assert!(opened.extents().eq(writer.extents()));
            assert_eq!(read, bytes);
            let files = DataFiles::of(&store);
            let (read, nodes) = read_root(files, &root, &place, Purpose::Check, decode).unwrap();
            assert_eq!((read, nodes.is_empty()), (bytes, len <= INLINE));
        }
    }
}
