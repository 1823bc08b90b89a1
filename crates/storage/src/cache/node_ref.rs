//! References to the bytes of a cached node: [`NodeRef`] is valid while an epoch guard lives, and
//! [`FrameRef`] pins the node independently of guards.

use super::NodeCacheInner;
use super::budget::BudgetCharge;
use super::frame::FrameId;
use crate::{EpochGuard, NodePointer};
use alluvium_device::AlignedBuffer;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A node in private heap memory, for which no frame was available when it was read.
#[derive(Debug)]
pub(super) struct HeapNode {
    pub(super) bytes: AlignedBuffer,
    pub(super) _charge: BudgetCharge,
}

#[derive(Clone, Debug)]
pub(super) enum NodeStorage {
    Frame(FrameId),
    Private(Arc<HeapNode>),
}

#[derive(Clone)]
enum NodeBacking<'g> {
    Frame {
        cache: &'g Arc<NodeCacheInner>,
        frame: FrameId,
    },
    Private(Arc<HeapNode>),
}

/// A reference to the bytes of a node, valid while an epoch guard lives.
///
/// Creating one touches no reference count and writes no memory. To use a node after the guard is
/// dropped, call [`NodeRef::retain`] or copy the bytes.
#[derive(Clone)]
pub struct NodeRef<'g> {
    /// The bytes of the frame, or an empty slice for a private node, whose bytes are in `place`.
    bytes: &'g [u8],
    place: NodeBacking<'g>,
}

impl<'g> NodeRef<'g> {
    #[inline]
    pub(super) fn new(cache: &'g Arc<NodeCacheInner>, frame: FrameId, bytes: &'g [u8]) -> Self {
        NodeRef {
            bytes,
            place: NodeBacking::Frame { cache, frame },
        }
    }

    pub(super) fn private(node: Arc<HeapNode>) -> Self {
        NodeRef {
            bytes: &[],
            place: NodeBacking::Private(node),
        }
    }

    /// Returns a reference that may outlive the guard. While it lives, the frame of the node is
    /// neither evicted nor reused, and its size counts toward
    /// [`CacheStats::pinned_bytes`](super::CacheStats::pinned_bytes).
    #[must_use]
    pub fn retain(&self) -> FrameRef {
        match &self.place {
            NodeBacking::Frame { cache, frame } => {
                cache.pin(*frame);
                debug_assert!(cache.header(*frame).pins() > 0, "a reference is counted (C2)");
                FrameRef {
                    bytes: std::ptr::from_ref(self.bytes),
                    place: PinnedBacking::Frame {
                        cache: Arc::clone(cache),
                        frame: *frame,
                    },
                }
            }
            NodeBacking::Private(node) => FrameRef {
                bytes: std::ptr::from_ref(&node.bytes[..]),
                place: PinnedBacking::Private(Arc::clone(node)),
            },
        }
    }

    /// Returns whether the node is in a frame of the cache rather than in private memory.
    #[must_use]
    pub fn is_cached(&self) -> bool {
        matches!(self.place, NodeBacking::Frame { .. })
    }
}

impl Deref for NodeRef<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.place {
            NodeBacking::Frame { .. } => self.bytes,
            NodeBacking::Private(node) => &node.bytes,
        }
    }
}

impl fmt::Debug for NodeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeRef")
            .field("len", &self.len())
            .field("cached", &self.is_cached())
            .finish_non_exhaustive()
    }
}

enum PinnedBacking {
    Frame {
        cache: Arc<NodeCacheInner>,
        frame: FrameId,
    },
    Private(Arc<HeapNode>),
}

/// A reference-counted reference to the bytes of a node, for values and iterators that outlive a
/// call.
///
/// It pins the whole frame of the node, so drop it as soon as possible.
pub struct FrameRef {
    bytes: *const [u8],
    place: PinnedBacking,
}

// SAFETY: the bytes are immutable, and are neither moved nor freed while `place` lives.
// `PinnedBacking` itself is `Send` and `Sync`.
unsafe impl Send for FrameRef {}
// SAFETY: as for `Send` above.
unsafe impl Sync for FrameRef {}

impl Deref for FrameRef {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: a pinned frame is not recycled, and the cache handle in `place` keeps the arena
        // mapped. A private node owns its bytes. Neither kind of memory is written while this
        // reference lives.
        unsafe { &*self.bytes }
    }
}

impl Clone for FrameRef {
    fn clone(&self) -> Self {
        let place = match &self.place {
            PinnedBacking::Frame { cache, frame } => {
                debug_assert!(cache.header(*frame).pins() > 0, "a reference is counted (C2)");
                cache.pin(*frame);
                PinnedBacking::Frame {
                    cache: Arc::clone(cache),
                    frame: *frame,
                }
            }
            PinnedBacking::Private(node) => PinnedBacking::Private(Arc::clone(node)),
        };
        FrameRef {
            bytes: self.bytes,
            place,
        }
    }
}

impl Drop for FrameRef {
    fn drop(&mut self) {
        if let PinnedBacking::Frame { cache, frame } = &self.place {
            debug_assert!(cache.header(*frame).pins() > 0, "a reference is counted (C2)");
            cache.unpin(*frame);
        }
    }
}

impl fmt::Debug for FrameRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameRef")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl NodeCacheInner {
    /// Returns a reference to the bytes of a node. The frame must have been found under this guard,
    /// or published since the guard was created.
    #[inline]
    pub(super) fn node_ref<'g>(
        self: &'g Arc<Self>,
        frame: FrameId,
        pointer: &NodePointer,
        _guard: &'g EpochGuard,
    ) -> NodeRef<'g> {
        let len = self.page_size.node_bytes(pointer.pages);
        // Compute the address from the frame number and the number of pages, so that the processor
        // can fetch the node before the frame header has been loaded.
        let at = self.geometry.data_at(frame, usize::from(pointer.pages) - 1);
        // SAFETY: the frame contains the node of `pointer`, which has this length. The frame is not
        // recycled while the guard lives (C2), so its bytes are not written (C1).
        let bytes = unsafe { self.arena.bytes(at, len) };
        NodeRef::new(self, frame, bytes)
    }
}
