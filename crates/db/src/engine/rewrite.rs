//! Full compaction of the store, at the user's request.
//!
//! If the disk is full, a checkpoint after each rewrite frees the space of the replaced data before
//! the next rewrite starts. A structure that finds too little space is retried after the others,
//! which may need less. For example, a structure that contains only deleted data needs almost none.

use super::Engine;
use super::steps::{SLICE, SliceOutcome};
use crate::error::Result;
use alluvium_dictionary::contract::Dictionary;

/// Maximum number of slices run to finish the due compactions.
const MOST_SLICES: usize = 100_000;

/// Number of poll intervals without progress after which a full compaction fails if the disk is
/// full. They take about a second.
const FULL_NAPS: usize = 500;

impl Engine {
    /// Rewrites all data of the store. Drops old versions and deleted data, and applies compaction
    /// filters to every entry.
    pub(crate) fn compact(&self) -> Result<()> {
        self.checkpoint_everything()?;
        let mut left: Vec<_> = self
            .dictionaries
            .live()
            .map(|(_, dictionary)| dictionary)
            .collect();
        while !left.is_empty() {
            let (before, mut refusal) = (left.len(), None);
            let mut refused = Vec::new();
            for dictionary in left {
                match self.rewrite(dictionary) {
                    Err(error) if error.is_full() => {
                        refused.push(dictionary);
                        refusal = Some(error);
                    }
                    other => other?,
                }
            }
            self.free_replaced()?;
            left = refused;
            if let Some(error) = refusal.filter(|_| left.len() == before) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Rewrites a dictionary's contents part by part.
    fn rewrite(&self, dictionary: &dyn Dictionary) -> Result<()> {
        let mut key = Vec::new();
        loop {
            self.raise_horizon();
            self.guarded("a compaction", || Ok(dictionary.compact_part(&key)?))?;
            self.settle_all()?;
            match dictionary.next_boundary(&key) {
                Some(end) => key = end.into_vec(),
                None => return Ok(()),
            }
        }
    }

    /// Runs all due compactions. If the disk is full, later compactions use the space that earlier
    /// ones freed. Fails if no compaction makes progress and no space is freed. If the disk then
    /// turns out to have space again, the compactions are tried once more.
    fn settle_all(&self) -> Result<()> {
        let mut was_full = true;
        loop {
            let steps = self.throttle.steps();
            match self.settle() {
                Err(error) if error.is_full() => {
                    let unused = self.unused_bytes();
                    self.free_replaced()?;
                    self.probe_free_space();
                    let has_space = was_full && !self.throttle.is_full();
                    was_full &= !has_space;
                    let is_idle = self.throttle.steps() == steps && self.unused_bytes() >= unused;
                    if is_idle && !has_space {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }

    /// Returns the number of bytes that are no longer referenced but have not been freed.
    fn unused_bytes(&self) -> u64 {
        let total = self.store.usage().0.total();
        total.dead_bytes + total.dying_bytes
    }

    /// Frees the space of data that compactions have replaced, by making a checkpoint and
    /// reclaiming dead space.
    pub(super) fn free_replaced(&self) -> Result<()> {
        self.checkpoint_now()?;
        self.reclaim()
    }

    /// Runs all due compactions, and waits for those that other threads are running. The number of
    /// slices is limited, because concurrent writes may keep making compactions due. If the disk is
    /// full and nothing progresses for a while, fails because there is no space for the due
    /// compactions.
    fn settle(&self) -> Result<()> {
        let patience = if self.plan.workers == 0 { 0 } else { FULL_NAPS };
        let mut naps = 0;
        for _ in 0..MOST_SLICES {
            if self.compactions() == 0 {
                break;
            }
            if self.compact_slice(SLICE)? == SliceOutcome::Something {
                naps = 0;
                continue;
            }
            if naps >= patience {
                if self.throttle.is_full() {
                    return Err(self.full());
                }
                if let Some(failure) = self.store.tiers().unreadable() {
                    return Err(failure.into());
                }
            }
            naps += 1;
            self.throttle.wait_for_progress();
        }
        Ok(())
    }
}
