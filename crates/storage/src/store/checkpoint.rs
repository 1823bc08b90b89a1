//! Making a generation durable: the barriers, in the order given in the module header.

use super::Store;
use crate::Result;
use crate::extents::FrozenMap;
use crate::superblock::{MAX_PAYLOAD, Superblock};
use alluvium_base::Purpose;
use std::sync::atomic::Ordering;

/// A cut that is not durable yet. If it is dropped before `finish`, its changes become part of the
/// next checkpoint.
#[derive(Debug)]
#[must_use = "a cut becomes durable with `finish`"]
pub struct Checkpoint<'store> {
    store: &'store Store,
    frozen: FrozenMap,
}

impl Store {
    /// Cuts a generation: it includes every extent installed, released or counted so far. The
    /// caller determines its own cut (payload and sequence number) at the same moment, and must
    /// prevent concurrent installs until then. Only one checkpoint runs at a time.
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
    /// Returns the generation that becomes durable.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.frozen.generation()
    }

    /// Makes the generation durable with the caller's payload. The generation contains every commit
    /// up to `cut`, so the log up to `cut` is released. Every node reachable from the payload must
    /// be written (`NodeWriter::finish`) and installed.
    ///
    /// # Errors
    /// A full disk aborts the checkpoint and frees nothing. [`Store::superblock`] then returns the
    /// durable generation: the previous one, or this one if only the log's note did not fit. Any
    /// other failure makes the store refuse changes (K2).
    ///
    /// # Panics
    /// If the payload is longer than [`MAX_PAYLOAD`], or `cut` is below that of the previous
    /// generation: the log up to there is gone.
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
        // The generation is durable. The rest frees what it no longer needs (K1, step 7).
        debug_assert_eq!(store.superblock().generation, generation, "it is durable (K1)");
        store.extents.made_durable(generation);
        store.health.poison_on_error(store.log.release(cut))?;
        Ok(generation)
    }

    /// Performs steps 3 to 6.
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
