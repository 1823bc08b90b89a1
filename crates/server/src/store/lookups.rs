//! What lookups of keys found, counted for each thread until its batch is done.

use super::Store;
use std::cell::Cell;
use std::sync::atomic::Ordering;

thread_local! {
    static COUNTED: Cell<Lookups> = const { Cell::new(Lookups { found: 0, missed: 0 }) };
}

/// Lookups of keys, by what they found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lookups {
    found: u64,
    missed: u64,
}

impl Lookups {
    /// Counts a lookup that found a key.
    pub(super) fn found() {
        let Lookups { found, missed } = COUNTED.get();
        COUNTED.set(Lookups {
            found: found + 1,
            missed,
        });
    }

    /// Counts one that found none.
    pub(super) fn missed() {
        let Lookups { found, missed } = COUNTED.get();
        COUNTED.set(Lookups {
            found,
            missed: missed + 1,
        });
    }

    /// Returns what this thread has counted.
    pub(crate) fn counted() -> Lookups {
        COUNTED.get()
    }

    /// Forgets what was counted since `self` was returned, for a command that does more than read.
    pub(crate) fn forget_since(self) {
        COUNTED.set(self);
    }

    /// Adds what this thread has counted to what the store tells.
    pub(crate) fn tell(store: &Store) {
        let counted = COUNTED.take();
        for (count, total) in [(counted.found, &store.hits), (counted.missed, &store.misses)] {
            if count > 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}
