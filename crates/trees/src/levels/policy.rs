//! Every decision about which runs are merged, and to which level what comes of it goes: pure
//! functions of the sizes of runs.
//!
//! The policies are those of Spillane 2012, chapter 5: SAMT (as Cassandra merges), R-COLA (as
//! HBase does), levels of one run each that grow by a ratio (O'Neil 1996), and no merging at all.
//! A share of a memtable becomes the newest run of level 0 in each of them; what they differ in is
//! what comes later.

use crate::levels::options::{Fanout, Policy};
#[cfg(all(test, not(alluvium_model_check)))]
use crate::stitch::{SameScan, StitchView, Stitching};

/// Beside what cannot be read there may be this many times the runs that are merged at once.
const MANY: usize = 2;

/// No level is deeper: each is at least twice as large as the one above it.
const MOST_LEVELS: usize = 64;
const _: () = assert!(
    1u128 << MOST_LEVELS > u64::MAX as u128,
    "runs of any size have a level"
);

/// A run, as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunView {
    /// Its bytes.
    pub bytes: u64,
    /// Whether a merge reads it, or it cannot be read for now.
    pub is_busy: bool,
    /// Whether it lies on a tier of which reads fail for now.
    pub is_lost: bool,
}

/// What a policy is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Bytes of a run that a full memtable becomes.
    pub unit_bytes: u64,
    /// The runs of each level, oldest first. Lower levels are newer than higher ones.
    pub levels: Vec<Vec<RunView>>,
    /// Whether all of it is to become one run.
    pub wants_all: bool,
}

/// A merge: the oldest runs of one level, and all runs of the levels below it down to another.
/// Within one level it may be others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The newest level that it takes runs of.
    pub from: usize,
    /// How many runs it takes of that level: the oldest ones.
    pub runs: usize,
    /// How many older ones it leaves there: none, unless all that it takes is of that level.
    pub skips: usize,
    /// The oldest level that it takes runs of; of this one and all between it takes every run.
    pub to: usize,
    /// The level that the result becomes the newest run of.
    pub into: usize,
}

impl View {
    fn is_busy(&self, levels: std::ops::RangeInclusive<usize>) -> bool {
        let mut runs = levels.flat_map(|level| self.levels.get(level).into_iter().flatten());
        runs.any(|run| run.is_busy)
    }

    /// Returns whether it has a run that cannot be read for now.
    pub(super) fn has_lost(&self) -> bool {
        self.levels.iter().flatten().any(|run| run.is_lost)
    }

    /// Returns whether all of it becomes one run before anything else is done. What cannot be read
    /// for now keeps nothing else waiting.
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

    /// Everything becomes one run.
    pub(super) fn all(&self) -> Option<Merge> {
        let has_runs = |level: &usize| self.runs(*level) > 0;
        let from = (0..self.levels.len()).find(has_runs)?;
        let to = (0..self.levels.len()).rev().find(has_runs)?;
        let merge = Merge {
            from,
            runs: self.runs(from),
            skips: 0,
            to,
            into: to,
        };
        Some(merge).filter(|_| !self.is_busy(from..=to))
    }
}

/// Returns the merge that is done next, if one is due that does without the runs that others read.
#[must_use]
pub fn choose(policy: &Policy, view: &View) -> Option<Merge> {
    assert!(view.unit_bytes > 0, "a memtable has bytes");
    // Others would have to end before: none begins meanwhile.
    if view.takes_all() {
        return view.all();
    }
    let usual = match policy {
        Policy::Samt(fanouts) => samt(fanouts, view),
        Policy::Cola { ratio } => cola(u64::from(*ratio), view),
        Policy::Leveled { ratio } => leveled(u64::from(*ratio), view),
        Policy::Never => None,
    };
    usual.or_else(|| beside_lost(policy, view))
}

