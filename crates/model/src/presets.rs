//! Parameters of real devices as measured by Bender, hard disks in the affine model (Table 2) and
//! SSDs in the PDAM (Table 1), and profiles of typical devices for configuring stores.

use crate::{AffineClock, PdamClock};
use alluvium_base::{DeviceProfile, KIB, MIB};

/// Number of bytes whose transfer time Table 2 states for a hard disk.
pub const TRANSFER_UNIT: u64 = 4 * KIB;

/// Block size of Table 1 in bytes: the size of the reads that measured P.
pub const SSD_BLOCK: u64 = 64 * KIB;

/// A hard disk of Table 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HardDisk {
    /// Manufacturer and capacity, as Table 2 lists them.
    pub name: &'static str,
    pub year: u16,
    /// s: the setup time of an access, in nanoseconds.
    pub setup_ns: u64,
    /// t: the transfer time of [`TRANSFER_UNIT`] bytes, in nanoseconds.
    pub transfer_ns: u64,
    /// R² of the fit of the affine model, as published.
    pub r_squared: f64,
}

impl HardDisk {
    /// Returns a cost clock that imitates the disk.
    ///
    /// ```
    /// use alluvium_model::presets::SEAGATE_250GB_2006;
    /// let disk = SEAGATE_250GB_2006.clock();
    /// assert_eq!(disk.cost_ns(4096), 15_033_000);
    /// assert_eq!(disk.cost_ns(1 << 20), 23_448_000);
    /// ```
    #[must_use]
    pub fn clock(&self) -> AffineClock {
        AffineClock::new(self.setup_ns, self.transfer_ns, TRANSFER_UNIT)
    }

    /// Returns α = t/s for [`TRANSFER_UNIT`] bytes.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.transfer_ns as f64 / self.setup_ns as f64
    }
}

/// An SSD of Table 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolidState {
    /// Manufacturer and model, as Table 1 lists them.
    pub name: &'static str,
    /// P as the source fitted it, which is not an integer.
    pub parallelism: f64,
    /// Pβ: the throughput at saturation, in MiB/s.
    pub saturated_mib_s: u64,
    /// R² of the fit of the PDAM, as published.
    pub r_squared: f64,
}

impl SolidState {
    /// Returns a cost clock that imitates the SSD. A step has P slots, rounded to an integer, and
    /// lasts as long as the SSD takes to transfer one block of 64 KiB per slot at saturation. The
    /// clock's throughput Pβ is therefore exact, while the number of requests at which it saturates
    /// is off by the rounding of P, at most 11 %.
    ///
    /// ```
    /// use alluvium_model::presets::SAMSUNG_970_EVO;
    /// let ssd = SAMSUNG_970_EVO.clock();
    /// assert_eq!(ssd.slots(), 5);
    /// assert_eq!(ssd.step_ns(), 347_222); // 5 × 64 KiB at 900 MiB/s
    /// ```
    #[must_use]
    pub fn clock(&self) -> PdamClock {
        let slots = self.slots();
        let step_ns = slots * SSD_BLOCK * 1_000_000_000 / (self.saturated_mib_s * MIB);
        PdamClock::new(slots, SSD_BLOCK, step_ns)
    }

    /// Returns P rounded to the nearest integer, with halves rounded up.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.parallelism.round() as u64
    }
}

pub const SEAGATE_250GB_2006: HardDisk = HardDisk {
    name: "250 GB Seagate",
    year: 2006,
    setup_ns: 15_000_000,
    transfer_ns: 33_000,
    r_squared: 0.9997,
};

pub const HITACHI_1TB_2009: HardDisk = HardDisk {
    name: "1 TB Hitachi",
    year: 2009,
    setup_ns: 13_000_000,
    transfer_ns: 41_000,
    r_squared: 0.9999,
};

/// 1 TB WD Black, 2011.
pub const WD_BLACK_1TB_2011: HardDisk = HardDisk {
    name: "1 TB WD Black",
    year: 2011,
    setup_ns: 12_000_000,
    transfer_ns: 35_000,
    r_squared: 0.9997,
};

pub const SEAGATE_2TB_2012: HardDisk = HardDisk {
    name: "2 TB Seagate",
    year: 2012,
    setup_ns: 18_000_000,
    transfer_ns: 21_000,
    r_squared: 0.9994,
};

/// 6 TB WD Red, 2018.
pub const WD_RED_6TB_2018: HardDisk = HardDisk {
    name: "6 TB WD Red",
    year: 2018,
    setup_ns: 16_000_000,
    transfer_ns: 26_000,
    r_squared: 0.9972,
};

pub const SANDISK_ULTRA_II: SolidState = SolidState {
    name: "Sandisk Ultra II",
    parallelism: 5.5,
    saturated_mib_s: 240,
    r_squared: 0.964,
};

pub const SAMSUNG_860_EVO: SolidState = SolidState {
    name: "Samsung 860 EVO",
    parallelism: 4.5,
    saturated_mib_s: 530,
    r_squared: 0.989,
};

