//! Decides which runs are merged, and into which level. The decisions depend only on the sizes of
//! the runs and on whether they are available.
//!
//! The policies come from Spillane 2012, chapter 5: SAMT (as in Cassandra), R-COLA (as in HBase),
//! levels of one run each whose sizes grow by a ratio (O'Neil 1996), and no merges at all. With
//! every policy, flushing a slice of a memtable adds the newest run of level 0. The policies differ
//! in which runs they merge afterwards.

use crate::levels::options::{LevelFanout, MergePolicy};
#[cfg(all(test, not(alluvium_model_check)))]
use crate::merge::stitch::{SameScan, StitchPolicy, StitchView};

/// Unreadable runs can block a level. If it has more than this many times the number of runs of one
/// merge, its runs are merged even if they differ in size.
const MANY: usize = 2;

/// Maximum depth of a level. It suffices for runs of any size, because each level has at least
/// twice the capacity of the level above it.
const MOST_LEVELS: usize = 64;
const _: () = assert!(
    1u128 << MOST_LEVELS > u64::MAX as u128,
    "runs of any size have a level"
);

/// What a policy knows about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunView {
    pub bytes: u64,
    /// Whether a running merge reads the run, or the run is currently unreadable.
    pub is_busy: bool,
    /// Whether the run is on a storage tier where reads currently fail.
    pub is_lost: bool,
}

/// What a policy knows about an LSM tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelsView {
    /// Expected size in bytes of the run that a full memtable is flushed to.
    pub unit_bytes: u64,
    /// The runs of each level, from oldest to newest. Lower levels have newer data.
    pub levels: Vec<Vec<RunView>>,
    /// Whether a merge of the whole structure into one run has been requested.
    pub wants_all: bool,
}

/// The input runs and the target level of a merge. The inputs are the oldest runs of level `from`
/// and all runs of the deeper levels up to `to`. If `from` and `to` are the same level, the inputs
/// can be any neighbouring runs of that level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelMergePlan {
    /// The level with the newest inputs.
    pub from: usize,
    /// How many runs of level `from` are inputs: its oldest runs, not counting the skipped ones.
    pub runs: usize,
    /// How many runs of level `from` are skipped because they are older than the inputs. It is zero
    /// unless `from` and `to` are the same level.
    pub skips: usize,
    /// The level with the oldest inputs. All runs on the levels deeper than `from`, down to this
    /// level, are inputs.
    pub to: usize,
    /// The level to which the result is added, as its newest run.
    pub into: usize,
}

impl LevelsView {
    fn is_busy(&self, levels: std::ops::RangeInclusive<usize>) -> bool {
        let mut runs = levels.flat_map(|level| self.levels.get(level).into_iter().flatten());
        runs.any(|run| run.is_busy)
    }

    /// Returns whether any run is currently unreadable.
    pub(super) fn has_lost(&self) -> bool {
        self.levels.iter().flatten().any(|run| run.is_lost)
    }

    /// Returns whether to merge the whole structure before starting any other merge. Returns false
    /// while a run is unreadable, because a full merge would have to wait for that run and would
    /// block all other merges.
    pub(super) fn takes_all(&self) -> bool {
        self.wants_all && !self.has_lost()
    }

    fn bytes(&self, level: usize) -> u64 {
        self.levels
            .get(level)
            .map_or(0, |runs| runs.iter().map(|run| run.bytes).sum())
    }

    fn runs(&self, level: usize) -> usize {
        self.levels.get(level).map_or(0, Vec::len)
    }

    /// Returns the plan to merge all runs into one. Returns `None` if there are no runs or any run
    /// is busy.
    pub(super) fn all(&self) -> Option<LevelMergePlan> {
        let has_runs = |level: &usize| self.runs(*level) > 0;
        let from = (0..self.levels.len()).find(has_runs)?;
        let to = (0..self.levels.len()).rev().find(has_runs)?;
        let merge = LevelMergePlan {
            from,
            runs: self.runs(from),
            skips: 0,
            to,
            into: to,
        };
        Some(merge).filter(|_| !self.is_busy(from..=to))
    }
}

