//! A paged tree that serves as a dictionary of a store.
//!
//! *Scope*: which of a key's messages stay in the pages; when readers see them; how the pages take
//! part in the store's checkpoints.
//!
//! *Must not depend on*: threads, clocks, transactions; who assigns sequence numbers; when a
//! memtable is sealed; when a checkpoint is due.
//!
//! The pages are in a file of their own in the store's first directory, and the journal of old page
//! images is in two more. A checkpoint writes the pages and stores their root in the store's
//! manifest. After a crash, the store's superblock determines which root to open. The journal
//! therefore keeps the old images for each root that may be opened: see `buffer/hosted.rs`. The
//! pages are not in extents of the store, because copies of the store and its extent map rely on
//! extents never being overwritten.
//!
//! A change of many keys is applied in slices of a few keys. Between two slices, readers continue,
//! although only some of the keys have been changed. The *cut* of the structure is the sequence
//! number of the last commit whose changes are complete. Readers ignore messages above the cut in
//! the pages, and find them instead in the memtable, which stays in the list of memtables until the
//! whole change has been applied.
//!
//! Invariants:
//!
//! - **PV1** No reader is active while a slice is applied: readers hold the gate in shared mode,
//!   and the writer holds it exclusively.
//! - **PV2** A key's messages are ordered from newest to oldest.
//! - **PV3** Until a change is published, messages above the cut are not merged with messages below
//!   it. A newer message may replace an older one only if it hides the older one at every sequence
//!   number that is still read.
//! - **PV4** A root's state contains no messages above its cut. A change that failed halfway is
//!   completed before the next root is written.
//! - **PV5** Each separate page of messages, and each slot of a shared page, belongs to exactly one
//!   value. Once the value has left the tree, the page or slot is freed after the current slice.

mod apply;
mod check;
mod contract;
mod expiring;
mod figures;
mod format;
mod keep;
mod messages;
mod outline;
mod read;
mod salvage;
mod scan;
#[cfg(test)]
mod tests;

pub use figures::PagedStats;
pub use keep::{CheckpointHold, KeptPages, check_files};
pub use outline::PagedOutline;
pub use read::PagedReader;
pub use salvage::LostKeys;
pub use scan::PagedIter;

use super::beps::{BepsTree, FlushOrder, RootStyle};
use super::bplus::BplusTree;
use super::buffer::{FRAME_BYTES, FreeLists, LastRoot, PageBuffer, PagePool, PoolOptions, PoolStatistics};
use super::core::TreeCore;
use super::merge::UnderfullPolicy;
use super::node::{EpsilonMode, MessageAction, NodeMessage as Node, NodeShape, TreeSizes, UpdateOperator};
use super::store::{StoredTreeKind, TreeLocation};
use super::tree::WritePath;
use alluvium_base::SequenceNumber;
use alluvium_device::{DeviceOperation, Error as DeviceError};
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_storage::{DiskLocation as Where, Error, Result};
use expiring::PagedExpiryCounts;
pub(in crate::paged) use format::{examples, is_apart, reread_value};
use messages::{MessagePlace, SharedPages};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The name of the page file in the store's first directory.
const FILE: &str = "paged.pages";
/// Minimum length limit for values in bytes, so that a value can hold a pointer.
const LEAST_VALUE: usize = 24;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TreeKind {
    /// A Bε-tree, which buffers messages in inner nodes.
    #[default]
    Beps,
    Bplus,
}

/// The options of a paged tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedOptions {
    pub kind: TreeKind,
    /// Size of a node in bytes, which must be a power of two from 512 to 65536.
    pub node_bytes: usize,
    /// ε in hundredths, unless each node has its own ε.
    pub epsilon_percent: u32,
    /// Whether all nodes of a Bε-tree have the same ε or each node has its own.
    pub epsilon: EpsilonMode,
    /// What to do with nodes that deletes leave under-full.
    pub merging: UnderfullPolicy,
    /// Maximum length of a key in bytes, including its keyspace's prefix.
    pub key_bytes: usize,
    /// Maximum size in bytes of the messages that a node stores for a key. Longer messages are
    /// stored in separate pages.
    pub value_bytes: usize,
    /// Memory for the page buffer in bytes.
    pub buffer_bytes: usize,
}

/// These values are also the defaults for the pages of a store.
impl Default for PagedOptions {
    fn default() -> PagedOptions {
        PagedOptions {
            kind: TreeKind::Beps,
            node_bytes: 16 << 10,
            epsilon_percent: 80,
            epsilon: EpsilonMode::Fixed,
            merging: UnderfullPolicy::Never,
            key_bytes: 64,
            value_bytes: 128,
            buffer_bytes: 4 << 20,
        }
    }
}

