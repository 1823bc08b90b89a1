//! The variant without the feature `couplings`. Frames borrow no items, so every reader must latch
//! the nodes that it visits.

use crate::paged::buffer::hints::FrameHintTable;
use crate::paged::buffer::pool::PoolOptions;

/// The items lent to one frame. In this variant there are none.
#[derive(Debug)]
pub(in crate::paged::buffer) struct FrameLoans;

impl FrameLoans {
    pub(in crate::paged::buffer) fn new(_frame: usize, _frames: usize) -> FrameLoans {
        FrameLoans
    }

    /// Must be called under the exclusive latch, before the page is changed. Has no effect in this
    /// variant.
    pub(in crate::paged::buffer) fn raise(&self) {}
}

/// The items that a buffer can lend. In this variant there are none.
#[derive(Debug)]
pub(in crate::paged::buffer) struct LoanPool;

impl LoanPool {
    pub(in crate::paged::buffer) fn of_pool(_options: &PoolOptions, _frames: usize) -> LoanPool {
        LoanPool
    }

    /// Takes back the items of a frame whose page is leaving it. Has no effect in this variant.
    pub(in crate::paged::buffer) fn take_back(&self, _lent: &FrameLoans) {}

    /// Returns the number of frames whose memory is used for items, which is 0 in this variant.
    pub(in crate::paged::buffer) fn frames(&self) -> usize {
        0
    }
}

impl PoolOptions {
    /// Returns the memory in bytes that each frame needs beyond its page, which is 0 in this
    /// variant.
    pub(in crate::paged::buffer) fn bytes_beside(&self) -> usize {
        0
    }

    /// Creates the table of hints to the frames of pages.
    pub(in crate::paged::buffer) fn hints(&self, frames: usize) -> FrameHintTable {
        FrameHintTable::new(frames)
    }
}

/// The operations of a page buffer for readers that do not latch nodes. In this variant there are
/// none.
pub trait LatchFreeAccess {}

impl<B: ?Sized> LatchFreeAccess for B {}
