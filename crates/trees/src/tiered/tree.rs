//! The tree: its current version, and how a changed one takes its place.

use super::checkpoint::Shelves;
use super::digest::{Covered, Digest};
use super::estimate::Totals;
use super::held::Held;
use super::inflight::{Claim, Edge, Inflight, JobId, Why};
use super::maintain::Habits;
use super::node::{Node, Part};
use super::policy::{self, Shape, Victim};
use super::shape::{Counts, Shaper};
use super::uses::Uses;
use super::usual::UsualScan;
use alluvium_base::Sequence;
use alluvium_device::{Error as DeviceError, Operation};
use alluvium_dictionary::horizon::Horizon;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{OneKeyspace, Schema};
use alluvium_storage::extents::Class;
use alluvium_storage::store::Store;
use alluvium_storage::{Epochs, Error, Guard, Hold, Result};
use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What hashes of keys are seeded with: a filter that is known by its answers is no secret here.
pub(super) const SEED: u64 = 0;

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
    /// The tier of what compactions write: runs, their values and maplets. Memtables and the trunk
    /// are written to tier 0. A tier that the store does not have fails the first compaction.
    pub compacted_tier: u8,
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
            compacted_tier: 0,
        }
    }
}

/// One state of the whole tree. It never changes.
#[derive(Debug)]
pub struct Version {
    /// The root of the trunk.
    pub(super) root: Arc<Node>,
    /// How many versions there were before it.
    pub(super) number: u64,
    /// It holds every commit up to this one, and none above.
    pub(super) cut: Sequence,
    /// Of the keys of the root's bundles, if there is one.
    pub(super) digest: Option<Arc<Digest>>,
}

impl Version {
    /// How many versions there were before it since the store was opened.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// It holds every commit up to this one, and none above.
    #[must_use]
    pub fn cut(&self) -> Sequence {
        self.cut
    }
}

/// What the one writer keeps.
#[derive(Debug)]
pub(super) struct Trunk {
    pub(super) shape: Shape,
    pub(super) uses: Uses,
    pub(super) inflight: Inflight,
    /// What running compactions use, by job, until they end or are overtaken.
    pub(super) pins: HashMap<JobId, Arc<[(Part, KeyRange)]>>,
    /// Overtaken compactions that have not noticed yet: what they may still read is not used again
    /// before.
    pub(super) overtaken: HashMap<JobId, Hold>,
    pub(super) counts: Counts,
    /// Flushes so far.
    pub(super) turn: u64,
    /// Leaves, by low key, that are to be compacted fully when nothing above them is left.
    pub(super) full: BTreeSet<Box<[u8]>>,
    /// Where checkpointed nodes are.
    pub(super) shelves: Shelves,
    /// Memory of the current version's nodes.
    pub(super) memory: u64,
    /// How crowded the current version is, in hundredths.
    pub(super) crowding: u64,
    /// The current version's digest.
    pub(super) digest: Option<Covered>,
}

/// Counters since the store was opened.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Changes of shape.
    pub shape: Counts,
    /// What became of compactions.
    pub edges: BTreeMap<Edge, u64>,
    /// Memtables that were written out.
    pub incorporations: u64,
    /// Records that compactions read, and wrote.
    pub compacted: (u64, u64),
    /// Of the records read, those that a full compaction or a merge of a leaf's oldest runs asked
    /// for.
    pub rewritten: u64,
    /// Bytes of runs and maplets that compactions wrote.
    pub compacted_bytes: u64,
    /// Bytes of runs and maplets written from memtables.
    pub incorporated_bytes: u64,
}

/// A size-tiered Bε-tree. All methods may be called from any thread; work is offered as steps and
/// done by the thread that polls them.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) store: Arc<Store>,
    pub(super) options: TreeOptions,
    pub(super) horizon: Arc<Horizon>,
    version: ArcSwap<Version>,
    trunk: Mutex<Trunk>,
    next_group: AtomicU64,
    pub(super) tallies: Tallies,
    pub(super) totals: Totals,
    /// How often lookups have asked maplets of the root's bundles without a digest, about.
    pub(super) questions: AtomicU64,
    pub(super) usual_scan: UsualScan,
    pub(super) held: Held,
    /// What is known of leaves by their use.
    pub(super) habits: Mutex<Habits>,
    /// Space is scarce: every compaction may use the reserve.
    pub(super) scarce: AtomicBool,
}

