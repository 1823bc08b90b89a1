//! Places in the commit order that readers hold.

use crate::shared::Shared;
use alluvium_base::Sequence;
use std::sync::Arc;

/// A place in the commit order that a reader reads at: what is seen there is kept until the reader
/// is done.
pub(crate) struct Pinned {
    shared: Arc<Shared>,
    at: Sequence,
    /// The reader's clock, in milliseconds since 1970; the store's if it has none.
    now_ms: Option<u64>,
}

impl Pinned {
    /// At what is visible now.
    pub(crate) fn now(shared: &Arc<Shared>) -> Pinned {
        let at = shared.engine.open_snapshot();
        Pinned {
            shared: Arc::clone(shared),
            at,
            now_ms: None,
        }
    }

    /// At a place that is pinned already.
    pub(crate) fn at(shared: &Arc<Shared>, at: Sequence) -> Pinned {
        shared.engine.open_snapshot_at(at);
        Pinned {
            shared: Arc::clone(shared),
            at,
            now_ms: None,
        }
    }

    /// The same for a reader by another clock: the time in milliseconds since 1970.
    pub(crate) fn by_clock(mut self, now_ms: u64) -> Pinned {
        self.now_ms = Some(now_ms);
        self
    }

    /// The reader's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.unwrap_or_else(|| self.shared.engine.now_ms())
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
