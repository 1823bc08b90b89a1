//! Backoff for compactions that fail because of damaged data. The background threads skip damaged
//! structures for a while, so that other structures are still compacted and writers to other
//! keyspaces are not affected.
//!
//! A compaction that hits damage changes nothing. Reads of the damaged data fail and report its
//! location. Other reads and all writes continue, but new data is not merged with damaged data.

use crate::options::kind::StructureKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Number of compaction choices for which a damaged structure is skipped before it is tried again.
/// On an idle store they take a few seconds.
const TURNS: u32 = 128;

/// Maximum number of distinct errors logged for each structure.
const MOST_TOLD: usize = 8;

/// The damaged structures that compactions currently skip.
#[derive(Debug, Default)]
pub(super) struct CompactionBackoff {
    structures: Mutex<BTreeMap<StructureKind, StructureDamage>>,
}

#[derive(Debug, Default)]
struct StructureDamage {
    turns_left: u32,
    told: Vec<String>,
}

impl CompactionBackoff {
    /// Records that a compaction of `structure` failed because of damaged data. Each distinct error
    /// is logged once.
    pub(super) fn note(&self, structure: StructureKind, error: &alluvium_storage::Error) {
        let mut structures = self.structures.lock();
        let damage = structures.entry(structure).or_default();
        damage.turns_left = TURNS;
        let text = error.to_string();
        if damage.told.len() < MOST_TOLD && !damage.told.contains(&text) {
            tracing::error!(
                %error,
                ?structure,
                "compactions found damage and are retried rarely in this structure; the rest of the store is not affected"
            );
            damage.told.push(text);
        }
    }

    /// Returns whether to skip the structure when choosing the next compaction. Each call counts as
    /// one choice.
    pub(super) fn skips(&self, structure: StructureKind) -> bool {
        let mut structures = self.structures.lock();
        let Some(damage) = structures.get_mut(&structure) else {
            return false;
        };
        damage.turns_left = damage.turns_left.saturating_sub(1);
        damage.turns_left > 0
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_storage::{DiskLocation, Error, OnDiskObject as Kind};

    #[test]
    fn a_damaged_structure_is_tried_again_after_a_while_and_the_others_at_once() {
        let aside = CompactionBackoff::default();
        assert!(!aside.skips(StructureKind::Tiered));
        let error = Error::corrupt(DiskLocation::new(Kind::Node, "tier-0.data", 0), "a leaf", "none");
        aside.note(StructureKind::Tiered, &error);
        assert!(!aside.skips(StructureKind::Levels));
        let skipped = (0..TURNS).filter(|_| aside.skips(StructureKind::Tiered)).count();
        assert_eq!(skipped as u32, TURNS - 1);
    }
}
