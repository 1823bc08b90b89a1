//! How often the times of a directory are written.
//!
//! The times of directories are merged, and a reader folds all operands that the memtable contains.
//! Single operations therefore write them only a few times in each tick, as file systems of kernels
//! do. A transaction folds its own operands.

use crate::types::{Inode, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Length of a tick, in nanoseconds.
/// Tuning: `4_000_000` since 2026-11-30.
const TICK_NS: u32 = 4_000_000;

/// Number of changes of a directory in one tick that are noted exactly.
/// Tuning: `8` since 2026-11-30.
const EXACT_CHANGES: u32 = 8;

/// Number of directories that are remembered. Not a tuning parameter.
const MOST_DIRECTORIES: usize = 4096;

/// How often a directory has changed in a tick.
type TickChanges = ((i64, u32), u32);

/// How often each directory has changed in the present tick.
#[derive(Debug, Default)]
pub(super) struct DirectoryTicks {
    changes: Mutex<HashMap<Inode, TickChanges>>,
}

impl DirectoryTicks {
    /// Returns whether a change of a directory now is to be noted.
    pub(super) fn admit(&self, directory: Inode, now: Timestamp) -> bool {
        let tick = (now.seconds, now.nanoseconds / TICK_NS);
        let mut changes = self.changes.lock();
        if changes.len() >= MOST_DIRECTORIES {
            changes.clear();
        }
        let (of, count) = changes.entry(directory).or_insert((tick, 0));
        if *of != tick {
            (*of, *count) = (tick, 0);
        }
        *count += 1;
        *count <= EXACT_CHANGES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_admits_a_few_changes_of_each_directory() {
        let ticks = DirectoryTicks::default();
        let at = |nanoseconds| Timestamp {
            seconds: 5,
            nanoseconds,
        };
        let admitted = |directory, nanoseconds| {
            let all = (0..20).filter(|_| ticks.admit(Inode(directory), at(nanoseconds)));
            all.count()
        };
        assert_eq!(admitted(1, 0), 8);
        assert_eq!(admitted(1, 3_999_999), 0);
        assert_eq!(admitted(2, 0), 8);
        assert_eq!(admitted(1, 4_000_000), 8);
        for directory in 0..10_000 {
            assert!(ticks.admit(Inode(directory), at(9_000_000)));
        }
    }
}
