//! What follows from a device's profile: how many reads past the cache are under way at once, and
//! what a futile probe of a maplet is worth.

use alluvium_base::DeviceProfile;

/// The fewest reads: one is walked through while the next is under way.
const LEAST: usize = 2;

/// Reads past the cache at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Depth {
    /// Of each run that a compaction reads, and of a scan that begins.
    pub(crate) windows: usize,
    /// Of a scan that has gone on for a while: a device that takes several reads together delivers
    /// the next ones while the first is walked through.
    pub(crate) scan_windows: usize,
}

impl Depth {
    /// Returns the reads for a device: a compaction walks through one while all others of the
    /// device's slots but one are used; a scan has half as many more, so that the device never
    /// waits for it.
    pub(crate) fn of(device: &DeviceProfile) -> Depth {
        let slots = device.slots();
        let windows = (slots - 1).max(LEAST);
        let depth = Depth {
            windows,
            scan_windows: (slots * 3 / 2).max(windows),
        };
        debug_assert!(LEAST <= depth.windows && depth.windows <= depth.scan_windows);
        depth
    }
}

/// What asking one more run's maplet in vain costs a lookup, in picoseconds.
const PROBE_PS: u64 = 64_000;
/// What a byte costs a compaction that finds it in memory, in picoseconds.
const REWRITE_BYTE_PS: u64 = 4_000;
/// The bytes by which lookups read what was rewritten into the cache again.
const REREAD_BYTES: u64 = 4096;
const _: () = assert!(0 < REWRITE_BYTE_PS && REWRITE_BYTE_PS <= PROBE_PS && REREAD_BYTES > 0);

/// Returns the bytes whose rewriting costs as much as a futile probe, and their reading again where
/// they do not stay in the cache: at least one. What was asked in vain since the last time has cost
/// as much as a rewrite then, and the next lookups shall not pay it again.
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
            let depth = Depth::of(&DeviceProfile {
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
