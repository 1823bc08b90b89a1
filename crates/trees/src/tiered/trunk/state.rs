//! A version of the trunk, which readers see, and the state of its single writer.

use super::checkpoint_location::TrunkExtents;
use super::job_inputs::JobInputs;
use super::job_table::{AbandonReason, JobId, JobTable};
use super::node::{TrunkNode, TrunkPart};
use super::root_filter::{RootFilter, RootFilterCoverage};
use super::shape::ReshapeCounts;
use super::uses::UseCounts;
use super::walk::{claim, is_claim_valid};
use crate::tiered::policy::{self, TrunkShape, VictimPolicy};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::horizon::GcHorizon;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceSchema, OneKeyspace};
use alluvium_dictionary::versioned::{self, VersionStamp};
use alluvium_storage::store::Store;
use alluvium_storage::{EpochHold, Epochs, TierFiles};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Options of a tree. All may change between openings unless noted otherwise.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Fan-out, and size of a memtable.
    pub shape: TrunkShape,
    /// The rule for the child to flush to.
    pub victim: VictimPolicy,
    /// Fingerprint length in bits. Fixed when the tree is created.
    pub fingerprint_bits: u8,
    /// How the records of each keyspace are stored.
    pub schema: Arc<dyn KeyspaceSchema>,
    /// The horizon below which old versions may be dropped, if shared with other dictionaries. If
    /// absent, the tree creates its own.
    pub horizon: Option<Arc<GcHorizon>>,
    /// The tier to which compactions write runs, their values and maplets; flushed memtables go to
    /// tier 0. If the store has no such tier, the first compaction fails. If absent, the placement
    /// policy selects a tier for each run. The trunk is always on tier 0.
    pub compacted_tier: Option<u8>,
    /// Whether compactions adopt leaves without reading them.
    pub adoption: AdoptionPolicy,
}

/// Whether compactions adopt leaves of their inputs without reading them, or copy all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdoptionPolicy {
    /// Adopt where it is cheaper on the store's device, by the affine model.
    #[default]
    WhereCheaper,
    /// Adopt any sequence of more than this many adoptable leaves.
    Above(u32),
    Never,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions {
            shape: TrunkShape::default(),
            victim: VictimPolicy::default(),
            // 12 bits more than needed for the two million records of a full leaf: 256 MiB with
            // about 120 bytes per record.
            fingerprint_bits: 33,
            schema: Arc::new(OneKeyspace::default()),
            horizon: None,
            compacted_tier: None,
            adoption: AdoptionPolicy::default(),
        }
    }
}

/// An immutable state of the whole tree.
#[derive(Debug)]
pub struct TreeVersion {
    pub(crate) stamp: VersionStamp,
    /// The root of the trunk.
    pub(crate) root: Arc<TrunkNode>,
    /// Covers the keys of the root's bundles, if present.
    pub(crate) digest: Option<Arc<RootFilter>>,
}

impl versioned::StructureVersion for TreeVersion {
    fn stamp(&self) -> &VersionStamp {
        &self.stamp
    }
}

impl TreeVersion {
    /// Returns the number of earlier versions since the store was opened.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.stamp.number
    }

    /// Returns the cut: the version contains every commit up to it, and none above.
    #[must_use]
    pub fn cut(&self) -> SequenceNumber {
        self.stamp.cut
    }
}

/// The state of the single writer.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) shape: TrunkShape,
    /// Tracks which tiers are currently readable.
    tiers: Arc<TierFiles>,
    pub(crate) uses: UseCounts,
    pub(crate) inflight: JobTable,
    /// Inputs of running compactions, by job, until the job ends or is overtaken.
    pub(crate) pins: HashMap<JobId, Arc<[(TrunkPart, KeyRange)]>>,
    /// Overtaken compactions that have not stopped yet. Their inputs must not be reused before they
    /// do.
    pub(crate) overtaken: HashMap<JobId, EpochHold>,
    pub(crate) counts: ReshapeCounts,
    /// Number of flushes so far.
    pub(crate) flush_count: u64,
    /// Low keys of leaves that are to be compacted fully once nothing above them is left.
    pub(crate) full: BTreeSet<Box<[u8]>>,
    /// Extents of the trunk nodes that checkpoints have written.
    pub(crate) extents: TrunkExtents,
    /// Memory of the current version's nodes in bytes.
    pub(crate) memory: u64,
    /// Number of runs on the longest path of the current version, in percent of the maximum.
    pub(crate) crowding: u64,
    pub(crate) digest: Option<RootFilterCoverage>,
}

impl WriterState {
    /// Creates the state of a trunk without nodes. Its stored nodes will be in `extents`.
    pub(super) fn new(shape: TrunkShape, tiers: Arc<TierFiles>, extents: TrunkExtents) -> WriterState {
        WriterState {
            shape,
            tiers,
            uses: UseCounts::default(),
            inflight: JobTable::default(),
            pins: HashMap::new(),
            overtaken: HashMap::new(),
            counts: ReshapeCounts::default(),
            flush_count: 0,
            full: BTreeSet::new(),
            extents,
            memory: 0,
            crowding: 0,
            digest: None,
        }
    }

