//! Results of lookups: a node's bytes, valid while a guard lives or while they are referenced.

use super::Shared;
use super::budget::Charge;
use super::frame::FrameId;
use crate::{Guard, NodePointer};
use alluvium_device::Buffer;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A node in heap memory, read when no frame was available.
#[derive(Debug)]
pub(super) struct Private {
    pub(super) bytes: Buffer,
    pub(super) _charge: Charge,
}

/// Location of a node.
#[derive(Clone, Debug)]
pub(super) enum Home {
    Frame(FrameId),
    Private(Arc<Private>),
}

#[derive(Clone)]
enum Place<'g> {
    Frame { cache: &'g Arc<Shared>, frame: FrameId },
    Private(Arc<Private>),
}

/// A node's bytes, valid while a guard lives.
///
/// It is not counted and writes nothing. To keep a node longer, call [`NodeRef::retain`] or copy
/// the bytes.
#[derive(Clone)]
pub struct NodeRef<'g> {
    /// The frame's bytes; empty for a private node, whose bytes are in `place`.
    bytes: &'g [u8],
    place: Place<'g>,
}

impl<'g> NodeRef<'g> {
    #[inline]
    pub(super) fn new(cache: &'g Arc<Shared>, frame: FrameId, bytes: &'g [u8]) -> Self {
        NodeRef {
            bytes,
            place: Place::Frame { cache, frame },
        }
    }

    pub(super) fn private(node: Arc<Private>) -> Self {
        NodeRef {
            bytes: &[],
            place: Place::Private(node),
        }
    }

    /// Returns a reference that may outlive the guard. While it lives, its frame is neither evicted
    /// nor reused, and counts as pinned.
    #[must_use]
    pub fn retain(&self) -> FrameRef {
        match &self.place {
            Place::Frame { cache, frame } => {
                cache.pin(*frame);
                debug_assert!(cache.header(*frame).pins() > 0, "a reference is counted (C2)");
                FrameRef {
                    bytes: std::ptr::from_ref(self.bytes),
                    place: Kept::Frame {
                        cache: Arc::clone(cache),
                        frame: *frame,
                    },
                }
            }
            Place::Private(node) => FrameRef {
                bytes: std::ptr::from_ref(&node.bytes[..]),
                place: Kept::Private(Arc::clone(node)),
            },
        }
    }

    /// Returns whether the node is in the cache rather than in private memory.
    #[must_use]
    pub fn is_cached(&self) -> bool {
        matches!(self.place, Place::Frame { .. })
    }
}

impl Deref for NodeRef<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.place {
            Place::Frame { .. } => self.bytes,
            Place::Private(node) => &node.bytes,
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

enum Kept {
    Frame { cache: Arc<Shared>, frame: FrameId },
    Private(Arc<Private>),
}

/// A counted reference to a node's bytes, for values and iterators that outlive a call.
///
/// It pins its frame (the whole node), so it should not be held longer than needed.
pub struct FrameRef {
    bytes: *const [u8],
    place: Kept,
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
            Kept::Frame { cache, frame } => {
                debug_assert!(cache.header(*frame).pins() > 0, "a reference is counted (C2)");
                cache.pin(*frame);
                Kept::Frame {
                    cache: Arc::clone(cache),
                    frame: *frame,
                }
            }
            Kept::Private(node) => Kept::Private(Arc::clone(node)),
        };
        FrameRef {
            bytes: self.bytes,
            place,
        }
    }
}

impl Drop for FrameRef {
    fn drop(&mut self) {
        if let Kept::Frame { cache, frame } = &self.place {
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

impl Shared {
    /// Returns the bytes of a node that was found under the guard or published since the guard was
    /// created.
    #[inline]
    pub(super) fn node_ref<'g>(
        self: &'g Arc<Self>,
        frame: FrameId,
        pointer: &NodePointer,
        _guard: &'g Guard,
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
