//! The sources from which lookups obtain nodes. Blocking and non-blocking lookups run the same code
//! but use different sources.

use alluvium_base::Purpose;
use alluvium_storage::{CacheRetention, EpochGuard, NodeCache, NodePointer, NodeRef, Result};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::task::{Poll, ready};

thread_local! {
    /// Number of nodes for which lookups on this thread have had to wait.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of nodes for which lookups on this thread have had to wait. The counter wraps
/// around. The difference between its values before and after a lookup is the number of nodes that
/// the lookup read from the device.
#[inline]
#[must_use]
pub fn waited() -> u64 {
    WAITED.get()
}

/// Adds `nodes` to the counter of this thread if a lookup is the purpose of the read.
#[cold]
fn waits(purpose: Purpose, nodes: usize) {
    if purpose == Purpose::Lookup {
        WAITED.set(WAITED.get().wrapping_add(nodes as u64));
    }
}

/// A source of nodes. If a method returns `Pending`, the node is not in memory and the source has
/// recorded it as missing. The caller must have the missing nodes read and then retry.
pub trait NodeFetch {
    /// Returns a node if it is in memory, and `None` otherwise.
    fn peek(&self, pointer: &NodePointer) -> Option<NodeRef<'_>>;

    /// Prefetches the memory that [`NodeFetch::peek`] reads first. This is only a hint.
    #[inline]
    fn prefetch(&self, pointer: &NodePointer) {
        let BlockingFetch { cache, guard, .. } = self.blocking();
        cache.prefetch(pointer, guard);
    }

    /// Prefetches the memory that [`NodeFetch::peek`] reads second. The caller should first wait
    /// until the memory prefetched by [`NodeFetch::prefetch`] has arrived in the processor's cache.
    #[inline]
    fn prefetch_header(&self, pointer: &NodePointer) {
        let BlockingFetch { cache, guard, .. } = self.blocking();
        cache.prefetch_header(pointer, guard);
    }

    /// Fetches the nodes at `pointers`, which are not in memory. Returns them in the order of
    /// `pointers`.
    fn miss(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>>;

    /// Fetches index pages like [`NodeFetch::miss`]. The misses are counted, because index pages
    /// are expected to be in memory.
    #[cold]
    fn miss_index_pages(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>> {
        let BlockingFetch { cache, guard, .. } = self.blocking();
        cache.record_index_misses(pointers.len() as u64, guard);
        self.miss(pointers)
    }

    /// Returns the underlying blocking source, for rare reads that block in every case.
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

/// A source of nodes that blocks on a cache miss and therefore never returns `Pending`.
#[derive(Clone, Copy)]
pub struct BlockingFetch<'g> {
    pub cache: &'g NodeCache,
    /// The pinned epoch. Nodes that are reachable in this epoch are not overwritten while it is
    /// pinned.
    pub guard: &'g EpochGuard,
    /// The purpose to which the source's reads are accounted.
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

/// Returns the result of a blocking source, which is always ready.
pub fn unwrap_ready<T>(poll: Poll<T>) -> T {
    match poll {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a source that waits is never pending"),
    }
}

/// A source of nodes that never blocks. A node that is neither in the cache nor among the nodes
/// already fetched is recorded as missing.
pub struct NonBlockingFetch<'g> {
    from: BlockingFetch<'g>,
    brought: &'g FetchedNodes<'g>,
    missing: RefCell<Vec<NodePointer>>,
}

/// Nodes that were read for a batch of searches, whether or not the cache has kept them. They stay
/// in memory until the search that needs them has ended. Otherwise, a search that needs two nodes
/// could lose the first node while it waits for the second. If the cache cannot hold both nodes,
/// such a search would never end.
#[derive(Default)]
pub struct FetchedNodes<'g> {
    /// The nodes, sorted by tier, then offset, then birth.
    nodes: Vec<(NodePointer, NodeRef<'g>)>,
}

fn by_place(one: &NodePointer, other: &NodePointer) -> Ordering {
    (one.tier, one.offset, one.birth).cmp(&(other.tier, other.offset, other.birth))
}

impl<'g> FetchedNodes<'g> {
    /// Reads the nodes at `pointers` together, waits for all of them, and keeps them.
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

    /// Returns the node at `pointer` if it was read, and `None` otherwise.
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
    /// Creates a source that finds nodes in the cache of `from` and among the nodes in `brought`.
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
