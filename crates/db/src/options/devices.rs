//! Cost profiles of common device types, for [`Options::device`](crate::Options::device). A profile
//! states an I/O operation's setup time, time per byte and processor time, and how many operations
//! the device executes in parallel.
//!
//! ```
//! use alluvium::{DeviceProfile, Options, devices};
//! let options = Options::new().device(devices::HARD_DISK);
//! let ours = DeviceProfile { parallelism: 32, ..devices::NVME_SSD };
//! assert!(ours.half_bandwidth() < devices::HARD_DISK.half_bandwidth());
//! # drop(options);
//! ```

use crate::error::{Error, Result};
use alluvium_base::{DeviceProfile, Purpose};
use alluvium_device::{BLOCK, Directory, FileOptions};
use alluvium_model::probe::ProbeConclusions;
use alluvium_model::probe::format::{self, FILE, MOST_BYTES};

pub use alluvium_model::presets::{HARD_DISK, NETWORK_VOLUME, NVME_SSD, SATA_SSD};

/// Returns the measured device profile that is stored in a store's directory.
///
/// # Errors
/// `BadOption`, with advice on what to do, if there is no usable measurement; I/O errors.
pub(crate) fn measured(directory: &dyn Directory) -> Result<DeviceProfile> {
    let bad = |why: String| Error::BadOption {
        option: "measured device",
        why,
    };
    let file = match directory.open(FILE, FileOptions::BUFFERED.read_only()) {
        Ok(file) => file,
        Err(alluvium_device::Error::NotFound { .. }) => {
            return Err(bad(format!(
                "{} has no {FILE}: measure its device with `alluvium probe` first, or leave the option out",
                directory.describe()
            )));
        }
        Err(error) => return Err(error.into()),
    };
    let len = file.len();
    let is_possible = len > 0 && len <= MOST_BYTES as u64 && len.is_multiple_of(BLOCK);
    if !is_possible {
        return Err(bad(format!(
            "{FILE} has {len} bytes and cannot be a measurement, whose size is a small multiple of \
            {BLOCK}: remove it, and measure again with `alluvium probe`"
        )));
    }
    // The check above has limited the file to one megabyte.
    let bytes = file.read_at(0, len as usize, Purpose::Probe)?;
    let samples = format::decode(&bytes).map_err(|why| bad(format!("{FILE}: {why}")))?;
    ProbeConclusions::of(&samples).reliable_profile().map_err(|why| {
        bad(format!(
            "{FILE} holds no usable measurement: {why}; leave the option out, or measure again with \
            `alluvium probe`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::options::store::ExistencePolicy;
    use alluvium_base::measurements::{DeviceMeasurements, Medium, ProbePoint, ProbeSample};
    use alluvium_device::AlignedBuffer;
    use alluvium_device::memory::MemoryDirectory;
    use std::sync::Arc;

    /// Returns measurements of a device with 80 µs setup time, 1 ns per byte, and three parallel
    /// reads.
    fn samples(medium: Medium) -> DeviceMeasurements {
        let window = |point: ProbePoint| {
            let one_ns = 80_000 + point.bytes;
            let depth = u64::from(point.depth);
            ProbeSample {
                point,
                round: 0,
                requests: 60,
                elapsed_ns: 60 * one_ns / depth.min(3),
                cpu_ns: 60 * 3_000,
                typical_ns: one_ns * depth / depth.min(3),
            }
        };
        let sizes = (0..11).map(|power| ProbePoint::reads(4096 << power));
        let depths = [2, 3, 4, 5, 6, 7, 8, 16].map(|depth| ProbePoint::reads(64 << 10).at_depth(depth));
        let alone = [ProbePoint::reads(4096).in_batches(1)];
        DeviceMeasurements {
            began_s: 0,
            medium,
            file_system: "ext4".to_owned(),
            span_bytes: 1 << 30,
            elapsed_ns: 1,
            samples: sizes.chain(depths).chain(alone).map(window).collect(),
            syncs_ns: Vec::new(),
            filled: Vec::new(),
            sustained: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn kept(bytes: &[u8]) -> Arc<MemoryDirectory> {
        let directory = MemoryDirectory::new();
        let file = directory.create(FILE, FileOptions::BUFFERED).unwrap();
        let buffer = AlignedBuffer::padded(bytes);
        file.grow(buffer.len() as u64).unwrap();
        file.write_at(0, buffer, Purpose::Probe).unwrap();
        Arc::new(directory)
    }

    #[test]
    fn a_store_takes_what_was_measured_only_when_it_is_told_to() {
        let directory = kept(&format::encode(&samples(Medium::Device)));
        let opened = |options: &Options| {
            let db =
                crate::db::Db::open_in(directory.clone(), options, ExistencePolicy::OpenOrCreate).unwrap();
            db.shared().engine.plan.device
        };
        let options = Options::new().memory(crate::options::machine::MIN_MEMORY);
        let expected = DeviceProfile {
            setup_ns: 80_000,
            byte_ps: 1_000,
            parallelism: 3,
            io_cpu_ns: 3_000,
        };
        assert_eq!(opened(&options.clone().measured_device()), expected);
        assert_eq!(opened(&options), DeviceProfile::SSD);
        let given = options.measured_device().device(HARD_DISK);
        assert_eq!(opened(&given), HARD_DISK);
    }

    #[test]
    fn what_is_missing_damaged_or_of_a_cache_is_refused_with_what_to_do() {
        let of_device = format::encode(&samples(Medium::Device));
        let mut damaged = of_device.clone();
        damaged[40] ^= 1;
        for (directory, words) in [
            (Arc::new(MemoryDirectory::new()), "has no probe.txt"),
            (kept(&damaged), "the checksum"),
            (kept(b"a"), "it begins with"),
            (
                kept(&vec![b'a'; MOST_BYTES + 1]),
                "bytes and cannot be a measurement",
            ),
            (
                kept(&format::encode(&samples(Medium::Memory))),
                "keeps files in memory",
            ),
        ] {
            let refused = measured(&*directory).unwrap_err();
            let text = refused.to_string();
            assert!(
                text.contains(words) && text.contains("`alluvium probe`"),
                "{text}"
            );
            assert_eq!(refused.kind(), crate::error::ErrorKind::InvalidArgument);
        }
    }
}
