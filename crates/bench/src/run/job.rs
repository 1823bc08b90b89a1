//! What the runner tells its child, and what the child answers: one JSON value a line.

use crate::account::device::Counted;
use crate::account::dips::Dips;
use crate::account::latency::Percentiles;
use crate::account::memory::Memory;
use crate::engine::{EngineOption, Log};
use crate::workload::keys::{KEY_BYTES, Keys};
use crate::workload::phase::Phase;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything that an engine is to do in one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The engine.
    pub engine: String,
    /// Which repetition this is, from 1 on.
    pub repetition: usize,
    /// Where its files are to be.
    pub directory: PathBuf,
    /// How many records are loaded.
    pub records: u64,
    /// Which keys they have.
    pub keys: Keys,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How many threads work.
    pub threads: usize,
    /// What they do.
    pub phases: Vec<Phase>,
    /// What lies between two phases.
    pub flow: Flow,
    /// Whether the records are there already.
    pub is_loaded: bool,
    /// What everything follows from.
    pub seed: u64,
    /// Whether writes are logged.
    pub log: Log,
    /// What the process may use of memory, in bytes.
    pub cap: u64,
    /// What the engine is told to use, if a size was chosen.
    pub memory: Option<u64>,
    /// Options of engines; those of other engines are ignored.
    pub options: Vec<EngineOption>,
    /// How long the engine may go on by itself after the load, in milliseconds.
    pub settle_ms: u64,
    /// Every how many reads one is proven; at least 1.
    pub verify_every: u64,
    /// The length of an interval of the throughput over time, in milliseconds.
    pub interval_ms: u64,
    /// The control groups of the process.
    pub groups: Groups,
}

/// What lies between two phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    /// A phase warms up before it is measured, and an engine rests after a load.
    #[default]
    Separate,
    /// Nothing: a phase begins when the one before it ends, and is measured from its first
    /// operation on.
    Continuous,
}

/// Control groups, where there are any.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Groups {
    /// Of the memory controller.
    pub memory: Option<PathBuf>,
    /// Of the block controller.
    pub blkio: Option<PathBuf>,
}

impl Job {
    /// Returns a small one without phases, for tests.
    #[cfg(test)]
    pub(crate) fn tiny() -> Job {
        Job {
            engine: "none".into(),
            repetition: 1,
            directory: PathBuf::new(),
            records: 10_000,
            keys: Keys::default(),
            value_bytes: 100,
            threads: 1,
            phases: Vec::new(),
            flow: Flow::Separate,
            is_loaded: false,
            seed: 1,
            log: Log::On,
            cap: 64 << 20,
            memory: None,
            options: Vec::new(),
            settle_ms: 0,
            verify_every: 1,
            interval_ms: 100,
            groups: Groups::default(),
        }
    }

    /// Returns the bytes of a record.
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        (KEY_BYTES + self.value_bytes) as u64
    }
}

/// What a child says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The engine is open.
    Opened {
        /// Its settings.
        settings: Vec<(String, String)>,
    },
    /// Something is under way.
    Progress {
        /// The phase, and what of it.
        phase: String,
        /// Operations that are done.
        operations: u64,
        /// How many there will be, where that is known.
        of: Option<u64>,
        /// Seconds since it began.
        seconds: f64,
    },
    /// A phase is over.
    Measured(Box<Row>),
    /// It failed, and why.
    Failed {
        /// Why.
        why: String,
    },
    /// The engine is closed.
    Closed {
        /// How long that took.
        seconds: f64,
    },
}

/// What one phase of one engine cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The engine.
    pub engine: String,
    /// The phase as it was typed; `settle` is what an engine does by itself after the load.
    pub phase: String,
    /// How many threads worked.
    pub threads: usize,
    /// Operations a second.
    pub ops_per_s: f64,
    /// Latencies: from when an operation was meant to begin until it was done.
    #[serde(flatten)]
    pub latency: Percentiles,
    /// Microseconds of processor time for each operation, all threads of the process.
    pub cpu_us_per_op: f64,
    /// Bytes that the device was made to write.
    pub device_write_bytes: u64,
    /// Bytes that the device was made to read.
    pub device_read_bytes: u64,
    /// Requests of the device that read.
    pub device_reads: u64,
    /// Bytes of keys and values that were written and read.
    pub user_bytes: u64,
    /// Those that were written.
    pub user_written_bytes: u64,
    /// Bytes written to the device for each that the user wrote; that of `settle` counts the load
    /// as well.
    pub write_amplification: Option<f64>,
    /// Bytes read from the device for each that the user read.
    pub read_amplification: Option<f64>,
    /// Bytes on the device for each of the records'.
    pub space_amplification: Option<f64>,
    /// The most resident memory.
    pub rss_peak_bytes: u64,
    /// More about memory.
    pub memory: Memory,
    /// What each observer of the device has counted.
    pub device: Counted,
    /// Which repetition this is, from 1 on; of a median, how many there were.
    pub repetition: usize,
    /// How far the fastest repetition is from the slowest, as a part of the median; of a median
    /// only.
    pub spread: Option<f64>,
    /// How many operations were measured.
    pub operations: u64,
    /// For how long.
    pub seconds: f64,
    /// The operations a second that were meant to begin, if a rate was chosen.
    pub target_per_s: Option<f64>,
    /// How many records there were at the end.
    pub records: u64,
    /// Operations in each interval.
    pub series: Vec<u64>,
    /// The length of an interval.
    pub interval_ms: u64,
    /// In a continuous job, seconds from the beginning of its first phase to that of this one.
    #[serde(default)]
    pub began_s: Option<f64>,
    /// In a continuous job, how far the throughput fell.
    #[serde(default)]
    pub dips: Option<Dips>,
    /// Of transactions, runs that met a conflict for each that was committed.
    #[serde(default)]
    pub aborts_per_op: Option<f64>,
    /// Of transactions, how often the block device was told to write out its cache for each that
    /// was committed; whatever else uses the device counts as well.
    #[serde(default)]
    pub flushes_per_op: Option<f64>,
    /// What the engine said of itself.
    pub remarks: String,
}

impl Row {
    /// Returns the operations in each interval that the phase filled: the last one may have ended
    /// early, which is no dip.
    #[must_use]
    pub fn filled(&self) -> &[u64] {
        let interval_s = self.interval_ms.max(1) as f64 / 1e3;
        match (self.seconds / interval_s + 1e-6) as usize {
            0 => &self.series,
            whole => &self.series[..whole.min(self.series.len())],
        }
    }

    /// Reads of the device for each operation.
    #[must_use]
    pub fn reads_per_op(&self) -> f64 {
        self.device_reads as f64 / self.operations.max(1) as f64
    }
}
