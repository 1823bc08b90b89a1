//! Hits and misses of key lookups, counted for each thread until its batch is done.

use super::ServerStore;
use std::cell::Cell;
use std::sync::atomic::Ordering;

thread_local! {
    static COUNTED: Cell<LookupCounts> = const { Cell::new(LookupCounts { found: 0, missed: 0 }) };
}

/// Numbers of hits and misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LookupCounts {
    found: u64,
    missed: u64,
}

impl LookupCounts {
    pub(super) fn found() {
        let LookupCounts { found, missed } = COUNTED.get();
        COUNTED.set(LookupCounts {
            found: found + 1,
            missed,
        });
    }

    pub(super) fn missed() {
        let LookupCounts { found, missed } = COUNTED.get();
        COUNTED.set(LookupCounts {
            found,
            missed: missed + 1,
        });
    }

    /// Returns the counts of this thread.
    pub(crate) fn counted() -> LookupCounts {
        COUNTED.get()
    }

    /// Discards what was counted since `self` was returned, for commands that also write.
    pub(crate) fn forget_since(self) {
        COUNTED.set(self);
    }

    /// Adds the counts of this thread to those of the store.
    pub(crate) fn publish_counts(store: &ServerStore) {
        let counted = COUNTED.take();
        for (count, total) in [(counted.found, &store.hits), (counted.missed, &store.misses)] {
            if count > 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}
