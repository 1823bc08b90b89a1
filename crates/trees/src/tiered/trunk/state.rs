//! A version of the trunk, which readers see, and the private state of the trunk's single writer.

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

/// Options of a tree. Unless noted otherwise, they may be changed each time the tree is opened.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// The fan-out and the size of a memtable.
    pub shape: TrunkShape,
    /// How a node picks the child that it flushes to.
    pub victim: VictimPolicy,
    /// Length of a fingerprint in bits. It is fixed when the tree is created.
    pub fingerprint_bits: u8,
    /// How the records of each keyspace are stored.
    pub schema: Arc<dyn KeyspaceSchema>,
    /// The horizon, below which old versions of keys may be dropped. Set it to share a horizon with
    /// other dictionaries; otherwise the tree creates its own.
    pub horizon: Option<Arc<GcHorizon>>,
    /// The storage tier to which compactions write runs, values and maplets. If it is set, flushed
    /// memtables are written to tier 0, and the first compaction fails if the store does not have
    /// the given tier. If it is absent, the placement policy selects a tier for each run. The trunk
    /// is always on tier 0.
    pub compacted_tier: Option<u8>,
    /// Whether compactions adopt leaves of their inputs without reading them.
    pub adoption: AdoptionPolicy,
}

/// Whether compactions adopt leaves of their inputs without reading them, or copy all leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdoptionPolicy {
    /// Adopt leaves where that is cheaper on the store's device, according to the affine cost
    /// model.
    #[default]
    WhereCheaper,
    /// Adopt every sequence of adoptable leaves that is longer than this.
    Above(u32),
    Never,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions {
            shape: TrunkShape::default(),
            victim: VictimPolicy::default(),
            // A full leaf has about two million records: 256 MiB at about 120 bytes each. This is
            // 12 bits more than it takes to distinguish them.
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
    /// The root filter, if there is one. It covers the keys of the root's bundles.
    pub(crate) digest: Option<Arc<RootFilter>>,
}

impl versioned::StructureVersion for TreeVersion {
    fn stamp(&self) -> &VersionStamp {
        &self.stamp
    }
}

impl TreeVersion {
    /// Returns the version's number: how many versions were published before it since the store was
    /// opened.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.stamp.number
    }

    /// Returns the version's cut. The version contains every commit up to this sequence number, and
    /// none after it.
    #[must_use]
    pub fn cut(&self) -> SequenceNumber {
        self.stamp.cut
    }
}

/// The private state of the trunk's single writer.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) shape: TrunkShape,
    /// The state of the storage tiers, including which of them are currently readable.
    tiers: Arc<TierFiles>,
    pub(crate) uses: UseCounts,
    pub(crate) inflight: JobTable,
    /// Inputs of each running compaction. An entry is removed when the compaction ends, or earlier
    /// if a change to its pivot rules out installing its result.
    pub(crate) pins: HashMap<JobId, Arc<[(TrunkPart, KeyRange)]>>,
    /// Running compactions whose results can no longer be installed, because their pivots have
    /// changed. The space of their inputs must not be reused before they stop.
    pub(crate) overtaken: HashMap<JobId, EpochHold>,
    pub(crate) counts: ReshapeCounts,
    /// Number of flushes of a pivot to its child so far.
    pub(crate) flush_count: u64,
    /// Low keys of the leaves to be compacted fully.
    pub(crate) full: BTreeSet<Box<[u8]>>,
    /// The extents in which checkpoints have stored trunk nodes.
    pub(crate) extents: TrunkExtents,
    /// Memory in bytes of the current version's nodes.
    pub(crate) memory: u64,
    /// Number of runs on the current version's longest path, in percent of the maximum.
    pub(crate) crowding: u64,
    pub(crate) digest: Option<RootFilterCoverage>,
}

impl WriterState {
    /// Creates the state of a trunk that has no nodes yet. `extents` must list the extents of all
    /// on-disk trunk nodes.
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

