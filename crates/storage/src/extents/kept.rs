//! Durable generations that a backup still copies: space that later ones have given up is not used
//! again before it is done.

use super::{Extents, Shared};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which generation is durable, and which are kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The newest that is durable.
    pub(super) durable: u64,
    /// Those that are kept, each with how often.
    keepers: BTreeMap<u64, usize>,
}

/// Keeps everything that a durable generation reaches as it is, until it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it keeps nothing"]
pub struct Keeper {
    shared: Arc<Shared>,
    generation: u64,
}

impl Extents {
    /// Keeps the extents of a generation, which is the newest durable one, from being used again.
    /// The caller sees to it that no later one is made durable meanwhile.
    pub fn keep(&self, generation: u64) -> Keeper {
        let mut kept = self.shared.kept.lock();
        *kept.keepers.entry(generation).or_default() += 1;
        Keeper {
            shared: Arc::clone(&self.shared),
            generation,
        }
    }
}

impl Shared {
    /// Changes what is durable or kept, and tells the tiers what that sets free.
    pub(super) fn settle_durable(&self, change: impl FnOnce(&mut Kept)) {
        let mut kept = self.kept.lock();
        change(&mut kept);
        let oldest = kept.keepers.first_key_value().map(|(&generation, _)| generation);
        let settled = oldest.unwrap_or(kept.durable).min(kept.durable);
        for slot in self.slots.iter() {
            slot.tier.lock().made_durable(settled);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.settle_durable(|kept| {
            debug_assert!(
                kept.keepers.contains_key(&self.generation),
                "it is kept until now (X2)"
            );
            if let Some(times) = kept.keepers.get_mut(&self.generation) {
                *times -= 1;
                if *times == 0 {
                    kept.keepers.remove(&self.generation);
                }
            }
        });
    }
}
