//! Converts measured devices to profiles for stores and to cost clocks, and computes the optimal
//! node length for a profile.

use crate::AffineClock;
use crate::presets::{HardDisk, SSD_BLOCK, SolidState, TRANSFER_UNIT};
use alluvium_base::{DeviceProfile, MIB};

const SECOND_PS: u64 = 1_000_000_000_000;

impl From<&DeviceProfile> for AffineClock {
    /// Converts a profile to an affine cost clock, which serialises I/Os.
    fn from(profile: &DeviceProfile) -> AffineClock {
        // Picoseconds per byte are the same number as nanoseconds per thousand bytes.
        AffineClock::new(profile.setup_ns, profile.byte_ps, 1000)
    }
}

impl HardDisk {
    /// Returns the disk's device profile, with a parallelism of 1.
    ///
    /// ```
    /// use alluvium_model::presets::WD_RED_6TB_2018;
    /// assert_eq!(WD_RED_6TB_2018.profile().half_bandwidth(), 2_520_876);
    /// ```
    #[must_use]
    pub fn profile(&self) -> DeviceProfile {
        DeviceProfile {
            setup_ns: self.setup_ns,
            byte_ps: self.transfer_ns * 1000 / TRANSFER_UNIT,
            parallelism: 1,
            ..DeviceProfile::SSD
        }
    }
}

impl SolidState {
    /// Returns the SSD's device profile. Its setup time is the length of a PDAM step minus the
    /// transfer time of a block at saturation.
    ///
    /// ```
    /// use alluvium_model::presets::SAMSUNG_970_EVO;
    /// let profile = SAMSUNG_970_EVO.profile();
    /// assert_eq!((profile.parallelism, profile.half_bandwidth() >> 10), (5, 256));
    /// ```
    #[must_use]
    pub fn profile(&self) -> DeviceProfile {
        let byte_ps = SECOND_PS / (self.saturated_mib_s * MIB);
        DeviceProfile {
            setup_ns: self.clock().step_ns() - byte_ps * SSD_BLOCK / 1000,
            byte_ps,
            parallelism: self.slots() as u32,
            ..DeviceProfile::SSD
        }
    }
}

/// Returns the node length in bytes that minimises the overhead of lookups. A lookup reads one node
/// with records of `record` bytes, on a device that transfers `half_bandwidth` bytes in the setup
/// time of an I/O.
///
/// The overhead, in the affine model (Bender et al. 2021, "Small Refinements to the DAM Can Have
/// Big Consequences"), has two parts. Relative to the setup time, a node lengthens a lookup by its
/// length divided by the half-bandwidth. Relative to the node's length, half a record of space is
/// wasted. The sum is minimal where the two are equal.
///
/// ```
/// use alluvium_model::best_node;
/// let node: u64 = best_node(1024, 128 << 10);
/// let waste = |node: u64| node as f64 / (128 << 10) as f64 + 512.0 / node as f64;
/// assert!(waste(node) < waste(node / 2) && waste(node) < waste(node * 2));
/// ```
#[must_use]
pub fn best_node(record: u64, half_bandwidth: u64) -> u64 {
    (record.saturating_mul(half_bandwidth) / 2).isqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{HARD_DISKS, SOLID_STATES};

    #[test]
    fn a_profile_costs_what_its_device_costs() {
        for disk in HARD_DISKS {
            let (from_profile, disk) = (AffineClock::from(&disk.profile()), disk.clock());
            for bytes in [4096, 1 << 20, 64 << 20] {
                let (one, other) = (from_profile.cost_ns(bytes) as f64, disk.cost_ns(bytes) as f64);
                assert!(
                    (one / other - 1.0).abs() < 1e-3,
                    "{bytes} bytes: {one} and {other} ns"
                );
            }
        }
        for ssd in SOLID_STATES {
            let affine = AffineClock::from(&ssd.profile());
            let (step, block) = (ssd.clock().step_ns() as f64, affine.cost_ns(SSD_BLOCK) as f64);
            assert!(
                (block / step - 1.0).abs() < 1e-3,
                "{}: {block} and {step} ns",
                ssd.name
            );
        }
    }

    #[test]
    fn the_affine_clock_and_the_profile_agree_on_the_half_bandwidth() {
        let profile = DeviceProfile::default();
        assert_eq!(
            AffineClock::from(&profile).half_bandwidth(),
            profile.half_bandwidth()
        );
    }
}
