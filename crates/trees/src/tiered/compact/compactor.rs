//! The compactor, which picks a tree's next background step by priority.

use super::job::{CompactionJob, JobSpec};
use crate::tiered::policy;
use crate::tiered::trunk::{
    JobClaim, JobId, JobInputs, OwnedPart, TreeVersion, Trunk, TrunkNode, TrunkPart, WriterState,
    find_claimed_pivot, is_claim_valid, longest_path, neighbours, node_at, replace,
};
use alluvium_dictionary::contract::StepProgress;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use alluvium_storage::extents::{AllocationClass, Extent};
use std::sync::Arc;

/// One step of background work on a tree. The caller polls it until it is done.
#[derive(Debug)]
pub enum TreeStep {
    Compact(Box<CompactionJob>),
    /// A change to the trunk's shape. It has already been applied, so there is nothing to poll.
    Reshaped,
}

impl TreeStep {
    /// Runs one slice of the step, which processes about `records` records.
    ///
    /// # Errors
    /// See [`CompactionJob::poll`].
    pub fn poll(&mut self, records: usize) -> Result<StepProgress> {
        match self {
            TreeStep::Compact(job) => job.poll(records),
            TreeStep::Reshaped => Ok(StepProgress::Done),
        }
    }
}

/// Picks the trunk's due work: compactions, and merges of small neighbouring nodes.
#[derive(Clone, Debug)]
pub(crate) struct Compactor {
    pub(super) trunk: Arc<Trunk>,
}

impl Compactor {
    /// Creates the compactor for a trunk.
    pub(crate) fn new(trunk: &Arc<Trunk>) -> Compactor {
        Compactor {
            trunk: Arc::clone(trunk),
        }
    }

    /// Returns the next due step, or `None` if nothing is due. Compactions come before merges of
    /// small neighbouring nodes.
    ///
    /// # Errors
    /// I/O errors, or [`Error::Full`](alluvium_storage::Error::Full).
    pub(crate) fn next_step(&self) -> Result<Option<TreeStep>> {
        if let Some(job) = self.next_job()? {
            return Ok(Some(TreeStep::Compact(Box::new(job))));
        }
        if self.merge_neighbours()? {
            return Ok(Some(TreeStep::Reshaped));
        }
        Ok(None)
    }

    /// Returns the due compaction with the highest priority according to `policy::priority`, or
    /// `None` if none is due.
    ///
    /// # Errors
    /// I/O errors, or [`Error::Full`](alluvium_storage::Error::Full). After an error the compaction
    /// is due again.
    pub(crate) fn next_job(&self) -> Result<Option<CompactionJob>> {
        let room = self.low_space_headroom();
        let mut writer = self.trunk.lock();
        let version = self.trunk.version();
        let Some(id) = self.due_job(&writer, &version, room) else {
            return Ok(None);
        };
        let claim = writer.inflight.claim(id).expect("it was just found").clone();
        let (node, index) =
            find_claimed_pivot(&version.root, &claim).expect("a job whose pivot is gone was abandoned");
        debug_assert!(
            is_claim_valid(&version.root, &claim),
            "a job is due while its pivot is as claimed"
        );
        let stretch = writer.stretch(node, index);
        let copied = room.map(|_| writer.uses.sparsest(self.trunk.copied_bytes()));
        let copies = copied.as_ref().is_some_and(|copied| {
            let copied = |part: &TrunkPart| part.lists(copied);
            stretch.inputs(node, index).any(copied)
        });
        let frees = copies || room.is_some() && stretch.balance(node, index, &writer.uses).frees();
        let pins: Arc<[(TrunkPart, KeyRange)]> = stretch
            .inputs(node, index)
            .filter(|part| part.touches(&claim.range))
            .map(|part| (part.clone(), part.within(&claim.range)))
            .collect();
        writer.pin(id, Arc::clone(&pins));
        writer.inflight.take(id);
        let mut sparse: Vec<Extent> = match copied {
            Some(copied) if self.trunk.store.tiers().count() == 1 => copied,
            _ => {
                let runs = pins.iter().flat_map(|(part, _)| part.group.runs());
                runs.flat_map(|(_, run)| writer.uses.sparse(run)).collect()
            }
        };
        sparse.sort_unstable();
        sparse.dedup();
        drop(writer);
        let task = JobSpec {
            base: self.select_base_parts(node, index, &stretch),
            whole: stretch.whole(node, index),
            records: stretch.weight(node, index).records,
            bytes: stretch.weight(node, index).bytes,
            claim,
            stretch,
            pins,
            sparse,
            frees,
        };
        Ok(Some(CompactionJob::new(&self.trunk, id, task)))
    }

    /// Returns whether a compaction is running, or is due and may have enough free space to run.
    #[must_use]
    pub(crate) fn may_compact(&self) -> bool {
        let room = self.low_space_headroom();
        let writer = self.trunk.lock();
        let running = writer.inflight.debt().running_jobs;
        running > 0 || self.due_job(&writer, &self.trunk.version(), room).is_some()
    }

