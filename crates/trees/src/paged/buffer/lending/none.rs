//! The variant that lends nothing: every reader latches.

use crate::paged::buffer::hints::FrameHintTable;
use crate::paged::buffer::pool::PoolOptions;

/// The items lent to a frame: none.
#[derive(Debug)]
pub(in crate::paged::buffer) struct FrameLoans;

impl FrameLoans {
    pub(in crate::paged::buffer) fn new(_frame: usize, _frames: usize) -> FrameLoans {
        FrameLoans
    }

    /// Called before a change of the page, with the latch held exclusively.
    pub(in crate::paged::buffer) fn raise(&self) {}
}

/// The items that a buffer lends: none.
#[derive(Debug)]
pub(in crate::paged::buffer) struct LoanPool;

impl LoanPool {
    pub(in crate::paged::buffer) fn of_pool(_options: &PoolOptions, _frames: usize) -> LoanPool {
        LoanPool
    }

    /// Takes back the items of a frame whose page leaves.
    pub(in crate::paged::buffer) fn take_back(&self, _lent: &FrameLoans) {}

    /// Returns the number of frames given up for items.
    pub(in crate::paged::buffer) fn frames(&self) -> usize {
        0
    }
}

impl PoolOptions {
    /// Returns the bytes of memory for each frame in addition to its page.
    pub(in crate::paged::buffer) fn bytes_beside(&self) -> usize {
        0
    }

    /// Returns the hints to the frames of pages.
    pub(in crate::paged::buffer) fn hints(&self, frames: usize) -> FrameHintTable {
        FrameHintTable::new(frames)
    }
}

/// The operations of a page buffer for couplings without latches: none.
pub trait LatchFreeAccess {}

impl<B: ?Sized> LatchFreeAccess for B {}
