//! A tree in pages as a dictionary of a store.
//!
//! *Scope*: which messages of a key the pages keep, when readers see them, how the pages take part
//! in the store's checkpoints.
//!
//! *Must not depend on*: threads, clocks, transactions; who assigns sequence numbers; when a
//! memtable is sealed; when a checkpoint is due.
//!
//! The pages are in their own file in the store's first directory, with a journal of old images in
//! two further files. A checkpoint writes the pages and puts their root into the store's manifest.
//! After a crash the store's superblock determines the root to open, so the journal keeps the
//! images that lead back to each root that may be the one: see `buffer/hosted.rs`. The pages are
//! not in extents of the store, because its copies and its map rely on extents never being
//! overwritten.
//!
//! A change of many keys is applied in slices of a few keys. Between two slices readers continue,
//! and see some keys with the change and some without. They ignore messages above the structure's
//! cut, and read these from the memtable, which stays in the list until the whole change is
//! applied.
//!
//! Invariants:
//!
//! - **PV1** While a slice is applied no reader is inside: readers hold the gate shared, and the
//!   writer exclusively.
//! - **PV2** The messages of a key are ordered newest first.
//! - **PV3** Until a change is published, messages above the cut are not folded with those below
//!   it. A message may be replaced only if no reader needs it: the newer message hides it at every
//!   sequence number that is read at.
//! - **PV4** A root holds nothing above its cut: a change that failed in the middle is finished
//!   before the next root.
//! - **PV5** A separate page of messages, or a slot of a shared one, belongs to one value. Once the
//!   tree no longer has the value, they are freed after the slice.

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

/// The name of the page file.
const FILE: &str = "paged.pages";
/// The smallest limit of values: a pointer must fit.
const LEAST_VALUE: usize = 24;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TreeKind {
    /// A Bε-tree: messages wait in nodes.
    #[default]
    Beps,
    Bplus,
}

/// Options of a tree in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedOptions {
    pub kind: TreeKind,
    /// Size of a node in bytes: a power of two from 512 to 65536.
    pub node_bytes: usize,
    /// ε in hundredths. Ignored if each node has its own.
    pub epsilon_percent: u32,
    /// Whether each node of a Bε-tree has its own ε.
    pub epsilon: EpsilonMode,
    /// The treatment of nodes that deletes leave under-full.
    pub merging: UnderfullPolicy,
    /// The longest key in bytes, including the prefix of its keyspace.
    pub key_bytes: usize,
    /// The most bytes of a key's messages that are stored in a node; longer ones are in separate
    /// pages.
    pub value_bytes: usize,
    /// Memory for pages in bytes.
    pub buffer_bytes: usize,
}

/// These are also the defaults of a store's pages.
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

    /// Checks that a tree can be built with these options. Writes nothing.
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

    /// Sets the value of a key, or deletes the key.
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

    /// Merges the leaves that were noted as under-full.
    fn merge_noted(&self) -> Result<()> {
        let _writing = self.core().gate.read();
        match self {
            AnyTree::Beps(tree) => tree.merge_noted(),
            AnyTree::Bplus(tree) => tree.merge_noted(),
        }
    }
}

/// Places of values that the tree no longer has.
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

/// The state of the writer.
#[derive(Debug, Default)]
struct PagedWriterState {
    /// The last root that was handed out, and the durable generation of the store at that time.
    root: Option<(Vec<u8>, u64)>,
    /// Whether the pages are in the state of that root.
    is_current: bool,
    /// The error that stopped a change in the middle, until that change is finished (PV4).
    stopped: Option<Error>,
}

/// A tree in pages. All methods may be called from any thread.
#[derive(Clone)]
pub struct PagedDictionary {
    shared: Arc<PagedInner>,
}