impl PagedOptions {
    fn pool(&self) -> PoolOptions {
        PoolOptions {
            page_bytes: self.node_bytes,
            memory_bytes: self.buffer_bytes,
            ..PoolOptions::default()
        }
    }

    fn sizes(&self) -> TreeSizes {
        TreeSizes {
            key_limit: self.key_bytes,
            value_limit: self.value_bytes,
            epsilon_percent: match self.kind {
                TreeKind::Beps => self.epsilon_percent,
                TreeKind::Bplus => 100,
            },
        }
    }

    fn shape(&self) -> Result<NodeShape> {
        let content = self.node_bytes.saturating_sub(super::buffer::PAGE_HEADER);
        match (self.kind, self.epsilon) {
            (TreeKind::Beps, EpsilonMode::Adaptive) => NodeShape::adaptive(content, self.sizes()),
            _ => NodeShape::new(content, self.sizes()),
        }
    }

    /// Checks that a tree can be created with these options, without writing anything.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub fn validate(&self) -> Result<()> {
        let bad = |option, why: String| Err(Error::BadOption { option, why });
        if self.epsilon_percent > 100 {
            return bad(
                "epsilon",
                format!("{} hundredths is out of range: give 0 to 1", self.epsilon_percent),
            );
        }
        if self.node_bytes.saturating_mul(16) > self.buffer_bytes {
            let why = format!(
                "nodes of {} bytes are too large: 16 must fit into the buffer of {} bytes; make nodes smaller, or give more memory",
                self.node_bytes, self.buffer_bytes
            );
            return bad("node", why);
        }
        if self.value_bytes < LEAST_VALUE {
            let why = format!(
                "{} bytes is too small: give at least {LEAST_VALUE}",
                self.value_bytes
            );
            return bad("value_bytes", why);
        }
        super::buffer::check_page_bytes(self.node_bytes)?;
        self.shape()?;
        Ok(())
    }
}

#[derive(Debug)]
enum AnyTree {
    Beps(BepsTree<PagePool>),
    Bplus(BplusTree<PagePool>),
}

impl AnyTree {
    fn of(core: TreeCore<PagePool>, sort: StoredTreeKind) -> AnyTree {
        match sort {
            StoredTreeKind::Beps => {
                AnyTree::Beps(BepsTree::of(core, RootStyle::Separate, FlushOrder::Automatic))
            }
            StoredTreeKind::BepsBufferedRoot => {
                AnyTree::Beps(BepsTree::of(core, RootStyle::Buffered, FlushOrder::Automatic))
            }
            StoredTreeKind::Bplus => AnyTree::Bplus(BplusTree::of(core)),
        }
    }

    fn core(&self) -> &TreeCore<PagePool> {
        match self {
            AnyTree::Beps(tree) => &tree.core,
            AnyTree::Bplus(tree) => &tree.core,
        }
    }

    fn sort(&self) -> StoredTreeKind {
        match self {
            AnyTree::Beps(tree) => tree.path.sort(),
            AnyTree::Bplus(tree) => tree.path.sort(),
        }
    }

    /// Sets the value of a key, or deletes the key if `value` is `None`.
    fn write(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let action = match value {
            Some(_) => MessageAction::Insert,
            None => MessageAction::Delete,
        };
        let operand = value.unwrap_or_default();
        let message = Node { key, action, operand };
        match self {
            AnyTree::Beps(tree) => tree.write(message),
            AnyTree::Bplus(tree) => tree.write(message),
        }
    }

    /// Merges the under-full leaves that writers have noted.
    fn merge_noted(&self) -> Result<()> {
        let _writing = self.core().gate.read();
        match self {
            AnyTree::Beps(tree) => tree.merge_noted(),
            AnyTree::Bplus(tree) => tree.merge_noted(),
        }
    }
}

/// Locations of the messages of values that have left the tree.
#[derive(Debug, Default)]
struct DroppedValues(Mutex<Vec<MessagePlace>>);

impl UpdateOperator for DroppedValues {
    fn combine(&self, _older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(younger);
    }

    fn dropped(&self, value: &[u8]) {
        self.0.lock().extend(MessagePlace::of(value));
    }
}

