//! What all scans of a tree share.

use super::usual::UsualScan;
use crate::scanning::Held;
use crate::tiered::trunk::Trunk;
use std::fmt;
use std::sync::Arc;

/// The scans of a tree: the trunk that they walk through, what they hold together, and how long
/// they usually are.
pub(crate) struct Scans {
    pub(super) trunk: Arc<Trunk>,
    pub(super) held: Held,
    pub(super) usual: UsualScan,
}

impl Scans {
    /// The scans of a tree that has none yet.
    pub(crate) fn new(trunk: &Arc<Trunk>) -> Scans {
        Scans {
            trunk: Arc::clone(trunk),
            held: Held::default(),
            usual: UsualScan::default(),
        }
    }

    /// Limits what scans hold between their calls to `bytes` bytes, all of them together, but for a
    /// little that each needs.
    pub(crate) fn limit(&self, bytes: u64) {
        self.held.limit(bytes);
    }

    /// Returns how many bytes scans hold between their calls.
    pub(crate) fn hold_bytes(&self) -> u64 {
        self.held.bytes()
    }
}

impl fmt::Debug for Scans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scans")
            .field("hold_bytes", &self.hold_bytes())
            .finish_non_exhaustive()
    }
}
