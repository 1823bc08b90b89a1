//! Backoff for compactions that fail because of damaged data. The background threads skip damaged
//! structures for a while, so that other structures are still compacted and writers to other
//! keyspaces are not affected.
//!
//! A compaction that hits damage changes nothing. Reads of the damaged data fail and report its
//! location. Other reads and all writes continue, but new data is not merged with damaged data.

use crate::options::kind::DictionaryPlace;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Number of compaction choices for which a damaged dictionary is skipped before it is tried again.
/// On an idle store they take a few seconds.
const TURNS: u32 = 128;

/// Maximum number of distinct errors logged for each dictionary.
const MOST_TOLD: usize = 8;

/// The damaged dictionaries that compactions currently skip.
#[derive(Debug, Default)]
pub(super) struct CompactionBackoff {
    dictionaries: Mutex<BTreeMap<DictionaryPlace, CompactionDamage>>,
}

#[derive(Debug, Default)]
struct CompactionDamage {
    turns_left: u32,
    told: Vec<String>,
}

impl CompactionBackoff {
    /// Records that a compaction of a dictionary failed because of damaged data. Each distinct
    /// error is logged once.
    pub(super) fn note(&self, place: DictionaryPlace, error: &alluvium_storage::Error) {
        let mut dictionaries = self.dictionaries.lock();
        let damage = dictionaries.entry(place).or_default();
        damage.turns_left = TURNS;
        let text = error.to_string();
        if damage.told.len() < MOST_TOLD && !damage.told.contains(&text) {
            tracing::error!(
                %error,
                structure = place.structure.name(),
                dictionary = place.id(),
                "compactions found damage and are retried rarely in this dictionary; the rest of the store is not affected"
            );
            damage.told.push(text);
        }
    }

    /// Returns whether to skip the dictionary when choosing the next compaction. Each call counts
    /// as one choice.
    pub(super) fn skips(&self, place: DictionaryPlace) -> bool {
        let mut dictionaries = self.dictionaries.lock();
        let Some(damage) = dictionaries.get_mut(&place) else {
            return false;
        };
        damage.turns_left = damage.turns_left.saturating_sub(1);
        damage.turns_left > 0
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::options::kind::StructureKind;
    use alluvium_storage::{DiskLocation, Error, OnDiskObject as Kind};

    #[test]
    fn a_damaged_dictionary_is_tried_again_after_a_while_and_the_others_at_once() {
        let aside = CompactionBackoff::default();
        let levels = [0, 1].map(|number| DictionaryPlace {
            structure: StructureKind::Levels,
            number,
        });
        assert!(!aside.skips(levels[0]));
        let error = Error::corrupt(DiskLocation::new(Kind::Node, "tier-0.data", 0), "a leaf", "none");
        aside.note(levels[0], &error);
        assert!(!aside.skips(levels[1]) && !aside.skips(DictionaryPlace::TREE));
        let skipped = (0..TURNS).filter(|_| aside.skips(levels[0])).count();
        assert_eq!(skipped as u32, TURNS - 1);
    }
}