/// The state of a tree's writer.
#[derive(Debug, Default)]
struct PagedWriterState {
    /// The root that was returned most recently, and the store's durable generation at that time.
    root: Option<(Vec<u8>, u64)>,
    /// Whether the pages have not changed since that root was returned.
    is_current: bool,
    /// The error that left a change incomplete. It is removed once the change has been completed
    /// (PV4).
    stopped: Option<Error>,
}

/// A paged tree. All methods may be called from any thread.
#[derive(Clone)]
pub struct PagedDictionary {
    shared: Arc<PagedInner>,
}

struct PagedInner {
    home: StructureContext,
    tree: AnyTree,
    dropped: Arc<DroppedValues>,
    shared_pages: Mutex<SharedPages>,
    /// Memory for the page buffer in bytes.
    buffer_bytes: u64,
    /// Readers hold this lock in shared mode. The writer holds it exclusively while it applies a
    /// slice of a change (PV1).
    gate: RwLock<()>,
    cut: AtomicU64,
    /// Number of slices that have been applied so far.
    state: AtomicU64,
    writer: Mutex<PagedWriterState>,
    /// Whether a rewrite of the whole tree has been requested.
    is_stale: AtomicBool,
    /// The damage that put the tree out of use, if any: its location, the expected content and the
    /// actual content.
    aside: OnceLock<(Where, String, String)>,
    expiring: PagedExpiryCounts,
    /// Number of deletes since the last rewrite began.
    deletes: AtomicU64,
}

impl fmt::Debug for PagedDictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedDictionary")
            .field("tree", &self.shared.tree.sort())
            .field("cut", &self.shared.cut)
            .finish_non_exhaustive()
    }
}

impl PagedDictionary {
    /// Creates an empty tree that counts as containing all commits up to `cut`. None of these
    /// commits may have written any of the tree's keys.
    ///
    /// ```
    /// use alluvium_base::{Message, message::MAX_SEQUENCE};
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_dictionary::contract::{Dictionary, PointLookup};
    /// use alluvium_dictionary::key::LookupKey;
    /// use alluvium_dictionary::lookup;
    /// use alluvium_dictionary::lookup_state::LookupState;
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_dictionary::memtable_slice::MemtableSlice;
    /// use alluvium_dictionary::rules::OneKeyspace;
    /// use alluvium_storage::extents::AllocationClass;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_trees::map::StructureContext;
    /// use alluvium_trees::paged::{PagedDictionary, PagedOptions};
    /// use std::sync::Arc;
    /// let store = Store::create(
    ///     Arc::new(MemoryDirectory::new()),
    ///     &StoreOptions::default(),
    ///     b"",
    /// )?;
    /// let home = StructureContext {
    ///     store: Arc::new(store),
    ///     schema: Arc::new(OneKeyspace::default()),
    ///     horizon: Arc::default(),
    /// };
    /// let paged = PagedDictionary::create(home, PagedOptions::default(), 0)?;
    /// let memtable = Memtable::new(1 << 20);
    /// memtable
    ///     .insert(b"Elbe", Message::put(1, b"1094 km"))
    ///     .unwrap();
    /// let mut taking = paged.incorporate(
    ///     MemtableSlice::whole(Arc::new(memtable), 1),
    ///     AllocationClass::Normal,
    /// )?;
    /// taking.poll(usize::MAX)?;
    /// taking.publish()?;
    /// let mut gather = LookupState::new(MAX_SEQUENCE, 0, None);
    /// lookup::gather(&paged.reader(), LookupKey::new(b"Elbe"), &mut gather)?;
    /// assert_eq!(gather.finish().unwrap(), b"1094 km");
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// Options that contradict each other; an error if the disk is full; I/O errors.
    pub fn create(
        home: StructureContext,
        options: PagedOptions,
        cut: SequenceNumber,
    ) -> Result<PagedDictionary> {
        options.validate()?;
        let dropped: Arc<DroppedValues> = Arc::default();
        let directory = Arc::clone(home.store.directory());
        let place = TreeLocation {
            directory: &*directory,
            name: FILE,
        };
        let sort = match options.kind {
            TreeKind::Beps => StoredTreeKind::Beps,
            TreeKind::Bplus => StoredTreeKind::Bplus,
        };
        let identity = home.store.superblock().store;
        let (shape, merging) = (options.shape()?, options.merging);
        let core = TreeCore::create_hosted(place, identity, options.pool(), shape, dropped.clone(), merging);
        let core = home.store.poison_on_error(core)?;
        let writer = PagedWriterState::default();
        Ok(Self::assemble(
            home,
            AnyTree::of(core, sort),
            dropped,
            cut,
            writer,
        ))
    }

