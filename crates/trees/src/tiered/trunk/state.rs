//! What readers see of a trunk, a version, and what its one writer keeps beside it.

use super::digest::{Covered, Digest};
use super::inflight::{Inflight, JobId, Why};
use super::node::{Node, Part};
use super::shape::Counts;
use super::stored::TrunkExtents;
use super::stretch::Stretch;
use super::uses::Uses;
use super::walk::{claim, holds};
use crate::tiered::policy::{self, Shape, Victim};
use alluvium_base::Sequence;
use alluvium_dictionary::horizon::Horizon;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{OneKeyspace, Schema};
use alluvium_dictionary::versioned::{self, Stamp};
use alluvium_storage::store::Store;
use alluvium_storage::{Epochs, Hold, Tiers};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// How a tree is built. All of it may change from one opening to the next.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// Fan-out, and the bytes of a memtable.
    pub shape: Shape,
    /// Which child is flushed to.
    pub victim: Victim,
    /// Bits of a fingerprint; fixed when the tree is created.
    pub fingerprint_bits: u8,
    /// How the records of each keyspace are kept.
    pub schema: Arc<dyn Schema>,
    /// What may be forgotten, shared with other dictionaries; a tree without one has its own.
    pub horizon: Option<Arc<Horizon>>,
    /// The tier of what compactions write: runs, their values and maplets, while memtables are
    /// written to tier 0. A tier that the store does not have fails the first compaction. If
    /// absent, each goes where it has its place among all that the tiers hold. The trunk is on
    /// tier 0.
    pub compacted_tier: Option<u8>,
    /// Whether compactions take leaves over unread.
    pub adoption: Adoption,
}

/// Whether compactions take leaves of their inputs over unread, or copy all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adoption {
    /// Where it is cheaper on the store's device, by the affine model.
    #[default]
    WhereCheaper,
    /// Wherever more leaves in a row than this can be taken over.
    Above(u32),
    /// Nowhere.
    Never,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions {
            shape: Shape::default(),
            victim: Victim::default(),
            // Twelve beyond the two million records that a leaf of 256 MiB holds when each has
            // about 120 bytes.
            fingerprint_bits: 33,
            schema: Arc::new(OneKeyspace::default()),
            horizon: None,
            compacted_tier: None,
            adoption: Adoption::default(),
        }
    }
}

/// One state of the whole tree. It never changes.
#[derive(Debug)]
pub struct Version {
    pub(crate) stamp: Stamp,
    /// The root of the trunk.
    pub(crate) root: Arc<Node>,
    /// Of the keys of the root's bundles, if there is one.
    pub(crate) digest: Option<Arc<Digest>>,
}

impl versioned::Version for Version {
    fn stamp(&self) -> &Stamp {
        &self.stamp
    }
}

impl Version {
    /// How many versions there were before it since the store was opened.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.stamp.number
    }

    /// It holds every commit up to this one, and none above.
    #[must_use]
    pub fn cut(&self) -> Sequence {
        self.stamp.cut
    }
}

/// What the one writer keeps.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) shape: Shape,
    /// Which say whether they can be read for now.
    tiers: Arc<Tiers>,
    pub(crate) uses: Uses,
    pub(crate) inflight: Inflight,
    /// What running compactions use, by job, until they end or are overtaken.
    pub(crate) pins: HashMap<JobId, Arc<[(Part, KeyRange)]>>,
    /// Overtaken compactions that have not noticed yet: what they may still read is not used again
    /// before.
    pub(crate) overtaken: HashMap<JobId, Hold>,
    pub(crate) counts: Counts,
    /// Flushes so far.
    pub(crate) turn: u64,
    /// Leaves, by low key, that are to be compacted fully when nothing above them is left.
    pub(crate) full: BTreeSet<Box<[u8]>>,
    /// Where checkpointed nodes are.
    pub(crate) extents: TrunkExtents,
    /// Memory of the current version's nodes.
    pub(crate) memory: u64,
    /// How crowded the current version is, in hundredths.
    pub(crate) crowding: u64,
    /// The current version's digest.
    pub(crate) digest: Option<Covered>,
}

impl WriterState {
    /// That of a trunk without nodes; those that it will have lie in these extents.
    pub(super) fn new(shape: Shape, tiers: Arc<Tiers>, extents: TrunkExtents) -> WriterState {
        WriterState {
            shape,
            tiers,
            uses: Uses::default(),
            inflight: Inflight::default(),
            pins: HashMap::new(),
            overtaken: HashMap::new(),
            counts: Counts::default(),
            turn: 0,
            full: BTreeSet::new(),
            extents,
            memory: 0,
            crowding: 0,
            digest: None,
        }
    }

