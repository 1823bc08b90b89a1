//! The root of a dictionary at a checkpoint.

use alluvium_base::SequenceNumber;
use std::fmt;

/// The root of a dictionary at a checkpoint. The dictionary does not change until the root is
/// dropped.
///
/// A checkpoint takes the root of every dictionary, then freezes the extents, and then drops all
/// the roots.
pub struct CheckpointRoot<'d> {
    /// Root bytes from which the dictionary is opened.
    pub root: Vec<u8>,
    /// The last commit in the dictionary: it contains every commit up to this one and none after
    /// it.
    pub at: SequenceNumber,
    /// Prevents changes to the dictionary until it is dropped.
    _still: Box<dyn ChangeGuard + 'd>,
}

/// A guard of any type that prevents changes to a dictionary.
trait ChangeGuard {}

impl<T> ChangeGuard for T {}

impl<'d> CheckpointRoot<'d> {
    /// Creates the root of a dictionary at `at`. `still`, usually a lock guard, is held until the
    /// root is dropped.
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
        f.debug_struct("Cut")
            .field("at", &self.at)
            .field("root_bytes", &self.root.len())
            .finish_non_exhaustive()
    }
}
