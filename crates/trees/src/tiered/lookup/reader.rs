//! Point lookups: readers that see one version, one key or many at a time.

use super::many::Many;
use super::search::Search;
use crate::tiered::trunk::{SEED, Trunk, Version};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::fetch::{Blocking, Fetch, found};
use alluvium_dictionary::gather::{Answer, Gather, Known};
use alluvium_dictionary::merge::Operator;
use alluvium_filters as filters;
use alluvium_storage::{Guard, Result};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// Reads one version of a tree, which stays readable as long as the reader lives. It should not
/// live long: nothing that was unlinked meanwhile is used again before it goes.
///
/// A caller that has memtables above the tree loads their list first and takes a reader then: a
/// memtable whose commits are not all above [`Reader::cut`] is in the tree already, and is left
/// out.
///
/// ```
/// # use alluvium_base::{Message, message::LAST};
/// # use alluvium_device::memory::MemoryDirectory;
/// # use alluvium_storage::extents::Class;
/// # use alluvium_storage::store::{Store, StoreOptions};
/// # use std::sync::Arc;
/// use alluvium_dictionary::memtable::Memtable;
/// use alluvium_trees::tiered::{Tree, TreeOptions};
/// use alluvium_dictionary::gather::{Gather};
/// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
/// # let tree = Tree::create(Arc::new(store), TreeOptions::default());
/// # let older = Memtable::new(1 << 20);
/// # older.insert(b"river", Message::put(1, b"Elbe")).unwrap();
/// # tree.incorporate(Arc::new(older), 1, Class::Normal)?.poll(usize::MAX)?;
/// let (memtable, base) = (Memtable::new(1 << 20), 1); // it has the commits above 1
/// memtable.insert(b"lake", Message::put(2, b"Bodensee")).unwrap();
/// let mut reader = tree.reader();
/// let mut get = |key: &[u8]| {
///     let mut gather = Gather::new(LAST, 0, None);
///     if base >= reader.cut() {
///         gather.memtable(&memtable, key);
///     }
///     reader.gather(key, &mut gather)?;
///     Ok::<_, alluvium_storage::Error>(gather.finish())
/// };
/// assert_eq!(get(b"lake")?, Some(b"Bodensee".to_vec()));
/// assert_eq!(get(b"river")?, Some(b"Elbe".to_vec()));
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
pub struct Reader<'t> {
    trunk: &'t Trunk,
    // The version goes before the guard that keeps it readable.
    version: arc_swap::Guard<Arc<Version>>,
    guard: Guard,
    search: Search,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("version", &self.version.number())
            .field("cut", &self.cut())
            .finish_non_exhaustive()
    }
}

impl<'t> Reader<'t> {
    /// Returns a reader of the current version.
    pub(crate) fn of(trunk: &'t Trunk) -> Reader<'t> {
        let guard = trunk.store.epochs().pin();
        Reader {
            trunk,
            version: trunk.peek(),
            guard,
            search: Search::default(),
        }
    }
}

impl Reader<'_> {
    /// The version holds every commit up to this one, and none above.
    #[must_use]
    pub fn cut(&self) -> Sequence {
        self.version.cut
    }

    /// Returns the version's number.
    pub(super) fn version(&self) -> u64 {
        self.version.number
    }

    /// Returns the version.
    pub(super) fn seen(&self) -> &Version {
        &self.version
    }

    /// Goes on with a search in the version.
    pub(super) fn go_on<F: Fetch>(
        &self,
        search: &mut Search,
        key: &[u8],
        known: &mut Known,
        operator: Option<&dyn Operator>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        search.go_on(&self.version, key, known, operator, fetch)
    }

    pub(super) fn blocking(&self) -> Blocking<'_> {
        Blocking {
            cache: self.trunk.store.cache(),
            guard: &self.guard,
            purpose: Purpose::Lookup,
        }
    }

    /// Feeds a lookup that memtables have not decided with what the version holds.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn gather(&mut self, key: &[u8], gather: &mut Gather<'_>) -> Result<()> {
        if gather.is_decided() {
            return Ok(());
        }
        let mut search = std::mem::take(&mut self.search);
        search.restart();
        let Gather { operator, known } = gather;
        let done = search.go_on(&self.version, key, known, *operator, &self.blocking());
        self.search = search;
        self.note(key);
        found(done)
    }

    /// The same for many keys, each with its own lookup. What a few of them have to wait for is
    /// read together, while the next few are searched.
    ///
    /// # Errors
    /// As [`Reader::gather`]; what was asked is of no use then.
    ///
    /// # Panics
    /// When there are not as many lookups as keys.
    pub fn gather_many(&mut self, keys: &[&[u8]], gathers: &mut [Gather<'_>]) -> Result<()> {
        assert_eq!(keys.len(), gathers.len(), "a lookup for each key");
        Many::new(self, keys, gathers).finish()
    }

    /// The same if it can be done without the device: whether it could. What was asked is of no use
    /// otherwise.
    ///
    /// # Errors
    /// As [`Reader::gather`].
    ///
    /// # Panics
    /// As [`Reader::gather_many`].
    pub fn gather_many_in_memory(&mut self, keys: &[&[u8]], gathers: &mut [Gather<'_>]) -> Result<bool> {
        assert_eq!(keys.len(), gathers.len(), "a lookup for each key");
        Many::new(self, keys, gathers).finish_in_memory()
    }

    /// Maintenance wants to know which leaves are asked much.
    pub(super) fn note(&self, key: &[u8]) {
        let hash = filters::hash(SEED, key);
        self.trunk.usage.note_get(&self.version, key, hash);
    }

    /// Returns the value of a key for a reader at `at`.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn get(&mut self, key: &[u8], at: Sequence, now_ms: u64) -> Result<Answer> {
        let rules = self.trunk.options.schema.rules(key);
        let mut gather = Gather::new(at, now_ms, rules.operator.as_deref());
        self.gather(key, &mut gather)?;
        gather.answer(key)
    }

    /// Returns the values of many keys for a reader at `at`, in their order. All leaves that must
    /// be read are read together.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn multi_get(&mut self, keys: &[&[u8]], at: Sequence, now_ms: u64) -> Result<Vec<Answer>> {
        let schema = &self.trunk.options.schema;
        let rules: Vec<_> = keys.iter().map(|key| schema.rules(key)).collect();
        let operators = rules.iter().map(|rules| rules.operator.as_deref());
        let mut gathers: Vec<Gather<'_>> = operators
            .map(|operator| Gather::new(at, now_ms, operator))
            .collect();
        self.gather_many(keys, &mut gathers)?;
        let answers = gathers.into_iter().zip(keys);
        answers.map(|(gather, key)| gather.answer(key)).collect()
    }
}
