//! Statistics of the requests to each keyspace, from a sample.
//!
//! *Scope*: the number of requests of each kind by hour; the lengths of keys, values and scans; the
//! lookups without a result; the share of sequential writes; the skew of the requests.
//!
//! *Must not depend on*: the consequences for a store.
//!
//! Each thread counts down to its next sampled request, one in 64 at random intervals; the others
//! cost one decrement. A sample is dropped if another thread is recording at that moment.
//!
//! Invariants:
//!
//! - **N1** No thread waits to record a request, and the memory for a keyspace is bounded.

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

/// Average interval between sampled requests.
const SAMPLED: u32 = 64;
/// Maximum number of keyspaces with statistics.
const MOST: usize = 1024;

/// Requests to a keyspace within an hour. All counts are estimates from a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HourlyRequests {
    /// Start of the hour in milliseconds since 1970.
    pub began_ms: u64,
    /// Puts and merges, counted together.
    pub puts: u64,
    /// Deletes of single keys only.
    pub deletes: u64,
    /// Lookups that found a value.
    pub hits: u64,
    /// Lookups that found no value.
    pub misses: u64,
    /// Ordered iterators, counted when they end.
    pub scans: u64,
    /// Records that the scans returned.
    pub scanned: u64,
}

impl HourlyRequests {
    /// Returns the number of all requests.
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
    /// Retained hours with requests, oldest first.
    pub hours: Vec<HourlyRequests>,
    /// Mean key length in bytes.
    pub key_bytes: f64,
    /// Mean value length in bytes.
    pub value_bytes: f64,
    /// Share of writes with a higher key than the previous write: one half for random keys, one for
    /// sequential keys.
    pub in_order: f64,
    /// Number of the newest sampled requests for single keys.
    pub requests: u64,
    /// Number of pairs of these requests for the same key.
    pub same_pairs: u64,
    /// Estimated number of keys in the keyspace.
    pub keys: u64,
    /// Estimated share of puts to new keys: keys per write over the lifetime of the store.
    pub new_keys: f64,
}

impl KeyspaceRequests {
    /// Returns the skew of the requests: the exponent of the Zipf distribution with this expected
    /// number of pairs for the same key. Zero for uniform requests, or for too few.
    #[must_use]
    pub fn skew(&self) -> f64 {
        observed::skew(self.same_pairs, self.requests.max(2), self.keys.max(2)).unwrap_or(0.0)
    }

    /// Returns the sum over all hours, with the start of the first.
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

/// Samples are taken from the first writes of a batch, because all writes before a sample must be
/// decoded.
const DECODED: u32 = 8;

thread_local! {
    /// Requests of this thread up to and including the next sampled one.
    static LEFT: Cell<u32> = const { Cell::new(1) };
}

/// Returns the index of the sampled request among the next `count` requests, if there is one.
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
        f.debug_struct("Watches").finish_non_exhaustive()
    }
}

impl WorkloadMonitor {
    /// Records a lookup, if it is sampled.
    #[inline]
    pub(crate) fn looked_up(&self, key: LookupKey<'_>, found: Option<usize>, now_ms: u64) {
        if sampled(1).is_some() {
            self.note(key.bytes(), now_ms, |watch, user| {
                watch.looked_up(user, key.hash(), found);
            });
        }
    }

    /// Records a committed write of a batch, if one is sampled.
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

    /// Records a scan of the keyspace with this prefix, if it is sampled.
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

    /// Returns the statistics of each existing keyspace.
    pub(crate) fn seen(&self, catalog: &KeyspaceCatalog) -> Vec<KeyspaceRequests> {
        let watches = self.0.lock();
        let named = catalog.names().into_iter().filter_map(|name| {
            let definition = catalog.get(&name)?;
            Some(watches.get(&definition.id)?.seen(name, u64::from(SAMPLED)))
        });
        named.collect()
    }
}
