//! Point lookups: readers that see one version, one key or many at a time.

use super::search::{Search, Way, ask_together};
use crate::tiered::trunk::{Trunk, Version};
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract;
use alluvium_dictionary::fetch::{Blocking, Fetch};
use alluvium_dictionary::gather::{Answer, Gather};
use alluvium_dictionary::key::Key;
use alluvium_dictionary::lookup::{self, Open};
use alluvium_storage::{Guard, Result};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// Reads one version of a tree, which stays readable as long as the reader lives. It should not
/// live long: nothing that was unlinked meanwhile is used again before it goes.
///
/// A caller that has memtables above the tree loads their list first and takes a reader then: a
/// memtable whose commits are not all above the reader's cut is in the tree already, and is left
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
pub struct Reader<'t> {
    trunk: &'t Trunk,
    // The version goes before the guard that keeps it readable.
    version: arc_swap::Guard<Arc<Version>>,
    guard: Guard,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("version", &self.version.number())
            .field("cut", &self.version.cut)
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
        }
    }
}

impl contract::Reader for Reader<'_> {
    type Search = Search;

    #[inline]
    fn cut(&self) -> Sequence {
        self.version.cut
    }

    #[inline]
    fn state(&self) -> u64 {
        self.version.number
    }

    #[inline]
    fn nodes(&self) -> Blocking<'_> {
        Blocking {
            cache: self.trunk.store.cache(),
            guard: &self.guard,
            purpose: Purpose::Lookup,
        }
    }

    #[inline]
    fn search<F: Fetch>(
        &self,
        key: Key<'_>,
        gather: &mut Gather<'_>,
        search: &mut Search,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let Gather { operator, known } = gather;
        let absent = &self.trunk.usage.absent;
        search.go_on(&self.version, key, known, *operator, fetch, absent)
    }

    /// The memory of the machine, too, answers several requests as fast as one.
    fn search_together<F: Fetch>(
        &self,
        open: &mut [Open<Search>],
        keys: &[Key<'_>],
        gathers: &mut [Gather<'_>],
        fetch: &F,
    ) -> Result<()> {
        if let Some(digest) = &self.version.digest {
            open.iter()
                .for_each(|one| digest.prefetch(keys[one.index].hash()));
        }
        let mut ways: Vec<Way<'_, '_>> = Vec::with_capacity(open.len());
        for one in &mut *open {
            let absent = &self.trunk.usage.absent;
            let mut way = Way::of(&self.version, keys[one.index], &mut one.search, absent);
            way.locate(&one.search, fetch);
            ways.push(way);
        }
        debug_assert_eq!(ways.len(), open.len(), "a way for each key");
        debug_assert!(
            open.iter().all(|one| !one.is_done),
            "what is done is not searched again"
        );
        ways.iter().for_each(|way| way.approach(fetch));
        for way in &mut ways {
            way.take(fetch);
        }
        ask_together(&ways, open.iter_mut().map(|one| &mut one.search));
        for (one, mut way) in open.iter_mut().zip(ways) {
            let (key, Gather { operator, known }) = (keys[one.index], &mut gathers[one.index]);
            let found = one.search.go_along(&mut way, key, known, *operator, fetch);
            if let Poll::Ready(done) = found {
                done?;
                one.is_done = true;
            }
        }
        Ok(())
    }

    #[inline]
    fn new_search(&self) -> Search {
        Search::default()
    }

    fn restart(&self, search: &mut Search) {
        search.restart();
    }

    #[inline]
    fn ended(&self, key: Key<'_>) {
        self.trunk.usage.note_get(&self.version, key);
    }
}

impl Reader<'_> {
    /// Returns the value of a key for a reader at `at`.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn get(&self, key: &[u8], at: Sequence, now_ms: u64) -> Result<Answer> {
        let rules = self.trunk.options.schema.rules(key);
        let mut gather = Gather::new(at, now_ms, rules.operator.as_deref());
        lookup::gather(self, Key::new(key), &mut gather)?;
        gather.answer(key)
    }

    /// Returns the values of many keys for a reader at `at`, in their order. All leaves that must
    /// be read are read together.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn multi_get(&self, keys: &[&[u8]], at: Sequence, now_ms: u64) -> Result<Vec<Answer>> {
        let schema = &self.trunk.options.schema;
        let rules: Vec<_> = keys.iter().map(|key| schema.rules(key)).collect();
        let operators = rules.iter().map(|rules| rules.operator.as_deref());
        let mut gathers: Vec<Gather<'_>> = operators
            .map(|operator| Gather::new(at, now_ms, operator))
            .collect();
        let hashed: Vec<Key<'_>> = keys.iter().map(|key| Key::new(key)).collect();
        lookup::batch::gather_many(self, &hashed, &mut gathers)?;
        let answers = gathers.into_iter().zip(keys);
        answers.map(|(gather, key)| gather.answer(key)).collect()
    }
}
