//! Simulates compactions. They merge a node's uncompacted groups into one run per pivot, and
//! completely merge leaves with many obsolete versions or many runs.

use super::amounts::{OlderRecords, RunGroup, SimulatedRun, merge};
use super::node::{SimulatedNode, SimulatedPivot, SizeModel};
use super::parameters::TreeShape;
use super::policy;

/// Amounts of data that compactions have written and read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CompactionVolume {
    pub(super) run_bytes: f64,
    pub(super) maplet_bytes: f64,
    /// Bytes of runs that were read, without maplets.
    pub(super) read_bytes: f64,
    /// Number of records in the runs that were read.
    pub(super) records: f64,
}

/// Simulates compactions, and adds up how much they read and write.
pub(super) struct CompactionSimulator<'s> {
    pub(super) shape: &'s TreeShape,
    pub(super) scale: &'s SizeModel,
    pub(super) done: CompactionVolume,
    /// Identifies the newest run.
    pub(super) newest: u64,
}

impl CompactionSimulator<'_> {
    /// Runs all due compactions in the tree with this root.
    pub(super) fn work(&mut self, root: &mut SimulatedNode) {
        self.inner(root, true);
        let most = f64::from(root.height + 1) * 3.0 * f64::from(self.shape.fanout);
        let longest = root.longest() as f64;
        self.leaves(root, true, longest / most);
    }

    /// Compacts the uncompacted groups of index nodes, starting at the root.
    fn inner(&mut self, node: &mut SimulatedNode, is_root: bool) {
        if node.is_leaf() || !node.is_changed {
            return;
        }
        for pivot in &mut node.pivots {
            if !is_root && !pivot.live.is_empty() {
                let own = pivot.own.len();
                self.compact(pivot, own, OlderRecords::Elsewhere);
            }
            if let Some(child) = &mut pivot.child {
                self.inner(child, false);
            }
        }
    }

    fn leaves(&mut self, node: &mut SimulatedNode, is_root: bool, crowding: f64) {
        if !std::mem::take(&mut node.is_changed) {
            return;
        }
        if node.is_leaf() {
            return self.leaf(&mut node.pivots[0], is_root, crowding);
        }
        for pivot in &mut node.pivots {
            if let Some(child) = &mut pivot.child {
                self.leaves(child, false, crowding);
            }
        }
    }

    fn leaf(&mut self, pivot: &mut SimulatedPivot, is_root: bool, crowding: f64) {
        loop {
            let pending = !pivot.live.is_empty() && !is_root;
            if !pending && !policy::is_crowded(self.shape, pivot.runs()) {
                return;
            }
            let (bytes, stale) = (self.scale.weight(pivot), self.scale.stale(pivot));
            if policy::rewrites(self.shape, bytes, stale, crowding) {
                self.rewrite(pivot, pivot.own.len());
            } else if pivot.live.is_empty() {
                let groups: Vec<(usize, f64)> = pivot
                    .own
                    .iter()
                    .map(|group| (group.runs.len(), self.scale.weigh(group, pivot.width)))
                    .collect();
                let oldest = policy::oldest(self.shape, &groups).clamp(1, pivot.own.len());
                self.rewrite(pivot, oldest);
            } else {
                let older = if pivot.own.is_empty() {
                    OlderRecords::None
                } else {
                    OlderRecords::Elsewhere
                };
                let own = pivot.own.len();
                self.compact(pivot, own, older);
            }
        }
    }

    /// Merges a leaf's oldest groups into one run. If these are all its compacted groups, merges
    /// the uncompacted ones with them.
    fn rewrite(&mut self, pivot: &mut SimulatedPivot, oldest: usize) {
        let newer = pivot.own.split_off(oldest);
        if newer.is_empty() {
            return self.compact(pivot, 0, OlderRecords::None);
        }
        let live = std::mem::take(&mut pivot.live);
        self.compact(pivot, 0, OlderRecords::None);
        pivot.own.extend(newer);
        pivot.live = live;
    }

    /// Merges the groups from index `from` on, and all uncompacted groups, into one run, which
    /// follows the earlier groups. Its fingerprints are merged with the newest maplets of the
    /// earlier groups.
    fn compact(&mut self, pivot: &mut SimulatedPivot, from: usize, older: OlderRecords) {
        let (scale, width) = (self.scale, pivot.width);
        let taken: Vec<RunGroup> = pivot.own.drain(from..).chain(pivot.live.drain(..)).collect();
        let runs = || taken.iter().flat_map(|group| &group.runs);
        self.done.read_bytes += taken.iter().map(|group| scale.weigh(group, width)).sum::<f64>();
        self.done.records += runs().map(|run| run.records(&scale.uniques, width)).sum::<f64>();
        let mut run: SimulatedRun = merge(runs(), older, &scale.uniques, width);
        self.newest += 1;
        run.id = self.newest;
        let amount = run.amount(&scale.uniques, width);
        if amount.records() <= 0.0 {
            return;
        }
        self.done.run_bytes += scale.formats.run(&amount);
        let counts: Vec<usize> = pivot.own.iter().map(|group| group.runs.len()).collect();
        let is_ours = |group: &RunGroup| group.runs.iter().all(|run| width >= 0.75 * run.width);
        let shares: Vec<bool> = pivot.own.iter().map(is_ours).collect();
        let base = policy::maplets(&counts, &shares);
        let mut group = RunGroup {
            runs: Vec::new(),
            width,
        };
        for before in pivot.own.drain(pivot.own.len() - base..) {
            group.runs.extend(before.runs);
        }
        group.runs.push(run);
        let entries = group.entries(&scale.uniques);
        self.done.maplet_bytes += scale.formats.maplet(entries, group.runs.len() as f64);
        pivot.own.push(group);
    }
}
