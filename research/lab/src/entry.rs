//! The parts of a register entry: the claim, its source, the published figures, and the way ours
//! are measured.
//!
//! An `Experiment` has two halves. The facts from its document are data, in `register/`. The code
//! that measures our figures is a `MeasurementProcedure`, in the document's module. `register.rs`
//! joins them.

use super::measurements::{FigureSeries, MeasurementSet};
use super::plan::{ExperimentScale, ExperimentStep, StepTemplate};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// One experiment of a source document.
#[derive(Debug)]
pub struct Experiment {
    /// The document and the experiment's name in it, as in `seed-0/S1`.
    pub id: &'static str,
    /// A short title for tables.
    pub title: &'static str,
    /// The claim that the experiment demonstrates, in one sentence.
    pub shows: &'static str,
    /// The section of the document, as in `§3.7.2`.
    pub section: &'static str,
    /// The figure, table or theorem.
    pub figure: &'static str,
    /// The hardware, data set and memory size that the document used.
    pub setting: &'static str,
    /// Differences in kind between our measurement and the document's.
    pub differs: &'static [&'static str],
    /// The figures that the experiment measures.
    pub measures: &'static [ExperimentMeasure],
    /// The method that produces our figures.
    pub work: ExperimentMethod,
}

/// The code that measures an experiment and turns the measurements into figures.
#[derive(Debug)]
pub(crate) struct MeasurementProcedure {
    /// The id of the experiment.
    pub(crate) id: &'static str,
    /// For each measure, by name, the function that computes our values.
    pub(crate) ours: &'static [(&'static str, FigureComputation)],
    /// The method that produces the measurements.
    pub(crate) work: ExperimentMethod,
}

/// Computes our values from the measurements.
pub type FigureComputation = fn(&MeasurementSet) -> Vec<FigureSeries>;

/// The method that produces our figures.
#[derive(Clone, Copy, Debug)]
pub enum ExperimentMethod {
    /// Engines run workloads, each engine in a separate process.
    Engines(EngineWorkload),
    /// A count or a computation in this process; no store is involved.
    Here {
        /// Number of keys at the quick size.
        quick: u64,
        /// Number of keys at the full size.
        full: u64,
        /// Maximum number of keys.
        most: u64,
        /// Performs the count or computation for the given number of keys.
        measure: fn(u64) -> Result<MeasurementSet>,
    },
    /// A study of third-party systems, in a separate process of `alluvium-rivals`.
    Study(RivalStudy),
    /// The experiment cannot be measured until the named structure is built.
    Waits(&'static str),
}

/// A study of third-party systems. `alluvium-rivals study NAME` runs it and prints the
/// measurements.
#[derive(Clone, Copy, Debug)]
pub struct RivalStudy {
    /// The `NAME` argument of `alluvium-rivals study`.
    pub name: &'static str,
    /// Number of records at the quick size.
    pub quick: u64,
    /// Number of records at the full size.
    pub full: u64,
    /// Maximum number of records.
    pub most: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct EngineWorkload {
    /// The quick size, which finishes within seconds.
    pub quick: ExperimentScale,
    /// The full size, which keeps the document's ratios.
    pub full: ExperimentScale,
    /// Builds the steps; each is a load followed by measured phases.
    pub steps: fn(&StepTemplate) -> Result<Vec<ExperimentStep>>,
}

/// One figure of an experiment: published values and ours over the same axis.
#[derive(Debug)]
pub struct ExperimentMeasure {
    pub name: &'static str,
    /// The unit of the values.
    pub unit: &'static str,
    pub axis: FigureAxis,
    pub published: &'static [PublishedSeries],
    /// A caveat for comparing the published values with ours; may be empty.
    pub note: &'static str,
    /// Computes our values from the measurements.
    pub ours: FigureComputation,
}

/// The horizontal axis of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureAxis {
    /// The name of the variable on this axis.
    pub name: &'static str,
    /// The layout of the places on the axis.
    pub form: AxisLayout,
}

/// The layout of the places on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisLayout {
    /// Categories, at equal distances.
    Names,
    /// Numbers, on a linear scale.
    Linear,
    /// Numbers, on a logarithmic scale.
    Logarithmic,
}