pub const SAMSUNG_970_EVO: SolidState = SolidState {
    name: "Samsung 970 EVO",
    parallelism: 5.4,
    saturated_mib_s: 900,
    r_squared: 0.971,
};

pub const SAMSUNG_980_PRO: SolidState = SolidState {
    name: "Samsung 980 Pro",
    parallelism: 5.6,
    saturated_mib_s: 2300,
    r_squared: 0.963,
};

/// Profile of a hard disk, with the parameters of the 6 TB WD Red.
pub const HARD_DISK: DeviceProfile = DeviceProfile {
    setup_ns: 16_000_000,
    byte_ps: 6_347,
    parallelism: 1,
    io_cpu_ns: IO_CPU_NS,
};

/// Profile of a SATA SSD, with the parameters of the Samsung 860 EVO.
pub const SATA_SSD: DeviceProfile = DeviceProfile {
    setup_ns: 471_723,
    byte_ps: 1_799,
    parallelism: 5,
    io_cpu_ns: IO_CPU_NS,
};

/// Profile of an NVMe SSD, with the parameters of the Samsung 980 Pro.
pub const NVME_SSD: DeviceProfile = DeviceProfile {
    setup_ns: 135_912,
    byte_ps: 414,
    parallelism: 6,
    io_cpu_ns: IO_CPU_NS,
};

/// Profile of a network volume in a cloud: a setup time of 0.5 ms, 250 MB/s and 16 parallel
/// requests. The values are typical of providers' specifications and were not measured. Limits on
/// the number of I/Os per second are not modelled.
pub const NETWORK_VOLUME: DeviceProfile = DeviceProfile {
    setup_ns: 500_000,
    byte_ps: 4_000,
    parallelism: 16,
    io_cpu_ns: IO_CPU_NS,
};

/// CPU time of an I/O in nanoseconds: a system call, an interrupt and a context switch. It depends
/// on the machine rather than on the device.
const IO_CPU_NS: u64 = DeviceProfile::SSD.io_cpu_ns;

/// Typical devices for stores: names and profiles, in descending order of setup time.
pub const PROFILES: [(&str, DeviceProfile); 4] = [
    ("hard disk", HARD_DISK),
    ("network volume", NETWORK_VOLUME),
    ("SATA SSD", SATA_SSD),
    ("NVMe SSD", NVME_SSD),
];

/// The hard disks of Table 2, in chronological order.
pub const HARD_DISKS: [HardDisk; 5] = [
    SEAGATE_250GB_2006,
    HITACHI_1TB_2009,
    WD_BLACK_1TB_2011,
    SEAGATE_2TB_2012,
    WD_RED_6TB_2018,
];

/// The SSDs of Table 1, in ascending order of throughput.
pub const SOLID_STATES: [SolidState; 4] = [
    SANDISK_ULTRA_II,
    SAMSUNG_860_EVO,
    SAMSUNG_970_EVO,
    SAMSUNG_980_PRO,
];

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_base::cost::{AccessKind, CostClock, DeviceAccess};

    #[test]
    fn the_alphas_are_those_of_table_2() {
        let printed = [0.0022, 0.0031, 0.0029, 0.0012, 0.0017];
        for (disk, printed) in HARD_DISKS.iter().zip(printed) {
            assert!(
                (disk.alpha() - printed).abs() < 0.0001,
                "{}: {}",
                disk.name,
                disk.alpha()
            );
        }
    }

    #[test]
    fn the_profiles_for_stores_are_those_of_measured_devices() {
        assert_eq!(HARD_DISK, WD_RED_6TB_2018.profile());
        assert_eq!(SATA_SSD, SAMSUNG_860_EVO.profile());
        assert_eq!(NVME_SSD, SAMSUNG_980_PRO.profile());
        assert!(
            PROFILES
                .windows(2)
                .all(|pair| pair[0].1.setup_ns > pair[1].1.setup_ns)
        );
        let half: Vec<u64> = PROFILES
            .iter()
            .map(|(_, profile)| profile.half_bandwidth() >> 10)
            .collect();
        assert_eq!(half, [2461, 122, 256, 320]);
    }

    #[test]
    fn a_saturated_ssd_reaches_the_throughput_of_table_1() {
        for ssd in &SOLID_STATES {
            let mut clock = ssd.clock();
            let reads = 10_000;
            let mut done_ns = 0;
            for block in 0..reads {
                let access = DeviceAccess {
                    file: 0,
                    offset: block * SSD_BLOCK,
                    len: SSD_BLOCK,
                    kind: AccessKind::Read,
                };
                done_ns = clock.charge(0, &access).expect("reads may meet");
            }
            let mib_s = (reads * SSD_BLOCK) as f64 / MIB as f64 / (done_ns as f64 / 1e9);
            let expected = ssd.saturated_mib_s as f64;
            assert!(
                (mib_s / expected - 1.0).abs() < 0.001,
                "{}: {mib_s} MiB/s",
                ssd.name
            );
            assert!(
                (ssd.slots() as f64 / ssd.parallelism - 1.0).abs() < 0.112,
                "{}",
                ssd.name
            );
        }
    }
}
