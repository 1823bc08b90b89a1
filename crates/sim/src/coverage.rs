//! Named counters of the interesting situations that a run has reached.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counters by name. Clones share the counters.
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
    /// Creates an empty set of counters.
    #[must_use]
    pub fn new() -> Coverage {
        Coverage::default()
    }

    pub fn hit(&self, name: &'static str) {
        self.add(name, 1);
    }

    /// Counts a situation `times` times. With zero the name is still listed.
    pub fn add(&self, name: &'static str, times: u64) {
        *self.counts.lock().entry(name).or_default() += times;
    }

    /// Returns all counters by name.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().clone()
    }
}
