//! Full compaction of the store, at the user's request.
//!
//! If the disk is full, a checkpoint after each rewrite frees the space of the replaced data before
//! the next rewrite starts. A structure for which there is too little space is tried again after
//! the other structures, which may need less space. For example, a structure that contains only
//! deleted data needs almost none.

use super::Engine;
use super::steps::{SLICE, SliceOutcome};
use crate::error::Result;
use alluvium_dictionary::contract::Dictionary;

/// Maximum number of slices that are run to finish the compactions that are due.
const MOST_SLICES: usize = 100_000;

/// Number of poll intervals without progress after which a full compaction fails if the disk is
/// full. This takes about a second.
const FULL_NAPS: usize = 500;

impl Engine {
    /// Rewrites all data of the store. Old versions and deleted data are dropped, and compaction
    /// filters are applied to every entry.
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

    /// Rewrites the contents of one dictionary, part by part.
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

    /// Runs all compactions that are due. If the disk is full, later compactions use the space that
    /// earlier ones have freed. It fails if no compaction makes progress and no space is freed. If
    /// the disk then turns out to have space again, the compactions are tried once more.
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

    /// Returns the number of bytes that are not referenced any more but have not been freed.
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

    /// Runs all compactions that are due, and waits for those that other threads are running. The
    /// number of slices is limited, because concurrent writes may keep making compactions due. If
    /// the disk is full and there is no progress for a while, it fails: there is no space for the
    /// compactions that are due.
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
