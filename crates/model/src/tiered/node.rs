//! Nodes of the trunk, over amounts: which groups of runs lie where.

use super::amounts::{Group, Uniques};
use super::bytes::Formats;

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Leaves are at 0.
    pub(super) height: u32,
    /// Its share of the range of keys.
    pub(super) width: f64,
    pub(super) pivots: Vec<Pivot>,
    /// Whether it was changed since work was done in it.
    pub(super) is_changed: bool,
}

/// A child's range in its parent, and what the parent holds for it.
#[derive(Clone, Debug)]
pub(super) struct Pivot {
    pub(super) width: f64,
    /// A leaf's only pivot has none.
    pub(super) child: Option<Box<Node>>,
    /// What was compacted for this pivot, oldest to newest.
    pub(super) own: Vec<Group>,
    /// What came and waits for its compaction, oldest to newest.
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

    /// Puts a bundle into the node, as the newest.
    pub(super) fn receive(&mut self, groups: &[Group]) {
        self.is_changed = true;
        for pivot in &mut self.pivots {
            pivot.live.extend_from_slice(groups);
        }
    }

    /// Returns the most runs on a way from here to a leaf.
    pub(super) fn longest(&self) -> usize {
        let ways = self.pivots.iter().map(|pivot| {
            let below = pivot.child.as_ref().map_or(0, |child| child.longest());
            pivot.runs() + below
        });
        ways.max().unwrap_or(0)
    }

    /// Shows each node, this one first.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&Node)) {
        see(self);
        for pivot in &self.pivots {
            if let Some(child) = &pivot.child {
                child.visit(see);
            }
        }
    }
}

/// What is known of sizes.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) formats: Formats,
    pub(super) uniques: Uniques,
}

impl Scale {
    /// Returns the bytes of a group's leaves and values in a range of some width. The leaves in
    /// which the range begins and ends count whole.
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

    /// Returns what a pivot's stack weighs.
    pub(super) fn weight(&self, pivot: &Pivot) -> f64 {
        pivot.stack().map(|group| self.weigh(group, pivot.width)).sum()
    }

    /// Returns the share of a leaf's own records that are older versions of others.
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
