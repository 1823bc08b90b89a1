//! Point lookups that never block: the caller that polls them has many under way on one thread.

use super::reader::Reader;
use super::search::Search;
use crate::tiered::trunk::Trunk;
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract::{self, Course as _};
use alluvium_dictionary::fetch::{Brought, Peeking};
use alluvium_dictionary::gather::{Answer, Gather, Known};
use alluvium_dictionary::memtables::{Memtables, above};
use alluvium_dictionary::merge::Operator;
use alluvium_storage::{NodePointer, Pending, Residence, Result};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// The state of a polled lookup of one key, for a caller that has memtables of its own: what is
/// known of the key, and where the search in the tree goes on.
///
/// ```text
///   loop   take a reader; of another version than the course's? begin again: Reader::begin, memtables, ...
///          Reader::advance(key, gather, course)      ready: done
///          otherwise bring Course::missing()         Cache::request, or request_each for many
///          tell Course::asked() what became of it
/// ```
#[derive(Debug, Default)]
pub struct Course {
    known: Known,
    search: Search,
    /// The version that is searched.
    version: Option<u64>,
    /// Nodes that are missing from the cache in that version.
    missing: Vec<NodePointer>,
    /// What was asked for in that version.
    asked: Vec<NodePointer>,
    /// From now on it waits for missing nodes, because not all of them could be asked for.
    waits: bool,
}

impl contract::Course for Course {
    fn resume<'op>(&mut self, operator: Option<&'op dyn Operator>) -> Gather<'op> {
        Gather {
            operator,
            known: std::mem::take(&mut self.known),
        }
    }

    fn suspend(&mut self, gather: Gather<'_>) {
        self.known = gather.known;
    }

    fn missing(&self) -> &[NodePointer] {
        &self.missing
    }

    /// Notes that the missing nodes were asked for. If some were skipped, the lookup waits for them
    /// when it goes on.
    fn asked(&mut self, pending: &Pending) {
        self.waits = pending.skipped() > 0;
        self.asked.append(&mut self.missing);
    }
}

impl Reader<'_> {
    /// Begins a lookup again in this version, with the memory that there is.
    pub fn begin(&self, course: &mut Course, at: Sequence, now_ms: u64) {
        course.known.reset(at, now_ms);
        course.search.restart();
        course.version = Some(self.version());
        course.missing.clear();
        course.asked.clear();
        course.waits = false;
    }

    /// Returns whether a lookup was begun in this version: only there can it go on.
    #[must_use]
    pub fn is_of(&self, course: &Course) -> bool {
        course.version == Some(self.version())
    }

    /// Feeds a lookup as far as what is in the cache leads. When it is pending, the course says
    /// what is missing. Few things are waited for in here: see [`Lookup`].
    ///
    /// # Errors
    /// As [`Reader::gather`].
    ///
    /// # Panics
    /// When the course was begun in another version.
    pub fn advance(&mut self, key: &[u8], gather: &mut Gather<'_>, course: &mut Course) -> Poll<Result<()>> {
        assert!(
            self.is_of(course),
            "a course goes on in the version that it was begun in"
        );
        let from = self.blocking();
        let mut brought = Brought::default();
        while !gather.is_decided() {
            let fetch = Peeking::new(from, &brought);
            let Gather { operator, known } = gather;
            let search = &mut course.search;
            if let Poll::Ready(done) = self.go_on(search, key, known, *operator, &fetch) {
                self.note(key);
                return Poll::Ready(done);
            }
            let missing = fetch.into_missing();
            // A node that was asked for and is missing again has failed, or was evicted before it
            // was looked at: waiting for it gives the node, or the error. No node is asked for
            // twice, so that this comes to an end.
            course.waits |= missing.iter().any(|pointer| course.asked.contains(pointer));
            if !course.waits {
                course.missing = missing;
                return Poll::Pending;
            }
            brought.wait(from, missing)?;
        }
        Poll::Ready(Ok(()))
    }
}

