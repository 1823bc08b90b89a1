//! The levels of a simulated store and their compactions.

use super::table::{KeyTable, OutputTableLimits, merge, overlapping};
use super::{CompactionPace, CompactionRules, policy};
use alluvium_model::lsm::ItemStage;

/// A level with disjoint tables.
pub(super) struct SimulatedLevel {
    pub(super) tables: Vec<KeyTable>,
    pub(super) items: usize,
    /// The last key of the most recent compaction of this level.
    pub(super) cursor: Option<u32>,
}

pub(super) struct LevelSimulation<'a> {
    rules: &'a CompactionRules,
    memtable: Vec<u32>,
    /// The tables of level 0, which may overlap.
    level_0: Vec<KeyTable>,
    /// The levels from 1 on. The last level has no size limit.
    levels: Vec<SimulatedLevel>,
    /// Items written to the log, to level 0, and to each level from 1 on.
    written: Vec<u64>,
    /// The number of items that compactions may write before the next insert, with a limited
    /// pace.
    budget: f64,
}

impl<'a> LevelSimulation<'a> {
    pub(super) fn new(rules: &'a CompactionRules) -> LevelSimulation<'a> {
        let count = rules.shape.levels();
        let level = || SimulatedLevel {
            tables: Vec::new(),
            items: 0,
            cursor: None,
        };
        LevelSimulation {
            rules,
            memtable: Vec::new(),
            level_0: Vec::new(),
            levels: (0..count).map(|_| level()).collect(),
            written: vec![0; count + 2],
            budget: 0.0,
        }
    }

    /// Inserts a key. A full memtable is flushed to level 0, and due compactions run.
    pub(super) fn insert(&mut self, key: u32) {
        self.written[0] += 1;
        self.memtable.push(key);
        if self.memtable.len() < self.rules.shape.log as usize {
            return;
        }
        let inserted = self.memtable.len();
        let mut table = std::mem::take(&mut self.memtable);
        table.sort_unstable();
        table.dedup();
        self.written[1] += table.len() as u64;
        self.level_0.push(table);
        match self.rules.pace {
            CompactionPace::AtOnce => while self.step().is_some() {},
            CompactionPace::Limited { writes, stop } => {
                self.budget += writes * inserted as f64;
                while self.budget > 0.0 {
                    match self.step() {
                        Some(written) => self.budget -= written as f64,
                        // An idle device does not accumulate credit.
                        None => self.budget = 0.0,
                    }
                }
                while self.level_0.len() >= stop && self.step().is_some() {
                    // Inserts are stalled while time passes, so no debt remains.
                    self.budget = 0.0;
                }
            }
        }
    }

    /// Resets the write counters, so that only later writes count.
    pub(super) fn count_from_here(&mut self) {
        self.written.fill(0);
    }

    /// Returns the items written per insert, over `inserts` inserts.
    pub(super) fn stages(&self, inserts: u64) -> Vec<(ItemStage, f64)> {
        let stage = |index: usize| match index {
            0 => ItemStage::Log,
            1 => ItemStage::Flush,
            _ => ItemStage::Level(index - 1),
        };
        let each = |(index, &written)| (stage(index), written as f64 / inserts as f64);
        self.written.iter().enumerate().map(each).collect()
    }

    /// Runs the next due compaction, and returns the number of items written.
    fn step(&mut self) -> Option<u64> {
        let shape = &self.rules.shape;
        let full = std::iter::once(self.level_0.len() as f64 / shape.tables).chain(
            self.levels
                .iter()
                .zip(&shape.sizes)
                .map(|(level, size)| level.items as f64 / size),
        );
        let from = policy::level(self.rules.levels, full)?;
        let upper = if from == 0 {
            self.take_level_0()
        } else {
            self.take_table(from - 1)
        };
        Some(self.merge_into(from, &upper))
    }

    fn take_level_0(&mut self) -> KeyTable {
        let mut keys = self.level_0.concat();
        self.level_0.clear();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn take_table(&mut self, index: usize) -> KeyTable {
        let level = &mut self.levels[index];
        let chosen = policy::table(self.rules.tables, level);
        let table = level.tables.remove(chosen);
        level.items -= table.len();
        level.cursor = table.last().copied();
        table
    }

    /// Merges a table into the level after `from`. Levels are numbered from 0 here.
    fn merge_into(&mut self, index: usize, upper: &[u32]) -> u64 {
        let (head, below) = self.levels.split_at_mut(index + 1);
        let level = &mut head[index];
        let range = overlapping(&level.tables, upper[0], upper[upper.len() - 1]);
        let cut = OutputTableLimits {
            table: self.rules.table as usize,
            overlap: self.rules.overlap as usize,
            below: below.first().map_or(&[], |below| below.tables.as_slice()),
        };
        let merged = merge(upper, &level.tables[range.clone()], &cut);
        let items = |tables: &[KeyTable]| tables.iter().map(Vec::len).sum::<usize>();
        let written = items(&merged);
        level.items = level.items - items(&level.tables[range.clone()]) + written;
        level.tables.splice(range, merged);
        self.written[index + 2] += written as u64;
        written as u64
    }

    /// Returns every key in the store. Panics if a level violates LC1.
    #[cfg(test)]
    pub(super) fn keys(&self) -> Vec<u32> {
        let mut keys = self.memtable.clone();
        keys.extend(self.level_0.concat());
        for level in &self.levels {
            assert!(level.tables.iter().all(|table| !table.is_empty()), "LC1");
            let all = level.tables.concat();
            assert!(all.is_sorted_by(|a, b| a < b), "LC1");
            assert_eq!(all.len(), level.items);
            keys.extend(all);
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}
