//! Results of lookups: a node's bytes, valid while a guard lives or while they are referenced.

use super::NodeCacheInner;
use super::budget::BudgetCharge;
use super::frame::FrameId;
use crate::{EpochGuard, NodePointer};
use alluvium_device::AlignedBuffer;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A node in heap memory, read when no frame was available.
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

/// A node's bytes, valid while a guard lives.
///
/// It is not counted and writes nothing. To keep a node longer, call [`NodeRef::retain`] or copy
/// the bytes.
#[derive(Clone)]
pub struct NodeRef<'g> {
    /// The frame's bytes; empty for a private node, whose bytes are in `place`.
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

    /// Returns a reference that may outlive the guard. While it lives, its frame is neither evicted
    /// nor reused, and counts as pinned.
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

    /// Returns whether the node is in the cache rather than in private memory.
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

/// A counted reference to a node's bytes, for values and iterators that outlive a call.
///
/// It pins its frame (the whole node), so it should not be held longer than needed.
pub struct FrameRef {
    bytes: *const [u8],
    place: PinnedBacking,
}

// SAFETY: the bytes are immutable and stay where they are while `place` is held, which is `Send`
// and `Sync` itself.
unsafe impl Send for FrameRef {}
// SAFETY: as above.
unsafe impl Sync for FrameRef {}

impl Deref for FrameRef {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: a pinned frame is not recycled, the cache keeps its arena alive, and a private
        // node owns its bytes; neither is written.
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
    /// Returns the bytes of a node that was found under the guard or published since the guard was
    /// created.
    #[inline]
    pub(super) fn node_ref<'g>(
        self: &'g Arc<Self>,
        frame: FrameId,
        pointer: &NodePointer,
        _guard: &'g EpochGuard,
    ) -> NodeRef<'g> {
        let len = self.page_size.node_bytes(pointer.pages);
        // Computed from the frame's number alone, so that the processor can fetch the node without
        // waiting for the header.
        let at = self.geometry.data_at(frame, usize::from(pointer.pages) - 1);
        // SAFETY: the frame holds the pointer's node, which has this length. It is not recycled
        // while the guard lives (C2), so it is not written (C1).
        let bytes = unsafe { self.arena.bytes(at, len) };
        NodeRef::new(self, frame, bytes)
    }
}
