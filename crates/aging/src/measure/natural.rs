//! Natural transfer sizes: how long a read must be to reach a share of the bandwidth of the device
//! (Conway 2020, §4.2, Fig. 4.1).

use super::slowdown::SeekModel;
use crate::{Error, ErrorContext, Result, StopRequest, check_stop};
use alluvium_device::AlignedBuffer;
use alluvium_device::probe::{LEAST_SPACE, SIZES};
use alluvium_model::fit::affine;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Order of the reads of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadOrder {
    Random,
    Sequential,
}

/// The bandwidth of reads of one length.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct BandwidthPoint {
    pub order: ReadOrder,
    pub bytes: u64,
    pub bytes_per_s: f64,
}

/// Fewest reads of each measured length.
const LEAST: usize = 9;

/// What follows from the measured bandwidths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NaturalSizes {
    /// Largest measured bandwidth in bytes per second.
    pub peak_bytes_per_s: f64,
    /// Length of random reads that reach half of it; `None` if the longest measured ones do not.
    pub half_bytes: Option<f64>,
    /// Length of random reads that reach 90 % of it.
    pub nine_tenths_bytes: Option<f64>,
    /// The costs that explain the times of random reads.
    pub model: SeekModel,
}

impl NaturalSizes {
    /// Computes the sizes. `None` unless at least two lengths were read at random offsets.
    #[must_use]
    pub fn of(points: &[BandwidthPoint]) -> Option<NaturalSizes> {
        let mut random: Vec<(u64, f64)> = points
            .iter()
            .filter(|point| point.order == ReadOrder::Random && point.bytes_per_s > 0.0)
            .map(|point| (point.bytes, point.bytes_per_s))
            .collect();
        random.sort_by_key(|&(bytes, _)| bytes);
        if random.len() < 2 {
            return None;
        }
        let peak = points.iter().map(|point| point.bytes_per_s).fold(0.0, f64::max);
        Some(NaturalSizes {
            peak_bytes_per_s: peak,
            half_bytes: size_reaching(&random, 0.5 * peak),
            nine_tenths_bytes: size_reaching(&random, 0.9 * peak),
            model: seek_model(&random, peak),
        })
    }
}

/// Returns the length at which random reads reach a bandwidth. Between two measured lengths, the
/// bandwidth is a line over the logarithm of the length.
fn size_reaching(random: &[(u64, f64)], bandwidth: f64) -> Option<f64> {
    let at = random.iter().position(|&(_, reached)| reached >= bandwidth)?;
    let (bytes, reached) = random[at];
    let Some(&(below, lower)) = at.checked_sub(1).map(|before| &random[before]) else {
        return Some(bytes as f64);
    };
    let share = (bandwidth - lower) / (reached - lower);
    let (from, to) = ((below as f64).ln(), (bytes as f64).ln());
    Some((from + share * (to - from)).exp())
}

/// Fits a setup time and a bandwidth to the times of random reads. Where times contradict a line,
/// the shortest read and the peak give both.
fn seek_model(random: &[(u64, f64)], peak: f64) -> SeekModel {
    let times: Vec<(u64, f64)> = random
        .iter()
        .map(|&(bytes, bytes_per_s)| (bytes, bytes as f64 / bytes_per_s))
        .collect();
    match affine::fit_relative(&times) {
        Ok(fit) => SeekModel {
            bytes_per_s: fit.per_byte_s.recip(),
            seek_s: fit.setup_s,
        },
        Err(_) => SeekModel {
            bytes_per_s: peak,
            seek_s: (times[0].1 - times[0].0 as f64 / peak).max(0.0),
        },
    }
}

/// A device or a file whose contents are read, past the page cache where possible.
#[derive(Debug)]
pub struct ReadTarget {
    descriptor: OwnedFd,
    bytes: u64,
    /// What makes the bandwidths unreliable.
    pub notes: Vec<String>,
}

