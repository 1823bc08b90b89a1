//! The tree's policy: every choice of what to flush, split, compact and merge, as pure functions.
//!
//! *F* is the fan-out and *m* the size of a memtable in bytes (SplinterDB, Conway 2020, §3.3). A
//! node flushes in three cases: if it contains more than *F m* live bytes, if more than half of
//! that is for one child, or if more than *3 F* runs are live for one child. The third case bounds
//! the number of runs on a path of height *h* to *3 h F*.

use crate::run::{RangeWeight, bytes_per_probe};
use alluvium_base::DeviceProfile;
use std::cmp::Reverse;
use std::ops::Range;

/// The parameters that determine the shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrunkShape {
    /// Maximum number of children of an index node. The root may have twice as many.
    pub fanout: usize,
    /// Size of a memtable in bytes.
    pub memtable: u64,
}

impl Default for TrunkShape {
    fn default() -> Self {
        TrunkShape {
            fanout: 8,
            memtable: 32 << 20,
        }
    }
}

impl TrunkShape {
    /// Returns the maximum number of live bytes in a node. An index node above this limit flushes;
    /// a leaf above it is split or rewritten.
    #[must_use]
    pub fn node_bytes(&self) -> u64 {
        debug_assert!(self.fanout >= 2 && self.memtable > 0, "{self:?}");
        self.fanout as u64 * self.memtable
    }

    /// Returns the maximum number of a node's runs that may be live for one child.
    #[must_use]
    pub fn most_runs(&self) -> usize {
        3 * self.fanout
    }

    /// Returns the maximum number of children of an index node. The root may have twice as many as
    /// other nodes.
    #[must_use]
    pub fn most_children(&self, is_root: bool) -> usize {
        if is_root { 2 * self.fanout } else { self.fanout }
    }
}

/// How a node picks the child that it flushes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum VictimPolicy {
    /// The child with the most live bytes in the node.
    #[default]
    Fullest,
    /// The child of a randomly selected message, which works better if a few keys receive most
    /// updates (Conway 2020, §5).
    RandomMessage,
    RoundRobin,
}

/// The properties of a child's pivot that determine whether the node flushes to this child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildView {
    /// Number of live bytes in the node for this child.
    pub bytes: u64,
    /// Number of the node's runs that are live for this child.
    pub runs: usize,
}

/// Returns the index of the child that a node should flush to next, or `None` if no flush is
/// needed. `draw` is a random number, and `turn` is the number of flushes so far.
#[must_use]
pub fn flush(
    shape: &TrunkShape,
    victim: VictimPolicy,
    children: &[ChildView],
    draw: u64,
    turn: u64,
) -> Option<usize> {
    let crowded = children.iter().enumerate().max_by_key(|(_, child)| child.runs)?;
    if crowded.1.runs > shape.most_runs() {
        return Some(crowded.0);
    }
    let fullest = (0..children.len())
        .rev()
        .max_by_key(|&index| children[index].bytes)?;
    // A child with a lot of data is flushed even if the node is not full, so that a load on a small
    // key range passes through the node without delay.
    if children[fullest].bytes > shape.node_bytes() / 2 {
        return Some(fullest);
    }
    let total: u64 = children.iter().map(|child| child.bytes).sum();
    if total <= shape.node_bytes() {
        return None;
    }
    match victim {
        VictimPolicy::Fullest => Some(fullest),
        VictimPolicy::RandomMessage => {
            let mut at = draw % total;
            children.iter().position(|child| {
                let here = at < child.bytes;
                at = at.saturating_sub(child.bytes);
                here
            })
        }
        VictimPolicy::RoundRobin => {
            let count = children.len();
            (0..count)
                .map(|step| (turn as usize + step) % count)
                .find(|&index| children[index].bytes > 0)
        }
    }
}

/// What to do with a leaf that has just received a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeafAction {
    /// Compact only the received bundle.
    Keep,
    /// Split the leaf's key range into this number of pieces, which share the leaf's runs.
    Split(usize),
    /// Compact the whole leaf, because many of its records are superseded versions.
    Rewrite,
}

/// The properties of a leaf that determine its [`LeafAction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafView {
    /// Number of live bytes, including superseded versions.
    pub bytes: u64,
    /// Percentage of the leaf's records that are known to be superseded.
    pub stale_percent: u64,
}