    /// Opens the tree with the given root, which contains every commit up to `cut`. The size of the
    /// page buffer is the only option that is used.
    ///
    /// # Errors
    /// [`Error::Corrupt`], or I/O errors.
    pub fn open(
        home: StructureContext,
        options: &PagedOptions,
        root: &[u8],
        cut: SequenceNumber,
    ) -> Result<PagedDictionary> {
        Self::open_with(home, options, (root, cut), FreeLists::Whole)
    }

    fn open_with(
        home: StructureContext,
        options: &PagedOptions,
        (root, cut): (&[u8], SequenceNumber),
        lists: FreeLists,
    ) -> Result<PagedDictionary> {
        let dropped: Arc<DroppedValues> = Arc::default();
        let directory = Arc::clone(home.store.directory());
        let place = TreeLocation {
            directory: &*directory,
            name: FILE,
        };
        let (core, sort) = TreeCore::open_hosted(place, root, options.pool(), dropped.clone(), lists)?;
        let writer = PagedWriterState {
            // The root is durable. Generation 0 makes every generation of the store later than it.
            root: Some((root.to_vec(), 0)),
            is_current: true,
            stopped: None,
        };
        Ok(Self::assemble(
            home,
            AnyTree::of(core, sort),
            dropped,
            cut,
            writer,
        ))
    }

    fn assemble(
        home: StructureContext,
        tree: AnyTree,
        dropped: Arc<DroppedValues>,
        cut: SequenceNumber,
        writer: PagedWriterState,
    ) -> PagedDictionary {
        let node_bytes = tree.core().shape.content_bytes + super::buffer::PAGE_HEADER;
        let frames = tree.core().buffer.frames().unwrap_or(0);
        assert!(
            writer.is_current == writer.root.is_some(),
            "pages are current by a root (PV4)"
        );
        PagedDictionary {
            shared: Arc::new(PagedInner {
                home,
                tree,
                dropped,
                shared_pages: Mutex::default(),
                buffer_bytes: (frames * (node_bytes + FRAME_BYTES)) as u64,
                gate: RwLock::new(()),
                cut: AtomicU64::new(cut),
                state: AtomicU64::new(0),
                writer: Mutex::new(writer),
                is_stale: AtomicBool::new(false),
                aside: OnceLock::new(),
                expiring: PagedExpiryCounts::default(),
                deletes: AtomicU64::new(0),
            }),
        }
    }

    fn core(&self) -> &TreeCore<PagePool> {
        self.shared.tree.core()
    }

    /// Returns the statistics of the page buffer.
    #[must_use]
    pub fn statistics(&self) -> PoolStatistics {
        self.core().buffer.statistics()
    }