/// Where runs that cannot be read for now keep a level from being merged as usual, those that are
/// newer than all of them become fewer all the same, and stay in their level. Of as many neighbours
/// as are merged at once the smallest are taken, once they are about as large as each other: so
/// each is written as often as levels would have it, about. If there are many it is done in any
/// case.
fn beside_lost(policy: &Policy, view: &View) -> Option<Merge> {
    let has_lost = |level: &usize| view.levels[*level].iter().any(|run| run.is_lost);
    let newest = (0..view.levels.len()).find(has_lost)?;
    // In the other policies a level of one run takes nothing: what is new stays in level 0.
    let (level, at_once) = match policy {
        Policy::Samt(fanouts) => (newest, fanout(fanouts, newest).runs),
        Policy::Cola { ratio } | Policy::Leveled { ratio } => (0, *ratio),
        Policy::Never => return None,
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
    Some(Merge {
        from: level,
        runs: at_once,
        skips: first + place,
        to: level,
        into: level,
    })
}

/// A level that has more runs than its fan-out gives its oldest ones to the next, as one. The
/// newest such level is first: what is read most often becomes fewer runs.
fn samt(fanouts: &[Fanout], view: &View) -> Option<Merge> {
    let is_due = |&level: &usize| {
        view.runs(level) > fanout(fanouts, level).runs as usize && !view.is_busy(level..=level)
    };
    let level = (0..view.levels.len()).find(is_due)?;
    let runs = fanout(fanouts, level).runs as usize;
    debug_assert!(runs >= 2, "a merge of one run changes nothing");
    Some(Merge {
        from: level,
        runs,
        skips: 0,
        to: level,
        into: level + 1,
    })
}

/// What is new becomes one with all levels down to the first that can take it and all that is above
/// it. Level `i` takes up to `(ratio - 1) ratioⁱ` memtables: after `ratio - 1` merges it is full.
fn cola(ratio: u64, view: &View) -> Option<Merge> {
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
    let merge = Merge {
        from: 0,
        runs: view.runs(0),
        skips: 0,
        to,
        into: to,
    };
    (!view.is_busy(0..=to)).then_some(merge)
}

/// A level of one run that is larger than its share gives it to the next one; what is new becomes
/// one with level 1. Level `i` takes `ratioⁱ` memtables.
fn leveled(ratio: u64, view: &View) -> Option<Merge> {
    let share = |level: usize| {
        let level = u32::try_from(level).unwrap_or(u32::MAX);
        ratio.saturating_pow(level).saturating_mul(view.unit_bytes)
    };
    let is_over = |level: &usize| view.bytes(*level) > share(*level);
    let over = (1..view.levels.len()).rev().filter(is_over);
    let is_free = |from: &usize| !view.is_busy(*from..=from + 1);
    // A level that waits for what cannot be read takes no more, and others go on.
    let first = (view.runs(0) > 0).then_some(0);
    let from = match view.has_lost() {
        false => over.chain(first).next().filter(is_free)?,
        true => over.chain(first.filter(|_| !is_over(&1))).find(is_free)?,
    };
    let merge = Merge {
        from,
        runs: view.runs(from),
        skips: 0,
        to: from + 1,
        into: from + 1,
    };
    debug_assert!(merge.runs > 0, "a level that is over its share has a run");
    Some(merge)
}

/// Level 0 may have this many times the runs that are merged at once before writers are held back:
/// a merge takes a while, and others come meanwhile.
const USUAL_TIMES: u64 = 3;

/// Returns how many runs level 0 has, in hundredths of what there should be at most. Where nothing
/// is merged, any number is right.
#[must_use]
pub fn crowding(policy: &Policy, runs: usize) -> u64 {
    let at_once = match policy {
        Policy::Samt(fanouts) => fanout(fanouts, 0).runs,
        Policy::Cola { ratio } | Policy::Leveled { ratio } => *ratio,
        Policy::Never => return 0,
    };
    debug_assert!(at_once >= 2, "a merge of one run changes nothing");
    runs as u64 * 100 / (USUAL_TIMES * u64::from(at_once))
}

/// Returns the level to which the result of a merge goes, once its size is known. A SAMT keeps it
/// where its runs were when it takes no more than half of that level: so few bytes never sink far
/// (the reclamation of Spillane 2012, chapter 5).
#[must_use]
pub fn target(policy: &Policy, unit_bytes: u64, merge: &Merge, bytes: u64) -> usize {
    let Policy::Samt(fanouts) = policy else {
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

/// Returns the level that the result of a merge rises to from the one that it would go to: what
/// shrank moves back up, so that few bytes never stay deep (Spillane 2012, chapter 5). Nothing is
/// written for that. `above` says how many runs each level above has, the level itself last, of
/// which only those count that are newer than the result.
///
/// It rises past levels without runs only, for all of them are newer than it; and to a level of
/// which it takes no more than half, and that has space for a run.
#[must_use]
pub fn rise(policy: &Policy, unit_bytes: u64, above: &[usize], bytes: u64) -> usize {
    let mut level = above.len().saturating_sub(1);
    while level > 0 && above[level] == 0 {
        let to = level - 1;
        let (capacity, most) = match policy {
            Policy::Samt(fanouts) => (0..=to).fold((unit_bytes, 0), |(bytes, _), level| {
                let runs = fanout(fanouts, level).runs;
                (bytes.saturating_mul(u64::from(runs)), runs as usize)
            }),
            // Levels of one run. What is new comes to level 0.
            Policy::Cola { ratio } | Policy::Leveled { ratio } if to > 0 => {
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

/// Returns the level that a run which is newer than all others goes to, where `runs` says how many
/// each level has. A large one need not sink by merges where nothing stands in its way.
#[must_use]
pub fn landing(policy: &Policy, unit_bytes: u64, runs: &[usize], bytes: u64) -> usize {
    let empty = runs.iter().take_while(|runs| **runs == 0).count();
    // Levels of one run take another only by a merge.
    // Below all that there is, any level is free.
    let is_new = empty == runs.len();
    let deepest = match policy {
        _ if is_new => MOST_LEVELS,
        Policy::Samt(_) => empty,
        Policy::Cola { .. } | Policy::Leveled { .. } => empty.saturating_sub(1),
        Policy::Never => 0,
    };
    let mut share = unit_bytes;
    let mut level = 0;
    while share < bytes && level < deepest {
        let ratio = match policy {
            Policy::Samt(fanouts) => fanout(fanouts, level).runs,
            Policy::Cola { ratio } | Policy::Leveled { ratio } => *ratio,
            Policy::Never => return 0,
        };
        share = share.saturating_mul(u64::from(ratio));
        level += 1;
    }
    level
}

/// Returns the tier of the store that a level's runs are written to, if the policy says so: it does
/// with a fan-out for each tier.
#[must_use]
pub fn tier(policy: &Policy, level: usize) -> Option<u8> {
    match policy {
        Policy::Samt(fanouts) if fanouts.len() > 1 => Some(place(fanouts, level) as u8),
        _ => None,
    }
}

fn fanout(fanouts: &[Fanout], level: usize) -> Fanout {
    fanouts[place(fanouts, level)]
}

/// Returns which of the fan-outs counts for a level: the last one for all that follow.
fn place(fanouts: &[Fanout], level: usize) -> usize {
    assert!(!fanouts.is_empty(), "a SAMT has a fan-out");
    let mut below = 0usize;
    let is_within = |fanout: &Fanout| {
        below = below.saturating_add(fanout.levels as usize);
        level < below
    };
    let found = fanouts.iter().position(is_within);
    found.unwrap_or(fanouts.len() - 1)
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
