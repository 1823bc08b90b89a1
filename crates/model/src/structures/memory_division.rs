//! The division of a store's memory, which stores apply and predictions assume.

/// The sizes in bytes of the parts into which a store divides its memory.
///
/// ```
/// use alluvium_model::structures::MemoryDivision;
/// let cut = MemoryDivision::of(64 << 20, None);
/// assert_eq!((cut.memtable_bytes, cut.log_bytes), (4 << 20, 16 << 20));
/// assert_eq!(cut.cache_bytes, 32 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDivision {
    /// Size of a memtable: one sixteenth of the memory, from 1 MiB to 64 MiB.
    pub memtable_bytes: u64,
    /// Size limit of the log: four memtables by default.
    pub log_bytes: u64,
    /// Size of the page cache and the record cache: the remaining memory, but at least one eighth.
    pub cache_bytes: u64,
}

const MIB: u64 = 1 << 20;
/// Maximum number of memtables at a time: one being filled and two being flushed.
const MEMTABLES: u64 = 3;
/// Number of memtables whose records fit into the log.
const IN_LOG: u64 = 4;
/// The trunk and other small structures get the memory divided by this number.
const REST: u64 = 16;

impl MemoryDivision {
    /// Divides the memory. `log_bytes` is the log's size limit, if it was set explicitly.
    #[must_use]
    pub fn of(memory_bytes: u64, log_bytes: Option<u64>) -> MemoryDivision {
        let memtable_bytes = (memory_bytes / 16).clamp(MIB, 64 * MIB);
        let log_bytes = log_bytes.unwrap_or(IN_LOG * memtable_bytes);
        let others = (MEMTABLES * memtable_bytes)
            .saturating_add(log_bytes)
            .saturating_add(memory_bytes / REST);
        MemoryDivision {
            memtable_bytes,
            log_bytes,
            cache_bytes: memory_bytes.saturating_sub(others).max(memory_bytes / 8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_cut_that_is_not_there() {
        for memory in [16 * MIB, 100 * MIB, 1 << 30, 1 << 40] {
            let cut = MemoryDivision::of(memory, None);
            let all = MEMTABLES * cut.memtable_bytes + cut.log_bytes + cut.cache_bytes;
            assert!(all <= memory, "{memory}: {cut:?}");
            assert!(cut.cache_bytes >= memory / 2, "{memory}: {cut:?}");
        }
        assert_eq!(MemoryDivision::of(16 * MIB, Some(u64::MAX)).cache_bytes, 2 * MIB);
        assert_eq!(MemoryDivision::of(1 << 40, None).memtable_bytes, 64 * MIB);
    }
}
