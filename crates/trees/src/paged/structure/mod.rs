//! A tree in pages as a structure of a store.
//!
//! *Knows*: which messages of a key its pages keep, when readers see them, how the pages fit the
//! store's checkpoints.
//!
//! *Does not know*: threads, clocks, transactions; who assigns sequence numbers, when a memtable is
//! sealed, when a checkpoint is due.
//!
//! *Read in this order*: this file, `format.rs`, `messages.rs` (what is kept of a key), `apply.rs`
//! (what changes it), `expiring.rs` (when what has expired is taken out), `read.rs`, `scan.rs`,
//! `contract.rs`, `check.rs`, `figures.rs`, `outline.rs`, `keep.rs` (copies), `salvage.rs` (what is
//! saved where pages are damaged).
//!
//! The pages are in a file of their own in the store's first directory, with a journal of old
//! images in two further ones. A checkpoint writes the pages and puts their root into the store's
//! manifest. The store's superblock decides which root a crash leaves, so the journal keeps what
//! leads back to each root that may be it: see `buffer/hosted.rs`. Extents of the store would be
//! found by its copies and its map, but these rely on extents that are never written over.
//!
//! A change of many keys is made a few keys at a time. Between two such slices readers go on, and
//! see some keys with the change and some without. They pass over what is above the structure's
//! cut, and have that from the memtable, which stays in the list until the end.
//!
//! Invariants:
//!
//! - **PV1** While a slice is applied no reader is inside; a reader holds the gate shared.
//! - **PV2** The messages of a key are newest first.
//! - **PV3** Until a change is published, nothing above the cut is folded with what is below it.
//!   What is replaced, no reader can ask for: the newer message hides it at every place that is
//!   read at.
//! - **PV4** A root holds nothing above its cut: a change that failed in its middle is finished
//!   before the next root.
//! - **PV5** Pages of messages apart, or a slot of a shared one, belong to one value. Once the
//!   tree has it no more, they are free after the slice.

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
pub use keep::{Held, KeptPages, check_files};
pub use outline::PagedOutline;
pub use read::Reader;
pub use salvage::LostKeys;
pub use scan::Iter;

use super::beps::{BepsTree, FlushOrder, RootStyle};
use super::bplus::BplusTree;
use super::buffer::{FRAME_BYTES, FreeLists, LastRoot, PageBuffer, Pool, PoolOptions, PoolStatistics};
use super::core::Core;
use super::merge::Merging;
use super::node::{Action, Epsilon, Message as Node, Operator, Shape, TreeSizes};
use super::store::{Place, Sort};
use super::tree::WritePath;
use alluvium_base::Sequence;
use alluvium_device::{Error as DeviceError, Operation};
use alluvium_dictionary::cut::Cut;
use alluvium_dictionary::home::Home;
use alluvium_storage::{Error, Place as Where, Result};
use expiring::Expiring;
pub(in crate::paged) use format::{examples, is_apart, reread_value};
use messages::{Place as MessagePlace, SharedPages};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The name of the file of pages.
const FILE: &str = "paged.pages";
/// The least limit of values: a pointer fits.
const LEAST_VALUE: usize = 24;

/// Which tree it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TreeKind {
    /// A Bε-tree: messages wait in nodes.
    #[default]
    Beps,
    /// A B⁺-tree.
    Bplus,
}

/// How a tree in pages is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedOptions {
    /// Which tree it is.
    pub kind: TreeKind,
    /// Bytes of a node: a power of two from 512 to 65536.
    pub node_bytes: usize,
    /// ε in hundredths. It says nothing where each node has its own.
    pub epsilon_percent: u32,
    /// Whether each node of a Bε-tree has an ε of its own.
    pub epsilon: Epsilon,
    /// What becomes of nodes that deletes leave under-full.
    pub merging: Merging,
    /// The longest key, with the prefix of its keyspace.
    pub key_bytes: usize,
    /// Messages of a key that are longer than this are in pages beside the nodes.
    pub value_bytes: usize,
    /// Memory for pages.
    pub buffer_bytes: usize,
}

