//! Properties of the machine that the store runs on: memory, processors, and the clock.

use alluvium_base::MIB;
use alluvium_device::machine;
pub(crate) use alluvium_device::machine::lower_priority;
use std::time::{SystemTime, UNIX_EPOCH};

/// Minimum memory limit of a store, in bytes.
pub const MIN_MEMORY: u64 = 16 * MIB;

/// Returns the default memory limit of a store on this machine, in bytes.
///
/// ```
/// assert!(alluvium::default_memory() >= alluvium::MIN_MEMORY);
/// ```
#[must_use]
pub fn default_memory() -> u64 {
    budget(machine::memory(), machine::container_memory())
}

/// Bytes that the store leaves to the program and to cached file pages in a small container, on top
/// of a quarter of the store's memory.
const BESIDE: u64 = 48 * MIB;

/// Returns the default memory limit: a quarter of the machine's memory, which is shared with other
/// programs, or half of the container's memory, which is not, whichever is less. In a container
/// with less than 128 MiB the share is smaller than half, so that the store and the program both
/// fit. The result is at least [`MIN_MEMORY`].
fn budget(machine: Option<u64>, container: Option<u64>) -> u64 {
    let of_container = |bytes: u64| (bytes / 2).min(bytes.saturating_sub(BESIDE) / 5 * 4);
    let parts = [machine.map(|bytes| bytes / 4), container.map(of_container)];
    let least = parts.into_iter().flatten().min();
    least.unwrap_or(256 * MIB).max(MIN_MEMORY)
}

/// Returns the default number of background worker threads.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 4))
}

/// Returns the current time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_takes_a_quarter_of_a_machine_or_half_of_a_container() {
        let of = |machine: u64, container: Option<u64>| {
            budget(Some(machine * MIB), container.map(|mib| mib * MIB)) / MIB
        };
        assert_eq!(of(8192, None), 2048);
        assert_eq!(of(8192, Some(512)), 256);
        assert_eq!(of(8192, Some(6000)), 2048);
        assert_eq!(of(200, None), 50);
        assert_eq!(of(8192, Some(128)), 64);
        assert_eq!(of(8192, Some(100)), 41, "what stands beside it fits");
        assert_eq!(of(8192, Some(64)), 16, "the least that works");
        assert_eq!(of(8192, Some(20)), 16);
        assert_eq!(budget(None, None), 256 * MIB);
    }
}
