//! The durable list of dictionaries, which the superblock references.
//!
//! *Scope*: the dictionaries with their kinds and roots, the keyspaces of each, and how the list is
//! stored at a checkpoint: in the superblock's payload if it fits, otherwise in separate nodes.
//!
//! *Must not depend on*: the meaning of a root; when a checkpoint is due.
//!
//! Invariants:
//!
//! - **M1** A manifest describes one cut: every dictionary in it holds all commits up to the
//!   superblock's cut, and none above. The manifest itself stores the writes that a lagging
//!   dictionary has not received.
//! - **M2** A dictionary does not depend on the superblock: it returns a root, and is opened from
//!   one.

#[allow(missing_docs, reason = "only tests and fuzz targets can name its items")]
pub mod format;
pub(crate) mod reachability;

pub(crate) use format::{DictionaryBacklog, DictionaryEntry, Manifest};

use alluvium_base::Purpose;
use alluvium_dictionary::blob::{self, Blob};
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::extents::Extent;
use alluvium_storage::store::Store;
use alluvium_storage::superblock::MAX_PAYLOAD;
use alluvium_storage::{DiskLocation, NodePointer, OnDiskObject, Result};
use format::SuperblockPayload;
use parking_lot::Mutex;

/// Maintains the manifest of an open store.
#[derive(Debug, Default)]
pub(crate) struct ManifestWriter {
    /// Location of the newest manifest, if it does not fit into the superblock.
    apart: Mutex<Option<Blob>>,
}

impl ManifestWriter {
    /// Reads the manifest of the durable generation.
    pub(crate) fn open(store: &Store) -> Result<(ManifestWriter, Manifest)> {
        let payload = store.superblock().payload;
        let (manifest, apart) = match decode(&payload, DataFiles::of(store))? {
            None => (Manifest::default(), None),
            Some(SuperblockPayload::Inline(manifest)) => (manifest, None),
            Some(SuperblockPayload::External(pointer)) => {
                let (blob, bytes) = Blob::open(store, &pointer)?;
                (Manifest::decode(&bytes, &pointer.node.place())?, Some(blob))
            }
        };
        let apart = Mutex::new(apart);
        Ok((ManifestWriter { apart }, manifest))
    }

    /// Returns the payload of a superblock that references `manifest`. Writes separate nodes if
    /// necessary and releases those of the previous manifest: the caller must cut the extents
    /// before any other change.
    pub(crate) fn keep(&self, store: &Store, manifest: Manifest) -> Result<Vec<u8>> {
        let here = SuperblockPayload::Inline(manifest);
        let mut payload = here.encode();
        let mut apart = None;
        if let SuperblockPayload::Inline(manifest) = here
            && payload.len() > MAX_PAYLOAD
        {
            let blob = store.poison_on_error(Blob::write(store, &manifest.encode()))?;
            payload = SuperblockPayload::External(*blob.pointer()).encode();
            apart = Some(blob);
        }
        let before = std::mem::replace(&mut *self.apart.lock(), apart);
        if let Some(before) = before {
            before.release(store);
        }
        Ok(payload)
    }

    /// Returns the extents of the newest manifest, if it does not fit into the superblock.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        let apart = self.apart.lock();
        apart
            .as_ref()
            .map_or_else(Vec::new, |blob| blob.extents().to_vec())
    }
}

/// Decodes a payload; `None` before the first checkpoint of a store.
fn decode(payload: &[u8], files: DataFiles<'_>) -> Result<Option<SuperblockPayload>> {
    if payload.is_empty() {
        return Ok(None);
    }
    let place = DiskLocation::new(OnDiskObject::Superblock, "superblock", 0);
    SuperblockPayload::decode(payload, &place, files.page_size).map(Some)
}

/// Reads the manifest that a payload references. Also returns the nodes that store it.
pub(crate) fn read(
    files: DataFiles<'_>,
    payload: &[u8],
    purpose: Purpose,
) -> Result<(Manifest, Vec<NodePointer>)> {
    match decode(payload, files)? {
        None => Ok((Manifest::default(), Vec::new())),
        Some(SuperblockPayload::Inline(manifest)) => Ok((manifest, Vec::new())),
        Some(SuperblockPayload::External(pointer)) => {
            let (bytes, nodes) = blob::read(files, &pointer, purpose)?;
            Ok((Manifest::decode(&bytes, &pointer.node.place())?, nodes))
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_storage::store::StoreOptions;
    use std::sync::Arc;

    fn manifest(root: usize) -> Manifest {
        let entry = DictionaryEntry {
            id: 0,
            kind: 1,
            root: vec![7; root],
        };
        Manifest {
            dictionaries: vec![entry],
            ..Manifest::default()
        }
    }

    #[test]
    fn a_manifest_of_any_length_is_read_back_and_its_extents_are_given_up_in_the_end() {
        let directory = Arc::new(MemoryDirectory::new());
        let mut store = Store::create(directory.clone(), &StoreOptions::default(), b"").unwrap();
        // The longest manifest that fits into the superblock, the shortest that does not, and one
        // of many nodes.
        let overhead = SuperblockPayload::Inline(manifest(3000)).encode().len() - 3000;
        let most = MAX_PAYLOAD - overhead;
        for root in [54, most, most + 1, 3 << 20, most, 2 << 20, 0] {
            let (keeper, _) = ManifestWriter::open(&store).unwrap();
            let payload = keeper.keep(&store, manifest(root)).unwrap();
            assert_eq!(keeper.extents().is_empty(), root <= most, "{root}");
            store.begin_checkpoint().unwrap().finish(&payload, 0).unwrap();
            let reachable = || keeper.extents().into_iter().map(|extent| (extent, 1));
            assert_eq!(store.check(reachable()).unwrap(), Vec::<String>::new(), "{root}");
            let read = read(DataFiles::of(&store), &payload, Purpose::Check).unwrap();
            assert_eq!(read.0, manifest(root));
            drop(store);
            store = Store::open(directory.clone(), &StoreOptions::default())
                .unwrap()
                .replay(&mut |_| Ok(()))
                .unwrap();
            assert_eq!(ManifestWriter::open(&store).unwrap().1, manifest(root));
        }
    }
}