/// Counters that steps add to without the trunk's lock.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    pub(super) incorporations: AtomicU64,
    pub(super) read: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) rewritten: AtomicU64,
    pub(super) compacted_bytes: AtomicU64,
    pub(super) incorporated_bytes: AtomicU64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("version", &self.version.load().number)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Tree {
    /// An empty tree over a store that has just been created, or whose payload says that there is
    /// none.
    #[must_use]
    pub fn create(store: Arc<Store>, options: TreeOptions) -> Tree {
        let root = Arc::new(Node::leaf(KeyRange::everything()));
        Tree::assemble(store, options, root, 0, 1, Shelves::default())
    }

    pub(super) fn assemble(
        store: Arc<Store>,
        options: TreeOptions,
        root: Arc<Node>,
        cut: Sequence,
        next_group: u64,
        shelves: Shelves,
    ) -> Tree {
        let mut trunk = Trunk {
            shape: options.shape,
            uses: Uses::default(),
            inflight: Inflight::default(),
            pins: HashMap::new(),
            overtaken: HashMap::new(),
            counts: Counts::default(),
            turn: 0,
            full: BTreeSet::new(),
            shelves,
            memory: 0,
            crowding: 0,
            digest: None,
        };
        let nodes = all_nodes(&root);
        for node in &nodes {
            trunk.uses.acquire_node(node);
            trunk.memory += node.memory_bytes();
        }
        trunk.uses.begin();
        trunk.plan(&nodes, &root);
        let version = Version {
            root,
            number: 0,
            cut,
            digest: None,
        };
        let horizon = options.horizon.clone().unwrap_or_default();
        let tree = Tree {
            shared: Arc::new(Shared {
                store,
                options,
                horizon,
                version: ArcSwap::from_pointee(version),
                trunk: Mutex::new(trunk),
                next_group: AtomicU64::new(next_group),
                tallies: Tallies::default(),
                totals: Totals::default(),
                questions: AtomicU64::new(0),
                usual_scan: UsualScan::default(),
                held: Held::default(),
                habits: Mutex::default(),
                scarce: AtomicBool::new(false),
            }),
        };
        tree.add_up_memory(&tree.lock());
        tree.lock().crowding = tree.note_crowding(&tree.version().root);
        tree
    }

    /// The store that it lives in.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// The options it was opened with.
    #[must_use]
    pub fn options(&self) -> &TreeOptions {
        &self.shared.options
    }

    /// From now on compactions that writes have made due ask for space of this class, or of
    /// [`Class::Freeing`] if it may use the reserve at all: while there is nothing else, for what a
    /// compaction replaces comes free.
    pub fn compact_from(&self, class: Class) {
        let scarce = class != Class::Normal;
        self.shared.scarce.store(scarce, Ordering::Relaxed);
    }

    /// Whether there is nothing but the reserve.
    pub(super) fn is_scarce(&self) -> bool {
        self.shared.scarce.load(Ordering::Relaxed)
    }

    /// What may be forgotten.
    #[must_use]
    pub fn horizon(&self) -> &Horizon {
        &self.shared.horizon
    }

    /// Returns the current version. Its reader holds a guard that was pinned before.
    #[must_use]
    pub fn version(&self) -> Arc<Version> {
        self.shared.version.load_full()
    }

    /// The current version, for the length of a call: no counter is touched.
    pub(super) fn peek(&self) -> arc_swap::Guard<Arc<Version>> {
        self.shared.version.load()
    }

    /// Every commit up to this one is in the tree.
    #[must_use]
    pub fn cut(&self) -> Sequence {
        self.peek().cut
    }

    /// How high the trunk is: 1 for a single leaf.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.peek().root.height + 1
    }

    /// What was done since the store was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let trunk = self.shared.trunk.lock();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tallies = &self.shared.tallies;
        Stats {
            shape: trunk.counts,
            edges: trunk.inflight.edges().clone(),
            incorporations: read(&tallies.incorporations),
            compacted: (read(&tallies.read), read(&tallies.written)),
            rewritten: read(&tallies.rewritten),
            compacted_bytes: read(&tallies.compacted_bytes),
            incorporated_bytes: read(&tallies.incorporated_bytes),
        }
    }

    pub(super) fn next_group(&self) -> u64 {
        self.shared.next_group.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn group_numbers(&self) -> u64 {
        self.shared.next_group.load(Ordering::Relaxed)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Trunk> {
        self.shared.trunk.lock()
    }

    /// Changes the trunk: `change` makes a new root of the current one, or none to leave it.
    /// Extents of what it brings in are installed by it, and only after nothing can fail any more.
    pub(super) fn change(
        &self,
        cut: Option<Sequence>,
        change: impl FnOnce(&mut Trunk, &mut Shaper<'_>, &Node) -> Result<Option<Node>>,
    ) -> Result<bool> {
        let guard = self.shared.store.epochs().pin();
        let mut trunk = self.lock();
        let old = self.version();
        let busy: HashSet<(u8, Box<[u8]>)> = trunk.inflight.pivots().collect();
        let is_busy = |height: u8, low: &[u8]| busy.contains(&(height, low.into()));
        let mut shaper = self.shaper(&guard, &is_busy, trunk.turn);
        let Some(root) = change(&mut trunk, &mut shaper, &old.root)? else {
            return Ok(false);
        };
        trunk.turn = shaper.turn;
        trunk.counts.add(&shaper.counts);
        let flushed = std::mem::take(&mut shaper.flushed);
        self.publish(&mut trunk, &old, root, cut.unwrap_or(old.cut), &flushed);
        Ok(true)
    }

    /// Passes the result of something that writes on, and shows a failed write to the store, which
    /// takes no changes from then on. A failed read has changed nothing: whatever needed it is due
    /// again.
    pub(super) fn judge<T>(&self, result: Result<T>) -> Result<T> {
        match result {
            Err(Error::Device(DeviceError::Io {
                operation: Operation::Read,
                ..
            })) => result,
            result => self.shared.store.judge(result),
        }
    }

    pub(super) fn shaper<'a>(
        &'a self,
        guard: &'a Guard,
        is_busy: &'a dyn Fn(u8, &[u8]) -> bool,
        turn: u64,
    ) -> Shaper<'a> {
        Shaper {
            shape: self.shared.options.shape,
            victim: self.shared.options.victim,
            cache: self.shared.store.cache(),
            guard,
            is_busy,
            turn,
            flushed: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Makes `root` the current version: counts its uses, gives up what only the old one used, and
    /// plans what is due in it.
    pub(super) fn publish(
        &self,
        trunk: &mut Trunk,
        old: &Version,
        root: Node,
        cut: Sequence,
        flushed: &[(u8, KeyRange)],
    ) {
        assert!(cut >= old.cut, "a cut goes from {} back to {cut}", old.cut);
        debug_assert_eq!(root.range, KeyRange::everything(), "the root has every key");
        let root = Arc::new(root);
        let version = Version {
            root: Arc::clone(&root),
            number: old.number + 1,
            cut,
            digest: trunk.digest_for(&root),
        };
        let (gone, made) = difference(&old.root, &root);
        for node in &made {
            trunk.uses.acquire_node(node);
            trunk.memory += node.memory_bytes();
        }
        self.shared.version.store(Arc::new(version));
        trunk.crowding = self.note_crowding(&root);
        trunk.pass_wishes_on(&gone, &made);
        trunk.abandon_overtaken(&root, flushed, self.shared.store.epochs());
        for node in &gone {
            trunk.uses.release_node(node);
            debug_assert!(trunk.memory >= node.memory_bytes(), "it is counted");
            trunk.memory -= node.memory_bytes();
            self.forget_stored(trunk, node);
        }
        trunk.plan(&made, &root);
        self.sweep(trunk);
    }

    /// From now on the current version, which is this one, has the trunk's digest.
    pub(super) fn publish_digest(&self, trunk: &mut Trunk, version: &Version) {
        let version = Version {
            root: Arc::clone(&version.root),
            number: version.number + 1,
            cut: version.cut,
            digest: trunk.digest_for(&version.root),
        };
        self.shared.version.store(Arc::new(version));
        self.add_up_memory(trunk);
    }

    /// Gives up the extents that nothing uses any more: unlinked, as of now.
    pub(super) fn sweep(&self, trunk: &mut Trunk) {
        let epoch = self.shared.store.epochs().current();
        for extent in trunk.uses.sweep() {
            self.shared.store.extents().release(extent, epoch);
        }
        self.add_up_memory(trunk);
    }

    /// Leaves the totals for those who ask.
    fn add_up_memory(&self, trunk: &Trunk) {
        let (held, totals) = (trunk.uses.memory(), &self.shared.totals);
        let tables = held.counts + trunk.inflight.memory_bytes() + trunk.shelves.memory_bytes();
        totals.trunk.store(trunk.memory, Ordering::Relaxed);
        totals.runs.store(held.runs, Ordering::Relaxed);
        totals.maplets.store(held.maplets, Ordering::Relaxed);
        totals.tables.store(tables, Ordering::Relaxed);
        let digest = trunk.digest.as_ref().map_or(0, Covered::bytes);
        totals.digest.store(digest, Ordering::Relaxed);
        totals.due.store(trunk.inflight.len() as u64, Ordering::Relaxed);
    }
}

impl Trunk {
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
    fn pass_wishes_on(&mut self, gone: &[Arc<Node>], made: &[Arc<Node>]) {
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
    pub(super) fn pin(&mut self, job: JobId, pins: Arc<[(Part, KeyRange)]>) {
        for (part, range) in &*pins {
            self.uses.acquire(part, range);
        }
        assert!(!self.pins.contains_key(&job), "a job pins its inputs once");
        self.pins.insert(job, pins);
    }

    /// A compaction uses its inputs no more.
    pub(super) fn unpin(&mut self, job: JobId) {
        for (part, range) in self.pins.remove(&job).iter().flat_map(|pins| &**pins) {
            self.uses.release(part, range);
        }
    }

    /// Abandons the jobs whose claims do not hold any more. Those that are running give up their
    /// inputs now, and keep them from being used again until they notice.
    fn abandon_overtaken(&mut self, root: &Node, flushed: &[(u8, KeyRange)], epochs: &Epochs) {
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
                self.overtaken.insert(job, epochs.hold());
                self.unpin(job);
            }
        }
    }
}

/// What a job for a pivot claims.
pub(super) fn claim(node: &Node, index: usize) -> Claim {
    assert!(index < node.pivots.len(), "pivot {index}");
    debug_assert_eq!(
        node.pivots[index].child.is_none(),
        node.is_leaf(),
        "only pivots of leaves have no child"
    );
    let pivot = &node.pivots[index];
    Claim {
        height: node.height,
        range: node.pivot_range(index),
        first: pivot.first,
        own: pivot.own.iter().map(|owned| owned.part.group.id).collect(),
    }
}

/// The node and pivot that a claim is about, if there still is such a one.
pub(super) fn find<'a>(root: &'a Node, claim: &Claim) -> Option<(&'a Node, usize)> {
    let mut node = root;
    debug_assert!(!root.pivots.is_empty(), "a node has a pivot");
    while node.height > claim.height {
        let pivot = &node.pivots[node.pivot_for(&claim.range.low)];
        node = pivot.child.as_deref()?;
    }
    let index = node.pivot_for(&claim.range.low);
    (node.height == claim.height && node.pivot_range(index) == claim.range).then_some((node, index))
}

