//! The tree: the front of its parts, which share one trunk.

use super::compact::{Compactor, Job, Maintenance, Step};
use super::disk::{self, Checkpointer, Lost, Salvage};
use super::incorporate::{Incorporation, layer_writer};
use super::lookup::{self, Digesting, Lookup, Reader};
use super::scan::{Iter, Scans};
use super::show::{self, Holdings, Outline, OutlineRun};
use super::trunk::{
    Debt, JobId, Memory, Node, Stats, TreeOptions, Trunk, TrunkExtents, Version, leaf_for, longest_path,
};
use crate::mended::Mended;
use crate::run::Weight;
use crate::whereabouts::RunPlace;
use alluvium_base::Sequence;
use alluvium_dictionary::cut::Cut;
use alluvium_dictionary::findings::{Checked, Depth, Examined};
use alluvium_dictionary::gather::Answer;
use alluvium_dictionary::horizon::Horizon;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::share::Share;
use alluvium_dictionary::versioned::LayerIngest;
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use alluvium_storage::store::Store;
use std::fmt;
use std::sync::Arc;

/// A size-tiered Bε-tree. All methods may be called from any thread; work is offered as steps and
/// done by the thread that polls them.
#[derive(Clone)]
pub struct Tree {
    pub(super) trunk: Arc<Trunk>,
    compactor: Compactor,
    checkpointer: Checkpointer,
    pub(super) scans: Arc<Scans>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("version", &self.trunk.peek().number())
            .field("options", self.options())
            .finish_non_exhaustive()
    }
}

/// What it is, and where it lives.
impl Tree {
    /// An empty tree over a store that has just been created, or whose payload says that there is
    /// none.
    #[must_use]
    pub fn create(store: Arc<Store>, options: TreeOptions) -> Tree {
        let root = Arc::new(Node::leaf(KeyRange::everything()));
        Tree::over(Trunk::new(store, options, root, 0, 1, TrunkExtents::default()))
    }

    fn over(trunk: Trunk) -> Tree {
        let trunk = Arc::new(trunk);
        Tree {
            compactor: Compactor::new(&trunk),
            checkpointer: Checkpointer::new(&trunk),
            scans: Arc::new(Scans::new(&trunk)),
            trunk,
        }
    }

    /// Opens the tree with this root, which a [`Cut`] had, and with every commit up to `cut`.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt),
    /// [`Error::NewerFormat`](alluvium_storage::Error::NewerFormat), or as the device says.
    pub fn open(store: Arc<Store>, options: TreeOptions, root: &[u8], cut: Sequence) -> Result<Tree> {
        disk::open(store, options, root, cut).map(Tree::over)
    }

    /// Opens a tree of which something is damaged, in a store whose extents are those that
    /// [`Salvage::reached`] names. The next checkpoint makes what comes of it durable. Returns of
    /// what something is lost, and what is as it was.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) when it cannot be opened for all that;
    /// a full disk; as the device says.
    pub fn open_salvaged(
        store: &Arc<Store>,
        options: TreeOptions,
        salvage: Salvage,
        root: &[u8],
        cut: Sequence,
    ) -> Result<(Tree, Vec<Lost>, Vec<String>)> {
        let (trunk, lost, mended) = salvage.open(store, options, root, cut)?;
        Ok((Tree::over(trunk), lost, mended))
    }

    /// Compacts what damaged leaves, index nodes and values stop, without them: what they had is
    /// lost.
    /// Reads everything. Nothing else may change the tree meanwhile. The next checkpoint makes it
    /// durable.
    ///
    /// # Errors
    /// As the device says. What was mended stays so.
    pub fn mend(&self) -> Result<Mended> {
        disk::mend(&self.trunk, &self.compactor)
    }