    /// Returns what a job for this pivot takes.
    pub(crate) fn stretch(&self, node: &Node, index: usize) -> Stretch {
        let is_full = node.is_leaf() && self.full.contains(&node.pivots[index].low);
        let some_fail = self.tiers.has_unreadable();
        let is_lost = |part: &Part| some_fail && part.is_lost(&self.tiers);
        Stretch::of(node, index, &self.shape, self.crowding, is_full, &is_lost)
    }

    /// Returns the digest of a version with this root, if it covers its bundles. Otherwise there is
    /// none any more.
    pub(super) fn digest_for(&mut self, root: &Node) -> Option<Arc<Digest>> {
        let digest = self.digest.as_ref()?.digest_for(root);
        if digest.is_none() {
            self.digest = None;
        }
        digest
    }

    /// Notes that a group was added to a digest.
    pub(crate) fn cover(&mut self, digest: &Arc<Digest>, group: u64) {
        if let Some(covered) = &mut self.digest {
            covered.add(digest, group);
        }
    }

    /// Counts the uses and the memory of a node.
    pub(super) fn acquire_node(&mut self, node: &Node) {
        self.uses.acquire_node(node);
        self.memory += node.memory_bytes();
    }

    /// Counts a node that the current version has no more.
    pub(super) fn release_node(&mut self, node: &Node, store: &Store) {
        self.uses.release_node(node);
        let memory = node.memory_bytes();
        assert!(self.memory >= memory, "the memory of each node is counted");
        self.memory -= memory;
        self.extents.node_gone(&node.stored, store);
    }

    /// Plans a compaction for every pivot of these nodes that has something pending, but for the
    /// root's. A leaf that is to be compacted fully, or has too many runs, has one in any case.
    pub(super) fn plan(&mut self, nodes: &[Arc<Node>], root: &Arc<Node>) {
        for node in nodes {
            for (index, pivot) in node.pivots.iter().enumerate() {
                let wanted = node.is_leaf() && self.full.contains(&pivot.low);
                let pending = !pivot.live.is_empty() && !Arc::ptr_eq(node, root);
                // The root too, when it is a leaf: many small memtables would never make it large
                // enough to split.
                let crowded = node.is_leaf() && policy::is_crowded(&self.shape, node.depth(0));
                if wanted || pending || crowded {
                    let bytes = self.stretch(node, index).weight(node, index).bytes;
                    self.inflight.plan(claim(node, index), bytes);
                }
            }
        }
    }

    /// Leaves that were to be compacted fully are no more: what has taken their places is to be.
    pub(super) fn pass_wishes_on(&mut self, gone: &[Arc<Node>], made: &[Arc<Node>]) {
        for leaf in gone.iter().filter(|node| node.is_leaf()) {
            if self.full.remove(&leaf.range.low) {
                let heirs = made.iter().filter(|node| node.is_leaf());
                let heirs = heirs.filter(|heir| !heir.range.intersect(&leaf.range).is_empty());
                self.full.extend(heirs.map(|heir| heir.range.low.clone()));
            }
        }
    }

    /// Counts a running compaction as a user of its inputs. A checkpoint never sees it as the only
    /// user: the compaction has made nothing of them that is durable, so that after a crash no user
    /// would be left to give them up.
    pub(crate) fn pin(&mut self, job: JobId, pins: Arc<[(Part, KeyRange)]>) {
        for (part, range) in &*pins {
            self.uses.acquire(part, range);
        }
        assert!(!self.pins.contains_key(&job), "a job pins its inputs once");
        self.pins.insert(job, pins);
    }

    /// A compaction uses its inputs no more.
    pub(crate) fn unpin(&mut self, job: JobId) {
        for (part, range) in self.pins.remove(&job).iter().flat_map(|pins| &**pins) {
            self.uses.release(part, range);
        }
    }

    /// Abandons the jobs whose claims do not hold any more. Those that are running give up their
    /// inputs now, and keep them from being used again until they notice.
    pub(super) fn abandon_overtaken(&mut self, root: &Node, flushed: &[(u8, KeyRange)], epochs: &Epochs) {
        let overtaken: Vec<_> = self
            .inflight
            .claims()
            .filter(|(_, claim)| !holds(root, claim))
            .map(|(job, claim)| (job, claim.clone()))
            .collect();
        for (job, claim) in overtaken {
            let was_flushed = flushed
                .iter()
                .any(|(height, range)| *height == claim.height && *range == claim.range);
            self.inflight
                .abandon(job, if was_flushed { Why::Flushed } else { Why::Reshaped });
            if self.pins.contains_key(&job) {
                let before = self.overtaken.insert(job, epochs.hold());
                debug_assert!(before.is_none(), "a job is overtaken once");
                self.unpin(job);
            }
        }
        debug_assert!(
            self.inflight.claims().all(|(_, claim)| holds(root, claim)),
            "what is due is as claimed (T4)"
        );
    }
}
