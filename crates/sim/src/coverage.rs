//! Counts how often simulation runs reach noteworthy situations, such as rare states of a store.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A set of named counters, which all clones share.
///
/// ```
/// let coverage = alluvium_sim::Coverage::new();
/// coverage.hit("log wrap");
/// coverage.add("log wrap", 2);
/// assert_eq!(coverage.counts()["log wrap"], 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    counts: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

impl Coverage {
    /// Creates a set without counters.
    #[must_use]
    pub fn new() -> Coverage {
        Coverage::default()
    }

    pub fn hit(&self, name: &'static str) {
        self.add(name, 1);
    }

    /// Increases the counter `name` by `times`. Even if `times` is zero, a missing counter is
    /// created.
    pub fn add(&self, name: &'static str, times: u64) {
        *self.counts.lock().entry(name).or_default() += times;
    }

    /// Returns the values of all counters, ordered by name.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().clone()
    }
}
