//! Blobs: byte strings of any length that a checkpoint writes in full. A blob is stored in its own
//! nodes, each of which has a checksum.
//!
//! *Scope*: which extents store a blob, and whether a root contains the bytes themselves or a
//! pointer to them.
//!
//! *Must not depend on*: the meaning of the bytes.
//!
//! Invariants:
//!
//! - **J1** The extents of a blob contain no other data.

mod format;

pub use format::BlobRoot;

use crate::read::DataFiles;
use crate::value_log::{self, PointerSlot, ValuePlacement, ValuePointer, ValueWriter};
use alluvium_base::Purpose;
use alluvium_storage::extents::{AllocationClass, Extent, MAX_EXTENT_UNITS, ReachableExtent, UNIT};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, Result};
use std::collections::BTreeMap;

/// A byte string stored on the device, and the extents that it occupies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pointer: ValuePointer,
    extents: Vec<Extent>,
}

impl Blob {
    /// Writes `bytes` to new extents of the generation in progress, and returns the blob.
    ///
    /// ```
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_dictionary::blob::Blob;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use std::sync::Arc;
    ///
    /// let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// let written = Blob::write(&store, &[7; 300_000])?;
    /// let (read, bytes) = Blob::open(&store, written.pointer())?;
    /// assert_eq!((read, bytes), (written, vec![7; 300_000]));
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// A full disk, in which case nothing has changed; I/O errors.
    ///
    /// # Panics
    /// If `bytes` is longer than [`value_log::MAX_VALUE`].
    pub fn write(store: &Store, bytes: &[u8]) -> Result<Blob> {
        assert!(bytes.len() <= value_log::MAX_VALUE, "{} bytes", bytes.len());
        let writer = store.node_writer(store.writer_options(Purpose::Trunk, AllocationClass::Freeing))?;
        let mut writer = ValueWriter::new(writer, store.page_size());
        let first = PointerSlot { leaf: 0, at: 0 };
        let mut pointer = None;
        if let ValuePlacement::Long(long) = writer.add(bytes, first, &mut |_| ())? {
            pointer = Some(long);
        }
        writer.close(|_, short| pointer = Some(short))?;
        let written = writer.finish()?;
        assert!(!written.extents.is_empty(), "a value has at least a page");
        store.extents().install(&written.extents);
        Ok(Blob {
            pointer: pointer.expect("one value was written"),
            extents: written.extents.iter().map(|(extent, _)| *extent).collect(),
        })
    }

    /// Reads the blob at `pointer` from an open store, bypassing the cache. Returns the blob and
    /// its contents.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the data is damaged; I/O errors.
    pub fn open(store: &Store, pointer: &ValuePointer) -> Result<(Blob, Vec<u8>)> {
        let (bytes, nodes) = read(DataFiles::of(store), pointer, Purpose::Recovery)?;
        let mut extents = Vec::new();
        for node in nodes {
            let Some(extent) = store.extents().extent_at(node.tier, node.offset) else {
                let found = "a node where no extent is in use";
                return Err(Error::corrupt(node.place(), "an extent", found));
            };
            extents.push(extent);
        }
        extents.sort_unstable();
        extents.dedup();
        let blob = Blob {
            pointer: *pointer,
            extents,
        };
        Ok((blob, bytes))
    }

    /// Returns the pointer to the bytes.
    #[must_use]
    pub fn pointer(&self) -> &ValuePointer {
        &self.pointer
    }

    /// Returns the extents that store the bytes.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Frees the extents of the blob, effective in the generation in progress.
    pub fn release(self, store: &Store) {
        for extent in self.extents {
            store.extents().release(extent, store.epochs().current());
        }
    }
}

/// Reads the bytes that `pointer` refers to, bypassing the cache. Also returns pointers to the
/// nodes that store them.
///
/// # Errors
/// [`Error::Corrupt`] if the data is damaged; I/O errors.
pub fn read(
    files: DataFiles<'_>,
    pointer: &ValuePointer,
    purpose: Purpose,
) -> Result<(Vec<u8>, Vec<NodePointer>)> {
    // The pointer may be corrupt, and its length with it. It could even refer to the same node
    // several times. The size of the data files therefore bounds the allocation.
    let mut files_bytes = 0;
    for tier in 0..files.tiers.count() {
        files_bytes += files.tiers.get(tier as u8)?.len();
    }
    if u64::from(pointer.len) > files_bytes {
        let found = format!("{} bytes, but the data files have {files_bytes}", pointer.len);
        return Err(Error::corrupt(
            pointer.node.place(),
            "bytes in the data files",
            found,
        ));
    }
    let mut bytes = Vec::new();
    let nodes = value_log::read_apart(files, pointer, purpose, &mut bytes)?;
    Ok((bytes, nodes))
}

