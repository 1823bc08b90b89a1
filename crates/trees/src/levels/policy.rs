//! Decides which runs are merged and into which level: pure functions of the sizes of runs.
//!
//! The policies are those of Spillane 2012, chapter 5: SAMT (Cassandra's merges), R-COLA (HBase's),
//! levels of one run each that grow by a ratio (O'Neil 1996), and no merges at all. In each of them
//! a share of a memtable becomes the newest run of level 0; the policies differ in what is merged
//! later.

use crate::levels::options::{LevelFanout, MergePolicy};
#[cfg(all(test, not(alluvium_model_check)))]
use crate::merge::stitch::{SameScan, StitchPolicy, StitchView};

/// While some runs cannot be read, a level may have this many times the runs of one merge before a
/// merge ignores that they differ in size.
const MANY: usize = 2;

/// The greatest depth of a level: each level is at least twice as large as the one above it.
const MOST_LEVELS: usize = 64;
const _: () = assert!(
    1u128 << MOST_LEVELS > u64::MAX as u128,
    "runs of any size have a level"
);

/// A run as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunView {
    pub bytes: u64,
    /// Whether a merge reads the run, or the run cannot be read at present.
    pub is_busy: bool,
    /// Whether the run is on a tier whose reads fail at present.
    pub is_lost: bool,
}

/// The input of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelsView {
    /// The size in bytes of a run made from a full memtable.
    pub unit_bytes: u64,
    /// The runs of each level, oldest first. Lower levels are newer than higher ones.
    pub levels: Vec<Vec<RunView>>,
    /// Whether the whole structure is to become one run.
    pub wants_all: bool,
}

/// A merge: the oldest runs of one level, and all runs of the deeper levels down to another. A
/// merge within one level may have any neighbouring runs of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelMergePlan {
    /// The newest input level.
    pub from: usize,
    /// The number of runs of that level in the merge: the oldest ones.
    pub runs: usize,
    /// The number of older runs of that level that stay outside the merge; zero unless all inputs
    /// are in that level.
    pub skips: usize,
    /// The oldest input level. Every run below `from` down to this level is an input.
    pub to: usize,
    /// The level whose newest run the result becomes.
    pub into: usize,
}

impl LevelsView {
    fn is_busy(&self, levels: std::ops::RangeInclusive<usize>) -> bool {
        let mut runs = levels.flat_map(|level| self.levels.get(level).into_iter().flatten());
        runs.any(|run| run.is_busy)
    }

    /// Returns whether some run cannot be read at present.
    pub(super) fn has_lost(&self) -> bool {
        self.levels.iter().flatten().any(|run| run.is_lost)
    }

    /// Returns whether a merge of everything comes before all other merges. Runs that cannot be
    /// read at present must not block other merges.
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

    /// Returns the merge of everything into one run.
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

/// Returns the next merge, if one is due whose inputs are not busy.
#[must_use]
pub fn choose(policy: &MergePolicy, view: &LevelsView) -> Option<LevelMergePlan> {
    assert!(view.unit_bytes > 0, "a memtable has bytes");
    // A merge of everything waits for the running merges to end, so no other merge begins.
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

/// Merges runs that are newer than all unreadable ones, when those block the usual merges of their
/// level. The result stays in the level. The smallest window of neighbours is merged, as many as
/// the policy merges at once, if they are of similar size: each byte is then written about as often
/// as levels would write it. With many runs the sizes are ignored.
fn beside_lost(policy: &MergePolicy, view: &LevelsView) -> Option<LevelMergePlan> {
    let has_lost = |level: &usize| view.levels[*level].iter().any(|run| run.is_lost);
    let newest = (0..view.levels.len()).find(has_lost)?;
    // In the other policies a level of one run cannot receive another: new runs stay in level 0.
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

/// SAMT: a level with more runs than its fan-out merges its oldest ones into one run of the next
/// level. The newest such level is first, because its runs are read most often.
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

/// R-COLA: merges level 0 with all levels down to the first that has capacity for the total. Level
/// `i` holds up to `(ratio - 1) ratioⁱ` memtables, so it is full after `ratio - 1` merges.
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

/// Leveled: a run larger than its level's share is merged into the next level, and the runs of
/// level 0 into level 1. The share of level `i` is `ratioⁱ` memtables.
fn leveled(ratio: u64, view: &LevelsView) -> Option<LevelMergePlan> {
    let share = |level: usize| {
        let level = u32::try_from(level).unwrap_or(u32::MAX);
        ratio.saturating_pow(level).saturating_mul(view.unit_bytes)
    };
    let is_over = |level: &usize| view.bytes(*level) > share(*level);
    let over = (1..view.levels.len()).rev().filter(is_over);
    let is_free = |from: &usize| !view.is_busy(*from..=from + 1);
    // A level that waits for an unreadable run receives nothing more; other levels are still
    // merged.
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

/// Writers are throttled once level 0 has this many times the runs of one merge: new runs arrive
/// while a merge is running.
const USUAL_TIMES: u64 = 3;

/// Returns the read amplification of level 0: its runs in percent of their limit. Without merges
/// there is no limit, and the result is 0.
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

/// Returns the level that receives the result of a merge, once its size is known. A SAMT keeps a
/// result in the level of its inputs if it fills at most half of that level, so that little data
/// never sinks far (the reclamation of Spillane 2012, chapter 5).
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

/// Returns the level to which the result of a merge rises from its target: a run that has shrunk
/// moves up, so that little data never stays deep (Spillane 2012, chapter 5). Nothing is written
/// for that. `above` has the number of runs of each level above, and, as the last element, the runs
/// of the level itself that are newer than the result.
///
/// A run rises only past empty levels, because all runs there are newer. It rises only to a level
/// of which it fills at most half, and which may have another run.
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
            // Levels of one run. Level 0 is left to new runs.
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

/// Returns the level for a new run that is newer than all others. `runs` has the number of runs of
/// each level. A large run need not sink by merges past levels that are empty.
#[must_use]
pub fn landing(policy: &MergePolicy, unit_bytes: u64, runs: &[usize], bytes: u64) -> usize {
    let empty = runs.iter().take_while(|runs| **runs == 0).count();
    // A level of one run receives another only by a merge. In an empty structure every level is
    // free.
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

/// Returns the tier to which the runs of a level are written, if the policy determines it: a SAMT
/// with a fan-out for each tier does.
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

/// Returns the index of the fan-out for a level. The last fan-out is for all remaining levels.
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