/// Returns what to do with a leaf that has just received a bundle. A leaf that is too large is
/// split, unless a rewrite would shrink it enough.
#[must_use]
pub(super) fn leaf(shape: &TrunkShape, view: &LeafView) -> LeafAction {
    let most = shape.node_bytes();
    if view.bytes > most && (view.stale_percent < STALE_PERCENT || view.bytes > 2 * most) {
        // Each piece is about half the maximum size of a leaf, so it can double before it splits
        // again.
        return LeafAction::Split(
            usize::try_from(view.bytes.div_ceil(most / 2).max(2)).unwrap_or(usize::MAX),
        );
    }
    if view.bytes > most {
        LeafAction::Rewrite
    } else {
        LeafAction::Keep
    }
}

/// Returns whether it is worthwhile to split a leaf whose largest piece would have `piece_bytes`
/// bytes. Data that overlaps a boundary counts for the pieces on both sides. If nearly all data
/// overlaps the boundaries, the pieces are hardly smaller than the leaf, and splitting would never
/// end.
#[must_use]
pub(super) fn cuts_well(leaf_bytes: u64, piece_bytes: u64) -> bool {
    piece_bytes <= leaf_bytes - leaf_bytes / 8
}

/// Returns whether a compaction of a leaf rewrites the whole leaf. It does in two cases. If the
/// leaf is too large but a rewrite would shrink it enough, the rewrite avoids a split. If many
/// versions in the leaf are superseded, the rewrite frees their space, but only while the tree is
/// not so crowded that other compactions are more urgent. `crowding` is the tree's crowding in
/// percent.
#[must_use]
pub(super) fn rewrites(shape: &TrunkShape, view: &LeafView, crowding: u64) -> bool {
    let is_large = view.bytes > shape.node_bytes();
    let is_stale = view.stale_percent >= STALE_PERCENT;
    leaf(shape, view) == LeafAction::Rewrite || !is_large && is_stale && crowding < BUSY_CROWDING
}

/// Returns whether a leaf should merge its oldest runs. `depth` is the largest number of the leaf's
/// runs that a lookup may have to search.
#[must_use]
pub(super) fn is_crowded(shape: &TrunkShape, depth: usize) -> bool {
    depth > 2 * shape.fanout
}

/// Maximum crowding of the tree, in percent, at which compactions run merely to free space.
/// Tuning: `75` since 2026-11-23.
const BUSY_CROWDING: u64 = 75;
const _: () = assert!(BUSY_CROWDING <= 100 && STALE_PERCENT <= 100);

/// Percentage of superseded versions from which a leaf is rewritten. It limits their share of a
/// leaf to about a third. With uniform overwrites, every new record causes about two other records
/// to be rewritten.
/// Tuning: `34` since 2026-11-21.
pub(super) const STALE_PERCENT: u64 = 34;

/// Approximate number of a new run's keys that are looked up in the receiving leaf, to estimate how
/// many of the run's keys the leaf already contains.
/// Tuning: `256` since 2026-11-23.
pub(super) const SAMPLE: u64 = 256;

/// Returns how many of a leaf's own parts to merge into one run, or 0 if the leaf has at most *F*
/// runs. `parts` lists the number of runs and bytes of each part, oldest first. The oldest parts
/// are picked first, because splits have left them small. More parts are added until only *F* runs
/// remain, and then for as long as the next part is small compared with those already picked.
#[must_use]
pub(super) fn oldest_parts(shape: &TrunkShape, parts: &[(usize, u64)]) -> usize {
    let mut left: usize = parts.iter().map(|part| part.0).sum();
    if left <= shape.fanout {
        return 0;
    }
    debug_assert!(!parts.is_empty(), "what has runs has parts");
    let (mut count, mut runs, mut bytes) = (0, 0, 0);
    for (more, more_bytes) in parts {
        let enough = left <= shape.fanout && runs >= 2;
        if enough && *more_bytes > bytes / 2 {
            break;
        }
        (count, runs, bytes, left) = (count + 1, runs + more, bytes + more_bytes, left - more);
    }
    count
}