/// Returns the plan for the next merge, or `None` if no merge is due or its inputs are busy.
#[must_use]
pub fn choose(policy: &MergePolicy, view: &LevelsView) -> Option<LevelMergePlan> {
    assert!(view.unit_bytes > 0, "a memtable has bytes");
    // A merge of the whole structure can start only after all running merges have ended, so no
    // other merge starts before it.
    if view.takes_all() {
        return view.all();
    }
    let usual = match policy {
        MergePolicy::Samt(fanouts) => samt(fanouts, view),
        MergePolicy::Cola { ratio } => cola(u64::from(*ratio), view),
        MergePolicy::Leveled { ratio } => leveled(u64::from(*ratio), view),
        MergePolicy::Never => None,
    };
    usual.or_else(|| beside_lost(policy, view))
}

/// Returns a merge for a level in which unreadable runs block the usual merges. Only runs newer
/// than all of the level's unreadable runs are merged, and the result stays in the level.
///
/// The inputs are neighbouring runs, as many as the policy usually merges. The sequence with the
/// smallest total size is merged, if its runs are of similar size. Each byte is then rewritten
/// about as often as by the usual merges. If there are many runs, their sizes need not be similar.
fn beside_lost(policy: &MergePolicy, view: &LevelsView) -> Option<LevelMergePlan> {
    let has_lost = |level: &usize| view.levels[*level].iter().any(|run| run.is_lost);
    let newest = (0..view.levels.len()).find(has_lost)?;
    // With the other policies, each level deeper than level 0 has one run and cannot take another,
    // so new runs stay in level 0.
    let (level, at_once) = match policy {
        MergePolicy::Samt(fanouts) => (newest, fanout(fanouts, newest).runs),
        MergePolicy::Cola { ratio } | MergePolicy::Leveled { ratio } => (0, *ratio),
        MergePolicy::Never => return None,
    };
    let (runs, at_once) = (&view.levels[level], at_once as usize);
    let first = runs.iter().rposition(|run| run.is_lost);
    let first = first.map_or(0, |last| last + 1);
    let bytes = |window: &[RunView]| window.iter().map(|run| run.bytes).sum::<u64>();
    let windows = runs[first..].windows(at_once).enumerate();
    let (place, window) = windows.min_by_key(|(_, window)| bytes(window))?;
    let largest = window.iter().map(|run| run.bytes).max()?;
    let is_even = largest <= bytes(window) - largest;
    let (has_some, has_many) = (runs.len() - first > at_once, runs.len() - first > MANY * at_once);
    if !has_some || !(is_even || has_many) || window.iter().any(|run| run.is_busy) {
        return None;
    }
    debug_assert!(at_once >= 2, "a merge of one run changes nothing");
    Some(LevelMergePlan {
        from: level,
        runs: at_once,
        skips: first + place,
        to: level,
        into: level,
    })
}

/// SAMT: if a level has more runs than its fan-out, its oldest runs are merged into one run of the
/// next level. If several levels qualify, the newest comes first, because its runs are read most
/// often.
fn samt(fanouts: &[LevelFanout], view: &LevelsView) -> Option<LevelMergePlan> {
    let is_due = |&level: &usize| {
        view.runs(level) > fanout(fanouts, level).runs as usize && !view.is_busy(level..=level)
    };
    let level = (0..view.levels.len()).find(is_due)?;
    let runs = fanout(fanouts, level).runs as usize;
    debug_assert!(runs >= 2, "a merge of one run changes nothing");
    Some(LevelMergePlan {
        from: level,
        runs,
        skips: 0,
        to: level,
        into: level + 1,
    })
}

