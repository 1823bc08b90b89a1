//! Stores the structure's root, in the superblock if it fits and in separate nodes otherwise.

use alluvium_dictionary::blob::{Blob, BlobRoot};
use alluvium_storage::store::Store;
use alluvium_storage::superblock::MAX_PAYLOAD;
use alluvium_storage::{DiskLocation, OnDiskObject, Result};

/// The root of the structure in the durable generation.
#[derive(Debug, Default)]
pub(crate) struct RootKeeper {
    /// The nodes that store the newest root, if it is too long for the superblock.
    pub(crate) apart: Option<Blob>,
    /// The root in the durable generation, or `None` before the first checkpoint.
    pub(crate) durable: Option<Vec<u8>>,
}

impl RootKeeper {
    /// Reads the root from a store's durable generation. Before its first checkpoint, a store has
    /// no root.
    pub(crate) fn open(store: &Store) -> Result<RootKeeper> {
        let payload = store.superblock().payload;
        if payload.is_empty() {
            return Ok(RootKeeper::default());
        }
        let place = DiskLocation::new(OnDiskObject::Superblock, "superblock", 0);
        let (apart, root) = match BlobRoot::decode(&payload, &place, store.page_size())? {
            BlobRoot::Here(root) => (None, root.to_vec()),
            BlobRoot::Apart(pointer) => {
                let (blob, root) = Blob::open(store, &pointer)?;
                (Some(blob), root)
            }
        };
        Ok(RootKeeper {
            apart,
            durable: Some(root),
        })
    }

    /// Returns the superblock payload that refers to `root`. Writes a root that is too long to
    /// nodes first, and releases the nodes of the previous root.
    pub(crate) fn keep(&mut self, store: &Store, root: &[u8]) -> Result<Vec<u8>> {
        let mut payload = BlobRoot::Here(root).encode();
        let mut apart = None;
        if payload.len() > MAX_PAYLOAD {
            let blob = store.poison_on_error(Blob::write(store, root))?;
            payload = BlobRoot::Apart(*blob.pointer()).encode();
            apart = Some(blob);
        }
        if let Some(before) = std::mem::replace(&mut self.apart, apart) {
            before.release(store);
        }
        Ok(payload)
    }
}