/// Returns the approximate number of bytes that a compaction leaves of `weight`, assuming that each
/// delete removes one other record. Ignores the size of the deletes themselves.
#[must_use]
pub(super) fn left_by_deletes(weight: &RangeWeight) -> u64 {
    let others = weight.records.saturating_sub(weight.tombstones);
    let left = others.saturating_sub(weight.tombstones);
    (u128::from(weight.bytes) * u128::from(left) / u128::from(others.max(1))) as u64
}

/// Returns the priority of a compaction. The job with the lowest value runs first, and ties run in
/// the order in which they were planned.
///
/// While space is not scarce, jobs with the largest `crowd` run first. `crowd` is the number of
/// runs of the job's pivot if the pivot is on a path with too many runs, and 0 otherwise. Among
/// jobs with equal `crowd`, those nearest the root run first, because other compactions wait for
/// the data that is flushed from there.
///
/// While space is scarce, jobs that free space run first, smallest first. Failed jobs run last, in
/// the order in which they were planned, so that no failed job blocks the others. Returns `None` if
/// the job frees nothing and the disk has no space for it. Such a job must wait.
#[must_use]
pub(super) fn priority(scarce: Option<&LowSpace>, crowd: usize, height: u8) -> Option<Priority> {
    let Some(scarce) = scarce else {
        return Some((false, false, 0, Reverse((crowd, height))));
    };
    let takes_bytes = if scarce.has_failed { 0 } else { scarce.takes_bytes };
    let keeps = !scarce.frees && !scarce.has_failed;
    (scarce.frees || scarce.has_room).then_some((scarce.has_failed, keeps, takes_bytes, Reverse((0, 0))))
}

/// A compaction's priority. The lowest value runs first.
pub(super) type Priority = (bool, bool, u64, Reverse<(usize, u8)>);

/// The properties of a compaction that determine its priority while space is scarce.
#[derive(Clone, Copy, Debug)]
pub(super) struct LowSpace {
    /// Approximate number of free bytes that the compaction needs.
    pub takes_bytes: u64,
    /// Whether the compaction frees about as much space as it needs. If so, it may use the whole
    /// space reserve.
    pub frees: bool,
    /// Whether the disk has space for a job that frees nothing.
    pub has_room: bool,
    /// Whether the compaction has failed before.
    pub has_failed: bool,
}

/// Returns the number of nodes into which a node with this many children is split, or 1 if it is
/// not. Each resulting node is about three quarters full.
#[must_use]
pub(super) fn pieces(shape: &TrunkShape, children: usize, is_root: bool) -> usize {
    if children <= shape.most_children(is_root) {
        return 1;
    }
    children.div_ceil((shape.fanout * 3 / 4).max(2))
}

/// Returns whether a pivot may adopt its oldest pending runs without rewriting them. This requires
/// that no adopted run overlaps another run of the stack, that the runs are not too small, and that
/// the pivot does not end up with too many parts. Searching a long list of parts would cost more
/// than searching one run.
#[must_use]
pub(super) fn adopts(shape: &TrunkShape, overlaps: bool, bytes: u64, runs: usize, own_runs: usize) -> bool {
    if overlaps || runs == 0 {
        return false;
    }
    let least = shape.memtable / (4 * shape.fanout as u64);
    bytes / runs as u64 >= least && own_runs + runs <= MOST_SIDE_BY_SIDE * shape.fanout
}

/// Maximum number of non-overlapping runs in a pivot's own parts, as a multiple of the fan-out.
/// Tuning: `8` since 2026-11-23.
const MOST_SIDE_BY_SIDE: usize = 8;

/// Selects the pivot's maplets that are merged with the fingerprints of a new run. Returns their
/// index range, which ends with the newest maplet and may be empty. `runs[i]` is the number of runs
/// in maplet i. `shares[i]` is true if a sufficient part of maplet i is within the pivot's key
/// range. Like runs, maplets are merged in size tiers, four at a time, so a fingerprint is
/// rewritten once per tier.
#[must_use]
pub(super) fn maplets_to_merge(runs: &[usize], shares: &[bool]) -> Range<usize> {
    assert_eq!(runs.len(), shares.len(), "a share for each maplet");
    let end = runs.len();
    let (mut start, mut size) = (end, 1);
    loop {
        let alike = (0..start)
            .rev()
            .take_while(|&index| shares[index] && runs[index] <= size)
            .take(TIER - 1)
            .count();
        if alike < TIER - 1 {
            return start..end;
        }
        start -= alike;
        size = 1 + runs[start..].iter().sum::<usize>();
        if size > MOST_RUNS_OF_A_MAPLET {
            return start + alike..end;
        }
    }
}

