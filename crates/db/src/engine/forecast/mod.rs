//! What the store should cost, by the models of structures, beside what it does cost.
//!
//! *Knows*: how what was seen of a keyspace becomes a question to a model, what is measured of each
//! answer, and how long both are kept.
//!
//! *Does not know*: how costs come about (`alluvium_model`), who asks, how it is shown.
//!
//! *Read in this order*: `question.rs` (what is asked), `truth.rs` (what is measured), `history.rs`
//! (earlier hours), this file (both side by side).
//!
//! A prediction is pure arithmetic. So what is kept of an hour is the question as it stood when the
//! hour began, and what had been counted by then. The answer is computed when a caller wants it.
//!
//! Invariants:
//!
//! - **N10** A prediction of an hour rests on nothing that was seen after the hour had begun.
//! - **N11** What is kept is that of 48 hours at most.

mod history;
mod question;
mod truth;

pub(crate) use history::Forecasts;
pub(crate) use question::Question;

use super::{Engine, Tally};
use alluvium_model::structures::Cost;
use truth::Truth;

/// What is predicted and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Quantity {
    /// Bytes written to the device for each byte of users' writes. The log is included as far
    /// as it is synced: the system may drop the rest before it writes it, and nothing is counted.
    WriteAmplification,
    /// Nodes read from the device for a lookup that finds a value.
    HitReads,
    /// The same for one that finds none.
    MissReads,
    /// Bytes of maplets and index nodes for each key: what lookups need in memory to find their
    /// leaf without a read.
    MemoryPerKey,
    /// Bytes of extents in use for each byte of live keys and values.
    SpaceAmplification,
    /// Processor time of the whole process for an operation, in nanoseconds. The prediction is of
    /// the store alone.
    ProcessorTime,
}

impl Quantity {
    /// All of them, in the order in which they are told.
    pub const ALL: [Quantity; 6] = [
        Quantity::WriteAmplification,
        Quantity::HitReads,
        Quantity::MissReads,
        Quantity::MemoryPerKey,
        Quantity::SpaceAmplification,
        Quantity::ProcessorTime,
    ];

    /// Returns its name in lists of figures and in answers for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Quantity::WriteAmplification => "write_amplification",
            Quantity::HitReads => "reads_hit",
            Quantity::MissReads => "reads_miss",
            Quantity::MemoryPerKey => "memory_bytes_per_key",
            Quantity::SpaceAmplification => "space_amplification",
            Quantity::ProcessorTime => "processor_ns",
        }
    }

    /// Returns p10, the prediction and p90 from a model's answer.
    fn of(self, cost: &Cost) -> [f64; 3] {
        let band = match self {
            Quantity::WriteAmplification => &cost.write_amplification,
            Quantity::HitReads => &cost.hit_reads,
            Quantity::MissReads => &cost.miss_reads,
            Quantity::MemoryPerKey => &cost.memory_per_key_band,
            Quantity::SpaceAmplification => &cost.space_amplification,
            Quantity::ProcessorTime => &cost.processor_ns,
        };
        [band.p10, band.middle, band.p90]
    }
}

/// Numbers this near to a band are within it: the band of no reads at all has no width.
const CLOSE: f64 = 0.02;

/// A prediction, and what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Of what.
    pub what: Quantity,
    /// One store in ten like this one has less.
    pub p10: f64,
    /// What the model says.
    pub predicted: f64,
    /// One in ten has more.
    pub p90: f64,
    /// What was measured; none where too little happened for a measurement.
    pub measured: Option<f64>,
}

impl Comparison {
    /// Returns whether what was measured lies within the band; none where nothing was.
    #[must_use]
    pub fn holds(&self) -> Option<bool> {
        let slack = CLOSE * self.predicted.abs().max(1.0);
        let band = self.p10 - slack..=self.p90 + slack;
        self.measured.map(|measured| band.contains(&measured))
    }
}

/// One hour of the past: what had been predicted before it began, and what it was.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PastHour {
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// When it ended.
    pub ended_ms: u64,
    /// Each quantity of which something was measured.
    pub was: Vec<Comparison>,
}

/// What a store should cost, beside what it does cost. The prediction is for the keyspace with the
/// most requests; writes, processor time and lookups are measured of the whole store.
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
    /// The keyspace.
    pub keyspace: String,
    /// The structure and the settings that were asked about, as `advise` names them.
    pub structure: String,
    /// How many keys it has, about.
    pub keys: f64,
    /// How skewed its requests were: the exponent of Zipf's law.
    pub skew: f64,
    /// Each quantity, since the store was opened; of write amplification, the newer half of all
    /// that was written since then.
    pub now: Vec<Comparison>,
    /// Hours that have ended since then, oldest first. The last 48 are kept, in memory only.
    pub past: Vec<PastHour>,
}

impl Forecast {
    /// Returns a quantity as it is now.
    #[must_use]
    pub fn of(&self, what: Quantity) -> Option<&Comparison> {
        self.now.iter().find(|row| row.what == what)
    }
}

/// Returns predictions with what was measured between two moments.
fn compared(cost: &Cost, before: &Truth, after: &Truth) -> Vec<Comparison> {
    let rows = Quantity::ALL.into_iter().map(|what| {
        let [p10, predicted, p90] = what.of(cost);
        Comparison {
            what,
            p10,
            predicted,
            p90,
            measured: after.since(before, what),
        }
    });
    rows.collect()
}

impl Engine {
    /// Returns what the store should cost beside what it does; none before a request was seen, and
    /// for a structure without a model.
    pub(crate) fn forecast(&self) -> crate::Result<Option<Forecast>> {
        self.is_open()?;
        self.note_hour();
        let Some((keyspace, question)) = self.question()? else {
            return Ok(None);
        };
        // Before the model computes: its time is none of the operations'.
        let truth = self.truth(Some(&question));
        let Some(cost) = question.cost() else {
            return Ok(None);
        };
        let mut before = self.forecasts.opened();
        let half = self.forecasts.half(truth.user_bytes);
        (before.user_bytes, before.device_bytes) = (half.user_bytes, half.device_bytes);
        let now = compared(&cost, &before, &truth);
        let past = self.forecasts.past();
        Ok(Some(Forecast {
            keyspace,
            structure: cost.name,
            keys: question.workload.keys,
            skew: question.workload.skew,
            now,
            past,
        }))
    }

    /// Keeps the question and what was counted when an hour has ended, and what was written
    /// whenever that has doubled. It costs two comparisons otherwise.
    pub(crate) fn note_hour(&self) {
        let now_ms = self.time.peek();
        if self.memory_budget() == 0 {
            return;
        }
        let written = self.tallies.of(Tally::WrittenBytes);
        self.forecasts.mark(written, || self.mark());
        if !self.forecasts.is_due(now_ms) {
            return;
        }
        // A hint: an hour of which the question cannot be put has no prediction.
        let question = self.question().ok().flatten().map(|(_, question)| question);
        let truth = self.truth(question.as_ref());
        self.forecasts.note(now_ms, truth, question);
    }
}