/// Whether everything that a claim says still is so (T4).
pub(super) fn holds(root: &Node, wanted: &Claim) -> bool {
    find(root, wanted).is_some_and(|(node, index)| claim(node, index) == *wanted)
}

/// Every node below a root, the root included.
pub(super) fn all_nodes(root: &Arc<Node>) -> Vec<Arc<Node>> {
    let mut nodes = vec![Arc::clone(root)];
    let mut next = 0;
    while next < nodes.len() {
        let children: Vec<_> = nodes[next].children().cloned().collect();
        nodes.extend(children);
        next += 1;
    }
    nodes
}

/// The nodes that only the old trunk has, and those that only the new one has. What both share is
/// not walked.
fn difference(old: &Arc<Node>, new: &Arc<Node>) -> (Vec<Arc<Node>>, Vec<Arc<Node>>) {
    let (mut gone, mut made) = (Vec::new(), Vec::new());
    let (mut olds, mut news) = (vec![Arc::clone(old)], vec![Arc::clone(new)]);
    let top = old.height.max(new.height);
    for height in (0..=top).rev() {
        let here = |nodes: &[Arc<Node>]| -> Vec<Arc<Node>> {
            nodes
                .iter()
                .filter(|node| node.height == height)
                .cloned()
                .collect()
        };
        let (old_here, new_here) = (here(&olds), here(&news));
        let addresses =
            |nodes: &[Arc<Node>]| -> HashSet<*const Node> { nodes.iter().map(Arc::as_ptr).collect() };
        let (in_old, in_new) = (addresses(&old_here), addresses(&new_here));
        for node in old_here
            .into_iter()
            .filter(|node| !in_new.contains(&Arc::as_ptr(node)))
        {
            olds.extend(node.children().cloned());
            gone.push(node);
        }
        for node in new_here
            .into_iter()
            .filter(|node| !in_old.contains(&Arc::as_ptr(node)))
        {
            news.extend(node.children().cloned());
            made.push(node);
        }
    }
    (gone, made)
}

/// A root in which the node that holds `key` at `height` is replaced.
pub(super) fn replace(root: &Node, height: u8, key: &[u8], node: Node) -> Node {
    if root.height == height {
        return node;
    }
    assert!(root.height > height, "nodes of height {height} are below");
    let mut draft = root.draft();
    let index = draft.pivot_for(key);
    let child = draft.pivots[index]
        .child
        .as_ref()
        .expect("an index node has children");
    let child = replace(child, height, key, node);
    draft.pivots[index].child = Some(Arc::new(child));
    draft
}
