//! Selects a compaction's inputs from a pivot's stack, and estimates how the compaction affects
//! free space.

use super::node::{StackEntry, TrunkNode, TrunkPart};
use super::shape::leaf_view;
use super::uses::UseCounts;
use crate::run::RangeWeight;
use crate::tiered::policy::{self, TrunkShape};
use crate::tiered::unreadable_parts;
use alluvium_dictionary::merge::OlderData;
use alluvium_storage::extents::UNIT;
use std::ops::{Add, Range};

/// The parts of a pivot's stack that a compaction job merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobInputs {
    /// Index range of the pivot's own parts that the job merges.
    pub(crate) own: Range<usize>,
    /// Number of live bundles that the job merges, oldest first. Zero unless `own` includes the
    /// last own part.
    pub(crate) bundles: usize,
    pub(crate) older: OlderData,
    pub(crate) reason: CompactionReason,
}

/// Why a compaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactionReason {
    /// User writes: the job compacts the bundles that the pivot has received.
    Writes,
    /// Too many runs in a leaf: the job merges the leaf's oldest runs.
    Crowd,
    /// A full compaction of a leaf, either because it was requested or because many of the leaf's
    /// records are superseded.
    Full,
}

impl JobInputs {
    /// Selects the inputs of a job for the pivot at `index`. `shape` and `crowding` describe the
    /// tree. If `is_full` is set, the whole stack of a leaf is selected. `is_lost` returns whether
    /// a part is currently unreadable.
    pub(crate) fn of(
        node: &TrunkNode,
        index: usize,
        shape: &TrunkShape,
        crowding: u64,
        is_full: bool,
        is_lost: &dyn Fn(&TrunkPart) -> bool,
    ) -> JobInputs {
        let pivot = &node.pivots[index];
        let (own, live) = (pivot.own.len(), pivot.live.len());
        let everything = JobInputs {
            own: 0..own,
            bundles: live,
            older: OlderData::None,
            reason: CompactionReason::Full,
        };
        let lost = pivot.own.iter().rposition(|owned| is_lost(&owned.part));
        if let Some(last) = lost.filter(|_| node.is_leaf()) {
            if live == 0 {
                return JobInputs::beside_lost(node, index, shape, last).unwrap_or(everything);
            }
        } else if node.is_leaf() {
            if is_full {
                return everything;
            }
            if policy::rewrites(shape, &leaf_view(node), crowding) {
                return everything;
            }
            if live == 0 {
                let parts: Vec<(usize, u64)> = pivot
                    .own
                    .iter()
                    .map(|owned| (owned.part.runs_in(&node.range), owned.weight.bytes))
                    .collect();
                let oldest = policy::oldest_parts(shape, &parts).max(1).min(own);
                return JobInputs {
                    own: 0..oldest,
                    reason: CompactionReason::Crowd,
                    ..everything
                };
            }
        }
        debug_assert_eq!(
            pivot.child.is_none(),
            node.is_leaf(),
            "only pivots of leaves have no child"
        );
        let nothing_older = node.is_leaf() && own == 0;
        JobInputs {
            own: own..own,
            bundles: live,
            older: if nothing_older {
                OlderData::None
            } else {
                OlderData::Elsewhere
            },
            reason: CompactionReason::Writes,
        }
    }

    /// Selects the inputs of a job in a leaf with unreadable parts, the newest of which is at index
    /// `last`. Only newer parts are merged, so that writes can continue. Returns `None` if there
    /// are fewer than two parts to merge.
    fn beside_lost(node: &TrunkNode, index: usize, shape: &TrunkShape, last: usize) -> Option<JobInputs> {
        let own = &node.pivots[index].own;
        let parts: Vec<(usize, u64)> = own[last + 1..]
            .iter()
            .map(|owned| (owned.part.runs_in(&node.range), owned.weight.bytes))
            .collect();
        let newest = unreadable_parts::newest_parts(shape, &parts)?;
        debug_assert!(newest >= 2, "one part alone would stay one");
        Some(JobInputs {
            own: own.len() - newest..own.len(),
            bundles: 0,
            older: OlderData::Elsewhere,
            reason: CompactionReason::Crowd,
        })
    }

    /// Returns the approximate weight of the job's inputs.
    pub(crate) fn weight(&self, node: &TrunkNode, index: usize) -> RangeWeight {
        let pivot = &node.pivots[index];
        debug_assert!(
            self.own.end <= pivot.own.len() && self.bundles <= pivot.live.len(),
            "a stretch of its pivot"
        );
        let own = pivot.own[self.own.clone()].iter().map(|owned| owned.weight);
        let live = pivot.live[..self.bundles].iter().flatten().copied();
        own.chain(live).fold(RangeWeight::default(), RangeWeight::add)
    }

    /// Returns the parts that the job reads, oldest first. Some of them may have no records in the
    /// pivot's range.
    pub(crate) fn inputs<'n>(
        &self,
        node: &'n TrunkNode,
        index: usize,
    ) -> impl Iterator<Item = &'n TrunkPart> {
        debug_assert!(
            self.bundles == 0 || self.own.end == node.pivots[index].own.len(),
            "bundles follow the last own part (T1)"
        );
        let own = &node.pivots[index].own[self.own.clone()];
        let bundles = &node.live_bundles(index)[..self.bundles];
        let own = own.iter().map(|owned| &owned.part);
        own.chain(bundles.iter().flat_map(|bundle| &bundle.parts))
    }

    /// Returns the numbers of the input groups that have at least half of their records in the
    /// pivot's range. A compaction may adopt leaves from the runs of such a group. It then merges
    /// the group's whole maplet, which covers the keys of the adopted leaves.
    pub(crate) fn whole(&self, node: &TrunkNode, index: usize) -> Vec<u64> {
        let own = node.own(index).take(self.own.end).skip(self.own.start);
        let bundles = node.live_bundles(index).iter().zip(&node.pivots[index].live);
        let live = bundles
            .take(self.bundles)
            .flat_map(|(bundle, weights)| bundle.parts.iter().zip(weights))
            .map(|(part, &weight)| StackEntry { part, weight });
        let whole = own.chain(live).filter(|layer| layer.part.is_half(&layer.weight));
        whole.map(|layer| layer.part.group.id).collect()
    }

    /// Returns the job's effect on free space.
    pub(crate) fn balance(&self, node: &TrunkNode, index: usize, uses: &UseCounts) -> SpaceBalance {
        let range = node.pivot_range(index);
        let inputs = self.inputs(node, index).map(|part| (part, part.within(&range)));
        let weight = self.weight(node, index);
        let left = match self.older {
            OlderData::None => policy::left_by_deletes(&weight),
            OlderData::Elsewhere => weight.bytes,
        };
        // Add one unit for the maplet.
        let units = if left == 0 { 0 } else { left.div_ceil(UNIT) + 1 };
        SpaceBalance {
            takes_bytes: units * UNIT,
            frees_bytes: uses.freed_bytes(inputs),
        }
    }
}

/// How a compaction affects free space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceBalance {
    /// Approximate number of free bytes that the compaction needs.
    pub(crate) takes_bytes: u64,
    /// Number of bytes that become free once both the compaction and the next checkpoint are
    /// complete.
    pub(super) frees_bytes: u64,
}

impl SpaceBalance {
    /// Returns whether the compaction frees at least as much space as it is estimated to need.
    pub(crate) fn frees(self) -> bool {
        self.frees_bytes >= self.takes_bytes
    }
}
