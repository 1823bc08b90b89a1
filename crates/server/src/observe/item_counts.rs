//! Statistics on memcached items, with memcached's names.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of item commands, by outcome.
#[derive(Debug, Default)]
pub(crate) struct ItemCounters {
    pub(crate) delete_hits: AtomicU64,
    pub(crate) delete_misses: AtomicU64,
    pub(crate) incr_hits: AtomicU64,
    pub(crate) incr_misses: AtomicU64,
    pub(crate) decr_hits: AtomicU64,
    pub(crate) decr_misses: AtomicU64,
    pub(crate) cas_hits: AtomicU64,
    pub(crate) cas_misses: AtomicU64,
    pub(crate) cas_badval: AtomicU64,
    pub(crate) touch_hits: AtomicU64,
    pub(crate) touch_misses: AtomicU64,
    /// Number of meta commands on items, reported as `cmd_meta`.
    pub(crate) meta: AtomicU64,
    /// Number of items stored by any command.
    pub(crate) stored: AtomicU64,
    /// Number of lookups that found an expired item.
    pub(crate) expired: AtomicU64,
}

impl ItemCounters {
    /// Returns all counters with their names in `stats`.
    pub(crate) fn all(&self) -> [(&'static str, &AtomicU64); 14] {
        [
            ("cmd_meta", &self.meta),
            ("get_expired", &self.expired),
            ("delete_misses", &self.delete_misses),
            ("delete_hits", &self.delete_hits),
            ("incr_misses", &self.incr_misses),
            ("incr_hits", &self.incr_hits),
            ("decr_misses", &self.decr_misses),
            ("decr_hits", &self.decr_hits),
            ("cas_misses", &self.cas_misses),
            ("cas_hits", &self.cas_hits),
            ("cas_badval", &self.cas_badval),
            ("touch_hits", &self.touch_hits),
            ("touch_misses", &self.touch_misses),
            ("total_items", &self.stored),
        ]
    }

    /// Counts the outcome of a compare-and-swap, either a text command (`cas`) or a meta command.
    /// `found` tells whether the key had an item, and `is_same` whether its CAS value was the
    /// expected one.
    pub(crate) fn compared(&self, found: bool, is_same: bool) {
        count(match (found, is_same) {
            (false, _) => &self.cas_misses,
            (true, false) => &self.cas_badval,
            (true, true) => &self.cas_hits,
        });
    }

    /// Counts the outcome of a text command that stores an item. The reply reveals the outcome.
    pub(crate) fn has_said(&self, command: &[u8], said: &str) {
        if command == b"cas" {
            self.compared(said != "NOT_FOUND", said == "STORED");
        }
        if said == "STORED" {
            count(&self.stored);
        }
    }

    /// Counts an `incr` or `decr` command, and whether it found an item.
    pub(crate) fn changed(&self, direction: ArithmeticDirection, found: bool) {
        count(match (direction, found) {
            (ArithmeticDirection::Up, true) => &self.incr_hits,
            (ArithmeticDirection::Up, false) => &self.incr_misses,
            (ArithmeticDirection::Down, true) => &self.decr_hits,
            (ArithmeticDirection::Down, false) => &self.decr_misses,
        });
    }

    pub(crate) fn deleted(&self, found: bool) {
        count(if found {
            &self.delete_hits
        } else {
            &self.delete_misses
        });
    }

    pub(crate) fn touched(&self, found: bool) {
        count(if found {
            &self.touch_hits
        } else {
            &self.touch_misses
        });
    }
}

/// Whether an arithmetic command increments or decrements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArithmeticDirection {
    Up,
    Down,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
