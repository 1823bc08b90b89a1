//! Raw device measurements, to which cost models are fitted later.
//!
//! The crate `device` takes the measurements, and the crate `model` fits its models to them.

use crate::cost::AccessKind;

/// Name of the file in a store's directory that contains the measurements of the device. A store
/// may be created in a directory that already contains this file.
pub const FILE: &str = "probe.txt";

/// The order in which a measurement visits the offsets of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffsetOrder {
    /// Random offsets in the whole file. No offset repeats until every offset has been used once.
    Random,
    /// Sequential offsets: each request begins where the previous one ended.
    Sequential,
    /// Random offsets within a small part of the file, so small that a cache can hold it. Offsets
    /// repeat.
    Near,
}

/// How a measurement submits its requests to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IssueMode {
    /// Each completed request is replaced immediately, which keeps the number of requests in flight
    /// constant.
    Steady,
    /// One call submits a batch of requests. The next batch is submitted once all of them have
    /// completed.
    Batch,
}

/// The parameters of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbePoint {
    /// Whether the requests are reads or writes.
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
    /// Returns the parameters of random reads of `bytes` bytes, with one request in flight.
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

    /// Returns the parameters of random writes of `bytes` bytes, with one request in flight.
    #[must_use]
    pub fn writes(bytes: u64) -> ProbePoint {
        ProbePoint {
            kind: AccessKind::Write,
            ..ProbePoint::reads(bytes)
        }
    }

    /// Returns these parameters with `depth` requests in flight.
    #[must_use]
    pub fn at_depth(self, depth: u32) -> ProbePoint {
        ProbePoint { depth, ..self }
    }

    /// Returns these parameters with the given order of offsets.
    #[must_use]
    pub fn in_order(self, order: OffsetOrder) -> ProbePoint {
        ProbePoint { order, ..self }
    }

    /// Returns these parameters with requests that are submitted in batches of `depth`.
    #[must_use]
    pub fn in_batches(self, depth: u32) -> ProbePoint {
        ProbePoint {
            issue: IssueMode::Batch,
            depth,
            ..self
        }
    }
}

/// The result of measuring one point in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSample {
    /// The parameters that all requests of the measurement shared.
    pub point: ProbePoint,
    /// Round number, starting at 0. Each point is measured once per round.
    pub round: u32,
    /// Number of requests that were measured.
    pub requests: u64,
    /// Elapsed time of the measurement, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the measurement, in nanoseconds.
    pub cpu_ns: u64,
    /// Typical latency of one request or batch, in nanoseconds: the mean latency after the fastest
    /// tenth and the slowest tenth have been discarded.
    pub typical_ns: u64,
}

impl ProbeSample {
    /// Returns the throughput in bytes per second, disregarding disturbances: by Little's law, the
    /// number of bytes in flight divided by the typical latency. Returns 0 if nothing was measured.
    #[must_use]
    pub fn undisturbed_bytes_per_s(&self) -> f64 {
        if self.typical_ns == 0 {
            return 0.0;
        }
        f64::from(self.point.depth) * self.point.bytes as f64 * 1e9 / self.typical_ns as f64
    }

    /// Returns the throughput including pauses, in bytes per second. Returns 0 if nothing was
    /// measured.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        self.requests as f64 * self.point.bytes as f64 * 1e9 / self.elapsed_ns as f64
    }
}

/// One part of a long transfer. The parts show how throughput changes over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferSlice {
    /// Number of bytes transferred in this part.
    pub bytes: u64,
    /// Duration of this part, in nanoseconds.
    pub elapsed_ns: u64,
}

impl TransferSlice {
    /// Returns the throughput in bytes per second, or 0 if nothing was measured.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        self.bytes as f64 * 1e9 / self.elapsed_ns as f64
    }
}

/// The kind of storage that serves the requests, according to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Medium {
    /// The device, without a page cache in between.
    Device,
    /// The page cache, because the file system does not support direct I/O.
    PageCache,
    /// Memory, because the file system has no device (tmpfs, ramfs).
    Memory,
    /// A remote server, which is accessed over the network.
    Network,
}

/// All measurements of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMeasurements {
    /// Time at which the measurements started, in seconds since 1970.
    pub began_s: u64,
    /// The medium that served the requests.
    pub medium: Medium,
    /// Type of the file system.
    pub file_system: String,
    /// Length of the measured file, in bytes.
    pub span_bytes: u64,
    /// Duration of the whole probe, in nanoseconds.
    pub elapsed_ns: u64,
    /// All samples, in chronological order.
    pub samples: Vec<ProbeSample>,
    /// Latency in nanoseconds of each sync after a write of 4 KiB, in chronological order.
    pub syncs_ns: Vec<u64>,
    /// The initial sequential write of the whole file, in parts.
    pub filled: Vec<TransferSlice>,
    /// The final read of the file at full speed, in parts.
    pub sustained: Vec<TransferSlice>,
    /// Remarks on the behaviour of the directory on this system, one sentence each.
    pub notes: Vec<String>,
}

impl DeviceMeasurements {
    /// Returns the samples of `point`, one for each round in which it was measured.
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
