//! The job that the runner sends to a child process, and the events that the child sends back. Each
//! is one JSON value on a separate line.

use crate::account::device::TrafficCounters;
use crate::account::dips::ThroughputDips;
use crate::account::latency::LatencyPercentiles;
use crate::account::memory::MemoryCounters;
use crate::engine::{EngineOption, WriteLogging};
use crate::workload::keys::{KEY_BYTES, KeyOrdering};
use crate::workload::phase::WorkloadPhase;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The complete work of one process with one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EngineJob {
    pub engine: String,
    /// Number of the repetition, counted from 1.
    pub repetition: usize,
    /// The directory for the files of the engine.
    pub directory: PathBuf,
    pub records: u64,
    /// How the keys of records are determined.
    pub keys: KeyOrdering,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    pub threads: usize,
    pub phases: Vec<WorkloadPhase>,
    /// Whether phases are separate or continuous.
    pub flow: PhaseFlow,
    /// Whether the directory already contains the loaded records.
    pub is_loaded: bool,
    /// Seed from which all random choices are derived.
    pub seed: u64,
    pub log: WriteLogging,
    /// Memory limit of the process in bytes.
    pub cap: u64,
    /// Memory size in bytes that the engine is configured to use, if the user has specified one.
    pub memory: Option<u64>,
    /// Options of engines. Those of other engines are ignored.
    pub options: Vec<EngineOption>,
    /// Maximum time in milliseconds for which background work may continue after the load.
    pub settle_ms: u64,
    /// One in this number of reads is verified. The minimum is 1.
    pub verify_every: u64,
    /// Length in milliseconds of the intervals for which throughput is recorded.
    pub interval_ms: u64,
    /// The control groups to which the process belongs.
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

/// The paths of the control groups of a process, if control groups are available.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GroupPaths {
    /// Path of the group of the memory controller.
    pub memory: Option<PathBuf>,
    /// Path of the group of the block controller.
    pub blkio: Option<PathBuf>,
}

impl EngineJob {
    /// Returns a small job that has no phases, for tests.
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

/// An event that a child process reports to the runner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildEvent {
    Opened {
        /// The names and values of settings that the engine reports.
        settings: Vec<(String, String)>,
    },
    Progress {
        /// The name of the current phase, and its part.
        phase: String,
        /// Number of operations completed so far in this part of the phase.
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
        /// Time in seconds that closing the engine has taken.
        seconds: f64,
    },
}

/// The costs of one phase of one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    pub engine: String,
    /// The textual form of the phase. It is `settle` for the background work of the engine after
    /// the load.
    pub phase: String,
    pub threads: usize,
    pub ops_per_s: f64,
    /// The latencies of operations, each measured from the intended start until the end.
    #[serde(flatten)]
    pub latency: LatencyPercentiles,
    /// CPU time per operation in microseconds. It includes all threads of the process.
    pub cpu_us_per_op: f64,
    /// Number of bytes written to the device.
    pub device_write_bytes: u64,
    /// Number of bytes read from the device.
    pub device_read_bytes: u64,
    pub device_reads: u64,
    /// Total size in bytes of the keys and values that were written and read.
    pub user_bytes: u64,
    /// Total size in bytes of the keys and values that were written.
    pub user_written_bytes: u64,
    /// Bytes written to the device per byte written by the user. For `settle`, the bytes of the
    /// load are included.
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
    /// Number of the repetition, counted from 1. In a row of medians, it is the number of
    /// repetitions.
    pub repetition: usize,
    /// Difference between the fastest and the slowest repetition, relative to the median. Present
    /// only in a row of medians.
    pub spread: Option<f64>,
    /// Number of measured operations, without those of the warm-up.
    pub operations: u64,
    /// Duration of the measurement in seconds, without the warm-up.
    pub seconds: f64,
    /// Scheduled number of operations per second, if a rate was chosen.
    pub target_per_s: Option<f64>,
    /// Number of records in the engine at the end of the phase.
    pub records: u64,
    /// Number of operations that were completed in each interval.
    pub series: Vec<u64>,
    /// Length of an interval in milliseconds.
    pub interval_ms: u64,
    /// If the job is continuous, time in seconds from the start of its first phase to the start of
    /// this one.
    #[serde(default)]
    pub began_s: Option<f64>,
    /// If the job is continuous, the dips in the throughput.
    #[serde(default)]
    pub dips: Option<ThroughputDips>,
    /// In transaction benchmarks, the number of attempts per commit that ended with a conflict.
    #[serde(default)]
    pub aborts_per_op: Option<f64>,
    /// In transaction benchmarks, the number of cache flushes of the block device per commit. It
    /// includes flushes by other users of the device.
    #[serde(default)]
    pub flushes_per_op: Option<f64>,
    /// The engine's own report for people, which can be empty.
    pub remarks: String,
}

impl ResultRow {
    /// Returns the numbers of operations in all complete intervals. The last interval may be
    /// incomplete, and would falsely look like a dip.
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