    /// The store that it lives in.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.trunk.store
    }

    /// The options it was opened with.
    #[must_use]
    pub fn options(&self) -> &TreeOptions {
        &self.trunk.options
    }

    /// What may be forgotten.
    #[must_use]
    pub fn horizon(&self) -> &Horizon {
        &self.trunk.horizon
    }

    /// Returns the current version. Its reader holds a guard that was pinned before.
    #[must_use]
    pub fn version(&self) -> Arc<Version> {
        self.trunk.version()
    }

    /// Every commit up to this one is in the tree.
    #[must_use]
    pub fn cut(&self) -> Sequence {
        self.trunk.peek().cut()
    }

    /// How high the trunk is: 1 for a single leaf.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.trunk.peek().root.height + 1
    }

    /// The most runs that a lookup may have to ask, on the longest path from the root to a leaf.
    #[must_use]
    pub fn longest_path(&self) -> usize {
        longest_path(&self.version().root).0
    }

    /// The keys of the leaf that holds a key, as the tree is now.
    #[must_use]
    pub fn leaf_range(&self, key: &[u8]) -> KeyRange {
        leaf_for(&self.version().root, key).range.clone()
    }
}

/// What comes into it.
impl Tree {
    /// Begins to write out a sealed memtable, which holds every commit after the last one's cut up
    /// to `cut`. Memtables are incorporated in their order. `class` says whether it may use the
    /// reserve: it does when it holds deletes only.
    ///
    /// # Errors
    /// As [`Builder::new`](crate::run::Builder::new).
    pub fn incorporate(&self, memtable: Arc<Memtable>, cut: Sequence, class: Class) -> Result<Incorporation> {
        self.incorporate_share(Share::whole(memtable, cut), class)
    }

    /// The same of a share of a memtable.
    ///
    /// # Errors
    /// As [`Builder::new`](crate::run::Builder::new).
    pub fn incorporate_share(&self, share: Share, class: Class) -> Result<Incorporation> {
        Incorporation::new(&self.trunk, share, class)
    }