    /// Returns the size of the page file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.core().buffer.file_bytes()
    }

    /// Returns about how many bytes future checkpoints could release to the file system.
    #[must_use]
    pub fn returnable_bytes(&self) -> u64 {
        self.core().buffer.returnable_bytes()
    }

    /// Returns the total size of the journal's files in bytes.
    #[must_use]
    pub fn journal_bytes(&self) -> u64 {
        self.core().buffer.journal_bytes()
    }

    /// Returns the options that the tree was created with. If several values of ε result in the
    /// same nodes, the smallest is returned.
    #[must_use]
    pub fn options(&self) -> PagedOptions {
        let shape = &self.core().shape;
        let options = PagedOptions {
            kind: match self.shared.tree.sort() {
                StoredTreeKind::Beps | StoredTreeKind::BepsBufferedRoot => TreeKind::Beps,
                StoredTreeKind::Bplus => TreeKind::Bplus,
            },
            node_bytes: shape.content_bytes + super::buffer::PAGE_HEADER,
            epsilon_percent: 0,
            epsilon: match shape.own {
                None => EpsilonMode::Fixed,
                Some(_) => EpsilonMode::Adaptive,
            },
            merging: self.core().merging,
            key_bytes: shape.key_limit,
            value_bytes: shape.value_limit,
            buffer_bytes: self.shared.buffer_bytes as usize,
        };
        let mut all = (0..=100).map(|epsilon_percent| PagedOptions {
            epsilon_percent,
            ..options
        });
        let found = all.find(|options| self.is_built_as(options));
        debug_assert!(found.is_some(), "nodes are laid out by an ε");
        found.unwrap_or(options)
    }

    /// Returns whether these options would create the same tree, whatever the size of the page
    /// buffer.
    #[must_use]
    pub fn is_built_as(&self, options: &PagedOptions) -> bool {
        let is_sort = match self.shared.tree.sort() {
            StoredTreeKind::Beps | StoredTreeKind::BepsBufferedRoot => options.kind == TreeKind::Beps,
            StoredTreeKind::Bplus => options.kind == TreeKind::Bplus,
        };
        let core = self.core();
        is_sort && options.merging == core.merging && options.shape().is_ok_and(|shape| shape == core.shape)
    }

    /// Returns the sequence number of the last commit whose changes are complete in the pages (the
    /// cut).
    fn at(&self) -> SequenceNumber {
        self.shared.cut.load(Ordering::Acquire)
    }

    /// Sets the cut to `cut` while no reader is active. The pages must contain every commit up to
    /// this sequence number.
    fn raise(&self, cut: SequenceNumber) {
        assert!(cut >= self.at(), "a structure does not forget commits");
        let _alone = self.shared.gate.write();
        self.shared.cut.store(cut, Ordering::Release);
    }

    /// Refuses all reads and writes until the store is reopened. This must be called if damage
    /// interrupts a change, because only part of the change is then in the pages.
    pub fn quarantine(&self, damage: &Error) {
        if let Error::Corrupt {
            place,
            expected,
            found,
        } = damage
        {
            let damage = (place.clone(), expected.clone(), found.clone());
            self.shared.aside.get_or_init(|| damage);
        }
    }

    /// Returns the damage that put the tree out of use, if any.
    fn damage(&self) -> Option<Error> {
        let aside = self.shared.aside.get();
        let aside = aside
            .map(|(place, expected, found)| Error::corrupt(place.clone(), expected.clone(), found.clone()));
        aside.or_else(|| self.core().damage())
    }

    /// Returns `result`, and reports an error to the store. If the tree is damaged, returns the
    /// damage instead without reporting it, because it affects only these pages.
    fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        if let Some(damage) = self.damage() {
            return Err(damage);
        }
        alluvium_dictionary::structure_context::poison_on_error(&self.shared.home.store, result)
    }

    /// Writes the pages, unless they have not changed since the last root. No change is possible
    /// until the returned guard is dropped.
    fn write_pages_if_changed(&self) -> Result<MutexGuard<'_, PagedWriterState>> {
        let mut writer = self.shared.writer.lock();
        if let Some(stopped) = &writer.stopped {
            // Only part of a memtable is in the pages, so the rest must be applied first (PV4).
            return Err(self.repeat(stopped));
        }
        let generation = self.shared.home.store.superblock().generation;
        if writer.is_current
            && let Some((_, before)) = &writer.root
        {
            self.core().buffer.give_space_back(generation > *before);
            return Ok(writer);
        }
        let last = match &writer.root {
            Some((_, before)) if generation > *before => LastRoot::Durable,
            _ => LastRoot::Unknown,
        };
        self.free_left()?;
        let root = self.poison_on_error(self.core().write_root(self.shared.tree.sort(), last))?;
        assert!(!root.is_empty(), "a root says what it is of");
        writer.root = Some((root, generation));
        writer.is_current = true;
        Ok(writer)
    }

    /// Returns a copy of the error that left a change incomplete. Unless that error is a failed
    /// device call, it was caused by a full disk.
    fn repeat(&self, stopped: &Error) -> Error {
        Error::Device(match stopped {
            Error::Device(DeviceError::Io {
                operation,
                file,
                offset,
                len,
                source,
            }) => DeviceError::Io {
                operation: *operation,
                file: file.clone(),
                offset: *offset,
                len: *len,
                source: std::io::Error::new(source.kind(), source.to_string()),
            },
            _ => DeviceError::DiskFull {
                operation: DeviceOperation::Grow,
                file: FILE.to_owned(),
                wanted: self.core().shape.content_bytes as u64,
            },
        })
    }

    /// Frees the pages that a failed change left behind. This must happen before a root is written,
    /// because a root must not contain a page that belongs to no value.
    fn free_left(&self) -> Result<()> {
        if self.shared.dropped.0.lock().is_empty() {
            return Ok(());
        }
        let _alone = self.shared.gate.write();
        self.poison_on_error(self.free_dropped())
    }

    fn write_checkpoint_root(&self) -> Result<CheckpointRoot<'_>> {
        let writer = self.write_pages_if_changed()?;
        assert!(writer.is_current, "the pages are as the root says");
        let (root, _) = writer.root.as_ref().expect("it was just written");
        Ok(CheckpointRoot::new(root.clone(), self.at(), writer))
    }
}
