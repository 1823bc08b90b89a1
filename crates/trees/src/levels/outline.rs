//! The runs on each level as plain data, for drawing the levels.

use super::LevelsDictionary;
use super::state::LevelMember;
use std::fmt;
use std::sync::Arc;

/// The runs of an LSM tree by level, and the merges in progress. It is a copy and pins nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelsOutline {
    /// The levels, from the newest to the oldest data.
    pub levels: Vec<OutlineLevel>,
    /// Number of merges in progress.
    pub merges: u64,
    /// Number of leaves that merges have adopted without reading them since the structure was
    /// opened.
    pub adopted_leaves: u64,
}

/// A level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineLevel {
    /// The runs, from oldest to newest. After merges of key ranges, the parts of a run are
    /// neighbours in key order.
    pub runs: Vec<OutlineLevelRun>,
}

/// A run of a level, or a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineLevelRun {
    /// Number of records in the run. If only a part of the run is live, the others count as well.
    pub records: u64,
    /// Number of leaves of the run.
    pub leaves: u64,
    /// Number of range deletes in the run. Those with the same sequence number count as one.
    pub range_deletes: u64,
    /// Size in bytes of the live part, including leaves and values that other runs wrote.
    pub bytes: u64,
    /// Bytes of `bytes` that are in adopted leaves and in values that other runs wrote.
    pub inherited_bytes: u64,
    /// Size of the filter in bytes. All parts of a run share one filter.
    pub filter_bytes: u64,
    /// The oldest and the newest of the flushed or ingested runs that were merged into this run.
    /// They are numbered in the order in which they were added.
    pub ages: (u64, u64),
    /// Whether a merge is reading the run.
    pub is_merging: bool,
}

impl OutlineLevel {
    /// Returns the size of all runs in bytes, without their filters.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }
}

impl LevelsDictionary {
    /// Returns the runs on each level. Reads nothing from the device.
    #[must_use]
    pub fn outline(&self) -> LevelsOutline {
        let kept = self.shared.kept.lock();
        let version = self.version();
        let run = |member: &Arc<LevelMember>| {
            let summary = member.run.summary();
            let inherited = member.uses().filter(|used| used.inherited);
            OutlineLevelRun {
                records: summary.records,
                leaves: summary.leaves,
                range_deletes: summary.range_deletes,
                bytes: member.bytes(),
                inherited_bytes: inherited.map(|used| used.live).sum(),
                filter_bytes: member.maplet.bytes(),
                ages: member.ages,
                is_merging: kept.busy.contains(&member.ages.0),
            }
        };
        let levels = version.levels.iter().map(|level| OutlineLevel {
            runs: level.iter().map(run).collect(),
        });
        LevelsOutline {
            levels: levels.collect(),
            merges: kept.jobs.len() as u64,
            adopted_leaves: self.stitched(),
        }
    }
}

impl fmt::Display for LevelsOutline {
    /// Formats the outline with one line per level, followed by one line per run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, level) in self.levels.iter().enumerate() {
            let (runs, bytes) = (level.runs.len(), level.bytes());
            writeln!(f, "  level {number}: {runs} runs, {bytes} bytes")?;
            for (place, run) in level.runs.iter().enumerate() {
                writeln!(f, "    run {place}: {run}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for OutlineLevelRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutlineLevelRun {
            records,
            leaves,
            bytes,
            filter_bytes,
            ages: (first, last),
            ..
        } = self;
        write!(f, "{bytes} bytes")?;
        if self.inherited_bytes > 0 {
            write!(f, ", {} of them written by other runs", self.inherited_bytes)?;
        }
        write!(
            f,
            ", {filter_bytes} of its filter; {records} records in {leaves} leaves"
        )?;
        if self.range_deletes > 0 {
            write!(f, ", {} range deletes", self.range_deletes)?;
        }
        match first == last {
            true => write!(f, "; of addition {first}")?,
            false => write!(f, "; of additions {first} to {last}")?,
        }
        match self.is_merging {
            true => write!(f, "; merging"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_drawn_with_its_runs() {
        let run = OutlineLevelRun {
            records: 7,
            leaves: 2,
            bytes: 100,
            filter_bytes: 9,
            ages: (4, 4),
            ..OutlineLevelRun::default()
        };
        let merged = OutlineLevelRun {
            range_deletes: 1,
            inherited_bytes: 60,
            ages: (0, 3),
            is_merging: true,
            ..run
        };
        let outline = LevelsOutline {
            levels: [vec![run], vec![merged]].map(|runs| OutlineLevel { runs }).into(),
            ..LevelsOutline::default()
        };
        let expected = "  level 0: 1 runs, 100 bytes\n    \
                        run 0: 100 bytes, 9 of its filter; 7 records in 2 leaves; of addition 4\n  \
                        level 1: 1 runs, 100 bytes\n    \
                        run 0: 100 bytes, 60 of them written by other runs, 9 of its filter; \
                        7 records in 2 leaves, 1 range deletes; of additions 0 to 3; merging\n";
        assert_eq!(outline.to_string(), expected);
    }
}
