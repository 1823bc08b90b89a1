//! Derives parameters from a device profile: how many reads bypass the cache concurrently, and how
//! many bytes are worth rewriting to avoid a futile maplet probe.

use alluvium_base::DeviceProfile;

/// Minimum number of concurrent reads. With two, one buffer is processed while the next is read.
/// Tuning: `2` since 2026-11-25.
const LEAST: usize = 2;

/// How many reads bypass the cache concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadConcurrency {
    /// Number of concurrent reads for each input run of a compaction, and for a scan that has just
    /// started.
    pub(crate) windows: usize,
    /// Number of concurrent reads for a scan that has run for a while. A device that supports
    /// concurrent reads fetches the next buffers while the first one is processed.
    pub(crate) scan_windows: usize,
}

impl ReadConcurrency {
    /// Returns the read concurrency for a device. A compaction has one read fewer per run than the
    /// device has slots, counting the buffer that is being processed. A long scan has one and a
    /// half times as many reads as the device has slots, so that the device is never idle.
    pub(crate) fn of(device: &DeviceProfile) -> ReadConcurrency {
        let slots = device.slots();
        let windows = (slots - 1).max(LEAST);
        let depth = ReadConcurrency {
            windows,
            scan_windows: (slots * 3 / 2).max(windows),
        };
        debug_assert!(LEAST <= depth.windows && depth.windows <= depth.scan_windows);
        depth
    }
}

/// Cost in picoseconds of probing the maplet of one more run without finding the key.
/// Tuning: `64_000` since 2026-11-22; 60 ns a probe and 4 ns a byte of a compaction, two shared
/// virtual processors.
const PROBE_PS: u64 = 64_000;
/// Cost in picoseconds per byte of a compaction whose input is in memory.
/// Tuning: `4_000` since 2026-11-22; as above.
const REWRITE_BYTE_PS: u64 = 4_000;
/// Bytes per read when lookups bring rewritten data back into the cache.
/// Tuning: `4096` since 2026-11-22; a page.
const REREAD_BYTES: u64 = 4096;
const _: () = assert!(0 < REWRITE_BYTE_PS && REWRITE_BYTE_PS <= PROBE_PS && REREAD_BYTES > 0);

/// Returns the number of bytes, at least one, whose rewriting costs as much as one futile maplet
/// probe. Rewriting costs include reading the bytes back into the cache, unless the data fit there
/// anyway. Once the futile probes since the last rewrite have cost as much as another rewrite
/// would, rewriting pays off, because it saves further futile probes.
pub(crate) fn bytes_per_probe(device: &DeviceProfile, fits_cache: bool) -> u64 {
    let read_again = match fits_cache {
        true => 0,
        false => device.read_byte_ps(REREAD_BYTES),
    };
    (PROBE_PS / REWRITE_BYTE_PS.saturating_add(read_again)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_device_has_the_reads_that_were_measured_and_others_have_theirs() {
        let depth = |parallelism| {
            let depth = ReadConcurrency::of(&DeviceProfile {
                parallelism,
                ..DeviceProfile::SSD
            });
            (depth.windows, depth.scan_windows)
        };
        assert_eq!(depth(DeviceProfile::default().parallelism), (3, 6));
        assert_eq!(
            [0, 1, 2, 8, 1000].map(depth),
            [(2, 2), (2, 2), (2, 3), (7, 12), (15, 24)]
        );
    }

    #[test]
    fn a_probe_is_worth_as_many_bytes_as_it_was_and_fewer_on_a_slower_device() {
        let usual = DeviceProfile::default();
        assert_eq!([false, true].map(|fits| bytes_per_probe(&usual, fits)), [2, 16]);
        let busy = DeviceProfile {
            io_cpu_ns: 100_000,
            ..usual
        };
        assert_eq!([false, true].map(|fits| bytes_per_probe(&busy, fits)), [1, 16]);
        let fast = DeviceProfile {
            setup_ns: 8_000,
            io_cpu_ns: 1_000,
            ..usual
        };
        assert_eq!(bytes_per_probe(&fast, false), 9);
        let slow = DeviceProfile {
            setup_ns: u64::MAX,
            ..usual
        };
        assert_eq!(bytes_per_probe(&slow, false), 1);
    }
}