impl ReadTarget {
    /// Opens a block device or a file for reading.
    ///
    /// # Errors
    /// I/O errors; the target is neither a device nor a file, or has less than 16 MiB.
    pub fn open(path: &Path) -> Result<ReadTarget> {
        let mut notes = Vec::new();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = match rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty()) {
            Err(Errno::INVAL) => {
                notes.push("direct I/O is refused here: the page cache answers".to_owned());
                rustix::fs::open(path, flags, Mode::empty())
            }
            opened => opened,
        }
        .at("opening", path)?;
        let status = rustix::fs::fstat(&descriptor).at("reading the attributes of", path)?;
        let kind = FileType::from_raw_mode(status.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::BlockDevice) {
            return Err(Error::Refused(format!(
                "{} is neither a block device nor a file",
                path.display()
            )));
        }
        let bytes = rustix::fs::seek(&descriptor, SeekFrom::End(0)).at("finding the end of", path)?;
        if bytes < LEAST_SPACE {
            return Err(Error::Refused(format!(
                "{} has {bytes} bytes, and a measurement needs {LEAST_SPACE}: name a larger file, or a directory, in which a file is \
                 made",
                path.display()
            )));
        }
        let stored = u64::try_from(status.st_blocks).unwrap_or(0) * 512;
        if kind == FileType::RegularFile && stored < bytes / 10 * 9 {
            notes.push(format!(
                "{} has holes, which are read without the device",
                path.display()
            ));
        }
        Ok(ReadTarget {
            descriptor,
            bytes,
            notes,
        })
    }

    /// Measures the bandwidth of reads of 4 KiB to 4 MiB, random and sequential, one at a time.
    ///
    /// # Errors
    /// I/O errors, or the job was stopped.
    pub fn measure(&self, time: Duration, seed: u64, stop: StopRequest<'_>) -> Result<Vec<BandwidthPoint>> {
        let each = time / (2 * SIZES.len()) as u32;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut points = Vec::new();
        for order in [ReadOrder::Random, ReadOrder::Sequential] {
            for bytes in SIZES {
                check_stop(stop)?;
                points.push(BandwidthPoint {
                    order,
                    bytes,
                    bytes_per_s: self.bandwidth(order, bytes, each, &mut random)?,
                });
            }
        }
        Ok(points)
    }

    fn bandwidth(
        &self,
        order: ReadOrder,
        bytes: u64,
        time: Duration,
        random: &mut fastrand::Rng,
    ) -> Result<f64> {
        let mut buffer = AlignedBuffer::zeroed(bytes as usize);
        let slots = self.bytes / bytes;
        let mut slot = random.u64(..slots);
        let (began, mut times) = (Instant::now(), Vec::new());
        while times.len() < LEAST || began.elapsed() < time {
            slot = match order {
                ReadOrder::Random => random.u64(..slots),
                ReadOrder::Sequential => (slot + 1) % slots,
            };
            let (at, issued) = (slot * bytes, Instant::now());
            let length = rustix::io::pread(&self.descriptor, &mut buffer[..], at)
                .at("measuring", Path::new("the device"))?;
            if length as u64 != bytes {
                return Err(Error::Refused(format!(
                    "a read of {bytes} bytes at {at} returned {length}: another process shortened the file"
                )));
            }
            times.push(issued.elapsed().as_secs_f64().max(1e-9));
        }
        // The median: other work on the machine delays some reads a lot.
        times.sort_by(f64::total_cmp);
        Ok(bytes as f64 / times[times.len() / 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bandwidths of a device with this seek time and bandwidth.
    fn device(model: SeekModel) -> Vec<BandwidthPoint> {
        let random = SIZES.map(|bytes| BandwidthPoint {
            order: ReadOrder::Random,
            bytes,
            bytes_per_s: bytes as f64 / model.seconds(bytes, 1),
        });
        let sequential = SIZES.map(|bytes| BandwidthPoint {
            order: ReadOrder::Sequential,
            bytes,
            bytes_per_s: model.bytes_per_s,
        });
        [random, sequential].concat()
    }

    #[test]
    fn natural_sizes_of_a_model_are_those_of_its_formula() {
        let model = SeekModel {
            bytes_per_s: 1e9,
            seek_s: 100e-6,
        };
        let found = NaturalSizes::of(&device(model)).unwrap();
        assert_eq!(found.peak_bytes_per_s, 1e9);
        // Half of the bandwidth: the transfer takes as long as the seek, 100 kB; 90 %: nine times.
        let (half, most) = (found.half_bytes.unwrap(), found.nine_tenths_bytes.unwrap());
        assert!((half / 100e3 - 1.0).abs() < 0.02, "{half}");
        assert!((most / 900e3 - 1.0).abs() < 0.05, "{most}");
        assert!((found.model.seek_s / 100e-6 - 1.0).abs() < 1e-6, "{found:?}");
        assert!((found.model.bytes_per_s / 1e9 - 1.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn a_disk_needs_longer_reads_than_are_measured_for_most_of_its_bandwidth() {
        let found = NaturalSizes::of(&device(SeekModel::DISK)).unwrap();
        assert!(
            (found.half_bytes.unwrap() / 524_288.0 - 1.0).abs() < 0.02,
            "{found:?}"
        );
        assert_eq!(found.nine_tenths_bytes, None);
    }

    #[test]
    fn a_device_without_seeks_is_described_without_a_fit() {
        let flat = device(SeekModel {
            bytes_per_s: 1e9,
            seek_s: 0.0,
        });
        let found = NaturalSizes::of(&flat).unwrap();
        assert_eq!(found.half_bytes, Some(4096.0));
        assert!(found.model.seek_s < 1e-9, "{found:?}");
        assert_eq!(NaturalSizes::of(&flat[..1]), None);
    }

    #[test]
    fn a_file_is_measured_and_short_or_sparse_ones_are_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let refused = ReadTarget::open(&path).unwrap_err().to_string();
        assert!(refused.contains("a measurement needs"), "{refused}");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(LEAST_SPACE).unwrap();
        let target = ReadTarget::open(&path).unwrap();
        assert!(
            target.notes.iter().any(|note| note.contains("holes")),
            "{target:?}"
        );
        let points = target.measure(Duration::ZERO, 1, &|| false).unwrap();
        assert_eq!(points.len(), 2 * SIZES.len());
        assert!(NaturalSizes::of(&points).is_some());
        let directory = ReadTarget::open(place.path()).unwrap_err();
        assert!(directory.to_string().contains("neither"), "{directory}");
    }
}