    /// Begins an ingest. `class` says whether it may use the reserve of space.
    ///
    /// ```
    /// use alluvium_base::Message;
    /// use alluvium_dictionary::contract::Ingest;
    /// use alluvium_base::message::LAST;
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_storage::extents::Class;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_trees::tiered::{Tree, TreeOptions};
    /// use std::sync::Arc;
    /// let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// let tree = Tree::create(Arc::new(store), TreeOptions::default());
    /// let mut ingest = tree.ingest(Class::Normal)?;
    /// ingest.push(b"lake", Message::put(0, b"Como"))?;
    /// ingest.push(b"river", Message::put(0, b"Oder"))?;
    /// assert!(ingest.push(b"pond", Message::put(0, b"")).is_err(), "out of order");
    /// ingest.end_layer()?;
    /// ingest.push(b"lake", Message::delete(0))?;
    /// ingest.end_layer()?;
    /// assert_eq!(tree.get(b"river", LAST, 0)?, None);
    /// ingest.attach(1)?;
    /// assert_eq!(tree.get(b"river", LAST, 0)?, Some(b"Oder".to_vec()));
    /// assert_eq!(tree.get(b"lake", 1, 0)?, Some(b"Como".to_vec()));
    /// assert_eq!(tree.get(b"lake", 2, 0)?, None);
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`](alluvium_storage::Error::Poisoned) when the store refuses changes.
    pub fn ingest(&self, class: Class) -> Result<LayerIngest<Tree>> {
        let writer = layer_writer(&self.trunk, class)?;
        Ok(LayerIngest::new(self.clone(), writer))
    }

    /// Notes that no commit up to `cut` is missing any more: there is nothing in them for the tree.
    pub(super) fn advance(&self, cut: Sequence) -> Result<()> {
        self.trunk
            .change(Some(cut), |_, _, root| Ok(Some(root.draft())))?;
        Ok(())
    }
}

/// What is read of it.
impl Tree {
    /// Returns a reader of the current version.
    ///
    /// ```
    /// # use alluvium_base::{Message, message::LAST};
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::extents::Class;
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// # use std::sync::Arc;
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_trees::tiered::{Tree, TreeOptions};
    /// use alluvium_dictionary::contract::Reader;
    /// use alluvium_dictionary::gather::Gather;
    /// use alluvium_dictionary::key::Key;
    /// use alluvium_dictionary::lookup;
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let tree = Tree::create(Arc::new(store), TreeOptions::default());
    /// # let older = Memtable::new(1 << 20);
    /// # older.insert(b"river", Message::put(1, b"Elbe")).unwrap();
    /// # tree.incorporate(Arc::new(older), 1, Class::Normal)?.poll(usize::MAX)?;
    /// let (memtable, base) = (Memtable::new(1 << 20), 1); // it has the commits above 1
    /// memtable.insert(b"lake", Message::put(2, b"Bodensee")).unwrap();
    /// let reader = tree.reader();
    /// let get = |key: &[u8]| {
    ///     let key = Key::new(key);
    ///     let mut gather = Gather::new(LAST, 0, None);
    ///     if base >= reader.cut() {
    ///         gather.memtable(&memtable, key);
    ///     }
    ///     lookup::gather(&reader, key, &mut gather)?;
    ///     Ok::<_, alluvium_storage::Error>(gather.finish())
    /// };
    /// assert_eq!(get(b"lake")?, Some(b"Bodensee".to_vec()));
    /// assert_eq!(get(b"river")?, Some(b"Elbe".to_vec()));
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(&self.trunk)
    }

    /// Returns the value of a key for a reader at `at`.
    ///
    /// ```
    /// use alluvium_base::{Message, message::LAST};
    /// use alluvium_device::{Directory, memory::MemoryDirectory};
    /// use alluvium_storage::extents::Class;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_trees::tiered::{Tree, TreeOptions};
    /// use std::sync::Arc;
    ///
    /// let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    /// let store = Arc::new(Store::create(directory, &StoreOptions::default(), b"")?);
    /// let tree = Tree::create(store, TreeOptions::default());
    /// let memtable = Memtable::new(1 << 20);
    /// memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
    /// tree.incorporate(Arc::new(memtable), 1, Class::Normal)?.poll(usize::MAX)?;
    /// assert_eq!(tree.get(b"river", LAST, 0)?, Some(b"Elbe".to_vec()));
    /// assert_eq!(tree.get(b"lake", LAST, 0)?, None);
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn get(&self, key: &[u8], at: Sequence, now_ms: u64) -> Result<Answer> {
        lookup::get(&self.trunk, key, at, now_ms)
    }

    /// Returns the values of many keys for a reader at `at`, in their order. All leaves that must
    /// be read are read together.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn multi_get(&self, keys: &[&[u8]], at: Sequence, now_ms: u64) -> Result<Vec<Answer>> {
        lookup::multi_get(&self.trunk, keys, at, now_ms)
    }

    /// A lookup of a key for a reader at `at`, to be polled.
    #[must_use]
    pub fn lookup(&self, key: &[u8], at: Sequence, now_ms: u64) -> Lookup {
        Lookup::new(&self.trunk, None, key, at, now_ms)
    }

    /// The same through memtables and the tree below them.
    #[must_use]
    pub fn lookup_with(
        &self,
        memtables: Arc<dyn Memtables>,
        key: &[u8],
        at: Sequence,
        now_ms: u64,
    ) -> Lookup {
        Lookup::new(&self.trunk, Some(memtables), key, at, now_ms)
    }

    /// Returns a walk over `range` in key order or against it, for a reader at `at` to whom puts
    /// that expire at or before `now_ms` are gone.
    #[must_use]
    pub fn iter(&self, range: KeyRange, direction: Direction, at: Sequence, now_ms: u64) -> Iter {
        Iter::new(&self.scans, None, range, direction, at, now_ms)
    }

    /// The same over memtables and the tree below them, as one.
    ///
    /// ```
    /// # use alluvium_base::Message;
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_dictionary::merge::Direction;
    /// use alluvium_dictionary::range::KeyRange;
    /// use alluvium_trees::tiered::{Tree, TreeOptions};
    /// use alluvium_dictionary::memtables::{MemtableEntry, MemtableList, Memtables};
    /// use std::sync::Arc;
    ///
    /// #[derive(Debug)]
    /// struct One(MemtableList);
    /// impl Memtables for One {
    ///     fn newest_first(&self) -> MemtableList {
    ///         Arc::clone(&self.0)
    ///     }
    /// }
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let tree = Tree::create(Arc::new(store), TreeOptions::default());
    /// let memtable = Arc::new(Memtable::new(1 << 20));
    /// memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
    /// let above = One(Arc::new(vec![MemtableEntry { memtable, base: 0 }]));
    /// let mut iter = tree.iter_with(Arc::new(above), KeyRange::everything(), Direction::Forward, 1, 0);
    /// assert_eq!(iter.next()?, Some((&b"river"[..], &b"Elbe"[..])));
    /// assert_eq!(iter.next()?, None);
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn iter_with(
        &self,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
        now_ms: u64,
    ) -> Iter {
        Iter::new(&self.scans, Some(memtables), range, direction, at, now_ms)
    }

    /// Limits what scans hold between their calls to `bytes` bytes, all of them together, but for a
    /// little that each needs.
    pub fn limit_scans(&self, bytes: u64) {
        self.scans.limit(bytes);
    }

    /// Returns how many bytes scans hold between their calls.
    #[must_use]
    pub fn scans_hold(&self) -> u64 {
        self.scans.hold_bytes()
    }

    /// A digest of the root's bundles to be made, if lookups have paid for one.
    ///
    /// ```
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// # use alluvium_trees::tiered::{Tree, TreeOptions};
    /// # use std::sync::Arc;
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let tree = Tree::create(Arc::new(store), TreeOptions::default());
    /// assert!(tree.digest_due().is_none()); // there was no lookup
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn digest_due(&self) -> Option<Digesting> {
        Digesting::due(&self.trunk)
    }

    /// A digest of the root's bundles to be made, whatever it costs; none where there is one, or
    /// there can be none.
    #[must_use]
    pub fn digest(&self) -> Option<Digesting> {
        Digesting::begin(&self.trunk)
    }
}

