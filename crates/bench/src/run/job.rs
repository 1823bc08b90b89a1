//! The job that the runner sends to a child, and the child's events: one JSON value per line.

use crate::account::device::TrafficCounters;
use crate::account::dips::ThroughputDips;
use crate::account::latency::LatencyPercentiles;
use crate::account::memory::MemoryCounters;
use crate::engine::{EngineOption, WriteLogging};
use crate::workload::keys::{KEY_BYTES, KeyOrdering};
use crate::workload::phase::WorkloadPhase;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// All work of an engine in one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EngineJob {
    pub engine: String,
    /// Number of the repetition, from 1.
    pub repetition: usize,
    /// Directory for the engine's files.
    pub directory: PathBuf,
    pub records: u64,
    /// How keys are assigned to records.
    pub keys: KeyOrdering,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    pub threads: usize,
    pub phases: Vec<WorkloadPhase>,
    /// How phases follow each other.
    pub flow: PhaseFlow,
    /// Whether the records are already loaded.
    pub is_loaded: bool,
    /// Seed of all random choices.
    pub seed: u64,
    pub log: WriteLogging,
    /// Memory limit of the process, in bytes.
    pub cap: u64,
    /// Memory size configured for the engine, if one was chosen.
    pub memory: Option<u64>,
    /// Options of engines; those of other engines are ignored.
    pub options: Vec<EngineOption>,
    /// Maximum time for background work after the load, in milliseconds.
    pub settle_ms: u64,
    /// One in this number of reads is verified; at least 1.
    pub verify_every: u64,
    /// Interval of the throughput series, in milliseconds.
    pub interval_ms: u64,
    /// Control groups of the process.
    pub groups: GroupPaths,
}

/// How phases follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseFlow {
    /// Phases warm up before they are measured, and an engine becomes idle after a load.
    #[default]
    Separate,
    /// A phase begins when the previous one ends, and is measured from its first operation on.
    Continuous,
}

/// The control groups of a process, if available.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GroupPaths {
    /// Group of the memory controller.
    pub memory: Option<PathBuf>,
    /// Group of the block controller.
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

    /// Returns the size of a record in bytes.
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        (KEY_BYTES + self.value_bytes) as u64
    }
}

/// An event reported by a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildEvent {
    Opened {
        /// Names and values, as the engine reports them.
        settings: Vec<(String, String)>,
    },
    Progress {
        /// The phase, and its part.
        phase: String,
        /// Operations completed in this part.
        operations: u64,
        /// Total number of operations, if known.
        of: Option<u64>,
        /// Seconds since the start of the part.
        seconds: f64,
    },
    /// A phase has ended, with these costs.
    Measured(Box<ResultRow>),
    Failed {
        why: String,
    },
    Closed {
        /// Duration of closing in seconds.
        seconds: f64,
    },
}

/// The costs of one phase of one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    pub engine: String,
    /// Text of the phase; `settle` is the engine's background work after the load.
    pub phase: String,
    pub threads: usize,
    pub ops_per_s: f64,
    /// Latencies, from the intended start of an operation to its end.
    #[serde(flatten)]
    pub latency: LatencyPercentiles,
    /// CPU time per operation in microseconds, of all threads of the process.
    pub cpu_us_per_op: f64,
    /// Bytes written to the device.
    pub device_write_bytes: u64,
    /// Bytes read from the device.
    pub device_read_bytes: u64,
    pub device_reads: u64,
    /// Bytes of keys and values written and read.
    pub user_bytes: u64,
    /// Bytes of keys and values written.
    pub user_written_bytes: u64,
    /// Bytes written to the device per byte written by the user; for `settle` this includes the
    /// load.
    pub write_amplification: Option<f64>,
    /// Bytes read from the device per byte read by the user.
    pub read_amplification: Option<f64>,
    /// Bytes on the device per byte of the records.
    pub space_amplification: Option<f64>,
    /// Peak resident size in bytes.
    pub rss_peak_bytes: u64,
    pub memory: MemoryCounters,
    /// Device counters of each source.
    pub device: TrafficCounters,
    /// Number of the repetition, from 1; for a median, the number of repetitions.
    pub repetition: usize,
    /// Difference between the fastest and the slowest repetition relative to the median; only for
    /// medians.
    pub spread: Option<f64>,
    /// Number of measured operations, without the warm-up.
    pub operations: u64,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// Scheduled operations per second, if a rate was chosen.
    pub target_per_s: Option<f64>,
    /// Number of records at the end.
    pub records: u64,
    /// Number of operations that ended in each interval.
    pub series: Vec<u64>,
    /// Length of an interval in milliseconds.
    pub interval_ms: u64,
    /// In a continuous job, seconds between the start of its first phase and the start of this one.
    #[serde(default)]
    pub began_s: Option<f64>,
    /// In a continuous job, the dips of the throughput.
    #[serde(default)]
    pub dips: Option<ThroughputDips>,
    /// For transactions, attempts with a conflict per commit.
    #[serde(default)]
    pub aborts_per_op: Option<f64>,
    /// For transactions, cache flushes of the block device per commit, including those of other
    /// users of the device.
    #[serde(default)]
    pub flushes_per_op: Option<f64>,
    /// The engine's own report, for people; may be empty.
    pub remarks: String,
}

impl ResultRow {
    /// Returns the operations of all complete intervals: the last interval may be partial, which is
    /// not a dip.
    #[must_use]
    pub fn filled(&self) -> &[u64] {
        let interval_s = self.interval_ms.max(1) as f64 / 1e3;
        match (self.seconds / interval_s + 1e-6) as usize {
            0 => &self.series,
            whole => &self.series[..whole.min(self.series.len())],
        }
    }

    /// Returns the device reads per operation.
    #[must_use]
    pub fn reads_per_op(&self) -> f64 {
        self.device_reads as f64 / self.operations.max(1) as f64
    }
}
