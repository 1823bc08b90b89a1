//! How the memory of a store is cut. Stores are opened with it, and predictions rest on it.

/// Bytes of the parts of a store's memory.
///
/// ```
/// use alluvium_model::structures::MemoryCut;
/// let cut = MemoryCut::of(64 << 20, None);
/// assert_eq!((cut.memtable_bytes, cut.log_bytes), (4 << 20, 16 << 20));
/// assert_eq!(cut.cache_bytes, 32 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCut {
    /// A memtable: a sixteenth, from one to 64 MiB.
    pub memtable_bytes: u64,
    /// The log: four memtables, unless told otherwise.
    pub log_bytes: u64,
    /// Pages and records together: what the others leave, and an eighth at least.
    pub cache_bytes: u64,
}

const MIB: u64 = 1 << 20;
/// Memtables at the same time: one that fills, two on their way out.
const MEMTABLES: u64 = 3;
/// Memtables that the log holds.
const IN_LOG: u64 = 4;
/// The trunk, and what else has no place of its own, take such a part.
const REST: u64 = 16;

impl MemoryCut {
    /// Cuts memory, for a log of a length that was asked for.
    #[must_use]
    pub fn of(memory_bytes: u64, log_bytes: Option<u64>) -> MemoryCut {
        let memtable_bytes = (memory_bytes / 16).clamp(MIB, 64 * MIB);
        let log_bytes = log_bytes.unwrap_or(IN_LOG * memtable_bytes);
        let others = (MEMTABLES * memtable_bytes)
            .saturating_add(log_bytes)
            .saturating_add(memory_bytes / REST);
        MemoryCut {
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
            let cut = MemoryCut::of(memory, None);
            let all = MEMTABLES * cut.memtable_bytes + cut.log_bytes + cut.cache_bytes;
            assert!(all <= memory, "{memory}: {cut:?}");
            assert!(cut.cache_bytes >= memory / 2, "{memory}: {cut:?}");
        }
        assert_eq!(MemoryCut::of(16 * MIB, Some(u64::MAX)).cache_bytes, 2 * MIB);
        assert_eq!(MemoryCut::of(1 << 40, None).memtable_bytes, 64 * MIB);
    }
}