/// What is to be done in it.
impl Tree {
    /// The next step that is due, if any: compactions, then neighbours that should be one.
    ///
    /// # Errors
    /// As the device says, or [`Error::Full`](alluvium_storage::Error::Full).
    pub fn next_step(&self) -> Result<Option<Step>> {
        self.compactor.next_step()
    }

    /// The next compaction that is due, if any, by the rule of `policy::turn`.
    ///
    /// # Errors
    /// As the device says, or [`Error::Full`](alluvium_storage::Error::Full); it is due again then.
    pub fn next_job(&self) -> Result<Option<Job>> {
        self.compactor.next_job()
    }

    /// Returns whether a compaction is under way, or due and not known to need more space than
    /// there is.
    #[must_use]
    pub fn may_compact(&self) -> bool {
        self.compactor.may_compact()
    }

    /// Asks for the full compaction of the leaf for which it is worth most, if it is for any and
    /// the budget allows it. The work itself comes as a step.
    ///
    /// # Errors
    /// As the device says.
    pub fn maintain(&self, maintenance: &mut Maintenance) -> Result<bool> {
        self.compactor.maintain(maintenance)
    }

    /// Asks for the full compaction of the leaf that holds a key: what lies above it sinks to it,
    /// and then all of it becomes one run. The work itself comes as a step.
    ///
    /// # Errors
    /// As the device says.
    pub fn compact_fully(&self, key: &[u8]) -> Result<()> {
        self.compactor.compact_fully(key)
    }

    /// Whether a step is due.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.trunk.lock().inflight.len() > 0
    }

    /// Writes most of what a checkpoint needs, while other steps go on: the cut that follows has
    /// little left to write. One checkpoint runs at a time.
    ///
    /// # Errors
    /// A full disk, which changes nothing; after a failed write the store takes no changes.
    pub fn prepare(&self) -> Result<()> {
        self.checkpointer.prepare()
    }

    /// Writes what is left, and returns what the tree is opened from: [`Tree::open`]. The trunk
    /// stands still until the cut is dropped, so that the extents can be cut at the same moment.
    ///
    /// # Errors
    /// As [`Tree::prepare`].
    pub fn stand(&self) -> Result<Cut<'_>> {
        self.checkpointer.stand()
    }
}