    /// Returns the inputs of a job for the pivot at `index`.
    pub(crate) fn stretch(&self, node: &TrunkNode, index: usize) -> JobInputs {
        let is_full = node.is_leaf() && self.full.contains(&node.pivots[index].low);
        let some_fail = self.tiers.has_unreadable();
        let is_lost = |part: &TrunkPart| some_fail && part.is_lost(&self.tiers);
        JobInputs::of(node, index, &self.shape, self.crowding, is_full, &is_lost)
    }

    /// Returns the root filter if it covers all bundles of `root`. Otherwise drops the root filter,
    /// if there is one, and returns `None`.
    pub(super) fn digest_for(&mut self, root: &TrunkNode) -> Option<Arc<RootFilter>> {
        let digest = self.digest.as_ref()?.digest_for(root);
        if digest.is_none() {
            self.digest = None;
        }
        digest
    }

    /// Records that the keys of a group were added to a root filter.
    pub(crate) fn cover(&mut self, digest: &Arc<RootFilter>, group: u64) {
        if let Some(covered) = &mut self.digest {
            covered.add(digest, group);
        }
    }

    /// Adds a node's memory and its uses of extents to the counts.
    pub(super) fn acquire_node(&mut self, node: &TrunkNode) {
        self.uses.acquire_node(node);
        self.memory += node.memory_bytes();
    }

    /// Subtracts a node that has left the current version from the counts, and releases its
    /// location on disk.
    pub(super) fn release_node(&mut self, node: &TrunkNode, store: &Store) {
        self.uses.release_node(node);
        let memory = node.memory_bytes();
        assert!(self.memory >= memory, "the memory of each node is counted");
        self.memory -= memory;
        self.extents.node_gone(&node.stored, store);
    }

    /// Plans a compaction for every pivot of the given nodes that has pending bundles, except for
    /// the root's pivots. A leaf that is to be compacted fully, or that has too many runs, always
    /// gets a compaction.
    pub(super) fn plan(&mut self, nodes: &[Arc<TrunkNode>], root: &Arc<TrunkNode>) {
        for node in nodes {
            for (index, pivot) in node.pivots.iter().enumerate() {
                let wanted = node.is_leaf() && self.full.contains(&pivot.low);
                let pending = !pivot.live.is_empty() && !Arc::ptr_eq(node, root);
                // Include a root that is a leaf, because many small memtables might never make it
                // large enough to split.
                let crowded = node.is_leaf() && policy::is_crowded(&self.shape, node.depth(0));
                if wanted || pending || crowded {
                    let bytes = self.stretch(node, index).weight(node, index).bytes;
                    self.inflight.plan(claim(node, index), bytes);
                }
            }
        }
    }

    /// Passes requests for full compaction on from leaves that no longer exist to the leaves that
    /// replace them.
    pub(super) fn transfer_full_compactions(&mut self, gone: &[Arc<TrunkNode>], made: &[Arc<TrunkNode>]) {
        for leaf in gone.iter().filter(|node| node.is_leaf()) {
            if self.full.remove(&leaf.range.low) {
                let heirs = made.iter().filter(|node| node.is_leaf());
                let heirs = heirs.filter(|heir| !heir.range.intersect(&leaf.range).is_empty());
                self.full.extend(heirs.map(|heir| heir.range.low.clone()));
            }
        }
    }

    /// Counts a running compaction as a user of its inputs. As long as its result can still be
    /// installed, a pivot uses the same inputs, so a checkpoint never sees the compaction as their
    /// only user. Otherwise a crash, which loses the compaction, would leave nothing that could
    /// release the inputs.
    pub(crate) fn pin(&mut self, job: JobId, pins: Arc<[(TrunkPart, KeyRange)]>) {
        for (part, range) in &*pins {
            self.uses.acquire(part, range);
        }
        assert!(!self.pins.contains_key(&job), "a job pins its inputs once");
        self.pins.insert(job, pins);
    }

    /// Removes a compaction's uses of its inputs from the counts.
    pub(crate) fn unpin(&mut self, job: JobId) {
        for (part, range) in self.pins.remove(&job).iter().flat_map(|pins| &**pins) {
            self.uses.release(part, range);
        }
    }

    /// Abandons the jobs whose results can no longer be installed because their pivots have
    /// changed. The inputs of a running job are released at once, but their space is not reused
    /// until the job has stopped.
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
