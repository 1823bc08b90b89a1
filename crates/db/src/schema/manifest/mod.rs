//! The manifest, which is the durable list of the store's dictionaries. The superblock refers to
//! it.
//!
//! *Scope*: the dictionaries with their structures and roots, the keyspaces in each dictionary, and
//! how this list is stored at a checkpoint. It is stored in the superblock's payload if it fits
//! there, and in separate nodes otherwise.
//!
//! *Must not depend on*: the meaning of a root; when a checkpoint is due.
//!
//! Invariants:
//!
//! - **M1** A manifest describes the store at one sequence number, the superblock's cut. Each of
//!   its dictionaries contains all commits up to the cut and none after it. If a dictionary has not
//!   received some of these commits' writes, the manifest itself stores them.
//! - **M2** A dictionary does not know the superblock. At a checkpoint it returns a root, from
//!   which it is opened later.

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

/// Writes the manifests of an open store.
#[derive(Debug, Default)]
pub(crate) struct ManifestWriter {
    /// The newest manifest, if it is too long for the superblock and therefore stored in separate
    /// nodes.
    apart: Mutex<Option<Blob>>,
}

impl ManifestWriter {
    /// Creates the writer and reads the manifest of the durable generation.
    pub(crate) fn open(store: &Store) -> Result<(ManifestWriter, Manifest)> {
        let payload = store.superblock().payload;
        let (manifest, apart) = match decode(&payload, DataFiles::of(store))? {
            None => (Manifest::default(), None),
            Some(SuperblockPayload::Inline(manifest)) => (manifest, None),
            Some(SuperblockPayload::External(_, pointer)) => {
                let (blob, bytes) = Blob::open(store, &pointer)?;
                (Manifest::decode(&bytes, &pointer.node.place())?, Some(blob))
            }
        };
        let apart = Mutex::new(apart);
        Ok((ManifestWriter { apart }, manifest))
    }

    /// Returns a superblock payload that refers to `manifest`, which is written to separate nodes
    /// if it is too long for the payload. The nodes of the previous manifest are released, so the
    /// caller must begin the checkpoint of the extents before it changes anything else.
    pub(crate) fn keep(&self, store: &Store, manifest: Manifest) -> Result<Vec<u8>> {
        let here = SuperblockPayload::Inline(manifest);
        let mut payload = here.encode();
        let mut apart = None;
        if let SuperblockPayload::Inline(manifest) = here
            && payload.len() > MAX_PAYLOAD
        {
            let blob = store.poison_on_error(Blob::write(store, &manifest.encode()))?;
            let version = manifest.version();
            payload = SuperblockPayload::External(version, *blob.pointer()).encode();
            apart = Some(blob);
        }
        let before = std::mem::replace(&mut *self.apart.lock(), apart);
        if let Some(before) = before {
            before.release(store);
        }
        Ok(payload)
    }

    /// Returns the extents of the newest manifest, or none if it fits into the superblock.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        let apart = self.apart.lock();
        apart
            .as_ref()
            .map_or_else(Vec::new, |blob| blob.extents().to_vec())
    }
}

/// Decodes a superblock payload. Returns `None` if it is empty, which means that the store has no
/// checkpoint yet.
fn decode(payload: &[u8], files: DataFiles<'_>) -> Result<Option<SuperblockPayload>> {
    if payload.is_empty() {
        return Ok(None);
    }
    let place = DiskLocation::new(OnDiskObject::Superblock, "superblock", 0);
    SuperblockPayload::decode(payload, &place, files.page_size).map(Some)
}

/// Reads the manifest that a superblock payload refers to. Also returns its nodes if it is not
/// stored in the payload itself.
pub(crate) fn read(
    files: DataFiles<'_>,
    payload: &[u8],
    purpose: Purpose,
) -> Result<(Manifest, Vec<NodePointer>)> {
    match decode(payload, files)? {
        None => Ok((Manifest::default(), Vec::new())),
        Some(SuperblockPayload::Inline(manifest)) => Ok((manifest, Vec::new())),
        Some(SuperblockPayload::External(_, pointer)) => {
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
        // The roots are sized to yield the longest manifest that fits into the superblock, the
        // shortest that does not, and manifests of many nodes.
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