/// The defaults of a store's pages, too: it takes them from here.
impl Default for PagedOptions {
    fn default() -> PagedOptions {
        PagedOptions {
            kind: TreeKind::Beps,
            node_bytes: 16 << 10,
            epsilon_percent: 80,
            epsilon: Epsilon::Fixed,
            merging: Merging::Never,
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

    /// Computes the shape of nodes.
    fn shape(&self) -> Result<Shape> {
        let content = self.node_bytes.saturating_sub(super::buffer::PAGE_HEADER);
        match (self.kind, self.epsilon) {
            (TreeKind::Beps, Epsilon::Adaptive) => Shape::adaptive(content, self.sizes()),
            _ => Shape::new(content, self.sizes()),
        }
    }

    /// Fails unless a tree can be built with them: nothing is written.
    ///
    /// # Errors
    /// [`Error::BadOption`](alluvium_storage::Error::BadOption).
    pub fn validate(&self) -> Result<()> {
        let bad = |option, why: String| Err(Error::BadOption { option, why });
        if self.epsilon_percent > 100 {
            return bad(
                "epsilon",
                format!("{} hundredths: give 0 to 1", self.epsilon_percent),
            );
        }
        if self.node_bytes.saturating_mul(16) > self.buffer_bytes {
            let why = format!(
                "{} bytes, of which 16 must fit into the buffer of {}: make nodes smaller, or give more memory",
                self.node_bytes, self.buffer_bytes
            );
            return bad("node", why);
        }
        if self.value_bytes < LEAST_VALUE {
            let why = format!("{} bytes: give {LEAST_VALUE} at least", self.value_bytes);
            return bad("value_bytes", why);
        }
        super::buffer::check_page_bytes(self.node_bytes)?;
        self.shape()?;
        Ok(())
    }
}

/// One of both trees.
#[derive(Debug)]
enum Tree {
    Beps(BepsTree<Pool>),
    Bplus(BplusTree<Pool>),
}

impl Tree {
    fn of(core: Core<Pool>, sort: Sort) -> Tree {
        match sort {
            Sort::Beps => Tree::Beps(BepsTree::of(core, RootStyle::Separate, FlushOrder::Automatic)),
            Sort::BepsBufferedRoot => {
                Tree::Beps(BepsTree::of(core, RootStyle::Buffered, FlushOrder::Automatic))
            }
            Sort::Bplus => Tree::Bplus(BplusTree::of(core)),
        }
    }

    fn core(&self) -> &Core<Pool> {
        match self {
            Tree::Beps(tree) => &tree.core,
            Tree::Bplus(tree) => &tree.core,
        }
    }

    fn sort(&self) -> Sort {
        match self {
            Tree::Beps(tree) => tree.path.sort(),
            Tree::Bplus(tree) => tree.path.sort(),
        }
    }

    /// Sets the value of a key, or takes the key away.
    fn write(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let action = match value {
            Some(_) => Action::Insert,
            None => Action::Delete,
        };
        let operand = value.unwrap_or_default();
        let message = Node { key, action, operand };
        match self {
            Tree::Beps(tree) => tree.write(message),
            Tree::Bplus(tree) => tree.write(message),
        }
    }

    /// Merges what is noted as under-full.
    fn merge_noted(&self) -> Result<()> {
        let _writing = self.core().gate.read();
        match self {
            Tree::Beps(tree) => tree.merge_noted(),
            Tree::Bplus(tree) => tree.merge_noted(),
        }
    }
}

/// Values with pages of their own that the tree has no more.
#[derive(Debug, Default)]
struct Dropped(Mutex<Vec<MessagePlace>>);

impl Operator for Dropped {
    fn combine(&self, _older: &[u8], younger: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(younger);
    }

    fn dropped(&self, value: &[u8]) {
        self.0.lock().extend(MessagePlace::of(value));
    }
}

/// What one thread changes at a time.
#[derive(Debug, Default)]
struct Writer {
    /// The root that was handed out last, and which generation of the store was durable then.
    root: Option<(Vec<u8>, u64)>,
    /// Whether the pages are as that root says.
    is_current: bool,
    /// What stopped a change in its middle, until it is finished (PV4).
    stopped: Option<Error>,
}

/// A tree in pages. All methods may be called from any thread.
#[derive(Clone)]
pub struct Paged {
    shared: Arc<Shared>,
}

struct Shared {
    home: Home,
    tree: Tree,
    dropped: Arc<Dropped>,
    shared_pages: Mutex<SharedPages>,
    /// Bytes of memory for pages.
    buffer_bytes: u64,
    /// Shared by readers; alone, while a slice of a change is applied (PV1).
    gate: RwLock<()>,
    cut: AtomicU64,
    /// How many slices there were.
    state: AtomicU64,
    writer: Mutex<Writer>,
    /// Whether all of it is to be rewritten.
    is_stale: AtomicBool,
    /// The damage for which it was set aside: place, what should be there, what is there.
    aside: OnceLock<(Where, String, String)>,
    expiring: Expiring,
    /// Deletes since the last rewrite began.
    deletes: AtomicU64,
}

impl fmt::Debug for Paged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paged")
            .field("tree", &self.shared.tree.sort())
            .field("cut", &self.shared.cut)
            .finish_non_exhaustive()
    }
}

