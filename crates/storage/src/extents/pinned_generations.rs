//! Pinned generations. A backup pins the durable generation that it copies, so that until the pin
//! is dropped, space freed by later generations is not reused.

use super::{Extents, ExtentsInner};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The newest durable generation, and the pinned generations.
#[derive(Debug, Default)]
pub(super) struct PinnedGenerations {
    /// The newest generation passed to [`Extents::made_durable`].
    pub(super) durable: u64,
    /// The pinned generations, each with its number of pins.
    keepers: BTreeMap<u64, usize>,
}

/// A pin on a durable generation. Until it is dropped, the extents reachable from the generation
/// stay unchanged.
#[derive(Debug)]
#[must_use = "dropped, it keeps nothing"]
pub struct GenerationPin {
    shared: Arc<ExtentsInner>,
    generation: u64,
}

impl Extents {
    /// Pins the newest durable generation, so that its extents are not reused. No later generation
    /// may become durable during this call.
    pub fn pin_generation(&self, generation: u64) -> GenerationPin {
        let mut kept = self.shared.kept.lock();
        *kept.keepers.entry(generation).or_default() += 1;
        GenerationPin {
            shared: Arc::clone(&self.shared),
            generation,
        }
    }
}

impl ExtentsInner {
    /// Changes the durable generation or the pins with `change`. In each tier, dead extents that
    /// neither the durable generation nor a pinned one needs then become pending.
    pub(super) fn settle_durable(&self, change: impl FnOnce(&mut PinnedGenerations)) {
        let mut kept = self.kept.lock();
        change(&mut kept);
        let oldest = kept.keepers.first_key_value().map(|(&generation, _)| generation);
        let settled = oldest.unwrap_or(kept.durable).min(kept.durable);
        for slot in self.slots.iter() {
            slot.tier.lock().made_durable(settled);
        }
    }
}

impl Drop for GenerationPin {
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
