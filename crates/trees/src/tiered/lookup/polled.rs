//! Point lookups that never block: the caller that polls them has many under way on one thread.

use super::reader::Reader;
use super::search::Search;
use crate::tiered::trunk::Trunk;
use alluvium_base::{Purpose, Sequence};
use alluvium_dictionary::contract::Reader as _;
use alluvium_dictionary::gather::Answer;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::lookup::Course;
use alluvium_dictionary::memtables::{Memtables, above};
use alluvium_storage::{Pending, Residence, Result};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

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
    course: Course<Search>,
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
        self.course.leave();
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
                self.course.leave();
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
        debug_assert!(self.pending.is_none(), "what was asked for is waited for");
        let trunk = Arc::clone(&self.trunk);
        let rules = trunk.options.schema.rules(&self.key);
        let operator = rules.operator.as_deref();
        // What leaves the list from here on is in the version.
        let list = self.memtables.as_ref().map(|memtables| memtables.newest_first());
        let reader = Reader::new(&trunk);
        let is_new = !self.course.is_of(&reader);
        if is_new {
            self.course.begin(&reader, self.at, self.now_ms);
        }
        let key = Key::new(&self.key);
        let mut gather = self.course.resume(operator);
        if is_new {
            for memtable in above(list.as_ref(), reader.cut(), self.at) {
                gather.memtable(memtable, key);
            }
        }
        match self.course.advance(&reader, key, &mut gather) {
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
