//! Request statistics of each keyspace, based on a sample of the requests.
//!
//! *Scope*: the number of requests of each kind by hour; the lengths of keys, values and scans; the
//! lookups without a result; the share of sequential writes; the skew of the requests.
//!
//! *Must not depend on*: the consequences for a store.
//!
//! On average, one request in 64 is sampled, at random intervals. Each thread counts down to its
//! next sampled request, so an unsampled request costs one decrement. A sampled request is dropped
//! if another thread is recording one at the same moment.
//!
//! Invariants:
//!
//! - **N1** No thread waits to record a request, and each keyspace uses a bounded amount of memory.

mod keyspace_monitor;

use crate::schema::catalog::KeyspaceCatalog;
use crate::schema::format::{self, LogWrite};
use alluvium_base::MessageKind;
use alluvium_dictionary::key::LookupKey;
use alluvium_model::observed;
use keyspace_monitor::KeyspaceMonitor;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

/// Average number of requests from one sampled request to the next.
const SAMPLED: u32 = 64;
/// Maximum number of keyspaces for which statistics are kept.
const MOST: usize = 1024;

/// Requests to a keyspace within one hour. All counts are sample-based estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HourlyRequests {
    /// Start of the hour in milliseconds since 1970.
    pub began_ms: u64,
    /// Puts and merges.
    pub puts: u64,
    /// Deletes of single keys only.
    pub deletes: u64,
    /// Lookups that found a value.
    pub hits: u64,
    /// Lookups that found no value.
    pub misses: u64,
    /// Ordered scans, each counted when its iterator ends.
    pub scans: u64,
    /// Records returned by the ordered scans.
    pub scanned: u64,
}

impl HourlyRequests {
    /// Returns the total number of requests of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.puts + self.deletes + self.hits + self.misses + self.scans
    }
}

/// Requests to a keyspace since the store was opened.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceRequests {
    /// Current name of the keyspace.
    pub keyspace: String,
    /// Counts of the hours that had requests, oldest first. The oldest hours are dropped over time.
    pub hours: Vec<HourlyRequests>,
    /// Mean key length in bytes.
    pub key_bytes: f64,
    /// Mean value length in bytes.
    pub value_bytes: f64,
    /// Fraction of writes whose key is higher than that of the previous write: about one half for
    /// random keys, and one for sequential keys.
    pub in_order: f64,
    /// Number of recent sampled single-key requests from which the skew is estimated.
    pub requests: u64,
    /// Number of pairs of these `requests` that are for the same key.
    pub same_pairs: u64,
    /// Estimated number of keys in the keyspace.
    pub keys: u64,
    /// Estimated fraction of puts that write a new key, computed as keys per write over the
    /// lifetime of the store.
    pub new_keys: f64,
}

impl KeyspaceRequests {
    /// Returns the estimated skew of the requests, which is the exponent of the Zipf distribution
    /// whose expected number of same-key pairs equals `same_pairs`. Returns zero if the requests
    /// are uniform or too few.
    #[must_use]
    pub fn skew(&self) -> f64 {
        observed::skew(self.same_pairs, self.requests.max(2), self.keys.max(2)).unwrap_or(0.0)
    }

    /// Returns the sum of all hours, with the start of the first.
    #[must_use]
    pub fn total(&self) -> HourlyRequests {
        let mut sum = HourlyRequests {
            began_ms: self.hours.first().map_or(0, |hour| hour.began_ms),
            ..HourlyRequests::default()
        };
        for hour in &self.hours {
            sum.puts += hour.puts;
            sum.deletes += hour.deletes;
            sum.hits += hour.hits;
            sum.misses += hour.misses;
            sum.scans += hour.scans;
            sum.scanned += hour.scanned;
        }
        sum
    }
}

/// Only this many writes at the start of a batch are sampled, because every write before a sampled
/// one must be decoded.
const DECODED: u32 = 8;

thread_local! {
    /// Number of requests until this thread samples one, counting the sampled request.
    static LEFT: Cell<u32> = const { Cell::new(1) };
}

/// Advances the thread's countdown by `count` requests. Returns the index of the sampled request
/// among them, or `None` if no request is sampled.
#[inline]
fn sampled(count: u32) -> Option<u32> {
    let left = LEFT.get();
    if left > count {
        LEFT.set(left - count);
        return None;
    }
    Some(drawn(left))
}

#[cold]
fn drawn(left: u32) -> u32 {
    LEFT.set(fastrand::u32(1..2 * SAMPLED));
    left.saturating_sub(1)
}

/// The statistics of all keyspaces.
#[derive(Default)]
pub(crate) struct WorkloadMonitor(Mutex<BTreeMap<u32, KeyspaceMonitor>>);

impl fmt::Debug for WorkloadMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkloadMonitor").finish_non_exhaustive()
    }
}

impl WorkloadMonitor {
    /// Adds a lookup to the statistics if it is sampled. `found` is the length of the value, or
    /// `None` if the key has no value.
    #[inline]
    pub(crate) fn looked_up(&self, key: LookupKey<'_>, found: Option<usize>, now_ms: u64) {
        if sampled(1).is_some() {
            self.note(key.bytes(), now_ms, |watch, user| {
                watch.looked_up(user, key.hash(), found);
            });
        }
    }

    /// Adds a write of a committed batch to the statistics if one of its writes is sampled.
    #[inline]
    pub(crate) fn committed<'w, E>(
        &self,
        count: u32,
        writes: impl FnOnce() -> E,
        now_ms: impl FnOnce() -> u64,
    ) where
        E: Iterator<Item = Result<LogWrite<'w>, String>>,
    {
        let Some(place) = sampled(count) else {
            return;
        };
        if let Some(Ok(LogWrite::One {
            key, kind, operand, ..
        })) = writes().nth((place % DECODED) as usize)
        {
            let value = (kind != MessageKind::Delete).then_some(operand.len());
            let hash = LookupKey::new(key).hash();
            self.note(key, now_ms(), |watch, user| watch.wrote(user, hash, value));
        }
    }

    /// Adds a scan to the statistics of the keyspace with this prefix if the scan is sampled.
    pub(crate) fn scanned(&self, prefix: &[u8], records: u64, now_ms: u64) {
        if sampled(1).is_some() {
            self.note(prefix, now_ms, |watch, _| watch.scanned(records));
        }
    }

    #[cold]
    fn note(&self, key: &[u8], now_ms: u64, note: impl FnOnce(&mut KeyspaceMonitor, &[u8])) {
        let Some((len, keyspace)) = format::split(key) else {
            return;
        };
        let Some(mut watches) = self.0.try_lock() else {
            return;
        };
        if watches.len() < MOST || watches.contains_key(&keyspace) {
            let watch = watches.entry(keyspace).or_default();
            watch.turn_to(now_ms);
            note(watch, key.get(len..).unwrap_or_default());
        }
    }

    /// Returns the statistics of each keyspace that still exists.
    pub(crate) fn seen(&self, catalog: &KeyspaceCatalog) -> Vec<KeyspaceRequests> {
        let watches = self.0.lock();
        let named = catalog.names().into_iter().filter_map(|name| {
            let definition = catalog.get(&name)?;
            Some(watches.get(&definition.id)?.seen(name, u64::from(SAMPLED)))
        });
        named.collect()
    }
}