    /// Returns the inputs of a job for this pivot.
    pub(crate) fn stretch(&self, node: &TrunkNode, index: usize) -> JobInputs {
        let is_full = node.is_leaf() && self.full.contains(&node.pivots[index].low);
        let some_fail = self.tiers.has_unreadable();
        let is_lost = |part: &TrunkPart| some_fail && part.is_lost(&self.tiers);
        JobInputs::of(node, index, &self.shape, self.crowding, is_full, &is_lost)
    }

    /// Returns the root filter for a version with this root if it covers the root's bundles.
    /// Otherwise drops the root filter.
    pub(super) fn digest_for(&mut self, root: &TrunkNode) -> Option<Arc<RootFilter>> {
        let digest = self.digest.as_ref()?.digest_for(root);
        if digest.is_none() {
            self.digest = None;
        }
        digest
    }

    /// Records that a group was added to a root filter.
    pub(crate) fn cover(&mut self, digest: &Arc<RootFilter>, group: u64) {
        if let Some(covered) = &mut self.digest {
            covered.add(digest, group);
        }
    }

    /// Counts the uses and the memory of a node.
    pub(super) fn acquire_node(&mut self, node: &TrunkNode) {
        self.uses.acquire_node(node);
        self.memory += node.memory_bytes();
    }

    /// Removes a node that left the current version from the counts.
    pub(super) fn release_node(&mut self, node: &TrunkNode, store: &Store) {
        self.uses.release_node(node);
        let memory = node.memory_bytes();
        assert!(self.memory >= memory, "the memory of each node is counted");
        self.memory -= memory;
        self.extents.node_gone(&node.stored, store);
    }

    /// Plans a compaction for every pivot of these nodes with pending bundles, except the root's. A
    /// leaf that is to be compacted fully, or that has too many runs, always gets one.
    pub(super) fn plan(&mut self, nodes: &[Arc<TrunkNode>], root: &Arc<TrunkNode>) {
        for node in nodes {
            for (index, pivot) in node.pivots.iter().enumerate() {
                let wanted = node.is_leaf() && self.full.contains(&pivot.low);
                let pending = !pivot.live.is_empty() && !Arc::ptr_eq(node, root);
                // This includes a root that is a leaf: many small memtables would never make it
                // large enough to split.
                let crowded = node.is_leaf() && policy::is_crowded(&self.shape, node.depth(0));
                if wanted || pending || crowded {
                    let bytes = self.stretch(node, index).weight(node, index).bytes;
                    self.inflight.plan(claim(node, index), bytes);
                }
            }
        }
    }

    /// Transfers requests for full compaction from leaves that are gone to the leaves that replace
    /// them.
    pub(super) fn transfer_full_compactions(&mut self, gone: &[Arc<TrunkNode>], made: &[Arc<TrunkNode>]) {
        for leaf in gone.iter().filter(|node| node.is_leaf()) {
            if self.full.remove(&leaf.range.low) {
                let heirs = made.iter().filter(|node| node.is_leaf());
                let heirs = heirs.filter(|heir| !heir.range.intersect(&leaf.range).is_empty());
                self.full.extend(heirs.map(|heir| heir.range.low.clone()));
            }
        }
    }

    /// Counts a running compaction as a user of its inputs. A checkpoint never sees it as the only
    /// user: its output is not durable yet, so after a crash no user would be left to release the
    /// inputs.
    pub(crate) fn pin(&mut self, job: JobId, pins: Arc<[(TrunkPart, KeyRange)]>) {
        for (part, range) in &*pins {
            self.uses.acquire(part, range);
        }
        assert!(!self.pins.contains_key(&job), "a job pins its inputs once");
        self.pins.insert(job, pins);
    }

    /// Ends a compaction's use of its inputs.
    pub(crate) fn unpin(&mut self, job: JobId) {
        for (part, range) in self.pins.remove(&job).iter().flat_map(|pins| &**pins) {
            self.uses.release(part, range);
        }
    }

    /// Abandons the jobs whose claims no longer hold. Running jobs release their inputs now, but
    /// the inputs are not reused until the jobs stop.
    pub(super) fn abandon_overtaken(
        &mut self,
        root: &TrunkNode,
        flushed: &[(u8, KeyRange)],
        epochs: &Epochs,
    ) {
        let overtaken: Vec<_> = self
            .inflight
            .claims()
            .filter(|(_, claim)| !is_claim_valid(root, claim))
            .map(|(job, claim)| (job, claim.clone()))
            .collect();
        for (job, claim) in overtaken {
            let was_flushed = flushed
                .iter()
                .any(|(height, range)| *height == claim.height && *range == claim.range);
            self.inflight.abandon(
                job,
                if was_flushed {
                    AbandonReason::Flushed
                } else {
                    AbandonReason::Reshaped
                },
            );
            if self.pins.contains_key(&job) {
                let before = self.overtaken.insert(job, epochs.hold());
                debug_assert!(before.is_none(), "a job is overtaken once");
                self.unpin(job);
            }
        }
        debug_assert!(
            self.inflight
                .claims()
                .all(|(_, claim)| is_claim_valid(root, claim)),
            "what is due is as claimed (T4)"
        );
    }
}