/// Number of similarly sized maplets that are merged into one.
/// Tuning: `4` since 2026-11-21.
const TIER: usize = 4;
const _: () = assert!(TIER >= 2 && MOST_RUNS_OF_A_MAPLET >= TIER);
/// Maximum number of runs in a single maplet.
/// Tuning: `64` since 2026-11-21.
pub(super) const MOST_RUNS_OF_A_MAPLET: usize = 64;

/// Returns whether two neighbouring nodes should be merged into one, which would have `children`
/// children.
#[must_use]
pub(super) fn merges(
    shape: &TrunkShape,
    height: u8,
    left: &ChildView,
    right: &ChildView,
    children: usize,
) -> bool {
    let room = shape.node_bytes() / 2;
    let fits = left.bytes + right.bytes <= room && left.runs + right.runs <= shape.fanout;
    if height == 0 {
        fits
    } else {
        fits && children <= shape.fanout * 3 / 4
    }
}

/// The properties of a leaf that determine whether a full compaction is worthwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompactionCandidate {
    /// Number of bytes on the path from the root to the leaf. The compaction reads all of them and
    /// writes at most as many.
    pub bytes: u64,
    /// Number of runs on the path from the root to the leaf, including the leaf's own.
    pub runs: usize,
    /// Number of runs on the path that a lookup may have to search.
    pub depth: usize,
    /// Number of records on the path.
    pub records: u64,
    /// Number of deletes among the records on the path.
    pub tombstones: u64,
    /// Number of range deletes on the path that overlap the leaf.
    pub range_deletes: u64,
    /// Whether every reader sees the newest message on the path. All deletes can be dropped only if
    /// so.
    pub is_settled: bool,
    /// Percentage of superseded versions among the leaf's records.
    pub stale_percent: u64,
    /// Number of short scans that started in the leaf since its last rewrite.
    pub scans: u64,
    /// Number of lookups of the leaf's keys since its last rewrite.
    pub gets: u64,
    /// Whether a seek had to skip many deleted records in the leaf.
    pub skipped_tombstones: bool,
    /// Whether the disk is full, which makes any job that frees space worthwhile.
    pub is_scarce: bool,
    /// Whether values of the leaf must be copied so that sparsely used extents can be freed.
    pub copies: bool,
    /// Whether values of the leaf are scattered that should not be.
    pub is_scattered: bool,
    /// Whether the rewritten data stays in the cache, so that it need not be read back from the
    /// device.
    pub fits_cache: bool,
    /// The performance profile of the device, which determines the cost of reading the data back.
    pub device: DeviceProfile,
}

