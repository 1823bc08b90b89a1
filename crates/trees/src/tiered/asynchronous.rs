//! Point lookups that wait for nobody: whoever polls them has many under way on one thread.

use super::gather::{Answer, Known};
use super::memtables::{Memtables, above};
use super::search::Search;
use super::tree::Tree;
use crate::fetch::{Blocking, Brought, Peeking};
use alluvium_base::{Purpose, Sequence};
use alluvium_storage::{NodePointer, Pending, Residence, Result};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

/// A lookup of one key that is polled: what it needs and is not in the cache is being read between two calls.
///
/// It holds neither a version nor a memtable meanwhile. When the tree has changed it begins anew, and finds most of what it needs in
/// the cache. Few things are waited for after all: a value longer than a node, nodes longer than a node, what the cache has no room for, and
/// what went from the cache before the lookup came back to it.
///
/// ```
/// # use alluvium_base::{Message, message::LAST};
/// # use alluvium_device::memory::MemoryDirectory;
/// # use alluvium_storage::extents::Class;
/// # use alluvium_storage::store::{Store, StoreOptions};
/// # use alluvium_trees::memtable::Memtable;
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
    tree: Tree,
    memtables: Option<Arc<dyn Memtables>>,
    key: Vec<u8>,
    at: Sequence,
    now_ms: u64,
    known: Known,
    search: Search,
    /// The version that was searched so far.
    version: Option<u64>,
    pending: Option<Pending>,
    /// What was asked for in that version.
    asked: Vec<NodePointer>,
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

impl Tree {
    /// A lookup of a key for a reader at `at`, to be polled.
    #[must_use]
    pub fn lookup(&self, key: &[u8], at: Sequence, now_ms: u64) -> Lookup {
        Lookup {
            tree: self.clone(),
            memtables: None,
            key: key.to_vec(),
            at,
            now_ms,
            known: Known::default(),
            search: Search::default(),
            version: None,
            pending: None,
            asked: Vec::new(),
        }
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
        let mut lookup = self.lookup(key, at, now_ms);
        lookup.memtables = Some(memtables);
        lookup
    }
}

impl Lookup {
    /// Another key, with the memory that there is.
    pub fn reset(&mut self, key: &[u8], at: Sequence, now_ms: u64) {
        self.key.clear();
        self.key.extend_from_slice(key);
        (self.at, self.now_ms) = (at, now_ms);
        self.version = None;
        self.pending = None;
    }

    /// Goes on as far as what is in the cache leads, and asks for what is not; the value, or none, once it is known. Asked again after
    /// that or after an error, it begins anew.
    ///
    /// # Errors
    /// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
    pub fn poll(&mut self) -> Poll<Result<Answer>> {
        if let Some(pending) = &mut self.pending
            && !pending.poll()
        {
            return Poll::Pending;
        }
        self.pending = None;
        let answer = self.go_on();
        if answer.is_ready() {
            self.version = None;
        }
        answer
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

    fn go_on(&mut self) -> Poll<Result<Answer>> {
        let shared = &self.tree.shared;
        let rules = shared.options.schema.rules(&self.key);
        let operator = rules.operator.as_deref();
        // What leaves the list from here on is in the version.
        let list = self.memtables.as_ref().map(|memtables| memtables.newest_first());
        let guard = shared.store.epochs().pin();
        let version = self.tree.peek();
        if self.version != Some(version.number) {
            self.version = Some(version.number);
            self.known.reset(self.at, self.now_ms);
            self.search.restart();
            self.asked.clear();
            for memtable in above(list.as_ref(), &version, self.at) {
                self.known.memtable(memtable, &self.key, operator);
            }
        }
        let from = Blocking {
            cache: shared.store.cache(),
            guard: &guard,
            purpose: Purpose::Lookup,
        };
        let (mut brought, mut waits) = (Brought::default(), false);
        while !self.known.is_decided() {
            let fetch = Peeking::new(from, &brought);
            let (search, known) = (&mut self.search, &mut self.known);
            match search.go_on(&version, &self.key, known, operator, &fetch) {
                Poll::Ready(Ok(())) => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
            let missing = fetch.into_missing();
            // What was asked for already has failed, or went before it was looked at: whoever waits for it has it, or the error. Nothing
            // is asked for twice, so that this comes to an end.
            waits |= missing.iter().any(|pointer| self.asked.contains(pointer));
            if !waits {
                let pending = from.cache.request(&missing, from.purpose, Residence::Keep)?;
                let is_asked = pending.skipped() == 0;
                self.asked.extend_from_slice(&missing);
                if is_asked {
                    self.pending = Some(pending);
                    return Poll::Pending;
                }
                waits = true;
            }
            brought.wait(from, missing)?;
        }
        let value = self.known.settle(operator).is_some();
        Poll::Ready(Ok(value.then(|| std::mem::take(self.known.value_mut()))))
    }
}
