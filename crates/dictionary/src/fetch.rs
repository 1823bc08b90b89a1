//! Node sources for lookups. Blocking and non-blocking lookups run the same code on different
//! sources.

use alluvium_base::Purpose;
use alluvium_storage::{CacheRetention, EpochGuard, NodeCache, NodePointer, NodeRef, Result};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::task::{Poll, ready};

thread_local! {
    /// Number of nodes that lookups on this thread have waited for.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of nodes that lookups on this thread have waited for. The counter wraps
/// around. Its increase during a lookup is the number of nodes that the lookup read from the
/// device.
#[inline]
#[must_use]
pub fn waited() -> u64 {
    WAITED.get()
}

/// Adds `nodes` to this thread's counter if the read belongs to a lookup.
#[cold]
fn waits(purpose: Purpose, nodes: usize) {
    if purpose == Purpose::Lookup {
        WAITED.set(WAITED.get().wrapping_add(nodes as u64));
    }
}

/// A source of nodes. `Pending` means that the node is not in memory and that the source has
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

    /// Prefetches the memory that [`NodeFetch::peek`] reads second. To find it, this reads the
    /// memory that [`NodeFetch::prefetch`] has prefetched, which should have arrived by now.
    #[inline]
    fn prefetch_header(&self, pointer: &NodePointer) {
        let BlockingFetch { cache, guard, .. } = self.blocking();
        cache.prefetch_header(pointer, guard);
    }

    /// Fetches the nodes at `pointers`, which are not in memory, and returns them in the same
    /// order.
    fn miss(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>>;

    /// Like [`NodeFetch::miss`], but for index pages. The misses are counted, because index pages
    /// are expected to be in memory.
    #[cold]
    fn miss_index_pages(&self, pointers: &[NodePointer]) -> Poll<Result<Vec<NodeRef<'_>>>> {
        let BlockingFetch { cache, guard, .. } = self.blocking();
        cache.record_index_misses(pointers.len() as u64, guard);
        self.miss(pointers)
    }

    /// Returns the underlying blocking source, for rare reads that always block.
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
    /// The pinned epoch, which protects the nodes that are reachable in it from being overwritten.
    pub guard: &'g EpochGuard,
    /// The purpose under which reads from this source are counted.
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

/// Unwraps the result of a blocking source, which is always ready.
pub fn unwrap_ready<T>(poll: Poll<T>) -> T {
    match poll {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a source that waits is never pending"),
    }
}

/// A source of nodes that never blocks. A node that is neither cached nor already fetched is
/// recorded as missing.
pub struct NonBlockingFetch<'g> {
    from: BlockingFetch<'g>,
    brought: &'g FetchedNodes<'g>,
    missing: RefCell<Vec<NodePointer>>,
}

/// Nodes that were read for a batch of searches, whether or not the cache has kept them. Each node
/// stays in memory until the search that needs it has ended. Otherwise, a search that needs two
/// nodes could lose the first while it waits for the second, and would never end if the cache
/// cannot hold both.
#[derive(Default)]
pub struct FetchedNodes<'g> {
    /// The nodes, sorted by tier, then offset, then birth.
    nodes: Vec<(NodePointer, NodeRef<'g>)>,
}

fn by_place(one: &NodePointer, other: &NodePointer) -> Ordering {
    (one.tier, one.offset, one.birth).cmp(&(other.tier, other.offset, other.birth))
}

impl<'g> FetchedNodes<'g> {
    /// Reads the nodes at `pointers` with one wait for all of them, and keeps them.
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
    /// Creates a source that looks for nodes in the cache of `from` and among those in `brought`.
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
