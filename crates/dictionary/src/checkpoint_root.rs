//! The root of a dictionary at the time of a checkpoint, and the guard that keeps the dictionary
//! unchanged.

use alluvium_base::SequenceNumber;
use std::fmt;

/// The root of a dictionary at the time of a checkpoint. While this value exists, the dictionary
/// does not change.
///
/// A checkpoint first obtains the root of every dictionary, then freezes the extents, and finally
/// drops all the roots.
pub struct CheckpointRoot<'d> {
    /// The encoded root, from which the dictionary can be opened again.
    pub root: Vec<u8>,
    /// Sequence number of the last commit that the dictionary contains. The dictionary contains
    /// this commit and all earlier ones, and none of the later ones.
    pub at: SequenceNumber,
    /// A guard that prevents changes to the dictionary until it is dropped.
    _still: Box<dyn ChangeGuard + 'd>,
}

/// A guard that prevents changes to a dictionary. Every type implements this trait, so that the
/// type of the guard can be erased.
trait ChangeGuard {}

impl<T> ChangeGuard for T {}

impl<'d> CheckpointRoot<'d> {
    /// Creates the root of a dictionary whose last commit is `at`. `still` is the guard, usually of
    /// a lock, that prevents changes; it is dropped together with the root.
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
