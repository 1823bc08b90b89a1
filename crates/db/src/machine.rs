//! What the machine is like: memory, processors, the time.

use alluvium_base::MIB;
use alluvium_device::machine;
pub(crate) use alluvium_device::machine::stand_back;
use std::time::{SystemTime, UNIX_EPOCH};

/// The least memory that a store works with, in bytes.
pub const MIN_MEMORY: u64 = 16 * MIB;

/// Returns the bytes of memory that a store takes by default on this machine.
///
/// ```
/// assert!(alluvium::default_memory() >= alluvium::MIN_MEMORY);
/// ```
#[must_use]
pub fn default_memory() -> u64 {
    budget(machine::memory(), machine::container_memory())
}

/// What a container has beyond a store's memory and a quarter of it: for the program, and for pages
/// of files that count as the container's.
const BESIDE: u64 = 48 * MIB;

/// Returns a quarter of the machine's memory, which others use as well, or half of a container's,
/// which is there for this one program: whichever is less. Of a container under 128 MiB it is less
/// than half, so that the store and what stands beside it fit; it is never below the least that a
/// store works with.
fn budget(machine: Option<u64>, container: Option<u64>) -> u64 {
    let of_container = |bytes: u64| (bytes / 2).min(bytes.saturating_sub(BESIDE) / 5 * 4);
    let parts = [machine.map(|bytes| bytes / 4), container.map(of_container)];
    let least = parts.into_iter().flatten().min();
    least.unwrap_or(256 * MIB).max(MIN_MEMORY)
}

/// Returns how many threads work in the background by default.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 4))
}

/// Milliseconds since 1970.
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
