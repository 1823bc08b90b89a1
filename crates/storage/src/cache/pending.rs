//! Reads that nobody waits for yet.

use super::Cache;
use super::read::{Joined, Reading};
use std::fmt;
use std::sync::Arc;

/// Reads that were requested: poll it, then look the nodes up.
///
/// Dropped early, the reads go on; the cache finishes them when it next has something to do.
pub struct Pending {
    cache: Cache,
    readings: Vec<Arc<Reading>>,
    skipped: usize,
}

impl Pending {
    pub(super) fn new(cache: &Cache, joined: Vec<Joined>) -> Pending {
        let mut readings: Vec<Arc<Reading>> = Vec::new();
        let mut skipped = 0;
        for joined in joined {
            match joined {
                Joined::Reading { reading, .. } => {
                    if !readings.iter().any(|known| Arc::ptr_eq(known, &reading)) {
                        readings.push(reading);
                    }
                }
                Joined::Skipped => skipped += 1,
                Joined::Frame(_) => {}
            }
        }
        Pending {
            cache: cache.clone(),
            readings,
            skipped,
        }
    }

    /// Makes what progress is possible without blocking; whether every read is finished. A failed read is finished
    /// too: whoever looks its node up reads it again, and has the error.
    pub fn poll(&mut self) -> bool {
        let guard = self.cache.shared.epochs.pin();
        self.readings
            .retain(|reading| !self.cache.shared.try_finish(reading, &guard));
        self.readings.is_empty()
    }

    /// Waits until every read is finished.
    pub fn wait(&mut self) {
        let guard = self.cache.shared.epochs.pin();
        for reading in self.readings.drain(..) {
            self.cache.shared.finish(&reading, &guard);
        }
    }

    /// How many nodes were not requested, because no frame was to be had for them. Reading ahead less would be wise.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.readings.is_empty() {
            self.cache.shared.orphans.lock().append(&mut self.readings);
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("batches", &self.readings.len())
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}
