//! Which stretch of a pivot's stack a compaction takes, and what that does to space.

use super::node::{Layer, Node, Part};
use super::shape::leaf_view;
use super::uses::Uses;
use crate::run::Weight;
use crate::tiered::lost;
use crate::tiered::policy::{self, Shape};
use alluvium_dictionary::merge::Older;
use alluvium_storage::extents::UNIT;
use std::ops::{Add, Range};

/// Which stretch of a stack a job takes, and what it may do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Own parts, by place.
    pub(crate) own: Range<usize>,
    /// Live bundles, the oldest ones; none unless the own parts reach the last.
    pub(crate) bundles: usize,
    pub(crate) older: Older,
    pub(crate) reason: Reason,
}

/// What asks for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The writes of users: what a node has received.
    Writes,
    /// A leaf has too many runs: its oldest become one.
    Crowd,
    /// All of a leaf is compacted: it was asked for, or much of it is stale.
    Full,
}

impl Stretch {
    /// What a job for this pivot takes in a tree of this shape and crowding; all of the stack of a
    /// leaf that is to be compacted fully. Parts that are lost for now cannot be read.
    pub(crate) fn of(
        node: &Node,
        index: usize,
        shape: &Shape,
        crowding: u64,
        is_full: bool,
        is_lost: &dyn Fn(&Part) -> bool,
    ) -> Stretch {
        let pivot = &node.pivots[index];
        let (own, live) = (pivot.own.len(), pivot.live.len());
        let everything = Stretch {
            own: 0..own,
            bundles: live,
            older: Older::None,
            reason: Reason::Full,
        };
        let lost = pivot.own.iter().rposition(|owned| is_lost(&owned.part));
        if let Some(last) = lost.filter(|_| node.is_leaf()) {
            if live == 0 {
                return Stretch::beside_lost(node, index, shape, last).unwrap_or(everything);
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
                return Stretch {
                    own: 0..oldest,
                    reason: Reason::Crowd,
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
        Stretch {
            own: own..own,
            bundles: live,
            older: if nothing_older {
                Older::None
            } else {
                Older::Elsewhere
            },
            reason: Reason::Writes,
        }
    }

    /// What a job takes of a leaf of which no part can be read up to this one: the newest parts
    /// become fewer, so that writes go on.
    fn beside_lost(node: &Node, index: usize, shape: &Shape, last: usize) -> Option<Stretch> {
        let own = &node.pivots[index].own;
        let parts: Vec<(usize, u64)> = own[last + 1..]
            .iter()
            .map(|owned| (owned.part.runs_in(&node.range), owned.weight.bytes))
            .collect();
        let newest = lost::newest_parts(shape, &parts)?;
        debug_assert!(newest >= 2, "one part alone would stay one");
        Some(Stretch {
            own: own.len() - newest..own.len(),
            bundles: 0,
            older: Older::Elsewhere,
            reason: Reason::Crowd,
        })
    }

    /// What a job reads that takes it, about.
    pub(crate) fn weight(&self, node: &Node, index: usize) -> Weight {
        let pivot = &node.pivots[index];
        debug_assert!(
            self.own.end <= pivot.own.len() && self.bundles <= pivot.live.len(),
            "a stretch of its pivot"
        );
        let own = pivot.own[self.own.clone()].iter().map(|owned| owned.weight);
        let live = pivot.live[..self.bundles].iter().flatten().copied();
        own.chain(live).fold(Weight::default(), Weight::add)
    }

    /// The parts that a job reads that takes it, oldest first; some may have nothing of the pivot's
    /// range.
    pub(crate) fn inputs<'n>(&self, node: &'n Node, index: usize) -> impl Iterator<Item = &'n Part> {
        debug_assert!(
            self.bundles == 0 || self.own.end == node.pivots[index].own.len(),
            "bundles follow the last own part (T1)"
        );
        let own = &node.pivots[index].own[self.own.clone()];
        let bundles = &node.live_bundles(index)[..self.bundles];
        let own = own.iter().map(|owned| &owned.part);
        own.chain(bundles.iter().flat_map(|bundle| &bundle.parts))
    }

    /// The groups of those parts of which at least half is in the pivot's range. A compaction may
    /// take leaves of their runs over: their maplets stand for the keys, as a whole.
    pub(crate) fn whole(&self, node: &Node, index: usize) -> Vec<u64> {
        let own = node.own(index).take(self.own.end).skip(self.own.start);
        let bundles = node.live_bundles(index).iter().zip(&node.pivots[index].live);
        let live = bundles
            .take(self.bundles)
            .flat_map(|(bundle, weights)| bundle.parts.iter().zip(weights))
            .map(|(part, &weight)| Layer { part, weight });
        let whole = own.chain(live).filter(|layer| layer.part.is_half(&layer.weight));
        whole.map(|layer| layer.part.group.id).collect()
    }

    /// What a job for this pivot that takes it would do to what is free.
    pub(crate) fn balance(&self, node: &Node, index: usize, uses: &Uses) -> Balance {
        let range = node.pivot_range(index);
        let inputs = self.inputs(node, index).map(|part| (part, part.within(&range)));
        let weight = self.weight(node, index);
        let left = match self.older {
            Older::None => policy::left_by_deletes(&weight),
            Older::Elsewhere => weight.bytes,
        };
        // A run and its maplet.
        let units = if left == 0 { 0 } else { left.div_ceil(UNIT) + 1 };
        Balance {
            takes_bytes: units * UNIT,
            frees_bytes: uses.alone(inputs),
        }
    }
}

/// What a compaction does to what is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Balance {
    /// Bytes that it takes, about.
    pub(crate) takes_bytes: u64,
    /// Bytes that come free when it is done and a checkpoint has followed.
    pub(super) frees_bytes: u64,
}

impl Balance {
    /// Returns whether it frees at least as much space as it takes, about.
    pub(crate) fn frees(self) -> bool {
        self.frees_bytes >= self.takes_bytes
    }
}
