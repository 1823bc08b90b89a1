//! Where a lookup's nodes come from: one that waits for them and one that does not are the same
//! code.

use alluvium_base::Purpose;
use alluvium_storage::{Cache, Guard, NodePointer, NodeRef, Residence, Result};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::task::{Poll, ready};

thread_local! {
    /// Nodes that lookups of this thread have waited for.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// Returns for how many nodes lookups of this thread have waited so far, with wrap-around: the
/// difference around one lookup is what it read.
#[inline]
#[must_use]
pub fn waited() -> u64 {
    WAITED.get()
}

/// Counts nodes that a lookup waits for.
#[cold]
fn waits(purpose: Purpose, nodes: usize) {
    if purpose == Purpose::Lookup {
        WAITED.set(WAITED.get().wrapping_add(nodes as u64));
    }
}

/// A source of nodes. `Pending` means that a node is not there and was noted: the caller has it
/// read, and starts again.
pub trait Fetch {
    /// Returns a node that is there.
    fn peek(&self, pointer: &NodePointer) -> Option<NodeRef<'_>>;

    /// Asks the processor for what [`Fetch::peek`] reads first. A hint.
    #[inline]
    fn prefetch(&self, pointer: &NodePointer) {
        let Blocking { cache, guard, .. } = self.blocking();
        cache.prefetch(pointer, guard);
    }

    /// The same for what it reads next, once that is here.
    #[inline]
    fn prefetch_header(&self, pointer: &NodePointer) {
        let Blocking { cache, guard, .. } = self.blocking();
        cache.prefetch_header(pointer, guard);
    }

    /// Nodes that are not there, in the order of their pointers.
    fn miss(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>>;

    /// The same for nodes that say where others are, which are counted: a lookup should find them
    /// in memory.
    #[cold]
    fn miss_index_pages(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>> {
        let Blocking { cache, guard, .. } = self.blocking();
        cache.missed_guides(pointers.len() as u64, guard);
        self.miss(pointers)
    }

    /// Returns the cache, the guard and the purpose, for what is so rare that it is waited for in
    /// any case.
    fn blocking(&self) -> &Blocking<'_>;

    /// Returns a node.
    #[inline]
    fn node(&self, pointer: &NodePointer) -> Poll<Result<NodeRef<'_>>> {
        match self.peek(pointer) {
            Some(node) => Poll::Ready(Ok(node)),
            None => Poll::Ready(Ok(ready!(self.miss(std::slice::from_ref(pointer)))?.remove(0))),
        }
    }

    /// Returns a node that says where others are.
    #[inline]
    fn index_page(&self, pointer: &NodePointer) -> Poll<Result<NodeRef<'_>>> {
        match self.peek(pointer) {
            Some(node) => Poll::Ready(Ok(node)),
            None => Poll::Ready(Ok(
                ready!(self.miss_index_pages(std::slice::from_ref(pointer)))?.remove(0)
            )),
        }
    }
}

/// Waits for what is not in the cache: it is never pending.
#[derive(Clone, Copy)]
pub struct Blocking<'g> {
    /// The cache.
    pub cache: &'g Cache,
    /// What is reachable under it stays.
    pub guard: &'g Guard,
    /// What reads are counted as.
    pub purpose: Purpose,
}

impl Fetch for Blocking<'_> {
    #[inline]
    fn peek(&self, pointer: &NodePointer) -> Option<NodeRef<'_>> {
        self.cache.peek(pointer, self.guard)
    }

    #[cold]
    fn miss(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>> {
        waits(self.purpose, pointers.len());
        Poll::Ready(
            self.cache
                .get_many(pointers, self.guard, self.purpose, Residence::Keep),
        )
    }

    fn blocking(&self) -> &Blocking<'_> {
        self
    }
}

/// Returns what a source that waits has found.
pub fn found<T>(poll: Poll<T>) -> T {
    match poll {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a source that waits is never pending"),
    }
}

/// Waits for nothing: what is neither in the cache nor among what was brought is noted.
pub struct Peeking<'g> {
    from: Blocking<'g>,
    brought: &'g Brought<'g>,
    missing: RefCell<Vec<NodePointer>>,
}

/// Nodes that were waited for, whether or not the cache has kept them. They stay until the search
/// that wants them is done. Otherwise a search that needs two nodes could lose the first while it
/// waits for the second, and would never end where the cache can hold neither.
#[derive(Default)]
pub struct Brought<'g> {
    /// In the order of their places.
    nodes: Vec<(NodePointer, NodeRef<'g>)>,
}

fn by_place(one: &NodePointer, other: &NodePointer) -> Ordering {
    (one.tier, one.offset, one.birth).cmp(&(other.tier, other.offset, other.birth))
}

impl<'g> Brought<'g> {
    /// Reads nodes together, and waits for them.
    pub fn wait(&mut self, from: Blocking<'g>, mut pointers: Vec<NodePointer>) -> Result<()> {
        pointers.sort_unstable_by(by_place);
        pointers.dedup();
        waits(from.purpose, pointers.len());
        let nodes = from
            .cache
            .get_many(&pointers, from.guard, from.purpose, Residence::Keep)?;
        assert_eq!(nodes.len(), pointers.len(), "a node for each pointer");
        self.nodes.extend(pointers.into_iter().zip(nodes));
        self.nodes
            .sort_unstable_by(|(one, _), (other, _)| by_place(one, other));
        Ok(())
    }

    /// Returns a node that was brought.
    pub fn get(&self, pointer: &NodePointer) -> Option<NodeRef<'g>> {
        let found = self
            .nodes
            .binary_search_by(|(brought, _)| by_place(brought, pointer));
        let (brought, node) = &self.nodes[found.ok()?];
        debug_assert!(
            self.nodes
                .is_sorted_by(|(one, _), (next, _)| by_place(one, next).is_le()),
            "nodes by their places"
        );
        (brought == pointer).then(|| node.clone())
    }
}

impl<'g> Peeking<'g> {
    /// Looks in the cache of `from`, and among what was brought.
    pub fn new(from: Blocking<'g>, brought: &'g Brought<'g>) -> Peeking<'g> {
        Peeking {
            from,
            brought,
            missing: RefCell::default(),
        }
    }

    /// Returns what was not there.
    pub fn into_missing(self) -> Vec<NodePointer> {
        self.missing.into_inner()
    }
}

impl Fetch for Peeking<'_> {
    #[inline]
    fn peek(&self, pointer: &NodePointer) -> Option<NodeRef<'_>> {
        if !self.brought.nodes.is_empty()
            && let Some(node) = self.brought.get(pointer)
        {
            return Some(node);
        }
        self.from.peek(pointer)
    }

    fn miss(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>> {
        self.missing.borrow_mut().extend_from_slice(pointers);
        Poll::Pending
    }

    fn blocking(&self) -> &Blocking<'_> {
        &self.from
    }
}
