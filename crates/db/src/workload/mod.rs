//! What users ask of each keyspace, from a sample of their requests.
//!
//! *Knows*: how often each kind of request came, by hour; how long keys, values and scans were;
//! what was not found; which share of writes came in the order of keys; how skewed requests were.
//!
//! *Does not know*: what follows from that for a store.
//!
//! *Read in this order*: `watch.rs` (one keyspace), this file (all of them, and what is told).
//!
//! A thread counts its requests down to the next that is looked at, one in 64 at intervals that are
//! drawn: the others cost one decrement. What is looked at is dropped when another thread is noting
//! something just then.
//!
//! Invariants:
//!
//! - **N1** No thread waits to note a request, and what is kept of a keyspace is bounded.

mod watch;

use crate::catalog::Catalog;
use crate::format::{self, Write};
use alluvium_base::Kind;
use alluvium_dictionary::key::Key;
use alluvium_model::observed;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use watch::Watch;

/// Every how many requests one is looked at, on the average.
const SAMPLED: u32 = 64;
/// Keyspaces that are watched, at most.
const MOST: usize = 1024;

/// What was seen of one keyspace within an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HourSeen {
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// Puts and merges, about.
    pub puts: u64,
    /// Deletes, about.
    pub deletes: u64,
    /// Lookups that found a value, about.
    pub hits: u64,
    /// Lookups that found none, about.
    pub misses: u64,
    /// Scans, about.
    pub scans: u64,
    /// Records that they returned, about.
    pub scanned: u64,
}

impl HourSeen {
    /// All requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.puts + self.deletes + self.hits + self.misses + self.scans
    }
}

/// What was seen of one keyspace since the store was opened.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceSeen {
    /// Its name.
    pub keyspace: String,
    /// By hour, oldest first: as many as are kept, and those in which something was seen.
    pub hours: Vec<HourSeen>,
    /// The mean length of keys.
    pub key_bytes: f64,
    /// The mean length of values.
    pub value_bytes: f64,
    /// The share of writes whose key came behind that of the write before: a half if keys are
    /// scattered, one if they come in order.
    pub in_order: f64,
    /// Of the newest requests for single keys: how many there are, and how many pairs of them are
    /// for the same key.
    pub requests: u64,
    /// The pairs.
    pub same_pairs: u64,
    /// How many keys the keyspace has, about.
    pub keys: u64,
    /// The share of puts that were of new keys, about: keys for each write that the store ever had.
    pub new_keys: f64,
}

impl KeyspaceSeen {
    /// Returns how skewed requests were: the exponent of Zipf's law for which as many pairs of them
    /// are expected to be for the same key. Zero if they were even, or too few.
    #[must_use]
    pub fn skew(&self) -> f64 {
        observed::skew(self.same_pairs, self.requests.max(2), self.keys.max(2)).unwrap_or(0.0)
    }

    /// Returns the sum of all hours; it began with the first.
    #[must_use]
    pub fn total(&self) -> HourSeen {
        let mut sum = HourSeen {
            began_ms: self.hours.first().map_or(0, |hour| hour.began_ms),
            ..HourSeen::default()
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

/// Of a batch, one of the first writes is looked at: those before it are decoded for that.
const DECODED: u32 = 8;

thread_local! {
    /// Requests of this thread until the next that is looked at.
    static LEFT: Cell<u32> = const { Cell::new(1) };
}

/// Returns whether one of the next `count` requests is to be looked at: which.
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

/// What is kept of all keyspaces.
#[derive(Default)]
pub(crate) struct Watches(Mutex<BTreeMap<u32, Watch>>);

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches").finish_non_exhaustive()
    }
}

impl Watches {
    /// A key was looked up.
    #[inline]
    pub(crate) fn looked_up(&self, key: Key<'_>, found: Option<usize>, now_ms: u64) {
        if sampled(1).is_some() {
            self.note(key.bytes(), now_ms, |watch, user| {
                watch.looked_up(user, key.hash(), found);
            });
        }
    }

    /// These writes were committed.
    #[inline]
    pub(crate) fn committed<'w, E>(
        &self,
        count: u32,
        writes: impl FnOnce() -> E,
        now_ms: impl FnOnce() -> u64,
    ) where
        E: Iterator<Item = Result<Write<'w>, String>>,
    {
        let Some(place) = sampled(count) else {
            return;
        };
        if let Some(Ok(Write::One {
            key, kind, operand, ..
        })) = writes().nth((place % DECODED) as usize)
        {
            let value = (kind != Kind::Delete).then_some(operand.len());
            let hash = Key::new(key).hash();
            self.note(key, now_ms(), |watch, user| watch.wrote(user, hash, value));
        }
    }

    /// A scan returned this many records, of the keyspace with these bytes before its keys.
    pub(crate) fn scanned(&self, prefix: &[u8], records: u64, now_ms: u64) {
        if sampled(1).is_some() {
            self.note(prefix, now_ms, |watch, _| watch.scanned(records));
        }
    }

    #[cold]
    fn note(&self, key: &[u8], now_ms: u64, note: impl FnOnce(&mut Watch, &[u8])) {
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

    /// Returns what was seen of each keyspace that there is.
    pub(crate) fn seen(&self, catalog: &Catalog) -> Vec<KeyspaceSeen> {
        let watches = self.0.lock();
        let named = catalog.names().into_iter().filter_map(|name| {
            let definition = catalog.get(&name)?;
            Some(watches.get(&definition.id)?.seen(name, u64::from(SAMPLED)))
        });
        named.collect()
    }
}
