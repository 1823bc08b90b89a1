//! Sequence numbers that readers pin to retain the versions that they see.

use crate::shared::SharedStore;
use alluvium_base::SequenceNumber;
use std::sync::Arc;

/// A pinned sequence number. Until it is dropped, the store retains the versions visible at this
/// number.
pub(crate) struct SnapshotPin {
    shared: Arc<SharedStore>,
    at: SequenceNumber,
    /// Fixed time of the reader in milliseconds since 1970, or `None` to use the store's clock.
    now_ms: Option<u64>,
}

impl SnapshotPin {
    /// Pins the sequence number of the latest visible commit.
    pub(crate) fn now(shared: &Arc<SharedStore>) -> SnapshotPin {
        let at = shared.engine.open_snapshot();
        SnapshotPin {
            shared: Arc::clone(shared),
            at,
            now_ms: None,
        }
    }

    /// Pins a sequence number that another reader has already pinned.
    pub(crate) fn at(shared: &Arc<SharedStore>, at: SequenceNumber) -> SnapshotPin {
        shared.engine.open_snapshot_at(at);
        SnapshotPin {
            shared: Arc::clone(shared),
            at,
            now_ms: None,
        }
    }

    /// Sets a fixed time for the reader, in milliseconds since 1970.
    pub(crate) fn by_clock(mut self, now_ms: u64) -> SnapshotPin {
        self.now_ms = Some(now_ms);
        self
    }

    /// Returns the reader's time in milliseconds since 1970, which decides whether a value has
    /// expired.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.unwrap_or_else(|| self.shared.engine.now_ms())
    }

    pub(crate) fn sequence(&self) -> SequenceNumber {
        self.at
    }

    pub(crate) fn shared(&self) -> &Arc<SharedStore> {
        &self.shared
    }
}

impl Drop for SnapshotPin {
    fn drop(&mut self) {
        self.shared.engine.close_snapshot(self.at);
    }
}
