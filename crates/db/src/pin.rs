//! Places in the commit order that readers hold.

use crate::shared::Shared;
use alluvium_base::Sequence;
use std::sync::Arc;

/// A place in the commit order that a reader reads at: what is seen there is kept until the reader
/// is done.
pub(crate) struct Pinned {
    shared: Arc<Shared>,
    at: Sequence,
}

impl Pinned {
    /// At what is visible now.
    pub(crate) fn now(shared: &Arc<Shared>) -> Pinned {
        let at = shared.engine.open_snapshot();
        Pinned {
            shared: Arc::clone(shared),
            at,
        }
    }

    /// At a place that is pinned already.
    pub(crate) fn at(shared: &Arc<Shared>, at: Sequence) -> Pinned {
        shared.engine.open_snapshot_at(at);
        Pinned {
            shared: Arc::clone(shared),
            at,
        }
    }

    pub(crate) fn sequence(&self) -> Sequence {
        self.at
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.shared.engine.close_snapshot(self.at);
    }
}
