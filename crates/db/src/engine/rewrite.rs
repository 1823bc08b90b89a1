//! Rewrites all that there is, as a user asks for.
//!
//! Where the disk is full, what a rewrite replaces comes free by a checkpoint before the rewrite
//! goes on. A structure that has no space for what is due leaves the others theirs: one of which
//! nothing but deletes is left needs next to none.

use super::Engine;
use super::work::{SLICE, Worked};
use crate::Result;
use alluvium_dictionary::contract::Dictionary;

/// Slices after which the compaction of a leaf is not waited for any longer.
const MOST_SLICES: usize = 100_000;

/// How often a compaction of everything looks in vain for something to do on a full disk: a second.
const FULL_NAPS: usize = 500;

impl Engine {
    /// Rewrites all that there is: old versions and what was deleted go, and filters are asked of
    /// everything.
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

    /// Rewrites what a dictionary has.
    fn rewrite(&self, dictionary: &dyn Dictionary) -> Result<()> {
        let mut key = Vec::new();
        loop {
            self.raise_horizon();
            self.guarded("a compaction", || Ok(dictionary.compact_part(&key)?))?;
            self.settle_all()?;
            match dictionary.part_end(&key) {
                Some(end) => key = end.into_vec(),
                None => return Ok(()),
            }
        }
    }

    /// Does the compactions that are due. On a full disk the next ones use the space that earlier
    /// ones have freed. Fails once no step was done and no space was freed. If the disk turns out
    /// not to be full any more, it tries once again.
    fn settle_all(&self) -> Result<()> {
        let mut was_full = true;
        loop {
            let steps = self.pressure.steps();
            match self.settle() {
                Err(error) if error.is_full() => {
                    let unused = self.unused_bytes();
                    self.free_replaced()?;
                    self.look_for_room();
                    let has_space = was_full && !self.pressure.is_full();
                    was_full &= !has_space;
                    let is_idle = self.pressure.steps() == steps && self.unused_bytes() >= unused;
                    if is_idle && !has_space {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }

    /// Returns the bytes that nothing refers to any more, and that are not free yet.
    fn unused_bytes(&self) -> u64 {
        let total = self.store.usage().0.total();
        total.dead_bytes + total.dying_bytes
    }

    /// Makes the space usable that compactions have left.
    pub(super) fn free_replaced(&self) -> Result<()> {
        self.checkpoint_now()?;
        self.reclaim()
    }

    /// Does what compactions are due, or waits for who does; while writing goes on there may always
    /// be some, and it ends all the same. On a full disk it fails once nothing has been done for a
    /// while: what is due has no space.
    fn settle(&self) -> Result<()> {
        let patience = if self.plan.workers == 0 { 0 } else { FULL_NAPS };
        let mut naps = 0;
        for _ in 0..MOST_SLICES {
            if self.compactions() == 0 {
                break;
            }
            if self.compact_slice(SLICE)? == Worked::Something {
                naps = 0;
                continue;
            }
            if naps >= patience {
                if self.pressure.is_full() {
                    return Err(self.full());
                }
                if let Some(failure) = self.store.tiers().unreadable() {
                    return Err(failure.into());
                }
            }
            naps += 1;
            self.pressure.nap();
        }
        Ok(())
    }
}
