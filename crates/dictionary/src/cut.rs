//! The root of a dictionary at a checkpoint.

use alluvium_base::Sequence;
use std::fmt;

/// The root of a dictionary at a checkpoint. The dictionary does not change until the cut is
/// dropped.
///
/// A checkpoint takes a cut of every dictionary, then cuts the extents, and then drops all the
/// cuts.
pub struct Cut<'d> {
    /// Root bytes from which the dictionary is opened.
    pub root: Vec<u8>,
    /// The last commit in the dictionary: it contains every commit up to this one and none after
    /// it.
    pub at: Sequence,
    /// Prevents changes to the dictionary until it is dropped.
    _still: Box<dyn Still + 'd>,
}

/// A guard of any type that prevents changes to a dictionary.
trait Still {}

impl<T> Still for T {}

impl<'d> Cut<'d> {
    /// Creates a cut at `at`. `still`, usually a lock guard, is held until the cut is dropped.
    #[must_use]
    pub fn new(root: Vec<u8>, at: Sequence, still: impl Sized + 'd) -> Cut<'d> {
        Cut {
            root,
            at,
            _still: Box::new(still),
        }
    }
}

impl fmt::Debug for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cut")
            .field("at", &self.at)
            .field("root_bytes", &self.root.len())
            .finish_non_exhaustive()
    }
}
