//! Simulates levels of runs: which runs are merged, and how much data the merges write. The rules
//! are those of `alluvium_trees::levels`, which `policy.rs` there explains.

use super::amounts::{OlderRecords, RunGroup, SimulatedRun, merge};
use super::node::SizeModel;
use super::parameters::TreeShape;
use super::work::CompactionVolume;
use crate::parameter::{BadParameter, require};

/// The rule that selects the runs to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRule {
    /// Merges the oldest `runs` runs of a level into one run of the next level (SAMT).
    Samt {
        /// Number of runs that are merged at once; at least 2.
        runs: u32,
    },
    /// Merges new data with all runs of the levels down to the first one that has space for the
    /// result (COLA).
    Cola {
        /// Growth factor of the levels; at least 2.
        ratio: u32,
    },
    /// Keeps one run per level, and merges a full level's run with that of the next level.
    Levelled {
        /// Growth factor of the levels; at least 2.
        ratio: u32,
    },
}

/// Maximum growth factor of the levels.
const MOST_GROWTH: u32 = 1 << 16;

impl MergeRule {
    /// Returns the growth factor of the levels.
    #[must_use]
    pub fn growth(self) -> u32 {
        match self {
            MergeRule::Samt { runs } => runs,
            MergeRule::Cola { ratio } | MergeRule::Levelled { ratio } => ratio,
        }
    }

    pub(super) fn checked(self) -> Result<MergeRule, BadParameter> {
        let growth = self.growth();
        let grows = (2..=MOST_GROWTH).contains(&growth);
        require("the growth factor", f64::from(growth), grows, "from 2 to 65536")?;
        Ok(self)
    }
}

/// The number of runs of each level, newest level first. A separate stack holds the runs, oldest
/// first.
#[derive(Clone, Debug)]
pub(super) struct SimulatedLevels {
    pub(super) rule: MergeRule,
    counts: Vec<usize>,
}

/// A merge of the oldest runs of level `from` with all runs of the levels below, down to level
/// `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LevelMerge {
    from: usize,
    runs: usize,
    to: usize,
    into: usize,
}

/// Simulates the merges of levels and adds up how much they read and write.
pub(super) struct MergeSimulator<'s> {
    pub(super) shape: &'s TreeShape,
    pub(super) scale: &'s SizeModel,
    pub(super) done: CompactionVolume,
    /// Identifies the newest run.
    pub(super) newest: u64,
}

impl SimulatedLevels {
    pub(super) fn new(rule: MergeRule) -> SimulatedLevels {
        SimulatedLevels {
            rule,
            counts: vec![0],
        }
    }

    fn count(&self, level: usize) -> usize {
        self.counts.get(level).copied().unwrap_or(0)
    }

    /// Returns the stack index of a level's oldest run.
    fn start(&self, level: usize) -> usize {
        self.counts.iter().skip(level + 1).sum()
    }

    fn bytes(&self, level: usize, stack: &[RunGroup], scale: &SizeModel) -> f64 {
        let start = self.start(level);
        let runs = &stack[start..start + self.count(level)];
        runs.iter().map(|group| scale.weigh(group, 1.0)).sum()
    }

    /// Adds a flushed memtable as the newest run, and simulates the merges that follow.
    pub(super) fn receive(
        &mut self,
        run: SimulatedRun,
        stack: &mut Vec<RunGroup>,
        merger: &mut MergeSimulator<'_>,
    ) {
        stack.push(RunGroup::one(run));
        self.counts[0] += 1;
        while let Some(due) = self.choose(stack, merger) {
            self.merge(due, stack, merger);
        }
    }

    fn choose(&self, stack: &[RunGroup], merger: &MergeSimulator<'_>) -> Option<LevelMerge> {
        let unit = merger.shape.memtable_bytes;
        let bytes = |level| self.bytes(level, stack, merger.scale);
        match self.rule {
            MergeRule::Samt { runs } => {
                let runs = runs as usize;
                let level = self.counts.iter().position(|&count| count > runs)?;
                Some(LevelMerge {
                    from: level,
                    runs,
                    to: level,
                    into: level + 1,
                })
            }
            MergeRule::Cola { ratio } => {
                let ratio = f64::from(ratio);
                let new = self.count(0);
                if new == 0 || new == 1 && bytes(0) <= (ratio - 1.0) * unit {
                    return None;
                }
                let (mut sum, mut share, mut to) = (bytes(0), (ratio - 1.0) * unit, 0);
                while sum > share {
                    to += 1;
                    share *= ratio;
                    sum += bytes(to);
                }
                Some(LevelMerge {
                    from: 0,
                    runs: new,
                    to,
                    into: to,
                })
            }
            MergeRule::Levelled { ratio } => {
                let share = |level: usize| f64::from(ratio).powi(level as i32) * unit;
                let over = (1..self.counts.len())
                    .rev()
                    .find(|&level| bytes(level) > share(level));
                let from = over.or((self.count(0) > 0).then_some(0))?;
                Some(LevelMerge {
                    from,
                    runs: self.count(from),
                    to: from + 1,
                    into: from + 1,
                })
            }
        }
    }

