//! Sources of a lookup's nodes. Blocking and non-blocking lookups run the same code on different
//! sources.

use alluvium_base::Purpose;
use alluvium_storage::{CacheRetention, EpochGuard, NodeCache, NodePointer, NodeRef, Result};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::task::{Poll, ready};

thread_local! {
    /// Number of nodes that lookups of this thread have waited for.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of nodes that lookups of this thread have waited for, wrapping around. The
/// difference before and after a lookup is the number of nodes that it read.
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

/// A source of nodes. `Pending` means that a node is not in memory and was recorded as missing: the
/// caller has it read and retries.
pub trait NodeFetch {
    /// Returns a node if it is in memory.
    fn peek(&self, pointer: &NodePointer) -> Option<NodeRef<'_>>;

    /// Prefetches the memory that [`NodeFetch::peek`] reads first. Only a hint.
    #[inline]
    fn prefetch(&self, pointer: &NodePointer) {
        let BlockingFetch { cache, guard, .. } = self.blocking();
        cache.prefetch(pointer, guard);
    }

    /// Prefetches the memory that [`NodeFetch::peek`] reads next, once the first part is in the
    /// processor's cache.
    #[inline]
    fn prefetch_header(&self, pointer: &NodePointer) {
        let BlockingFetch { cache, guard, .. } = self.blocking();
        cache.prefetch_header(pointer, guard);
    }

    /// Fetches nodes that are not in memory, in the order of their pointers.
    fn miss(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>>;

    /// As [`NodeFetch::miss`], for index pages. These misses are counted, because index pages
    /// should be in memory.
    #[cold]
    fn miss_index_pages(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>> {
        let BlockingFetch { cache, guard, .. } = self.blocking();
        cache.record_index_misses(pointers.len() as u64, guard);
        self.miss(pointers)
    }

    /// Returns the cache, the guard and the purpose, for rare reads that always block.
    fn blocking(&self) -> &BlockingFetch<'_>;

    #[inline]
    fn node(&self, pointer: &NodePointer) -> Poll<Result<NodeRef<'_>>> {
        match self.peek(pointer) {
            Some(node) => Poll::Ready(Ok(node)),
            None => Poll::Ready(Ok(ready!(self.miss(std::slice::from_ref(pointer)))?.remove(0))),
        }
    }

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

/// A source that blocks on cache misses and is never pending.
#[derive(Clone, Copy)]
pub struct BlockingFetch<'g> {
    pub cache: &'g NodeCache,
    /// Pinned epoch; nodes reachable under it are not reused.
    pub guard: &'g EpochGuard,
    /// Purpose that reads are accounted to.
    pub purpose: Purpose,
}

impl NodeFetch for BlockingFetch<'_> {
    #[inline]
    fn peek(&self, pointer: &NodePointer) -> Option<NodeRef<'_>> {
        self.cache.peek(pointer, self.guard)
    }

    #[cold]
    fn miss(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>> {
        waits(self.purpose, pointers.len());
        Poll::Ready(
            self.cache
                .get_many(pointers, self.guard, self.purpose, CacheRetention::Keep),
        )
    }

    fn blocking(&self) -> &BlockingFetch<'_> {
        self
    }
}

/// Unwraps the result of a blocking source.
pub fn unwrap_ready<T>(poll: Poll<T>) -> T {
    match poll {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a source that waits is never pending"),
    }
}

/// A source that never blocks: nodes that are neither in the cache nor in `brought` are recorded as
/// missing.
pub struct NonBlockingFetch<'g> {
    from: BlockingFetch<'g>,
    brought: &'g FetchedNodes<'g>,
    missing: RefCell<Vec<NodePointer>>,
}

/// Nodes that were read and waited for, whether or not the cache has kept them. They stay until the
/// search that needs them is done. Otherwise a search that needs two nodes could lose the first
/// while it waits for the second, and would never end if the cache cannot hold both.
#[derive(Default)]
pub struct FetchedNodes<'g> {
    /// Sorted by tier, offset and birth.
    nodes: Vec<(NodePointer, NodeRef<'g>)>,
}

fn by_place(one: &NodePointer, other: &NodePointer) -> Ordering {
    (one.tier, one.offset, one.birth).cmp(&(other.tier, other.offset, other.birth))
}

impl<'g> FetchedNodes<'g> {
    /// Reads nodes together and waits for them.
    pub fn wait(&mut self, from: BlockingFetch<'g>, mut pointers: Vec<NodePointer>) -> Result<()> {
        pointers.sort_unstable_by(by_place);
        pointers.dedup();
        waits(from.purpose, pointers.len());
        let nodes = from
            .cache
            .get_many(&pointers, from.guard, from.purpose, CacheRetention::Keep)?;
        assert_eq!(nodes.len(), pointers.len(), "a node for each pointer");
        self.nodes.extend(pointers.into_iter().zip(nodes));
        self.nodes
            .sort_unstable_by(|(one, _), (other, _)| by_place(one, other));
        Ok(())
    }

    /// Returns a node that was read.
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

impl<'g> NonBlockingFetch<'g> {
    /// Creates a source that looks in the cache of `from` and in `brought`.
    pub fn new(from: BlockingFetch<'g>, brought: &'g FetchedNodes<'g>) -> NonBlockingFetch<'g> {
        NonBlockingFetch {
            from,
            brought,
            missing: RefCell::default(),
        }
    }

    pub fn into_missing(self) -> Vec<NodePointer> {
        self.missing.into_inner()
    }
}

impl NodeFetch for NonBlockingFetch<'_> {
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

    fn blocking(&self) -> &BlockingFetch<'_> {
        &self.from
    }
}
