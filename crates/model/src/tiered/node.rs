//! The nodes of a simulated trunk, which hold the groups of runs.

use super::amounts::{DistinctKeyTable, RunGroup};
use super::bytes::RunFormats;

/// A node of the simulated trunk, with its subtree.
#[derive(Clone, Debug)]
pub(super) struct SimulatedNode {
    /// Height of the node above the leaves. A leaf has height 0.
    pub(super) height: u32,
    /// Fraction of the key range that the node covers.
    pub(super) width: f64,
    pub(super) pivots: Vec<SimulatedPivot>,
    /// Whether the node has changed since its last compactions.
    pub(super) is_changed: bool,
}

/// A child's range in its parent, and the groups of runs that the parent stores for it.
#[derive(Clone, Debug)]
pub(super) struct SimulatedPivot {
    pub(super) width: f64,
    /// The child. A leaf's single pivot has none.
    pub(super) child: Option<Box<SimulatedNode>>,
    /// Compacted groups, oldest first.
    pub(super) own: Vec<RunGroup>,
    /// Groups that are not compacted yet, oldest first.
    pub(super) live: Vec<RunGroup>,
}

impl SimulatedPivot {
    pub(super) fn empty(width: f64, child: Option<Box<SimulatedNode>>) -> SimulatedPivot {
        SimulatedPivot {
            width,
            child,
            own: Vec::new(),
            live: Vec::new(),
        }
    }

    pub(super) fn stack(&self) -> impl Iterator<Item = &RunGroup> {
        self.own.iter().chain(&self.live)
    }

    pub(super) fn runs(&self) -> usize {
        self.stack().map(|group| group.runs.len()).sum()
    }
}

impl SimulatedNode {
    pub(super) fn leaf(width: f64) -> SimulatedNode {
        SimulatedNode {
            height: 0,
            width,
            pivots: vec![SimulatedPivot::empty(width, None)],
            is_changed: true,
        }
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.height == 0
    }

    /// Adds a bundle to the node as its newest one.
    pub(super) fn receive(&mut self, groups: &[RunGroup]) {
        self.is_changed = true;
        for pivot in &mut self.pivots {
            pivot.live.extend_from_slice(groups);
        }
    }

    /// Returns the maximum number of runs on any path from this node to a leaf.
    pub(super) fn longest(&self) -> usize {
        let ways = self.pivots.iter().map(|pivot| {
            let below = pivot.child.as_ref().map_or(0, |child| child.longest());
            pivot.runs() + below
        });
        ways.max().unwrap_or(0)
    }

    /// Calls `see` for this node and all its descendants, parents before children.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&SimulatedNode)) {
        see(self);
        for pivot in &self.pivots {
            if let Some(child) = &pivot.child {
                child.visit(see);
            }
        }
    }
}

/// The formats of runs and the numbers of distinct keys, which determine sizes in bytes.
#[derive(Clone, Debug)]
pub(super) struct SizeModel {
    pub(super) formats: RunFormats,
    pub(super) uniques: DistinctKeyTable,
}

impl SizeModel {
    /// Returns the bytes of a group's leaves and values in a range of the given width. Leaves
    /// partly in the range count completely.
    pub(super) fn weigh(&self, group: &RunGroup, width: f64) -> f64 {
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

    /// Returns the size in bytes of all groups in a pivot's stack.
    pub(super) fn weight(&self, pivot: &SimulatedPivot) -> f64 {
        pivot.stack().map(|group| self.weigh(group, pivot.width)).sum()
    }

    /// Returns the fraction of a leaf's compacted records that are obsolete versions.
    pub(super) fn stale(&self, pivot: &SimulatedPivot) -> f64 {
        let runs = || pivot.own.iter().flat_map(|group| &group.runs);
        if runs().count() < 2 {
            return 0.0;
        }
        let all: f64 = runs().map(|run| run.records(&self.uniques, 1.0)).sum();
        let merged = super::amounts::merge(
            runs(),
            super::amounts::OlderRecords::Elsewhere,
            &self.uniques,
            1.0,
        );
        (1.0 - merged.records(&self.uniques, 1.0) / all.max(f64::MIN_POSITIVE)).max(0.0)
    }
}