/// Returns the smallest extents that cover `nodes`, each with its number of live bytes. The nodes
/// must be in ascending order of tier and offset. Adjacent allocation units become one extent. The
/// allocated extents may be larger, because nodes do not record their extents.
pub fn extents_of<'n>(nodes: impl Iterator<Item = &'n NodePointer>) -> Vec<(Extent, u64)> {
    let mut extents: Vec<(Extent, u64)> = Vec::new();
    for node in nodes {
        let live = node.read_len() as u64;
        debug_assert!(
            extents
                .last()
                .is_none_or(|(last, _)| (last.tier, last.start) <= (node.tier, (node.offset / UNIT) as u32)),
            "nodes ascend"
        );
        let start = (node.offset / UNIT) as u32;
        let end = (node.offset + live).div_ceil(UNIT) as u32;
        match extents.last_mut() {
            Some((last, bytes))
                if last.tier == node.tier
                    && start <= last.end()
                    && end.max(last.end()) - last.start <= MAX_EXTENT_UNITS =>
            {
                last.units = end.max(last.end()) - last.start;
                *bytes += live;
            }
            _ => {
                let extent = Extent {
                    tier: node.tier,
                    start,
                    units: end - start,
                };
                extents.push((extent, live));
            }
        }
    }
    extents
}

/// Returns every extent that is reachable from a root, with its reference count and its live bytes.
/// `nodes` store the contents of the root. `named` lists the extents to which the contents refer,
/// once for each reference.
pub fn reached(
    mut nodes: Vec<NodePointer>,
    named: impl IntoIterator<Item = (Extent, u64)>,
) -> Vec<ReachableExtent> {
    nodes.sort_unstable_by_key(|node| (node.tier, node.offset));
    let mut extents: BTreeMap<Extent, (u32, u64)> = BTreeMap::new();
    for (extent, live) in extents_of(nodes.iter()).into_iter().chain(named) {
        let (references, bytes) = extents.entry(extent).or_default();
        *references += 1;
        *bytes = (*bytes + live).min(extent.bytes());
    }
    let reached = extents
        .into_iter()
        .map(|(extent, (references, live))| ReachableExtent {
            extent,
            references,
            live,
        });
    reached.collect()
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_storage::store::StoreOptions;
    use std::sync::Arc;

    fn store() -> Store {
        Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"").unwrap()
    }

    #[test]
    fn bytes_of_any_length_are_read_back_and_their_space_is_given_up_once() {
        let store = store();
        for len in [0, 1, 4096, 65536, 65537, 3 << 20] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let blob = Blob::write(&store, &bytes).unwrap();
            assert_eq!(Blob::open(&store, blob.pointer()).unwrap(), (blob.clone(), bytes));
            let reachable = blob.extents().iter().map(|extent| (*extent, 1));
            assert_eq!(store.check(reachable).unwrap(), Vec::<String>::new(), "{len}");
            blob.release(&store);
            assert_eq!(
                store.check(std::iter::empty()).unwrap(),
                Vec::<String>::new(),
                "{len}"
            );
        }
    }

    #[test]
    fn a_pointer_to_more_bytes_than_the_files_have_is_damage() {
        let store = store();
        let options = store.writer_options(Purpose::Trunk, AllocationClass::Freeing);
        let mut writer = store.node_writer(options).unwrap();
        let leaf = writer.add(&[7; 65536]).unwrap();
        let mut root = Vec::new();
        for _ in 0..65536 / NodePointer::BYTES {
            leaf.encode(&mut root);
        }
        let node = writer.add(&root).unwrap();
        let written = writer.finish().unwrap();
        store.extents().install(&written.extents);
        let whole = |times: u32| ValuePointer {
            node,
            at: 0,
            len: times * 65536,
        };
        let files_bytes = store.tiers().get(0).unwrap().len();
        let fits = (files_bytes / 65536) as u32;
        let read = |times| read(DataFiles::of(&store), &whole(times), Purpose::Check);
        assert_eq!(read(fits).unwrap().0.len() as u64, u64::from(fits) * 65536);
        assert!(fits < 2048, "{files_bytes} bytes");
        let refused = read(2048).unwrap_err().to_string();
        assert!(refused.contains("134217728 bytes"), "{refused}");
    }

    #[test]
    fn a_pointer_to_other_bytes_is_damage() {
        let store = store();
        let mut pointer = *Blob::write(&store, b"manifest").unwrap().pointer();
        pointer.node.checksum ^= 1;
        let read = Blob::open(&store, &pointer);
        assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
    }
}