/// What is known about it.
impl Tree {
    /// What was done since the store was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.trunk.stats()
    }

    /// The memory it takes now. Costs a few loads, so it may be asked as often as one likes.
    ///
    /// ```
    /// # use alluvium_device::memory::MemoryDirectory;
    /// # use alluvium_storage::store::{Store, StoreOptions};
    /// # use alluvium_trees::tiered::{Tree, TreeOptions};
    /// # use std::sync::Arc;
    /// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// # let tree = Tree::create(Arc::new(store), TreeOptions::default());
    /// assert!(tree.memory().total() < 4096); // an empty tree
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    #[must_use]
    pub fn memory(&self) -> Memory {
        let memory = self.trunk.totals.memory();
        Memory {
            tables: memory.tables + self.trunk.usage.memory_bytes(),
            ..memory
        }
    }

    /// Returns what is due. Costs no more than taking the trunk's lock.
    #[must_use]
    pub fn debt(&self) -> Debt {
        self.trunk.lock().inflight.debt()
    }

    /// Returns about how much there is of a range: bytes, records and deletes among them, older
    /// versions included. Exact but for a leaf's worth at each end of each run; only index nodes
    /// are read.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn weigh(&self, range: &KeyRange) -> Result<Weight> {
        show::weigh(&self.trunk, range)
    }

    /// Returns about how many bytes a range takes on disk, its share of maplets included.
    ///
    /// # Errors
    /// As [`Tree::weigh`].
    pub fn size_on_disk(&self, range: &KeyRange) -> Result<u64> {
        show::size_on_disk(&self.trunk, range)
    }

    /// Returns about how many keys a range has: records that are no deletes. A key of which several
    /// versions or merges are left counts several times.
    ///
    /// # Errors
    /// As [`Tree::weigh`].
    pub fn approximate_len(&self, range: &KeyRange) -> Result<u64> {
        show::approximate_len(&self.trunk, range)
    }

    /// Returns what a range has, by what it is for. As exact as [`Tree::weigh`].
    ///
    /// # Errors
    /// As [`Tree::weigh`].
    pub fn holdings(&self, range: &KeyRange) -> Result<Holdings> {
        show::holdings(&self.trunk, range)
    }

    /// Returns the current version, drawn in plain text.
    #[must_use]
    pub fn draw(&self) -> String {
        self.version().to_string()
    }

    /// Returns the current shape. It costs a copy of the trunk's keys, and no read.
    #[must_use]
    pub fn outline(&self) -> Outline {
        Outline::of(&self.trunk)
    }

    /// Returns on which tiers its runs lie. Nothing is read.
    #[must_use]
    pub fn places(&self) -> Vec<RunPlace> {
        show::places(&self.version())
    }

    /// Returns a run, by the number of its group and its place in that, as
    /// [`OutlineLayer`](super::OutlineLayer) says them; none if it is not in the tree (any more).
    /// Nothing is read.
    #[must_use]
    pub fn outline_run(&self, group: u64, place: usize) -> Option<OutlineRun> {
        OutlineRun::of(&self.version(), group, place)
    }

    /// Everything that is wrong with the tree, and the extents that it uses. No step may go on
    /// meanwhile; jobs that were begun and not ended are handed in, for they use extents too.
    /// `durable` is the root that the durable generation has, if it has one. `tell` learns how far
    /// it has come whenever a run or a maplet was read, and may end it by failing.
    ///
    /// # Errors
    /// As the device says, and what `tell` returns. What cannot be read because it is damaged is
    /// reported, not returned.
    pub fn examine(
        &self,
        depth: Depth,
        jobs: &[&Job],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(Checked) -> Result<()>,
    ) -> Result<Examined> {
        let jobs: Vec<JobId> = jobs.iter().map(|job| job.id()).collect();
        self.examine_with(depth, &jobs, durable, tell)
    }

    /// The same, with the numbers of the jobs.
    pub(super) fn examine_with(
        &self,
        depth: Depth,
        jobs: &[JobId],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(Checked) -> Result<()>,
    ) -> Result<Examined> {
        disk::examine(&self.trunk, depth, jobs, durable, tell)
    }

    /// For each pivot with anything in its stack, how many records it is estimated to hold, and how
    /// many it does, counted one by one.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn count_records(&self) -> Result<Vec<(u64, u64)>> {
        disk::count_records(&self.trunk)
    }
}
