//! The root of a dictionary at a cut.

use alluvium_base::Sequence;
use std::fmt;

/// What a dictionary says of itself at a checkpoint. Nothing changes the dictionary before it is
/// dropped.
///
/// The owner of the store takes one of every dictionary, then cuts the extents, and drops them all.
pub struct Cut<'d> {
    /// What the dictionary is opened from.
    pub root: Vec<u8>,
    /// The dictionary holds every commit up to this one, and none above.
    pub at: Sequence,
    /// Dropped with the rest.
    _still: Box<dyn Still + 'd>,
}

/// Keeps a dictionary as it is.
trait Still {}

impl<T> Still for T {}

impl<'d> Cut<'d> {
    /// Creates a cut at `at` that keeps `still` until it is dropped: a lock, as a rule.
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