/// R-COLA: level 0 is merged with the following levels, up to the first level with enough capacity
/// for all of their data. Level `i` has a capacity of `(ratio - 1) ratioⁱ` memtables, so it is full
/// after `ratio - 1` merges.
fn cola(ratio: u64, view: &LevelsView) -> Option<LevelMergePlan> {
    let is_one_run = (view.runs(0) == 1, view.bytes(0) <= (ratio - 1) * view.unit_bytes);
    if view.runs(0) == 0 || is_one_run == (true, true) {
        return None;
    }
    let mut bytes = 0u64;
    let mut share = (ratio - 1).saturating_mul(view.unit_bytes);
    let mut to = 0;
    loop {
        bytes = bytes.saturating_add(view.bytes(to));
        if bytes <= share || share == u64::MAX {
            break;
        }
        share = share.saturating_mul(ratio);
        to += 1;
    }
    debug_assert!(
        to <= 64,
        "each level takes at least twice as much as the one above it"
    );
    let merge = LevelMergePlan {
        from: 0,
        runs: view.runs(0),
        skips: 0,
        to,
        into: to,
    };
    (!view.is_busy(0..=to)).then_some(merge)
}

/// Leveled: if a level exceeds its capacity, its run is merged into the next level. The runs of
/// level 0 are merged into level 1. The capacity of level `i` is `ratioⁱ` memtables.
fn leveled(ratio: u64, view: &LevelsView) -> Option<LevelMergePlan> {
    let share = |level: usize| {
        let level = u32::try_from(level).unwrap_or(u32::MAX);
        ratio.saturating_pow(level).saturating_mul(view.unit_bytes)
    };
    let is_over = |level: &usize| view.bytes(*level) > share(*level);
    let over = (1..view.levels.len()).rev().filter(is_over);
    let is_free = |from: &usize| !view.is_busy(*from..=from + 1);
    // If an unreadable run blocks a level, no further data is merged into it. The merges of other
    // levels continue.
    let first = (view.runs(0) > 0).then_some(0);
    let from = match view.has_lost() {
        false => over.chain(first).next().filter(is_free)?,
        true => over.chain(first.filter(|_| !is_over(&1))).find(is_free)?,
    };
    let merge = LevelMergePlan {
        from,
        runs: view.runs(from),
        skips: 0,
        to: from + 1,
        into: from + 1,
    };
    debug_assert!(merge.runs > 0, "a level that is over its share has a run");
    Some(merge)
}

/// Writers are throttled if level 0 has at least this many times the number of runs of one merge.
/// The factor is above 1 because new runs arrive while a merge is running.
const USUAL_TIMES: u64 = 3;

/// Returns the read amplification of level 0: its number of runs, as a percentage of the limit at
/// which writers are throttled. Returns 0 if the policy never merges, because there is then no
/// limit.
#[must_use]
pub fn crowding(policy: &MergePolicy, runs: usize) -> u64 {
    let at_once = match policy {
        MergePolicy::Samt(fanouts) => fanout(fanouts, 0).runs,
        MergePolicy::Cola { ratio } | MergePolicy::Leveled { ratio } => *ratio,
        MergePolicy::Never => return 0,
    };
    debug_assert!(at_once >= 2, "a merge of one run changes nothing");
    runs as u64 * 100 / (USUAL_TIMES * u64::from(at_once))
}

/// Returns the level that the result of a merge, of `bytes` bytes, is added to. With the SAMT
/// policy, a result that fills at most half of the inputs' level stays in that level, so that a
/// small amount of data never moves far down (reclamation: Spillane 2012, chapter 5).
#[must_use]
pub fn target(policy: &MergePolicy, unit_bytes: u64, merge: &LevelMergePlan, bytes: u64) -> usize {
    let MergePolicy::Samt(fanouts) = policy else {
        return merge.into;
    };
    if merge.into == merge.to {
        return merge.into;
    }
    assert!(merge.from == merge.to, "a SAMT merges runs of one level");
    let capacity = (0..=merge.from).fold(unit_bytes, |bytes, level| {
        bytes.saturating_mul(u64::from(fanout(fanouts, level).runs))
    });
    if bytes <= capacity / 2 {
        merge.from
    } else {
        merge.into
    }
}

