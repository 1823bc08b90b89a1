//! Simulated trunk nodes: the positions of groups of runs.

use super::amounts::{Group, Uniques};
use super::bytes::Formats;

/// A trunk node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Height; leaves have height 0.
    pub(super) height: u32,
    /// Share of the key range.
    pub(super) width: f64,
    pub(super) pivots: Vec<Pivot>,
    /// Whether the node has changed since its last compactions.
    pub(super) is_changed: bool,
}

/// A child's range in its parent, and the groups that the parent holds for it.
#[derive(Clone, Debug)]
pub(super) struct Pivot {
    pub(super) width: f64,
    /// The child; the only pivot of a leaf has none.
    pub(super) child: Option<Box<Node>>,
    /// Compacted groups, oldest first.
    pub(super) own: Vec<Group>,
    /// Groups that wait for compaction, oldest first.
    pub(super) live: Vec<Group>,
}

impl Pivot {
    pub(super) fn empty(width: f64, child: Option<Box<Node>>) -> Pivot {
        Pivot {
            width,
            child,
            own: Vec::new(),
            live: Vec::new(),
        }
    }

    pub(super) fn stack(&self) -> impl Iterator<Item = &Group> {
        self.own.iter().chain(&self.live)
    }

    pub(super) fn runs(&self) -> usize {
        self.stack().map(|group| group.runs.len()).sum()
    }
}

impl Node {
    pub(super) fn leaf(width: f64) -> Node {
        Node {
            height: 0,
            width,
            pivots: vec![Pivot::empty(width, None)],
            is_changed: true,
        }
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.height == 0
    }

    /// Adds a bundle to the node as the newest.
    pub(super) fn receive(&mut self, groups: &[Group]) {
        self.is_changed = true;
        for pivot in &mut self.pivots {
            pivot.live.extend_from_slice(groups);
        }
    }

    /// Returns the maximum number of runs on a path from this node to a leaf.
    pub(super) fn longest(&self) -> usize {
        let ways = self.pivots.iter().map(|pivot| {
            let below = pivot.child.as_ref().map_or(0, |child| child.longest());
            pivot.runs() + below
        });
        ways.max().unwrap_or(0)
    }

    /// Calls `see` for each node in preorder.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&Node)) {
        see(self);
        for pivot in &self.pivots {
            if let Some(child) = &pivot.child {
                child.visit(see);
            }
        }
    }
}

/// Functions that determine sizes.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) formats: Formats,
    pub(super) uniques: Uniques,
}

impl Scale {
    /// Returns the size of a group's leaves and values in a range of some width, in bytes. The
    /// leaves at the ends of the range are counted completely.
    pub(super) fn weigh(&self, group: &Group, width: f64) -> f64 {
        let runs = group.runs.iter().map(|run| {
            let amount = run.amount(&self.uniques, width);
            if amount.records() <= 0.0 {
                return 0.0;
            }
            let cut = if run.width > width * 1.001 { 1.0 } else { 0.5 };
            let whole = self.formats.leaves(&run.amount(&self.uniques, run.width)).ceil();
            let leaves = (self.formats.leaves(&amount) + cut).min(whole);
            leaves * self.formats.leaf() + self.formats.separate(&amount)
        });
        runs.sum()
    }

    /// Returns the size of a pivot's stack in bytes.
    pub(super) fn weight(&self, pivot: &Pivot) -> f64 {
        pivot.stack().map(|group| self.weigh(group, pivot.width)).sum()
    }

    /// Returns the share of obsolete versions among a leaf's own records.
    pub(super) fn stale(&self, pivot: &Pivot) -> f64 {
        let runs = || pivot.own.iter().flat_map(|group| &group.runs);
        if runs().count() < 2 {
            return 0.0;
        }
        let all: f64 = runs().map(|run| run.records(&self.uniques, 1.0)).sum();
        let merged = super::amounts::merge(runs(), super::amounts::Older::Elsewhere, &self.uniques, 1.0);
        (1.0 - merged.records(&self.uniques, 1.0) / all.max(f64::MIN_POSITIVE)).max(0.0)
    }
}
