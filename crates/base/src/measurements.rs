//! Raw measurements of a device, before a model is fitted to them.
//!
//! The crate `device` takes the measurements; the crate `model` fits its models to them.

use crate::cost::AccessKind;

/// Name of the file in a store's directory that holds the measurements of its device. A store may
/// be created in a directory that already contains this file.
pub const FILE: &str = "probe.txt";

/// The order of a measurement's request offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffsetOrder {
    /// Random offsets over the whole file; no offset repeats before all have been used.
    Random,
    /// Each request begins where the previous one ended.
    Sequential,
    /// Random offsets within a small part of the file, repeatedly: a working set that a cache would
    /// hold.
    Near,
}

/// How the requests of a measurement are submitted to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IssueMode {
    /// Each completed request is replaced by a new one, so the number in flight is constant.
    Steady,
    /// A batch is submitted by one call; the next batch follows when all its requests have
    /// completed.
    Batch,
}

/// The parameters of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbePoint {
    /// Whether the requests read or write.
    pub kind: AccessKind,
    /// Order of the request offsets.
    pub order: OffsetOrder,
    /// How the requests are submitted.
    pub issue: IssueMode,
    /// Length of each request in bytes.
    pub bytes: u64,
    /// Number of requests in flight.
    pub depth: u32,
}

impl ProbePoint {
    /// Returns a point of random reads, one at a time.
    ///
    /// ```
    /// use alluvium_base::measurements::ProbePoint;
    /// assert_eq!(ProbePoint::reads(4096).at_depth(8).depth, 8);
    /// ```
    #[must_use]
    pub fn reads(bytes: u64) -> ProbePoint {
        ProbePoint {
            kind: AccessKind::Read,
            order: OffsetOrder::Random,
            issue: IssueMode::Steady,
            bytes,
            depth: 1,
        }
    }

    /// Returns a point of random writes, one at a time.
    #[must_use]
    pub fn writes(bytes: u64) -> ProbePoint {
        ProbePoint {
            kind: AccessKind::Write,
            ..ProbePoint::reads(bytes)
        }
    }

    /// Returns this point with `depth` requests in flight.
    #[must_use]
    pub fn at_depth(self, depth: u32) -> ProbePoint {
        ProbePoint { depth, ..self }
    }

    /// Returns this point with another order of offsets.
    #[must_use]
    pub fn in_order(self, order: OffsetOrder) -> ProbePoint {
        ProbePoint { order, ..self }
    }

    /// Returns this point with batches of `depth` requests.
    #[must_use]
    pub fn in_batches(self, depth: u32) -> ProbePoint {
        ProbePoint {
            issue: IssueMode::Batch,
            depth,
            ..self
        }
    }
}

/// The result of one point in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSample {
    /// The parameters that all requests have in common.
    pub point: ProbePoint,
    /// Round number, from 0. Each point is measured once per round.
    pub round: u32,
    /// Number of requests that the times below cover.
    pub requests: u64,
    /// Total elapsed time, in nanoseconds.
    pub elapsed_ns: u64,
    /// Total CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Typical latency of one request or batch, in nanoseconds: the mean without the fastest and
    /// the slowest tenth.
    pub typical_ns: u64,
}

impl ProbeSample {
    /// Returns the undisturbed throughput in bytes per second, by Little's law: the bytes in flight
    /// divided by the typical latency. 0 if nothing was measured.
    #[must_use]
    pub fn undisturbed_bytes_per_s(&self) -> f64 {
        if self.typical_ns == 0 {
            return 0.0;
        }
        f64::from(self.point.depth) * self.point.bytes as f64 * 1e9 / self.typical_ns as f64
    }

    /// Returns the throughput in bytes per second, including pauses. 0 if nothing was measured.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        self.requests as f64 * self.point.bytes as f64 * 1e9 / self.elapsed_ns as f64
    }
}

/// A part of a long transfer, recorded to show how the rate changes over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferSlice {
    /// Bytes transferred in this part.
    pub bytes: u64,
    /// Duration of this part, in nanoseconds.
    pub elapsed_ns: u64,
}

impl TransferSlice {
    /// Returns the throughput in bytes per second. 0 if nothing was measured.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        self.bytes as f64 * 1e9 / self.elapsed_ns as f64
    }
}

/// The medium that serves requests, as reported by the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Medium {
    /// A device, bypassing the page cache.
    Device,
    /// The page cache: the file system refuses direct I/O.
    PageCache,
    /// Memory: the file system has no device (tmpfs, ramfs).
    Memory,
    /// A remote server, over the network.
    Network,
}

/// All measurements of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMeasurements {
    /// Start time, in seconds since 1970.
    pub began_s: u64,
    /// Medium that served the requests.
    pub medium: Medium,
    /// Type of the file system.
    pub file_system: String,
    /// Length of the measured file, in bytes.
    pub span_bytes: u64,
    /// Duration of the whole probe, in nanoseconds.
    pub elapsed_ns: u64,
    /// All samples in chronological order.
    pub samples: Vec<ProbeSample>,
    /// Latency of each sync after a 4 KiB write, in nanoseconds, in chronological order.
    pub syncs_ns: Vec<u64>,
    /// Progress of the initial sequential fill of the file.
    pub filled: Vec<TransferSlice>,
    /// Progress of the final full-speed read of the file.
    pub sustained: Vec<TransferSlice>,
    /// Remarks on how the directory works on this system, one sentence each.
    pub notes: Vec<String>,
}

impl DeviceMeasurements {
    /// Returns the samples of `point`, one per round in which it was measured.
    pub fn samples_of(&self, point: ProbePoint) -> impl Iterator<Item = &ProbeSample> {
        self.samples.iter().filter(move |window| window.point == point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_all_requests_and_nothing_measured_is_no_rate() {
        let window = ProbeSample {
            point: ProbePoint::writes(4096),
            round: 0,
            requests: 10,
            elapsed_ns: 1_000_000,
            cpu_ns: 0,
            typical_ns: 100_000,
        };
        assert_eq!(window.bytes_per_s(), 40_960_000.0);
        assert_eq!(window.undisturbed_bytes_per_s(), 40_960_000.0);
        let paused = ProbeSample {
            elapsed_ns: 2_000_000,
            ..window
        };
        assert_eq!(paused.bytes_per_s(), 20_480_000.0);
        assert_eq!(paused.undisturbed_bytes_per_s(), 40_960_000.0);
        let nothing = ProbeSample {
            elapsed_ns: 0,
            ..window
        };
        assert_eq!(nothing.bytes_per_s(), 0.0);
        let slice = TransferSlice {
            bytes: 1 << 20,
            elapsed_ns: 1 << 20,
        };
        assert_eq!(slice.bytes_per_s(), 1e9);
    }

    #[test]
    fn points_that_differ_in_one_thing_are_others() {
        let point = ProbePoint::reads(4096);
        let others = [
            ProbePoint::writes(4096),
            ProbePoint::reads(8192),
            point.at_depth(2),
            point.in_order(OffsetOrder::Near),
            point.in_batches(1),
        ];
        assert!(others.iter().all(|other| *other != point));
        assert_eq!(point.at_depth(2).at_depth(1), point);
    }
}
