//! Checkpoints, which make a generation durable in the steps shown in the module header.

use super::Store;
use crate::Result;
use crate::extents::FrozenMap;
use crate::superblock::{MAX_PAYLOAD, Superblock};
use alluvium_base::Purpose;
use std::sync::atomic::Ordering;

/// A generation whose contents are fixed but not yet durable. If it is dropped without calling
/// `finish`, its changes become part of the next checkpoint.
#[derive(Debug)]
#[must_use = "a cut becomes durable with `finish`"]
pub struct Checkpoint<'store> {
    store: &'store Store,
    frozen: FrozenMap,
}

impl Store {
    /// Begins a checkpoint of the generation under construction. The checkpoint covers every extent
    /// installed or released and every reference count changed before this call. At that same
    /// point, the caller must determine the checkpoint's payload and the sequence number of its
    /// cut, and must prevent changes to the extents meanwhile. Only one checkpoint may be in
    /// progress.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned) after an earlier failure.
    ///
    /// # Panics
    /// If another checkpoint is in progress.
    pub fn begin_checkpoint(&self) -> Result<Checkpoint<'_>> {
        self.health.check()?;
        let generation = self.building.fetch_add(1, Ordering::AcqRel);
        Ok(Checkpoint {
            store: self,
            frozen: self.extents.freeze(generation),
        })
    }
}

impl Checkpoint<'_> {
    /// Returns the number of the generation that this checkpoint makes durable.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.frozen.generation()
    }

    /// Makes the generation durable with the caller's payload, and returns its number. The
    /// generation must contain every commit up to sequence number `cut`, because the log up to
    /// `cut` is then released. Before the call, every node reachable from the payload must be
    /// written (`NodeWriter::finish`), and its extent must be installed.
    ///
    /// # Errors
    /// A full disk aborts the checkpoint without freeing anything. [`Store::superblock`] then
    /// returns the durable generation, which is the previous one, or the new one if only the log
    /// had no space to name it. After any other failure, the store refuses changes (K2).
    ///
    /// # Panics
    /// If the payload is longer than [`MAX_PAYLOAD`], or if `cut` is below the previous
    /// generation's cut, up to which the log has already been released.
    pub fn finish(self, payload: &[u8], cut: u64) -> Result<u64> {
        assert!(
            payload.len() <= MAX_PAYLOAD,
            "a payload of {} bytes, at most {MAX_PAYLOAD} fit",
            payload.len()
        );
        let store = self.store;
        let generation = self.generation();
        let before = store.superblock().cut;
        assert!(cut >= before, "a cut at {cut} falls behind the one at {before}");
        store.health.poison_on_error(self.make_durable(payload, cut))?;
        // The generation is now durable. Free the extents and log segments that it no longer needs
        // (K1, step 7).
        debug_assert_eq!(store.superblock().generation, generation, "it is durable (K1)");
        store.extents.made_durable(generation);
        store.health.poison_on_error(store.log.release(cut))?;
        Ok(generation)
    }

    /// Performs steps 3 to 6 of the checkpoint.
    fn make_durable(self, payload: &[u8], cut: u64) -> Result<()> {
        let store = self.store;
        let generation = self.generation();
        store.check_tier_directories();
        store.tiers.sync(Purpose::Trunk)?;
        let tiers = self.frozen.tiers() as u8;
        let map = store.extents.write_map(store.directory(), self.frozen)?;
        assert!(
            map.generation <= generation,
            "a map is no newer than its superblock (K1)"
        );
        let mut superblock = store.superblock.lock();
        assert!(
            generation > superblock.durable().generation,
            "generations rise (K1)"
        );
        let next = Superblock {
            generation,
            cut,
            synced: store.log.synced(),
            map,
            tiers,
            payload: payload.to_vec(),
            ..superblock.durable().clone()
        };
        superblock.write(next)?;
        store.log.note_generation(generation)
    }
}
