//! Predicted costs of the store, according to the models of its structures, compared with measured
//! costs.
//!
//! *Scope*: how the observed workload of a keyspace becomes a question to a model, how each
//! predicted quantity is measured, and how long both are kept.
//!
//! *Must not depend on*: how costs are computed (`alluvium_model`), who asks, how it is displayed.
//!
//! `engine/model_query.rs` passes in what the engine counts.
//!
//! A prediction is a pure function of its inputs. For each hour, the store therefore keeps only the
//! inputs and the counters at its beginning. Predictions are computed on request.
//!
//! Invariants:
//!
//! - **N10** The prediction for an hour uses only observations from before the hour.
//! - **N11** At most 48 hours are kept.

mod history;
pub(crate) mod measurement;
pub(crate) mod question;

pub(crate) use history::{ForecastHistory, WriteMark};
pub(crate) use question::ModelQuery;

use alluvium_model::structures::StructureCost;
use measurement::ForecastSample;

/// A quantity that is predicted and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CostQuantity {
    /// Bytes written to the device per byte written by users. Only the synced part of the log is
    /// counted: the system may drop the rest before it is written.
    WriteAmplification,
    /// Nodes read from the device per lookup that finds a value.
    HitReads,
    /// Nodes read from the device per lookup that finds none.
    MissReads,
    /// Bytes of maplets and index nodes per key: the memory that lookups need to find a leaf
    /// without a device read.
    MemoryPerKey,
    /// Bytes of extents in use per byte of live keys and values.
    SpaceAmplification,
    /// Processor time per operation, in nanoseconds. The measurement includes the whole process,
    /// the prediction only the store.
    ProcessorTime,
}

impl CostQuantity {
    /// All quantities, in the order of output.
    pub const ALL: [CostQuantity; 6] = [
        CostQuantity::WriteAmplification,
        CostQuantity::HitReads,
        CostQuantity::MissReads,
        CostQuantity::MemoryPerKey,
        CostQuantity::SpaceAmplification,
        CostQuantity::ProcessorTime,
    ];

    /// Returns the name for machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CostQuantity::WriteAmplification => "write_amplification",
            CostQuantity::HitReads => "reads_hit",
            CostQuantity::MissReads => "reads_miss",
            CostQuantity::MemoryPerKey => "memory_bytes_per_key",
            CostQuantity::SpaceAmplification => "space_amplification",
            CostQuantity::ProcessorTime => "processor_ns",
        }
    }

    /// Returns the 10th percentile, the prediction and the 90th percentile from a model's answer.
    fn of(self, cost: &StructureCost) -> [f64; 3] {
        let band = match self {
            CostQuantity::WriteAmplification => &cost.write_amplification,
            CostQuantity::HitReads => &cost.hit_reads,
            CostQuantity::MissReads => &cost.miss_reads,
            CostQuantity::MemoryPerKey => &cost.memory_per_key_band,
            CostQuantity::SpaceAmplification => &cost.space_amplification,
            CostQuantity::ProcessorTime => &cost.processor_ns,
        };
        [band.p10, band.middle, band.p90]
    }
}

/// Tolerance around a band: the band of zero reads has no width.
const CLOSE: f64 = 0.02;

/// A prediction and the corresponding measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CostComparison {
    /// The predicted and measured quantity, which determines the unit.
    pub what: CostQuantity,
    /// 10th percentile of the quantity, over stores like this one.
    pub p10: f64,
    /// The middle of the model's prediction.
    pub predicted: f64,
    /// 90th percentile of the quantity, over stores like this one.
    pub p90: f64,
    /// The measurement. `None` if there were too few operations.
    pub measured: Option<f64>,
}

impl CostComparison {
    /// Returns whether the measurement is within the band. Returns `None` without a measurement.
    #[must_use]
    pub fn holds(&self) -> Option<bool> {
        let slack = CLOSE * self.predicted.abs().max(1.0);
        let band = self.p10 - slack..=self.p90 + slack;
        self.measured.map(|measured| band.contains(&measured))
    }
}

/// A past hour: predictions made before it began, and measurements.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PastHour {
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// The quantities that were measured.
    pub was: Vec<CostComparison>,
}

/// Predicted and measured costs of a store. The prediction is for the keyspace with the most
/// requests; writes, processor time and lookups are measured for the whole store.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// let rivers = db.keyspace("rivers")?;
/// assert!(db.forecast()?.is_none(), "nothing was asked yet");
/// for river in 0..10_000u32 {
///     rivers.put(river.to_be_bytes(), [7; 100])?;
/// }
/// let forecast = db.forecast()?.expect("a sample of the writes was seen");
/// assert_eq!(forecast.keyspace, "rivers");
/// for row in &forecast.now {
///     println!("{}: {} predicted, {:?} measured", row.what.name(), row.predicted, row.measured);
/// }
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forecast {
    /// Name of the keyspace with the most requests.
    pub keyspace: String,
    /// The modelled structure and its settings, in the notation of `advise`.
    pub structure: String,
    /// Estimated number of keys in the keyspace.
    pub keys: f64,
    /// Skew of its requests: the exponent of Zipf's law.
    pub skew: f64,
    /// All quantities since the store was opened. Write amplification is measured over the newer
    /// half of the bytes written since then.
    pub now: Vec<CostComparison>,
    /// Past hours since opening, oldest first. At most 48 are kept, in memory only.
    pub past: Vec<PastHour>,
}

impl Forecast {
    /// Returns the current comparison of a quantity.
    #[must_use]
    pub fn of(&self, what: CostQuantity) -> Option<&CostComparison> {
        self.now.iter().find(|row| row.what == what)
    }
}

/// Compares predictions with the measurements between two moments.
pub(crate) fn compared(
    cost: &StructureCost,
    before: &ForecastSample,
    after: &ForecastSample,
) -> Vec<CostComparison> {
    let rows = CostQuantity::ALL.into_iter().map(|what| {
        let [p10, predicted, p90] = what.of(cost);
        CostComparison {
            what,
            p10,
            predicted,
            p90,
            measured: after.since(before, what),
        }
    });
    rows.collect()
}