    /// While space is scarce, returns whether any tier has space for a compaction that frees none.
    /// Returns `None` if space is not scarce.
    fn low_space_headroom(&self) -> Option<bool> {
        let extents = self.trunk.store.extents();
        let has_room =
            |tier: u8| self.trunk.may_compact_to(tier) && extents.has_space(tier, AllocationClass::Essential);
        let tiers = self.trunk.store.tiers().count() as u8;
        self.trunk.is_scarce().then(|| (0..tiers).any(has_room))
    }

    /// Returns the queued job with the highest priority according to [`policy::priority`], or
    /// `None` if no job may run now.
    fn due_job(&self, state: &WriterState, version: &TreeVersion, room: Option<bool>) -> Option<JobId> {
        let crowded = (self.trunk.crowding() > 100).then(|| longest_path(&version.root).1);
        let some_fail = self.trunk.store.tiers().has_unreadable();
        let copied = room.map(|_| state.uses.sparsest(self.trunk.copied_bytes()));
        state.inflight.queued(|claim, has_failed| {
            if some_fail && self.is_out_of_reach(state, version, claim) {
                return None;
            }
            let scarce = room.map(|has_room| {
                let (node, index) = find_claimed_pivot(&version.root, claim)
                    .expect("a job whose pivot is gone was abandoned");
                let stretch = state.stretch(node, index);
                let balance = stretch.balance(node, index, &state.uses);
                let copied = copied.as_deref().unwrap_or_default();
                let copies = stretch.inputs(node, index).any(|part| part.lists(copied));
                policy::LowSpace {
                    takes_bytes: balance.takes_bytes,
                    frees: copies || balance.frees(),
                    has_room,
                    has_failed,
                }
            });
            let crowd = crowded
                .filter(|key| claim.range.contains(key))
                .and_then(|_| find_claimed_pivot(&version.root, claim));
            let runs = crowd.map_or(0, |(node, index)| node.runs(index));
            policy::priority(scarce.as_ref(), runs, claim.height)
        })
    }

    /// Returns whether a compaction would have to read from a tier that is currently unreadable.
    /// Such a compaction stays queued until the tier is readable again.
    fn is_out_of_reach(&self, state: &WriterState, version: &TreeVersion, claim: &JobClaim) -> bool {
        let (node, index) =
            find_claimed_pivot(&version.root, claim).expect("a job whose pivot is gone was abandoned");
        let tiers = self.trunk.store.tiers();
        let stretch = state.stretch(node, index);
        let mut inputs = stretch.inputs(node, index);
        debug_assert!(tiers.has_unreadable(), "asked for only then: it takes a while");
        inputs.any(|part| part.is_lost(tiers))
    }

    /// Returns the pivot's newest own parts whose maplets will be merged into the maplet of the new
    /// run.
    fn select_base_parts(&self, node: &TrunkNode, index: usize, stretch: &JobInputs) -> Vec<OwnedPart> {
        assert!(
            stretch.own.start <= node.pivots[index].own.len(),
            "a stretch of its pivot"
        );
        let before = &node.pivots[index].own[..stretch.own.start];
        let runs: Vec<usize> = before.iter().map(|owned| owned.part.group.runs.len()).collect();
        let is_ours = |owned: &OwnedPart| owned.part.is_mostly(&owned.weight);
        let shares: Vec<bool> = before.iter().map(is_ours).collect();
        let base = before[policy::maplets_to_merge(&runs, &shares)].to_vec();
        let tiers = self.trunk.store.tiers();
        if tiers.has_unreadable() && base.iter().any(|owned| owned.part.is_lost(tiers)) {
            return Vec::new();
        }
        debug_assert!(
            base.iter().all(|owned| owned.part.clip.is_none()),
            "maplets of whole parts become one (T6)"
        );
        base
    }

    /// Merges two neighbouring nodes that are nearly empty. Returns whether it found such a pair.
    fn merge_neighbours(&self) -> Result<bool> {
        self.trunk.change(None, |_, shaper, root| {
            if !root.is_leaf() && root.pivots.len() == 1 {
                return Ok(Some(shaper.collapse(root.draft())?));
            }
            let Some(key) = find_mergeable_node(&shaper.shape, root) else {
                return Ok(None);
            };
            let (height, low) = key;
            let mut node = node_at(root, height, &low).draft();
            let left = neighbours(&shaper.shape, &node).expect("it was just found");
            shaper.merge(&mut node, left)?;
            node.drop_dead_bundles();
            let root = replace(root, height, &low, node);
            Ok(Some(shaper.collapse(root)?))
        })
    }
}

/// Returns the height and low key of one of the lowest nodes with two children to merge, or `None`
/// if there is no such node.
fn find_mergeable_node(shape: &policy::TrunkShape, root: &TrunkNode) -> Option<(u8, Box<[u8]>)> {
    if root.is_leaf() {
        return None;
    }
    let below = root
        .children()
        .find_map(|child| find_mergeable_node(shape, child));
    below.or_else(|| neighbours(shape, root).map(|_| (root.height, root.range.low.clone())))
}
