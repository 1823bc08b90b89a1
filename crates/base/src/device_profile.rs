//! The cost parameters of a device, which determine layouts and plans.

/// The costs of one device. An I/O of `n` bytes takes `setup_ns` nanoseconds plus `n` times
/// `byte_ps` picoseconds, and up to `parallelism` I/Os run concurrently.
///
/// The default profile describes an SSD, so that a store without a configured profile behaves the
/// same on every machine. The crate `model` contains profiles of other devices.
///
/// ```
/// use alluvium_base::DeviceProfile;
/// let disk = DeviceProfile {
///     setup_ns: 15_000_000,
///     byte_ps: 8_000,
///     parallelism: 1,
///     ..DeviceProfile::default()
/// };
/// assert_eq!(disk.half_bandwidth(), 1_875_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceProfile {
    /// Fixed time that an I/O takes before its first byte is transferred, in nanoseconds.
    pub setup_ns: u64,
    /// Transfer time per byte, in picoseconds.
    pub byte_ps: u64,
    /// Maximum number of I/Os that the device processes concurrently.
    pub parallelism: u32,
    /// CPU time per I/O, in nanoseconds.
    pub io_cpu_ns: u64,
}

impl DeviceProfile {
    /// An SSD with a setup time of 65.5 µs and a bandwidth of 2 GB/s. It transfers 128 KiB in the
    /// setup time of one I/O.
    pub const SSD: DeviceProfile = DeviceProfile {
        setup_ns: 65_536,
        byte_ps: 500,
        parallelism: 4,
        io_cpu_ns: 5_000,
    };

    /// Upper bound of [`DeviceProfile::half_bandwidth`], in bytes, so that adding record sizes to
    /// it cannot overflow.
    pub const MAX_HALF_BANDWIDTH: u64 = 1 << 40;

    /// Maximum number of I/Os that a reader keeps in flight on any device. The limit bounds memory,
    /// because every I/O in flight needs a buffer.
    pub const MAX_SLOTS: usize = 16;

    /// Returns the number of I/Os that a reader keeps in flight: the device's parallelism, clamped
    /// to between 1 and [`DeviceProfile::MAX_SLOTS`].
    #[must_use]
    pub fn slots(&self) -> usize {
        (self.parallelism as usize).clamp(1, Self::MAX_SLOTS)
    }

    /// Returns the cost, in picoseconds, of each byte of a sequential read that uses I/Os of
    /// `bytes` bytes: the byte's share of the setup and CPU time of an I/O, plus its own transfer
    /// time.
    ///
    /// ```
    /// use alluvium_base::DeviceProfile;
    /// let ssd = DeviceProfile::SSD;
    /// assert_eq!(ssd.read_byte_ps(4096), (65_536_000 + 5_000_000) / 4096 + 500);
    /// ```
    ///
    /// # Panics
    /// If `bytes` is zero.
    #[must_use]
    pub fn read_byte_ps(&self, bytes: u64) -> u64 {
        assert!(bytes > 0, "an I/O has bytes");
        let fixed_ns = self.setup_ns.saturating_add(self.io_cpu_ns);
        (fixed_ns.saturating_mul(1000) / bytes).saturating_add(self.byte_ps)
    }

    /// Returns the number of bytes that the device could transfer during the setup time of one I/O,
    /// which is 1/α in the affine model.
    #[must_use]
    pub fn half_bandwidth(&self) -> u64 {
        let bytes = u128::from(self.setup_ns) * 1000 / u128::from(self.byte_ps.max(1));
        u64::try_from(bytes).map_or(Self::MAX_HALF_BANDWIDTH, |bytes| {
            bytes.min(Self::MAX_HALF_BANDWIDTH)
        })
    }
}

impl Default for DeviceProfile {
    fn default() -> DeviceProfile {
        DeviceProfile::SSD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_moves_128_kib_while_an_io_begins_and_no_profile_overflows() {
        assert_eq!(DeviceProfile::default().half_bandwidth(), 128 << 10);
        let endless = DeviceProfile {
            setup_ns: u64::MAX,
            byte_ps: 0,
            ..DeviceProfile::SSD
        };
        assert_eq!(endless.half_bandwidth(), DeviceProfile::MAX_HALF_BANDWIDTH);
        assert!(endless.read_byte_ps(1) >= endless.read_byte_ps(4096));
    }

    #[test]
    fn a_reader_keeps_as_many_ios_under_way_as_the_device_does_up_to_a_limit() {
        let slots = |parallelism| {
            let profile = DeviceProfile {
                parallelism,
                ..DeviceProfile::SSD
            };
            profile.slots()
        };
        assert_eq!([0, 1, 4, 16, u32::MAX].map(slots), [1, 1, 4, 16, 16]);
    }

    #[test]
    fn the_processor_has_its_part_in_what_a_byte_costs() {
        let busy = DeviceProfile {
            io_cpu_ns: 5_000 + 4096,
            ..DeviceProfile::SSD
        };
        assert_eq!(
            busy.read_byte_ps(4096),
            DeviceProfile::SSD.read_byte_ps(4096) + 1000
        );
    }
}
