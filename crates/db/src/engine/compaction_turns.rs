//! The order in which dictionaries are asked for their next compaction.
//!
//! Writers are throttled while lookups in any dictionary must search too many runs, so the
//! dictionaries with too many runs come first. Every other time, all dictionaries take turns, so
//! that none waits forever for one that always has too many runs.

use crate::options::kind::DictionaryPlace;

/// Read amplification, in percent of its limit, from which a dictionary is urgent.
const URGENT: u64 = 100;

/// Which dictionary had the last turn, and how many compactions have begun.
#[derive(Debug, Default)]
pub(super) struct CompactionTurns {
    /// Set only every other time, so that urgent dictionaries do not take the turns of others.
    last: Option<DictionaryPlace>,
    begun: u64,
}

impl CompactionTurns {
    /// Returns the dictionaries in the order in which to ask them. `crowding` has the dictionaries
    /// in ascending order, each with its read amplification in percent of its limit.
    pub(super) fn order(
        &self,
        crowding: impl Iterator<Item = (DictionaryPlace, u64)>,
    ) -> Vec<DictionaryPlace> {
        let mut all: Vec<(DictionaryPlace, u64)> = crowding.collect();
        let next = all.partition_point(|(place, _)| Some(*place) <= self.last);
        all.rotate_left(next);
        if self.is_for_urgent() {
            let urgency = |percent: u64| if percent >= URGENT { percent } else { 0 };
            // The sort is stable, so the others keep their turns.
            all.sort_by_key(|(_, percent)| std::cmp::Reverse(urgency(*percent)));
        }
        all.into_iter().map(|(place, _)| place).collect()
    }

    fn is_for_urgent(&self) -> bool {
        self.begun.is_multiple_of(2)
    }

    /// Records that a dictionary began a compaction.
    pub(super) fn note(&mut self, place: DictionaryPlace) {
        if !self.is_for_urgent() {
            self.last = Some(place);
        }
        self.begun += 1;
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::options::kind::StructureKind;

    fn places() -> [DictionaryPlace; 4] {
        let levels = [0, 1, 2].map(|number| DictionaryPlace {
            structure: StructureKind::Levels,
            number,
        });
        [DictionaryPlace::TREE, levels[0], levels[1], levels[2]]
    }

    /// Returns how often each dictionary is compacted if all always have something to do.
    fn shares(percent: [u64; 4]) -> [usize; 4] {
        let (mut turns, mut shares) = (CompactionTurns::default(), [0; 4]);
        for _ in 0..800 {
            let order = turns.order(places().into_iter().zip(percent));
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, places(), "all are asked");
            let first = places().iter().position(|place| *place == order[0]);
            shares[first.expect("it is one of them")] += 1;
            turns.note(order[0]);
        }
        shares
    }

    #[test]
    fn dictionaries_take_turns_and_no_one_is_left_out() {
        assert_eq!(shares([0, 50, 99, 99]), [200; 4]);
        let crowded = shares([0, 0, 100, 0]);
        assert!(crowded[2] >= 400, "{crowded:?}");
        let most = shares([150, 0, 0, 200]);
        assert!(
            most[3] >= 400 && most.iter().all(|&share| share >= 50),
            "{most:?}"
        );
    }
}