/// A published series: values for one system, from one section of the document.
#[derive(Debug)]
pub struct PublishedSeries {
    /// The name of the system, or of the two systems whose quotient this is.
    pub name: &'static str,
    /// The section that states the values.
    pub section: &'static str,
    /// The values, each with its place on the axis.
    pub points: &'static [PublishedPoint],
}

/// A published value and its place on the axis.
#[derive(Debug)]
pub struct PublishedPoint {
    /// The place on the axis.
    pub at: AxisPosition,
    /// The value in the measure's unit.
    pub value: PublishedValue,
}

/// A place on an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisPosition {
    /// A place on a numeric axis.
    Number(f64),
    Name(Cow<'static, str>),
}

/// A value, in the form in which a document states it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PublishedValue {
    /// A number that the document states exactly.
    Is(f64),
    About(f64),
    /// A range: lower and upper bound.
    Between(f64, f64),
    /// A number that the document does not state but that follows from stated numbers.
    Derived(f64),
    Below(f64),
    /// A statement in words, without a number.
    Said(&'static str),
}

impl Experiment {
    /// Returns the part of the id that names the document.
    #[must_use]
    pub fn document(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(document, _)| document)
    }

    /// Returns the structure that this experiment waits for, if it cannot run yet.
    #[must_use]
    pub fn waits_for(&self) -> Option<&'static str> {
        match self.work {
            ExperimentMethod::Waits(structure) => Some(structure),
            ExperimentMethod::Engines(_) | ExperimentMethod::Here { .. } | ExperimentMethod::Study(_) => None,
        }
    }
}

impl AxisPosition {
    /// Returns the value as a single number, if it has one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            AxisPosition::Number(number) => Some(*number),
            AxisPosition::Name(_) => None,
        }
    }
}

impl fmt::Display for AxisPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisPosition::Number(number) => f.write_str(&figure(*number)),
            AxisPosition::Name(name) => f.write_str(name),
        }
    }
}

impl PublishedValue {
    /// Returns the lowest and the highest number that the value allows, or `None` for a statement
    /// in words.
    #[must_use]
    pub fn span(&self) -> Option<(f64, f64)> {
        match *self {
            PublishedValue::Is(value) | PublishedValue::About(value) | PublishedValue::Derived(value) => {
                Some((value, value))
            }
            PublishedValue::Between(low, high) => Some((low, high)),
            PublishedValue::Below(_) | PublishedValue::Said(_) => None,
        }
    }
}

impl fmt::Display for PublishedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PublishedValue::Is(value) => f.write_str(&figure(value)),
            PublishedValue::About(value) => write!(f, "about {}", figure(value)),
            PublishedValue::Between(low, high) => write!(f, "{} to {}", figure(low), figure(high)),
            PublishedValue::Derived(value) => write!(f, "{} (derived)", figure(value)),
            PublishedValue::Below(value) => write!(f, "below {}", figure(value)),
            PublishedValue::Said(words) => f.write_str(words),
        }
    }
}

/// Formats a number with three significant digits, or with all digits before the decimal point if
/// there are more. Digits are grouped in threes.
#[must_use]
pub fn figure(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = if magnitude == 0.0 || magnitude >= 99.95 {
        0
    } else if magnitude >= 9.995 {
        1
    } else if magnitude >= 0.995 {
        2
    } else {
        // Small numbers keep three significant digits after their leading zeros.
        (2.0 - magnitude.log10().floor()).clamp(2.0, 9.0) as usize
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, digits) = whole
        .strip_prefix('-')
        .map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_groups() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (1.76, "1.76"),
            (18.5, "18.5"),
            (349.4, "349"),
            (2_400_000.0, "2,400,000"),
            (-1234.0, "-1,234"),
            (0.003_906_25, "0.00391"),
            (0.5, "0.5"),
        ] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn a_value_is_shown_as_the_document_states_it() {
        let shown: Vec<String> = [
            PublishedValue::Is(349.0),
            PublishedValue::About(7.5),
            PublishedValue::Between(2000.0, 2400.0),
            PublishedValue::Derived(1331.2),
            PublishedValue::Below(1.2),
            PublishedValue::Said("unusable"),
        ]
        .iter()
        .map(PublishedValue::to_string)
        .collect();
        assert_eq!(
            shown,
            [
                "349",
                "about 7.5",
                "2,000 to 2,400",
                "1,331 (derived)",
                "below 1.2",
                "unusable"
            ]
        );
        assert_eq!(PublishedValue::Said("unusable").span(), None);
    }
}
