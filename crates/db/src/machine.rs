//! What the machine is like: memory, processors, the time.

use crate::options::MIN_MEMORY;
use alluvium_base::MIB;
use alluvium_device::machine;
pub(crate) use alluvium_device::machine::stand_back;
use std::time::{SystemTime, UNIX_EPOCH};

/// The share of the machine's memory that a store takes when nobody says how much: a quarter, at least 64 MiB.
pub(crate) fn memory_budget() -> u64 {
    machine::memory_limit()
        .map_or(256 * MIB, |bytes| (bytes / 4).max(64 * MIB))
        .max(MIN_MEMORY)
}

/// How many threads work in the background when nobody says how many.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 4))
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