/// A lookup of one key that is polled: what it needs and is not in the cache is being read between
/// two calls.
///
/// It holds neither a version nor a memtable meanwhile. When the tree has changed, the lookup
/// starts again, and finds most of what it needs in the cache. Few things are waited for after all:
/// a value longer than a node, nodes longer than a node, what does not fit in the cache, and what
/// was evicted before the lookup came back to it.
///
/// ```
/// # use alluvium_base::{Message, message::LAST};
/// # use alluvium_device::memory::MemoryDirectory;
/// # use alluvium_storage::extents::Class;
/// # use alluvium_storage::store::{Store, StoreOptions};
/// # use alluvium_dictionary::memtable::Memtable;
/// # use alluvium_trees::tiered::{Tree, TreeOptions};
/// # use std::sync::Arc;
/// use alluvium_trees::tiered::Lookup;
/// use std::task::Poll;
/// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
/// # let tree = Tree::create(Arc::new(store), TreeOptions::default());
/// # let memtable = Memtable::new(1 << 20);
/// # memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
/// # tree.incorporate(Arc::new(memtable), 1, Class::Normal)?.poll(usize::MAX)?;
/// let mut lookups: Vec<Lookup> = [b"river", b"lakes"].map(|key| tree.lookup(key, LAST, 0)).into();
/// let mut found = Vec::new();
/// while !lookups.is_empty() {
///     lookups.retain_mut(|lookup| match lookup.poll() {
///         Poll::Ready(answer) => {
///             found.extend(answer.expect("memory does not fail"));
///             false
///         }
///         Poll::Pending => true,
///     });
/// }
/// assert_eq!(found, [b"Elbe".to_vec()]);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
pub struct Lookup {
    trunk: Arc<Trunk>,
    memtables: Option<Arc<dyn Memtables>>,
    key: Vec<u8>,
    at: Sequence,
    now_ms: u64,
    course: Course,
    pending: Option<Pending>,
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup")
            .field("key", &self.key.escape_ascii().to_string())
            .field("at", &self.at)
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

impl Lookup {
    /// Returns a lookup of a key for a reader at `at`, to be polled: in the memtables, if there are
    /// any, and the tree below them.
    pub(crate) fn new(
        trunk: &Arc<Trunk>,
        memtables: Option<Arc<dyn Memtables>>,
        key: &[u8],
        at: Sequence,
        now_ms: u64,
    ) -> Lookup {
        Lookup {
            trunk: Arc::clone(trunk),
            memtables,
            key: key.to_vec(),
            at,
            now_ms,
            course: Course::default(),
            pending: None,
        }
    }

    /// Another key, with the memory that there is.
    pub fn reset(&mut self, key: &[u8], at: Sequence, now_ms: u64) {
        self.key.clear();
        self.key.extend_from_slice(key);
        (self.at, self.now_ms) = (at, now_ms);
        self.course.version = None;
        self.pending = None;
    }

    /// Goes on as far as what is in the cache leads, and asks for what is not. Returns the value,
    /// or none, once it is known. Polled again after that or after an error, it starts again.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn poll(&mut self) -> Poll<Result<Answer>> {
        loop {
            if let Some(pending) = &mut self.pending
                && !pending.poll()
            {
                return Poll::Pending;
            }
            self.pending = None;
            let answer = self.go_on();
            if answer.is_ready() {
                self.course.version = None;
                return answer;
            }
        }
    }

    /// Polls until the value is known, and waits for reads between.
    ///
    /// # Errors
    /// As [`Lookup::poll`].
    pub fn wait(&mut self) -> Result<Answer> {
        loop {
            if let Some(pending) = &mut self.pending {
                pending.wait();
            }
            if let Poll::Ready(answer) = self.poll() {
                return answer;
            }
        }
    }

    /// Goes on; when it is pending, what it needs was asked for.
    fn go_on(&mut self) -> Poll<Result<Answer>> {
        let trunk = Arc::clone(&self.trunk);
        let rules = trunk.options.schema.rules(&self.key);
        let operator = rules.operator.as_deref();
        // What leaves the list from here on is in the version.
        let list = self.memtables.as_ref().map(|memtables| memtables.newest_first());
        let mut reader = Reader::of(&trunk);
        let is_new = !reader.is_of(&self.course);
        if is_new {
            reader.begin(&mut self.course, self.at, self.now_ms);
        }
        let mut gather = self.course.resume(operator);
        if is_new {
            for memtable in above(list.as_ref(), reader.seen().cut, self.at) {
                gather.memtable(memtable, &self.key);
            }
        }
        match reader.advance(&self.key, &mut gather, &mut self.course) {
            Poll::Ready(Ok(())) => Poll::Ready(gather.answer(&self.key)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.course.suspend(gather);
                let cache = trunk.store.cache();
                let pending = cache.request(self.course.missing(), Purpose::Lookup, Residence::Keep)?;
                self.course.asked(&pending);
                self.pending = Some(pending);
                Poll::Pending
            }
        }
    }
}
