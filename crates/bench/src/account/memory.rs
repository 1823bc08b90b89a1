//! Measures the memory that a process and its control group use.

use super::ProcfsProcess;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Memory counters of a process and its control group, in bytes. A counter that is not available is
/// `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryCounters {
    /// Maximum resident size since the last reset, including pages of mapped files.
    pub rss_peak_bytes: u64,
    /// Current size of the page cache charged to the group.
    pub page_cache_bytes: Option<u64>,
    /// Maximum memory use of the group since the last reset, including its page cache.
    pub group_peak_bytes: Option<u64>,
    /// Number of times the group hit its limit, which made the kernel reclaim memory.
    pub group_refusals: Option<u64>,
}

/// Resets the maxima of the process and the group, and the number of times the group hit its limit.
pub fn reset(process: &ProcfsProcess, group: Option<&Path>) {
    // If this is not permitted, the maximum since the process started is reported instead, which is
    // at least as large as that of the phase.
    let _ = fs::write(process.place.join("clear_refs"), "5");
    if let Some(group) = group {
        let _ = fs::write(group.join("memory.max_usage_in_bytes"), "0");
        let _ = fs::write(group.join("memory.failcnt"), "0");
    }
}

impl MemoryCounters {
    #[must_use]
    pub fn now(process: &ProcfsProcess, group: Option<&Path>) -> MemoryCounters {
        let status = process.read("status");
        let number = |name: &str| {
            let text = fs::read_to_string(group?.join(name)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let stat = group.and_then(|group| fs::read_to_string(group.join("memory.stat")).ok());
        MemoryCounters {
            rss_peak_bytes: kib(&status, "VmHWM:").unwrap_or(0) << 10,
            page_cache_bytes: stat.as_deref().and_then(|text| field(text, "cache")),
            group_peak_bytes: number("memory.max_usage_in_bytes"),
            group_refusals: number("memory.failcnt"),
        }
    }
}

fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_what_it_takes() {
        let own = ProcfsProcess::own();
        reset(&own, None);
        let before = MemoryCounters::now(&own, None).rss_peak_bytes;
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let peak = MemoryCounters::now(&own, None).rss_peak_bytes;
        assert!(peak >= 64 << 20 && peak > before, "{before} {peak}");
        drop(block);
        assert_eq!(MemoryCounters::now(&own, None).page_cache_bytes, None);
    }

    #[test]
    fn the_groups_table_is_read() {
        let text = "cache 4096\nrss 1\nmapped_file 7\ntotal_cache 9\n";
        assert_eq!(
            (field(text, "cache"), field(text, "mapped_file")),
            (Some(4096), Some(7))
        );
        assert_eq!(kib("VmHWM:\t  12 kB\n", "VmHWM:"), Some(12));
    }
}