impl Paged {
    /// Creates an empty tree that holds every commit up to `cut`: none of them is about its keys.
    ///
    /// ```
    /// use alluvium_base::{Message, message::LAST};
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_dictionary::contract::{Dictionary, Lookup};
    /// use alluvium_dictionary::gather::Gather;
    /// use alluvium_dictionary::key::Key;
    /// use alluvium_dictionary::lookup;
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_dictionary::rules::OneKeyspace;
    /// use alluvium_dictionary::share::Share;
    /// use alluvium_storage::extents::Class;
    /// use alluvium_storage::store::{Store, StoreOptions};
    /// use alluvium_trees::map::Home;
    /// use alluvium_trees::paged::{Paged, PagedOptions};
    /// use std::sync::Arc;
    /// let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
    /// let home = Home {
    ///     store: Arc::new(store),
    ///     schema: Arc::new(OneKeyspace::default()),
    ///     horizon: Arc::default(),
    /// };
    /// let paged = Paged::create(home, PagedOptions::default(), 0)?;
    /// let memtable = Memtable::new(1 << 20);
    /// memtable.insert(b"Elbe", Message::put(1, b"1094 km")).unwrap();
    /// let mut taking = paged.incorporate(Share::whole(Arc::new(memtable), 1), Class::Normal)?;
    /// taking.poll(usize::MAX)?;
    /// taking.publish()?;
    /// let mut gather = Gather::new(LAST, 0, None);
    /// lookup::gather(&paged.reader(), Key::new(b"Elbe"), &mut gather)?;
    /// assert_eq!(gather.finish().unwrap(), b"1094 km");
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// Options that do not fit; a full disk; as the device says.
    pub fn create(home: Home, options: PagedOptions, cut: Sequence) -> Result<Paged> {
        options.validate()?;
        let dropped: Arc<Dropped> = Arc::default();
        let directory = Arc::clone(home.store.directory());
        let place = Place {
            directory: &*directory,
            name: FILE,
        };
        let sort = match options.kind {
            TreeKind::Beps => Sort::Beps,
            TreeKind::Bplus => Sort::Bplus,
        };
        let identity = home.store.superblock().store;
        let (shape, merging) = (options.shape()?, options.merging);
        let core = Core::create_hosted(place, identity, options.pool(), shape, dropped.clone(), merging);
        let core = home.store.judge(core)?;
        let writer = Writer::default();
        Ok(Self::assemble(home, Tree::of(core, sort), dropped, cut, writer))
    }

    /// Opens the tree with this root, and with every commit up to `cut`. Of `options` only the
    /// buffer's size counts.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt), or as the device says.
    pub fn open(home: Home, options: &PagedOptions, root: &[u8], cut: Sequence) -> Result<Paged> {
        Self::open_with(home, options, (root, cut), FreeLists::Whole)
    }

    fn open_with(
        home: Home,
        options: &PagedOptions,
        (root, cut): (&[u8], Sequence),
        lists: FreeLists,
    ) -> Result<Paged> {
        let dropped: Arc<Dropped> = Arc::default();
        let directory = Arc::clone(home.store.directory());
        let place = Place {
            directory: &*directory,
            name: FILE,
        };
        let (core, sort) = Core::open_hosted(place, root, options.pool(), dropped.clone(), lists)?;
        let writer = Writer {
            // It is durable: every generation is above this one.
            root: Some((root.to_vec(), 0)),
            is_current: true,
            stopped: None,
        };
        Ok(Self::assemble(home, Tree::of(core, sort), dropped, cut, writer))
    }

    fn assemble(home: Home, tree: Tree, dropped: Arc<Dropped>, cut: Sequence, writer: Writer) -> Paged {
        let node_bytes = tree.core().shape.content_bytes + super::buffer::PAGE_HEADER;
        let frames = tree.core().buffer.frames().unwrap_or(0);
        assert!(
            writer.is_current == writer.root.is_some(),
            "pages are current by a root (PV4)"
        );
        Paged {
            shared: Arc::new(Shared {
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
                expiring: Expiring::default(),
                deletes: AtomicU64::new(0),
            }),
        }
    }

