//! Options of the levels structure, which stores sorted runs on levels.

use crate::error::Result;
use alluvium_trees::levels::{LevelFanout, MergePolicy, SameScan, StitchPolicy};
use std::fmt;

/// Merge policy and other options of the levels. For a SAMT, a larger parameter makes writes
/// cheaper and reads more expensive. For the other policies, it is the reverse.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LevelsOptions {
    pub(crate) policy: MergePolicy,
    stitch: Option<StitchThresholds>,
    moves_values: bool,
    defragment_percent: u32,
}

/// Thresholds that determine which leaves a merge reuses instead of copying their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StitchThresholds {
    threshold: u32,
    unit: Option<u32>,
    always: u32,
}

/// Largest threshold that enables stitching. At `u32::MAX`, stitching is disabled, and every leaf
/// is copied.
const MOST: u32 = u32::MAX - 1;

impl LevelsOptions {
    /// Returns the options of a SAMT, which merges every `k` runs of a level into one run of the
    /// next level.
    #[must_use]
    pub fn samt(k: u32) -> LevelsOptions {
        let fanout = LevelFanout {
            runs: k,
            levels: u32::MAX,
        };
        LevelsOptions::of(MergePolicy::Samt([fanout].into()))
    }

    /// Returns the options of an R-COLA, with one run on each level. A run absorbs `ratio - 1`
    /// merges before it moves to the next level.
    #[must_use]
    pub fn cola(ratio: u32) -> LevelsOptions {
        LevelsOptions::of(MergePolicy::Cola { ratio })
    }

    /// Returns the options of a leveled structure, with one run on each level. Each level is
    /// `ratio` times as large as the level above.
    #[must_use]
    pub fn leveled(ratio: u32) -> LevelsOptions {
        LevelsOptions::of(MergePolicy::Leveled { ratio })
    }

    /// Returns the options of a structure that merges runs only when it is compacted explicitly.
    #[must_use]
    pub fn never() -> LevelsOptions {
        LevelsOptions::of(MergePolicy::Never)
    }

    /// Lets merges reuse leaves without reading them. A merge reuses a sequence of more than
    /// `threshold` leaves of one run if no other run has a key between them. The threshold is the
    /// parameter *f* of a VT-tree.
    ///
    /// Data written in key order is then written only once. The smaller the threshold, the more
    /// often scans of randomly written data must seek. The index stores the first and the last key
    /// of each leaf, which takes the space of two keys, and at most an eighth of a leaf. Without
    /// this option, every leaf is copied.
    /// ```
    /// use alluvium::{LevelsOptions, Structure};
    /// let options = LevelsOptions::samt(4).stitch(3).scan_unit(8).always_stitch(2048);
    /// let text = "levels,samt,k=4,f=3,scan=8,always=2048";
    /// assert_eq!(text.parse::<Structure>()?, Structure::Levels(options));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn stitch(self, threshold: u32) -> LevelsOptions {
        let threshold = threshold.min(MOST);
        let stitch = self.stitch.unwrap_or(StitchThresholds::at(threshold));
        LevelsOptions {
            stitch: Some(StitchThresholds { threshold, ..stitch }),
            ..self
        }
    }

    /// Keeps all keys with the same `bytes`-byte prefix physically together, for example the keys
    /// of one file's pages. A merge does not reuse an existing leaf if that would separate such
    /// keys. Also enables stitching (see [`LevelsOptions::stitch`]).
    #[must_use]
    pub fn scan_unit(self, bytes: u32) -> LevelsOptions {
        let stitch = self.stitch.unwrap_or(StitchThresholds::at(0));
        LevelsOptions {
            stitch: Some(StitchThresholds {
                unit: Some(bytes),
                ..stitch
            }),
            ..self
        }
    }

    /// Lets merges reuse sequences of more than `leaves` leaves even if that separates the keys of
    /// a scan unit. Enables stitching.
    #[must_use]
    pub fn always_stitch(self, leaves: u32) -> LevelsOptions {
        let stitch = self.stitch.unwrap_or(StitchThresholds::at(0));
        LevelsOptions {
            stitch: Some(StitchThresholds {
                always: leaves,
                ..stitch
            }),
            ..self
        }
    }

    /// Lets merges move values that are stored outside leaves along with their records. A run's
    /// values are then stored in key order, so scans need not seek for each value. If
    /// [`LevelsOptions::stitch`] is also set, the values of reused leaves are not moved. Without
    /// this option, a long value is written once and never moved.
    #[must_use]
    pub fn move_values(self) -> LevelsOptions {
        LevelsOptions {
            moves_values: true,
            ..self
        }
    }

    /// Lets background work rewrite runs in which scans must seek. A run is rewritten once scans
    /// have spent as much time seeking in it as the rewrite will cost. These rewrites write at most
    /// `percent` percent of all other bytes written since the store was opened; the maximum is 100.
    ///
    /// ```
    /// use alluvium::{LevelsOptions, Structure};
    /// let options = LevelsOptions::samt(4).stitch(3).move_values().defragment(20);
    /// let text = "levels,samt,k=4,f=3,values=moved,defragment=20";
    /// assert_eq!(text.parse::<Structure>()?, Structure::Levels(options));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn defragment(self, percent: u32) -> LevelsOptions {
        LevelsOptions {
            defragment_percent: percent,
            ..self
        }
    }

    fn of(policy: MergePolicy) -> LevelsOptions {
        LevelsOptions {
            policy,
            ..LevelsOptions::default()
        }
    }

    /// Returns these options as the structure's stitching policy. A scan unit is measured in bytes
    /// of the user's key.
    pub(crate) fn stitching(&self) -> StitchPolicy {
        let stitch = self.stitch.unwrap_or(StitchThresholds::at(u32::MAX));
        StitchPolicy {
            threshold: stitch.threshold,
            same_scan: stitch.unit.map(SameScan::Prefix),
            always: stitch.always,
            moves_values: self.moves_values,
            defragment_percent: self.defragment_percent,
        }
    }

    pub(crate) fn parse(text: &str) -> Result<LevelsOptions> {
        let (policy, stitching) = StitchPolicy::split(text)?;
        let policy = if policy.is_empty() { "samt" } else { policy };
        Ok(LevelsOptions::of_tree(policy.parse()?, &stitching))
    }

    /// Returns the options of levels with this merge policy and this stitching policy.
    pub(crate) fn of_tree(policy: MergePolicy, stitching: &StitchPolicy) -> LevelsOptions {
        let unit = match stitching.same_scan {
            Some(SameScan::Prefix(bytes)) => Some(bytes),
            Some(SameScan::By(_)) | None => None,
        };
        let stitch = stitching.is_on().then_some(StitchThresholds {
            threshold: stitching.threshold,
            unit,
            always: stitching.always,
        });
        LevelsOptions {
            policy,
            stitch,
            moves_values: stitching.moves_values,
            defragment_percent: stitching.defragment_percent,
        }
    }
}

impl StitchThresholds {
    fn at(threshold: u32) -> StitchThresholds {
        StitchThresholds {
            threshold,
            unit: None,
            always: u32::MAX,
        }
    }
}

impl fmt::Display for LevelsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)?;
        self.stitching().fmt(f)
    }
}
