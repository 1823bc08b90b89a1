//! Hits and misses of key lookups, counted for each thread until its batch is done.

use super::Store;
use std::cell::Cell;
use std::sync::atomic::Ordering;

thread_local! {
    static COUNTED: Cell<Lookups> = const { Cell::new(Lookups { found: 0, missed: 0 }) };
}

/// Numbers of hits and misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lookups {
    found: u64,
    missed: u64,
}

impl Lookups {
    /// Counts a hit.
    pub(super) fn found() {
        let Lookups { found, missed } = COUNTED.get();
        COUNTED.set(Lookups {
            found: found + 1,
            missed,
        });
    }

    /// Counts a miss.
    pub(super) fn missed() {
        let Lookups { found, missed } = COUNTED.get();
        COUNTED.set(Lookups {
            found,
            missed: missed + 1,
        });
    }

    /// Returns the counts of this thread.
    pub(crate) fn counted() -> Lookups {
        COUNTED.get()
    }

    /// Discards what was counted since `self` was returned, for commands that also write.
    pub(crate) fn forget_since(self) {
        COUNTED.set(self);
    }

    /// Adds the counts of this thread to those of the store.
    pub(crate) fn tell(store: &Store) {
        let counted = COUNTED.take();
        for (count, total) in [(counted.found, &store.hits), (counted.missed, &store.misses)] {
            if count > 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}