/// Returns the benefit of a full compaction of a leaf: the cost saved per byte written, or 0 if the
/// compaction is not worthwhile.
#[must_use]
pub(super) fn full_compaction(wish: &CompactionCandidate) -> u64 {
    let deletes = wish.tombstones + wish.range_deletes;
    // A full compaction produces one run. Compacting a single run again pays off only if it drops
    // deletes that used to be kept for a reader, or if values must be copied.
    if wish.runs <= 1 && (deletes == 0 || !wish.is_settled) && !wish.copies {
        return 0;
    }
    let dead = 100 * wish.tombstones / wish.records.max(1);
    let mut gain = 0;
    if wish.skipped_tombstones {
        gain += 1 << 20;
    }
    if dead >= 25 || wish.range_deletes > 0 {
        gain += 1000 * (dead.max(25));
    } else if wish.is_scarce && wish.tombstones > 0 {
        gain += 1 + 1000 * dead;
    }
    if wish.copies {
        gain += 1000;
    }
    if wish.stale_percent >= STALE_PERCENT {
        gain += 100 * wish.stale_percent;
    }
    if wish.runs > 2 && wish.scans >= 8 {
        gain += wish.scans.min(10_000) * (wish.runs as u64 - 1);
    }
    if wish.is_scattered {
        gain += 500;
    }
    let probes = wish.gets.saturating_mul(wish.depth.saturating_sub(1) as u64);
    if wish.depth > 2 && probes > wish.bytes / bytes_per_probe(&wish.device, wish.fits_cache) {
        gain += (probes / 512).clamp(1, 10_000);
    }
    if gain == 0 {
        0
    } else {
        1 + gain * (1 << 20) / (wish.bytes + (1 << 16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TrunkShape = TrunkShape {
        fanout: 4,
        memtable: 100,
    };

    fn children(text: &str) -> Vec<ChildView> {
        let child = |word: &str| {
            let (bytes, runs) = word.split_once('/').expect("bytes/runs");
            ChildView {
                bytes: bytes.parse().expect("bytes"),
                runs: runs.parse().expect("runs"),
            }
        };
        text.split_whitespace().map(child).collect()
    }

    #[test]
    fn a_node_flushes_when_it_is_full_or_one_child_has_too_many_runs() {
        let choice = |text: &str| flush(&SHAPE, VictimPolicy::Fullest, &children(text), 0, 0);
        assert_eq!(choice("100/2 200/2 100/2"), None);
        assert_eq!(choice("100/2 201/2 100/2"), Some(1));
        assert_eq!(choice("201/2 201/2 1/2"), Some(0), "the first of equals");
        assert_eq!(choice("1/12 1/2"), None);
        assert_eq!(choice("1/12 1/13"), Some(1));
        assert_eq!(
            choice("400/1 1/13"),
            Some(1),
            "runs bound the lookups, so they come first"
        );
        assert_eq!(choice(""), None);
    }

    #[test]
    fn other_victims_are_what_they_are_called() {
        let all = children("200/1 0/0 200/1 100/1");
        let random = |draw| flush(&SHAPE, VictimPolicy::RandomMessage, &all, draw, 0);
        assert_eq!(
            (random(0), random(199), random(200), random(499)),
            (Some(0), Some(0), Some(2), Some(3))
        );
        let round = |turn| flush(&SHAPE, VictimPolicy::RoundRobin, &all, 0, turn);
        assert_eq!(
            (round(0), round(1), round(2), round(3)),
            (Some(0), Some(2), Some(2), Some(3))
        );
    }

    #[test]
    fn a_leaf_splits_unless_a_rewrite_makes_it_small() {
        let decide = |bytes, stale_percent| leaf(&SHAPE, &LeafView { bytes, stale_percent });
        assert_eq!(decide(400, 0), LeafAction::Keep);
        assert_eq!(decide(401, 0), LeafAction::Split(3));
        assert_eq!(decide(401, 50), LeafAction::Rewrite);
        assert_eq!(decide(801, 50), LeafAction::Split(5));
        let rewrites =
            |bytes, stale_percent, crowding| rewrites(&SHAPE, &LeafView { bytes, stale_percent }, crowding);
        assert!(rewrites(401, 50, 200) && !rewrites(801, 50, 0) && !rewrites(401, 20, 0));
        assert!(rewrites(100, 50, 0) && !rewrites(100, 50, 100) && !rewrites(100, 20, 0));
        assert!(is_crowded(&SHAPE, 9) && !is_crowded(&SHAPE, 8));
        assert!(cuts_well(80, 70) && !cuts_well(80, 71));
    }

    #[test]
    fn of_many_runs_the_oldest_and_smallest_are_merged() {
        let oldest = |bytes: &[u64]| {
            let parts: Vec<(usize, u64)> = bytes.iter().map(|&bytes| (1, bytes)).collect();
            oldest_parts(&SHAPE, &parts)
        };
        assert_eq!(oldest(&[1, 2, 3, 4]), 0);
        assert_eq!(oldest(&[1, 2, 4, 8, 50, 100]), 2);
        assert_eq!(oldest(&[1, 2, 4, 8, 50, 100, 100]), 3);
        assert_eq!(oldest(&[100, 1, 1, 1, 1]), 5);
        assert_eq!(oldest_parts(&SHAPE, &[(9, 100)]), 1);
        assert_eq!(
            oldest_parts(&SHAPE, &[(1, 100), (9, 100)]),
            2,
            "one run alone would stay one"
        );
    }

    #[test]
    fn the_most_crowded_path_comes_first_then_what_is_nearest_to_the_root() {
        let first = |jobs: &[(usize, u8)]| {
            let turns = jobs.iter().enumerate();
            turns
                .min_by_key(|(place, job)| (priority(None, job.0, job.1), *place))
                .map(|(place, _)| place)
        };
        assert_eq!(first(&[(0, 0), (0, 2), (0, 1), (0, 2)]), Some(1));
        assert_eq!(first(&[(0, 2), (9, 0), (24, 0), (24, 1)]), Some(3));
    }

    #[test]
    fn while_space_is_scarce_what_frees_some_comes_first_and_nothing_is_in_the_way() {
        let job = |takes_bytes, frees, has_failed| LowSpace {
            takes_bytes,
            frees,
            has_room: true,
            has_failed,
        };
        let first = |jobs: &[LowSpace]| {
            let turns = jobs.iter().enumerate();
            turns
                .filter_map(|(place, job)| Some((priority(Some(job), 3 * place, place as u8)?, place)))
                .min()
                .map(|(_, place)| place)
        };
        let (small, large) = (job(7, true, false), job(9, true, false));
        assert_eq!(first(&[large, small, small]), Some(1), "what takes least");
        let useless = job(1, false, false);
        assert_eq!(first(&[useless, large]), Some(1), "what frees some");
        let has_failed = |job: LowSpace| LowSpace {
            has_failed: true,
            ..job
        };
        assert_eq!(first(&[has_failed(small), large]), Some(1), "what was not tried");
        let failed = [has_failed(large), has_failed(useless), has_failed(small)];
        assert_eq!(first(&failed), Some(0), "one after the other");
        let has_none = |job: LowSpace| LowSpace {
            has_room: false,
            ..job
        };
        assert_eq!(first(&[has_none(useless), has_none(has_failed(useless))]), None);
        assert_eq!(first(&[has_none(useless), has_none(small)]), Some(1));
    }

    #[test]
    fn deletes_leave_what_they_do_not_meet() {
        let weight = |bytes, records, tombstones| RangeWeight {
            bytes,
            records,
            tombstones,
        };
        assert_eq!(left_by_deletes(&weight(1000, 120, 20)), 800);
        assert_eq!(left_by_deletes(&weight(1000, 220, 120)), 0);
        assert_eq!(left_by_deletes(&weight(0, 0, 0)), 0);
    }

    #[test]
    fn index_nodes_are_cut_when_they_have_too_many_children() {
        assert_eq!(pieces(&SHAPE, 4, false), 1);
        assert_eq!(pieces(&SHAPE, 5, false), 2);
        assert_eq!(pieces(&SHAPE, 8, true), 1);
        assert_eq!(pieces(&SHAPE, 9, true), 3);
    }

    #[test]
    fn maplets_are_merged_in_tiers_of_four() {
        let merged = |runs: &[usize]| maplets_to_merge(runs, &vec![true; runs.len()]);
        assert_eq!(merged(&[]), 0..0);
        assert_eq!(merged(&[1, 1]), 2..2);
        assert_eq!(merged(&[1, 1, 1]), 0..3);
        assert_eq!(merged(&[4, 1, 1, 1]), 1..4);
        assert_eq!(merged(&[4, 4, 4, 1, 1, 1]), 0..6);
        assert_eq!(maplets_to_merge(&[1, 1, 1], &[true, false, true]), 3..3);
        assert_eq!(merged(&[16, 16, 16, 4, 4, 4, 1, 1, 1]), 0..9);
        assert_eq!(merged(&[64, 16, 16, 16, 4, 4, 4, 1, 1, 1]), 1..10);
    }

    #[test]
    fn only_what_overlaps_nothing_and_is_no_crumb_is_adopted() {
        assert!(adopts(&SHAPE, false, 100, 1, 0));
        assert!(!adopts(&SHAPE, true, 100, 1, 0));
        assert!(!adopts(&SHAPE, false, 100, 20, 0), "crumbs");
        assert!(adopts(&SHAPE, false, 100, 1, 31));
        assert!(!adopts(&SHAPE, false, 100, 1, 32), "too many runs");
    }

    #[test]
    fn neighbours_with_little_in_them_become_one() {
        let (small, large) = (
            ChildView { bytes: 20, runs: 1 },
            ChildView { bytes: 190, runs: 1 },
        );
        assert!(merges(&SHAPE, 0, &small, &small, 0));
        assert!(!merges(&SHAPE, 0, &small, &large, 0));
        assert!(merges(&SHAPE, 1, &small, &small, 3));
        assert!(!merges(&SHAPE, 1, &small, &small, 4));
    }

    /// A leaf that is neither looked up nor scanned.
    const QUIET: CompactionCandidate = CompactionCandidate {
        bytes: 1 << 20,
        runs: 5,
        depth: 5,
        records: 1000,
        tombstones: 0,
        range_deletes: 0,
        is_settled: true,
        stale_percent: 0,
        scans: 0,
        gets: 0,
        skipped_tombstones: false,
        is_scarce: false,
        copies: false,
        is_scattered: false,
        fits_cache: false,
        device: DeviceProfile::SSD,
    };

    #[test]
    fn where_space_is_scarce_whatever_frees_some_is_compacted() {
        let worth = |tombstones, is_scarce| {
            full_compaction(&CompactionCandidate {
                tombstones,
                is_scarce,
                ..QUIET
            })
        };
        assert_eq!((worth(5, false), worth(0, true)), (0, 0));
        assert!(0 < worth(5, true) && worth(5, true) < worth(200, true));
        assert_eq!(worth(600, true), worth(600, false));
        let one = CompactionCandidate {
            runs: 1,
            is_scarce: true,
            ..QUIET
        };
        assert_eq!(full_compaction(&one), 0, "one run is what comes of it");
        assert!(full_compaction(&CompactionCandidate { copies: true, ..one }) > 0);
    }

    #[test]
    fn full_compaction_goes_where_it_saves_most() {
        let quiet = QUIET;
        assert_eq!(full_compaction(&quiet), 0);
        let looked_up = |gets, depth| full_compaction(&CompactionCandidate { gets, depth, ..quiet });
        assert_eq!(looked_up(quiet.bytes / 2 / 4, 5), 0);
        assert!(looked_up(quiet.bytes / 2 / 4 + 1, 5) > 0);
        assert_eq!(looked_up(u64::MAX, 2), 0, "two runs are few enough");
        assert_eq!(looked_up(u64::MAX, 1), 0, "however many lie side by side");
        let in_memory = |gets| {
            full_compaction(&CompactionCandidate {
                gets,
                fits_cache: true,
                ..quiet
            })
        };
        assert!(in_memory(quiet.bytes / 16 / 4 + 1) > 0, "it is sooner worth it");
        assert_eq!(in_memory(quiet.bytes / 16 / 4), 0);
        let fast = DeviceProfile {
            setup_ns: 8_000,
            ..DeviceProfile::SSD
        };
        let on_fast = full_compaction(&CompactionCandidate {
            gets: 50_000,
            device: fast,
            ..quiet
        });
        assert_eq!((looked_up(50_000, 5), on_fast > 0), (0, true));
        let scanned = full_compaction(&CompactionCandidate { scans: 100, ..quiet });
        let deleted = full_compaction(&CompactionCandidate {
            tombstones: 600,
            ..quiet
        });
        let waded = full_compaction(&CompactionCandidate {
            skipped_tombstones: true,
            ..quiet
        });
        assert!(0 < scanned && scanned < deleted && deleted < waded);
        let compacted = CompactionCandidate {
            runs: 1,
            tombstones: 600,
            range_deletes: 1,
            ..quiet
        };
        assert!(full_compaction(&compacted) > 0, "deletes that can go");
        let read_below = CompactionCandidate {
            is_settled: false,
            ..compacted
        };
        assert_eq!(
            full_compaction(&read_below),
            0,
            "deletes that somebody still reads below"
        );
        assert_eq!(
            full_compaction(&CompactionCandidate {
                scans: 100,
                runs: 2,
                ..quiet
            }),
            0,
            "two runs are few enough"
        );
        assert!(
            full_compaction(&CompactionCandidate {
                scans: 100,
                bytes: 1 << 10,
                ..quiet
            }) > scanned
        );
    }
}
