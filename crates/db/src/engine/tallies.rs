//! Counters that are always on.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was done since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    writes: CachePadded<AtomicU64>,
    written_bytes: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) delayed_us: AtomicU64,
}

impl Tallies {
    pub(crate) fn written(&self, writes: u64, bytes: u64) {
        self.writes.fetch_add(writes, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }
}