    fn merge(&mut self, due: LevelMerge, stack: &mut Vec<RunGroup>, merger: &mut MergeSimulator<'_>) {
        if self.counts.len() <= due.into {
            self.counts.resize(due.into + 1, 0);
        }
        // The merge takes the oldest runs of `from`, and all runs of the levels below it.
        let start = self.start(due.to);
        let taken: usize = due.runs
            + (due.from + 1..=due.to)
                .map(|level| self.count(level))
                .sum::<usize>();
        let older = if start == 0 {
            OlderRecords::None
        } else {
            OlderRecords::Elsewhere
        };
        let run = merger.merge(&stack[start..start + taken], older);
        self.counts[due.from] -= due.runs;
        for level in due.from + 1..=due.to {
            self.counts[level] = 0;
        }
        let Some(run) = run else {
            stack.drain(start..start + taken);
            return;
        };
        let group = RunGroup::one(run);
        let level = self.target(due, merger.scale.weigh(&group, 1.0), merger.shape.memtable_bytes);
        stack.splice(start..start + taken, [group]);
        self.counts[level] += 1;
    }

    /// Returns the level that receives the result of a merge. In SAMT, a result that fills at most
    /// half of its inputs' level stays there.
    fn target(&self, due: LevelMerge, bytes: f64, unit: f64) -> usize {
        let MergeRule::Samt { runs } = self.rule else {
            return due.into;
        };
        let capacity = unit * f64::from(runs).powi(due.from as i32 + 1);
        if bytes <= capacity / 2.0 {
            due.from
        } else {
            due.into
        }
    }
}

impl MergeSimulator<'_> {
    /// Merges runs, given oldest first, into one. Returns `None` if no records remain.
    fn merge(&mut self, taken: &[RunGroup], older: OlderRecords) -> Option<SimulatedRun> {
        let scale = self.scale;
        let runs = || taken.iter().flat_map(|group| &group.runs);
        self.done.read_bytes += taken.iter().map(|group| scale.weigh(group, 1.0)).sum::<f64>();
        self.done.records += runs().map(|run| run.records(&scale.uniques, 1.0)).sum::<f64>();
        self.newest += 1;
        let run = SimulatedRun {
            id: self.newest,
            ..merge(runs(), older, &scale.uniques, 1.0)
        };
        let amount = run.amount(&scale.uniques, 1.0);
        if amount.records() <= 0.0 {
            return None;
        }
        self.done.run_bytes += scale.formats.run(&amount);
        self.done.maplet_bytes += scale.formats.maplet(amount.records(), 1.0);
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RecordProfile, TreeShape, ValueLengths, WriteSimulation};
    use super::*;
    use crate::Popularity;

    /// Returns a simulation into which `memtables` memtables were loaded. Records have 100 bytes,
    /// and 100,000 of them fill a memtable.
    fn loaded(rule: MergeRule, memtables: f64) -> WriteSimulation {
        let shape = TreeShape {
            memtable_bytes: 1e7,
            overhead_bytes: 0.0,
            ..TreeShape::default()
        };
        let records = RecordProfile {
            key_bytes: 20.0,
            value_bytes: 80.0,
            values: ValueLengths::Equal,
        };
        let keys = Popularity::uniform((memtables * 1e5) as u64).unwrap();
        let mut flow = WriteSimulation::levelled(shape, records, keys, rule).unwrap();
        flow.load(memtables * 1e5).unwrap();
        flow
    }

    #[test]
    fn without_redundant_keys_each_level_writes_what_its_rule_says() {
        // With four levels, 256 runs are merged into one.
        let samt = loaded(MergeRule::Samt { runs: 4 }, 1024.0)
            .written()
            .amplification();
        assert!((4.0..6.5).contains(&samt), "{samt}");
        // The expected value is (r − 1)/2 · log_r(N/M), plus a little for each level.
        let cola = loaded(MergeRule::Cola { ratio: 4 }, 1024.0)
            .written()
            .amplification();
        assert!(cola > samt && cola < 12.0, "{cola}");
        let levelled = loaded(MergeRule::Levelled { ratio: 4 }, 1024.0);
        let levelled = levelled.written().amplification();
        assert!(levelled > cola && levelled < 25.0, "{levelled}");
    }

    #[test]
    fn levels_of_one_run_have_one_and_a_samt_as_many_as_it_may() {
        for (rule, most) in [
            (MergeRule::Samt { runs: 4 }, 25),
            (MergeRule::Cola { ratio: 4 }, 6),
            (MergeRule::Levelled { ratio: 4 }, 6),
        ] {
            let runs = loaded(rule, 500.0).longest_path();
            assert!(runs <= most && runs > 1, "{rule:?}: {runs}");
        }
    }

    #[test]
    fn updates_of_the_same_keys_keep_the_number_of_levels_bounded() {
        for rule in [
            MergeRule::Samt { runs: 4 },
            MergeRule::Cola { ratio: 3 },
            MergeRule::Levelled { ratio: 8 },
        ] {
            let mut flow = loaded(rule, 64.0);
            // At most four levels exist, of up to five runs each. A run of all keys never moves to
            // another level.
            flow.update(640.0 * 1e5, 0.0).unwrap();
            assert!(flow.longest_path() <= 20, "{rule:?}: {}", flow.longest_path());
            let records = flow.records() / (64.0 * 1e5);
            assert!((1.0..4.5).contains(&records), "{rule:?}: {records}");
        }
    }

    #[test]
    fn what_was_deleted_is_gone_once_it_meets_the_oldest_run() {
        let mut flow = loaded(MergeRule::Levelled { ratio: 8 }, 64.0);
        let before = flow.records();
        flow.update(640.0 * 1e5, 0.9).unwrap();
        assert!(flow.records() < before / 2.0, "{} of {before}", flow.records());
    }

    #[test]
    fn a_growth_below_two_is_refused() {
        for rule in [MergeRule::Samt { runs: 1 }, MergeRule::Cola { ratio: 0 }] {
            assert_eq!(rule.checked().unwrap_err().name, "the growth factor");
        }
    }
}
