//! The store's costs as predicted by the models of its structures, compared with measured costs.
//!
//! *Scope*: how the observed workload of a keyspace is converted to model inputs, how each
//! predicted quantity is measured, and how long predictions and measurements are kept.
//!
//! *Must not depend on*: how costs are computed (`alluvium_model`), who asks, how it is displayed.
//!
//! `engine/model_query.rs` supplies the counters of the engine.
//!
//! A prediction is a pure function of the model inputs. The store therefore keeps only the inputs
//! and counters at the start of each hour, and computes predictions on request.
//!
//! Invariants:
//!
//! - **N10** The prediction for an hour uses only observations made before that hour.
//! - **N11** At most 48 hours are kept.

mod history;
pub(crate) mod measurement;
pub(crate) mod question;

pub(crate) use history::{ForecastHistory, WriteMark};
pub(crate) use question::ModelQuery;

use alluvium_model::structures::StructureCost;
use measurement::ForecastSample;

/// A quantity that is both predicted and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CostQuantity {
    /// Bytes written to the device per byte written by users. Only the synced part of the log
    /// counts, because the operating system may never write the rest to the device.
    WriteAmplification,
    /// Nodes read from the device per lookup that finds a value.
    HitReads,
    /// Nodes read from the device per lookup that finds no value.
    MissReads,
    /// Bytes of maplets and index nodes per key. With this much memory, a lookup finds the leaf of
    /// a key without reading other nodes from the device.
    MemoryPerKey,
    /// Bytes of extents in use per byte of live keys and values.
    SpaceAmplification,
    /// Processor time per operation, in nanoseconds. The measurement covers the whole process, the
    /// prediction only the store.
    ProcessorTime,
}

impl CostQuantity {
    /// All quantities, in display order.
    pub const ALL: [CostQuantity; 6] = [
        CostQuantity::WriteAmplification,
        CostQuantity::HitReads,
        CostQuantity::MissReads,
        CostQuantity::MemoryPerKey,
        CostQuantity::SpaceAmplification,
        CostQuantity::ProcessorTime,
    ];

    /// Returns the name of the quantity in machine-readable output.
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

    /// Extracts the 10th percentile, prediction and 90th percentile of this quantity from a model's
    /// result.
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

/// Tolerance around the predicted range. Without it, a prediction of zero reads would leave a range
/// of width zero.
const CLOSE: f64 = 0.02;

/// A predicted quantity and its measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CostComparison {
    /// The quantity that was predicted and measured. It determines the unit of the values.
    pub what: CostQuantity,
    /// 10th percentile of the prediction, over stores like this one.
    pub p10: f64,
    /// The predicted value, between the two percentiles.
    pub predicted: f64,
    /// 90th percentile of the prediction, over stores like this one.
    pub p90: f64,
    /// The measured value, or `None` if there were too few operations to measure it.
    pub measured: Option<f64>,
}

impl CostComparison {
    /// Returns whether the measured value is between the two percentiles, within a small tolerance.
    /// Returns `None` if nothing was measured.
    #[must_use]
    pub fn holds(&self) -> Option<bool> {
        let slack = CLOSE * self.predicted.abs().max(1.0);
        let band = self.p10 - slack..=self.p90 + slack;
        self.measured.map(|measured| band.contains(&measured))
    }
}

/// A past hour, with the predictions made before it began and the values measured during it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PastHour {
    /// Start of the hour, in milliseconds since 1970.
    pub began_ms: u64,
    /// End of the hour, in milliseconds since 1970.
    pub ended_ms: u64,
    /// The quantities that were measured in the hour.
    pub was: Vec<CostComparison>,
}

/// Predicted and measured costs of a store. The prediction is for the most requested keyspace.
/// Write amplification, processor time and reads per lookup are measured for the whole store.
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
    /// Name of the most requested keyspace, for which the costs are predicted.
    pub keyspace: String,
    /// The structure and settings of the modelled keyspace, in the notation of `advise`.
    pub structure: String,
    /// Estimated number of keys in the keyspace.
    pub keys: f64,
    /// Skew of the requests to the keyspace: the exponent of a Zipf distribution.
    pub skew: f64,
    /// All quantities since the store was opened, except that write amplification is measured over
    /// the later half of the bytes that users have written since then.
    pub now: Vec<CostComparison>,
    /// Hours since the store was opened, oldest first. At most 48 are kept, and only in memory.
    pub past: Vec<PastHour>,
}

impl Forecast {
    /// Returns the comparison of this quantity since the store was opened, if there is one.
    #[must_use]
    pub fn of(&self, what: CostQuantity) -> Option<&CostComparison> {
        self.now.iter().find(|row| row.what == what)
    }
}

/// Compares the predicted cost with values measured between two points in time.
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