    fn core(&self) -> &Core<Pool> {
        self.shared.tree.core()
    }

    /// Returns what its page buffer has counted.
    #[must_use]
    pub fn statistics(&self) -> PoolStatistics {
        self.core().buffer.statistics()
    }

    /// Returns the bytes of its file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.core().buffer.file_bytes()
    }

    /// Returns how many bytes checkpoints would give back to the file system, about.
    #[must_use]
    pub fn returnable_bytes(&self) -> u64 {
        self.core().buffer.returnable_bytes()
    }

    /// Returns the bytes of its journal's files.
    #[must_use]
    pub fn journal_bytes(&self) -> u64 {
        self.core().buffer.journal_bytes()
    }

    /// Returns the options that its tree was built with. Of several ε that give the same nodes it
    /// is the least.
    #[must_use]
    pub fn options(&self) -> PagedOptions {
        let shape = &self.core().shape;
        let options = PagedOptions {
            kind: match self.shared.tree.sort() {
                Sort::Beps | Sort::BepsBufferedRoot => TreeKind::Beps,
                Sort::Bplus => TreeKind::Bplus,
            },
            node_bytes: shape.content_bytes + super::buffer::PAGE_HEADER,
            epsilon_percent: 0,
            epsilon: match shape.own {
                None => Epsilon::Fixed,
                Some(_) => Epsilon::Adaptive,
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

    /// Returns whether its tree is one that these options give, whatever memory it has.
    #[must_use]
    pub fn is_built_as(&self, options: &PagedOptions) -> bool {
        let is_sort = match self.shared.tree.sort() {
            Sort::Beps | Sort::BepsBufferedRoot => options.kind == TreeKind::Beps,
            Sort::Bplus => options.kind == TreeKind::Bplus,
        };
        let core = self.core();
        is_sort && options.merging == core.merging && options.shape().is_ok_and(|shape| shape == core.shape)
    }

    /// The last commit that it holds.
    fn at(&self) -> Sequence {
        self.shared.cut.load(Ordering::Acquire)
    }

    /// Raises the cut; no reader is inside.
    fn raise(&self, cut: Sequence) {
        assert!(cut >= self.at(), "a structure does not forget commits");
        let _alone = self.shared.gate.write();
        self.shared.cut.store(cut, Ordering::Release);
    }

    /// Ends reading and writing until the store is opened again: a change has met this damage, so
    /// that a part of it is in the pages and the rest is not.
    pub fn set_aside(&self, damage: &Error) {
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

    /// Returns the damage for which it is not read or written any more.
    fn damage(&self) -> Option<Error> {
        let aside = self.shared.aside.get();
        let aside = aside
            .map(|(place, expected, found)| Error::corrupt(place.clone(), expected.clone(), found.clone()));
        aside.or_else(|| self.core().damage())
    }

    /// Shows a failure to the store. Damage is none: it ends the use of these pages alone.
    fn judge<T>(&self, result: Result<T>) -> Result<T> {
        if let Some(damage) = self.damage() {
            return Err(damage);
        }
        alluvium_dictionary::home::judge(&self.shared.home.store, result)
    }

    /// Writes the pages unless they are as the last root says; the guard keeps them so.
    fn stand_still(&self) -> Result<MutexGuard<'_, Writer>> {
        let mut writer = self.shared.writer.lock();
        if let Some(stopped) = &writer.stopped {
            // A part of a memtable is in the pages: the rest comes first (PV4).
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
        let root = self.judge(self.core().stand(self.shared.tree.sort(), last))?;
        assert!(!root.is_empty(), "a root says what it is of");
        writer.root = Some((root, generation));
        writer.is_current = true;
        Ok(writer)
    }

    /// Returns the error that stopped a change once more. What is no failed call of the device was
    /// a full disk.
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
                operation: Operation::Grow,
                file: FILE.to_owned(),
                wanted: self.core().shape.content_bytes as u64,
            },
        })
    }

    /// Frees what a change that failed has left to be freed: a root has no page without a value.
    fn free_left(&self) -> Result<()> {
        if self.shared.dropped.0.lock().is_empty() {
            return Ok(());
        }
        let _alone = self.shared.gate.write();
        self.judge(self.free_dropped())
    }

    fn cut_here(&self) -> Result<Cut<'_>> {
        let writer = self.stand_still()?;
        assert!(writer.is_current, "the pages are as the root says");
        let (root, _) = writer.root.as_ref().expect("it was just written");
        Ok(Cut::new(root.clone(), self.at(), writer))
    }
}