struct PagedInner {
    home: StructureContext,
    tree: AnyTree,
    dropped: Arc<DroppedValues>,
    shared_pages: Mutex<SharedPages>,
    /// Memory for pages in bytes.
    buffer_bytes: u64,
    /// Held shared by readers, and exclusively while a slice of a change is applied (PV1).
    gate: RwLock<()>,
    cut: AtomicU64,
    /// The number of slices applied so far.
    state: AtomicU64,
    writer: Mutex<PagedWriterState>,
    /// Whether a rewrite of the whole tree was requested.
    is_stale: AtomicBool,
    /// The damage for which the tree was set aside, if any: place, expected, found.
    aside: OnceLock<(Where, String, String)>,
    expiring: PagedExpiryCounts,
    /// Deletes since the last rewrite began.
    deletes: AtomicU64,
}

impl fmt::Debug for PagedDictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paged")
            .field("tree", &self.shared.tree.sort())
            .field("cut", &self.shared.cut)
            .finish_non_exhaustive()
    }
}

impl PagedDictionary {
    /// Creates an empty tree at the cut `cut`: no commit up to it is about the tree's keys.
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
    /// Options that do not fit; a full disk; I/O errors.
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

    /// Opens the tree of this root, with every commit up to `cut`. Of `options` only the size of
    /// the buffer is used.
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
            // This root is durable: with 0 here, every generation of the store is later.
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

    /// Returns the counters of the page buffer.
    #[must_use]
    pub fn statistics(&self) -> PoolStatistics {
        self.core().buffer.statistics()
    }

    /// Returns the size of the page file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.core().buffer.file_bytes()
    }

    /// Returns approximately how many bytes checkpoints would return to the file system.
    #[must_use]
    pub fn returnable_bytes(&self) -> u64 {
        self.core().buffer.returnable_bytes()
    }

    /// Returns the size of the journal's files in bytes.
    #[must_use]
    pub fn journal_bytes(&self) -> u64 {
        self.core().buffer.journal_bytes()
    }

    /// Returns the options of its tree. If several ε give the same nodes, the result has the least.
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

    /// Returns whether these options would build the same tree. The size of the buffer does not
    /// matter.
    #[must_use]
    pub fn is_built_as(&self, options: &PagedOptions) -> bool {
        let is_sort = match self.shared.tree.sort() {
            StoredTreeKind::Beps | StoredTreeKind::BepsBufferedRoot => options.kind == TreeKind::Beps,
            StoredTreeKind::Bplus => options.kind == TreeKind::Bplus,
        };
        let core = self.core();
        is_sort && options.merging == core.merging && options.shape().is_ok_and(|shape| shape == core.shape)
    }

    /// The last commit that the structure holds.
    fn at(&self) -> SequenceNumber {
        self.shared.cut.load(Ordering::Acquire)
    }

    /// Raises the cut while no reader is inside.
    fn raise(&self, cut: SequenceNumber) {
        assert!(cut >= self.at(), "a structure does not forget commits");
        let _alone = self.shared.gate.write();
        self.shared.cut.store(cut, Ordering::Release);
    }

    /// Ends reading and writing until the store is reopened: a change has met this damage, so that
    /// only a part of it is in the pages.
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

    /// Returns the damage for which the tree is no longer read or written.
    fn damage(&self) -> Option<Error> {
        let aside = self.shared.aside.get();
        let aside = aside
            .map(|(place, expected, found)| Error::corrupt(place.clone(), expected.clone(), found.clone()));
        aside.or_else(|| self.core().damage())
    }

    /// Reports an error to the store. Damage is not reported, because it affects these pages only.
    fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        if let Some(damage) = self.damage() {
            return Err(damage);
        }
        alluvium_dictionary::structure_context::poison_on_error(&self.shared.home.store, result)
    }

    /// Writes the pages unless they are in the state of the last root. The guard prevents changes.
    fn write_pages_if_changed(&self) -> Result<MutexGuard<'_, PagedWriterState>> {
        let mut writer = self.shared.writer.lock();
        if let Some(stopped) = &writer.stopped {
            // A part of a memtable is in the pages: the rest must be applied first (PV4).
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

    /// Returns the error that stopped a change again. Any cause other than a failed call of the
    /// device was a full disk.
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

    /// Frees pages that a failed change has left to be freed, because a root must have no page
    /// without a value.
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
