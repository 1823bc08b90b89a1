//! The job that the runner sends to a child process, and the events that the child sends back, each
//! as one JSON value per line.

use crate::account::device::TrafficCounters;
use crate::account::dips::ThroughputDips;
use crate::account::latency::LatencyPercentiles;
use crate::account::memory::MemoryCounters;
use crate::engine::{EngineOption, WriteLogging};
use crate::workload::keys::{KEY_BYTES, KeyOrdering};
use crate::workload::phase::WorkloadPhase;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// All the work of one process on one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EngineJob {
    pub engine: String,
    /// Number of the repetition, counted from 1.
    pub repetition: usize,
    /// The directory for the files of the engine.
    pub directory: PathBuf,
    pub records: u64,
    /// Determines the keys of records.
    pub keys: KeyOrdering,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    pub threads: usize,
    pub phases: Vec<WorkloadPhase>,
    /// Whether phases are separate or continuous.
    pub flow: PhaseFlow,
    /// Whether the directory already contains the loaded records.
    pub is_loaded: bool,
    /// Seed of all random choices.
    pub seed: u64,
    pub log: WriteLogging,
    /// Memory limit of the process in bytes.
    pub cap: u64,
    /// Memory in bytes that the engine is told to use, if the user has specified it.
    pub memory: Option<u64>,
    /// Options of engines, from which the child picks those of its engine.
    pub options: Vec<EngineOption>,
    /// Maximum time in milliseconds for background work after the load.
    pub settle_ms: u64,
    /// One in this number of reads is verified; at least 1.
    pub verify_every: u64,
    /// Length in milliseconds of a throughput interval.
    pub interval_ms: u64,
    /// The control groups that the process belongs to.
    pub groups: GroupPaths,
}

/// Whether phases are separate or continuous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseFlow {
    /// Each phase has a warm-up before it is measured, and the engine completes its background work
    /// after a load.
    #[default]
    Separate,
    /// Each phase begins as soon as the previous one ends, and is measured from its first
    /// operation.
    Continuous,
}

/// The paths of a process's control groups, if these are available.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GroupPaths {
    /// Path of the memory controller group.
    pub memory: Option<PathBuf>,
    /// Path of the block controller group.
    pub blkio: Option<PathBuf>,
}

impl EngineJob {
    /// Returns a small job without phases, for tests.
    #[cfg(test)]
    pub(crate) fn tiny() -> EngineJob {
        EngineJob {
            engine: "none".into(),
            repetition: 1,
            directory: PathBuf::new(),
            records: 10_000,
            keys: KeyOrdering::default(),
            value_bytes: 100,
            threads: 1,
            phases: Vec::new(),
            flow: PhaseFlow::Separate,
            is_loaded: false,
            seed: 1,
            log: WriteLogging::On,
            cap: 64 << 20,
            memory: None,
            options: Vec::new(),
            settle_ms: 0,
            verify_every: 1,
            interval_ms: 100,
            groups: GroupPaths::default(),
        }
    }

    /// Returns the size of a key and its value in bytes.
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        (KEY_BYTES + self.value_bytes) as u64
    }
}

/// An event that a child process sends to the runner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildEvent {
    Opened {
        /// The names and values of settings that the engine reports.
        settings: Vec<(String, String)>,
    },
    Progress {
        /// The current phase and its part.
        phase: String,
        /// Number of operations completed so far in this part.
        operations: u64,
        /// Total number of operations in this part, if it is known.
        of: Option<u64>,
        /// Time in seconds since the start of this part.
        seconds: f64,
    },
    /// A phase has ended. The row contains its costs.
    Measured(Box<ResultRow>),
    Failed {
        why: String,
    },
    Closed {
        /// How long closing the engine took, in seconds.
        seconds: f64,
    },
}

/// The costs of one phase of an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    pub engine: String,
    /// The textual form of the phase, or `settle` for the engine's background work after the load.
    pub phase: String,
    pub threads: usize,
    pub ops_per_s: f64,
    /// Latencies of operations, from the intended start to the end.
    #[serde(flatten)]
    pub latency: LatencyPercentiles,
    /// CPU time per operation in microseconds, over all threads of the process.
    pub cpu_us_per_op: f64,
    /// Number of bytes written to the device.
    pub device_write_bytes: u64,
    /// Number of bytes read from the device.
    pub device_read_bytes: u64,
    pub device_reads: u64,
    /// Total size in bytes of the keys and values written and read.
    pub user_bytes: u64,
    /// Total size in bytes of the keys and values written.
    pub user_written_bytes: u64,
    /// Bytes written to the device per byte written by the user. In `settle`, both include the
    /// load.
    pub write_amplification: Option<f64>,
    /// Bytes read from the device per byte read by the user.
    pub read_amplification: Option<f64>,
    /// Bytes on the device per byte of the records.
    pub space_amplification: Option<f64>,
    /// Maximum resident size of the process in bytes.
    pub rss_peak_bytes: u64,
    pub memory: MemoryCounters,
    /// The device counters of all sources.
    pub device: TrafficCounters,
    /// Number of the repetition, counted from 1, or the number of repetitions in a row of medians.
    pub repetition: usize,
    /// Difference between the fastest and the slowest repetition, relative to the median. Only in
    /// rows of medians.
    pub spread: Option<f64>,
    /// Number of measured operations, without the warm-up.
    pub operations: u64,
    /// Duration of the measurement in seconds, without the warm-up.
    pub seconds: f64,
    /// Scheduled number of operations per second, if there is a rate.
    pub target_per_s: Option<f64>,
    /// Number of records in the engine at the end of the phase.
    pub records: u64,
    /// Number of operations completed in each interval.
    pub series: Vec<u64>,
    /// Length of an interval in milliseconds.
    pub interval_ms: u64,
    /// In a continuous job, the seconds from the start of its first phase to the start of this one.
    #[serde(default)]
    pub began_s: Option<f64>,
    /// In a continuous job, the dips in throughput.
    #[serde(default)]
    pub dips: Option<ThroughputDips>,
    /// In transaction benchmarks, the number of attempts per commit that ended in a conflict.
    #[serde(default)]
    pub aborts_per_op: Option<f64>,
    /// In transaction benchmarks, the number of cache flushes of the block device per commit,
    /// including those of the device's other users.
    #[serde(default)]
    pub flushes_per_op: Option<f64>,
    /// The engine's own human-readable report, which may be empty.
    pub remarks: String,
}

impl ResultRow {
    /// Returns the numbers of operations in all complete intervals. An incomplete last interval
    /// would look like a dip.
    #[must_use]
    pub fn filled(&self) -> &[u64] {
        let interval_s = self.interval_ms.max(1) as f64 / 1e3;
        match (self.seconds / interval_s + 1e-6) as usize {
            0 => &self.series,
            whole => &self.series[..whole.min(self.series.len())],
        }
    }

    /// Returns the number of device reads per operation.
    #[must_use]
    pub fn reads_per_op(&self) -> f64 {
        self.device_reads as f64 / self.operations.max(1) as f64
    }
}
