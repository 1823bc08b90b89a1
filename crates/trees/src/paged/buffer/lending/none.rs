//! Nothing is lent: every reader latches.

use crate::paged::buffer::hints::Hints;
use crate::paged::buffer::pool::PoolOptions;

/// What a frame is lent: nothing.
#[derive(Debug)]
pub(in crate::paged::buffer) struct Lent;

impl Lent {
    pub(in crate::paged::buffer) fn new(_frame: usize, _frames: usize) -> Lent {
        Lent
    }

    /// The page may be changed from here on: its latch is held exclusively.
    pub(in crate::paged::buffer) fn raise(&self) {}
}

/// What a buffer lends: nothing.
#[derive(Debug)]
pub(in crate::paged::buffer) struct Loans;

impl Loans {
    pub(in crate::paged::buffer) fn of_pool(_options: &PoolOptions, _frames: usize) -> Loans {
        Loans
    }

    /// Takes back what a frame was lent whose page leaves.
    pub(in crate::paged::buffer) fn take_back(&self, _lent: &Lent) {}

    /// Returns how many frames were given up for what is lent.
    pub(in crate::paged::buffer) fn frames(&self) -> usize {
        0
    }
}

impl PoolOptions {
    /// Returns how many bytes of memory each frame takes beside its page.
    pub(in crate::paged::buffer) fn bytes_beside(&self) -> usize {
        0
    }

    /// Returns the guesses where pages are.
    pub(in crate::paged::buffer) fn hints(&self, frames: usize) -> Hints {
        Hints::new(frames)
    }
}

/// What couplings without latches ask of a page buffer: nothing.
pub trait Lending {}

impl<B: ?Sized> Lending for B {}
