//! Counts the hits and misses of key lookups. Each thread counts locally and adds its counts to the
//! store's totals at the end of a batch.

use super::ServerStore;
use std::cell::Cell;
use std::sync::atomic::Ordering;

thread_local! {
    static COUNTED: Cell<LookupCounts> = const { Cell::new(LookupCounts { found: 0, missed: 0 }) };
}

/// Number of lookups that found their key, and number that did not.
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

    /// Returns this thread's current counts.
    pub(crate) fn counted() -> LookupCounts {
        COUNTED.get()
    }

    /// Resets this thread's counts to `self`, which `counted` returned earlier. Excludes the
    /// lookups of commands that also write.
    pub(crate) fn forget_since(self) {
        COUNTED.set(self);
    }

    /// Adds this thread's counts to the totals of the store, and resets them to zero.
    pub(crate) fn publish_counts(store: &ServerStore) {
        let counted = COUNTED.take();
        for (count, total) in [(counted.found, &store.hits), (counted.missed, &store.misses)] {
            if count > 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}