/// Returns the level that the result of a merge moves up to from its target level. A run that has
/// shrunk moves up, so that a small amount of data does not stay in a deep level (Spillane 2012,
/// chapter 5). Moving a run up does not rewrite it.
///
/// `above` has the number of runs of each level above the target level. Its last element is the
/// number of runs in the target level that are newer than the result.
///
/// The result can move only past empty levels, because all runs of the levels above are newer. It
/// moves only to a level that it fills at most half, and that may take another run.
#[must_use]
pub fn rise(policy: &MergePolicy, unit_bytes: u64, above: &[usize], bytes: u64) -> usize {
    let mut level = above.len().saturating_sub(1);
    while level > 0 && above[level] == 0 {
        let to = level - 1;
        let (capacity, most) = match policy {
            MergePolicy::Samt(fanouts) => (0..=to).fold((unit_bytes, 0), |(bytes, _), level| {
                let runs = fanout(fanouts, level).runs;
                (bytes.saturating_mul(u64::from(runs)), runs as usize)
            }),
            // With these policies, each level has one run. Level 0 is reserved for new runs.
            MergePolicy::Cola { ratio } | MergePolicy::Leveled { ratio } if to > 0 => {
                let depth = u32::try_from(to).unwrap_or(u32::MAX);
                let times = u64::from(*ratio).saturating_pow(depth);
                (unit_bytes.saturating_mul(times), 1)
            }
            _ => break,
        };
        if bytes > capacity / 2 || above[to] >= most {
            break;
        }
        level = to;
    }
    debug_assert!(level < above.len().max(1), "it rises");
    level
}

/// Returns the level for a new run of `bytes` bytes that is newer than all others. `runs` has the
/// number of runs of each level. A large run goes directly to a deep level if the levels above are
/// empty, so that merges need not move it there.
#[must_use]
pub fn landing(policy: &MergePolicy, unit_bytes: u64, runs: &[usize], bytes: u64) -> usize {
    let empty = runs.iter().take_while(|runs| **runs == 0).count();
    // With the policies of one run per level, a level that has a run can take another only by a
    // merge. In an empty structure, any level is possible.
    let is_new = empty == runs.len();
    let deepest = match policy {
        _ if is_new => MOST_LEVELS,
        MergePolicy::Samt(_) => empty,
        MergePolicy::Cola { .. } | MergePolicy::Leveled { .. } => empty.saturating_sub(1),
        MergePolicy::Never => 0,
    };
    let mut share = unit_bytes;
    let mut level = 0;
    while share < bytes && level < deepest {
        let ratio = match policy {
            MergePolicy::Samt(fanouts) => fanout(fanouts, level).runs,
            MergePolicy::Cola { ratio } | MergePolicy::Leveled { ratio } => *ratio,
            MergePolicy::Never => return 0,
        };
        share = share.saturating_mul(u64::from(ratio));
        level += 1;
    }
    level
}

/// Returns the storage tier for the runs of a level. Returns `None` unless the policy is a SAMT
/// with separate fan-outs per tier, because no other policy determines the tier.
#[must_use]
pub fn tier(policy: &MergePolicy, level: usize) -> Option<u8> {
    match policy {
        MergePolicy::Samt(fanouts) if fanouts.len() > 1 => Some(place(fanouts, level) as u8),
        _ => None,
    }
}

fn fanout(fanouts: &[LevelFanout], level: usize) -> LevelFanout {
    fanouts[place(fanouts, level)]
}

/// Returns the index of a level's fan-out. The last fan-out applies to all remaining levels.
fn place(fanouts: &[LevelFanout], level: usize) -> usize {
    assert!(!fanouts.is_empty(), "a SAMT has a fan-out");
    let mut below = 0usize;
    let is_within = |fanout: &LevelFanout| {
        below = below.saturating_add(fanout.levels as usize);
        level < below
    };
    let found = fanouts.iter().position(is_within);
    found.unwrap_or(fanouts.len() - 1)
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
