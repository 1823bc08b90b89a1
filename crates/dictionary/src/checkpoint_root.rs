//! The root of a dictionary at a checkpoint, and the guard that keeps the dictionary unchanged.

use alluvium_base::SequenceNumber;
use std::fmt;

/// The root of a dictionary at a checkpoint. The dictionary does not change while this value
/// exists.
///
/// A checkpoint obtains the root of every dictionary, freezes the extents, and then drops the
/// roots.
pub struct CheckpointRoot<'d> {
    /// The encoded root, from which the dictionary can be opened.
    pub root: Vec<u8>,
    /// Sequence number of the last commit in the dictionary, which contains this commit and all
    /// earlier ones, but no later one.
    pub at: SequenceNumber,
    /// A guard that prevents changes to the dictionary until it is dropped.
    _still: Box<dyn ChangeGuard + 'd>,
}

/// A guard that prevents changes to a dictionary. Every type implements this trait, because its
/// only purpose is to erase the guard's type.
trait ChangeGuard {}

impl<T> ChangeGuard for T {}

impl<'d> CheckpointRoot<'d> {
    /// Creates the root of a dictionary whose last commit is `at`. `still` prevents changes to the
    /// dictionary and is dropped with the root. It is usually a lock guard.
    #[must_use]
    pub fn new(root: Vec<u8>, at: SequenceNumber, still: impl Sized + 'd) -> CheckpointRoot<'d> {
        CheckpointRoot {
            root,
            at,
            _still: Box::new(still),
        }
    }
}

impl fmt::Debug for CheckpointRoot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointRoot")
            .field("at", &self.at)
            .field("root_bytes", &self.root.len())
            .finish_non_exhaustive()
    }
}
