//! What an entry of the register says: the claim, where it was published, the published figures,
//! and how ours are measured.
//!
//! An `Experiment` has two halves: what its document says is data, in `register/`; what measures
//! ours is a `Procedure`, in the module of its document. `register.rs` joins them.

use super::measured::{Line, Measured};
use super::plan::{Base, Scale, Step};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// One experiment of a source document.
#[derive(Debug)]
pub struct Experiment {
    /// The document and the experiment's name in it, as in `seed-0/S1`.
    pub id: &'static str,
    /// A few words for a table.
    pub title: &'static str,
    /// What it shows, in one sentence.
    pub shows: &'static str,
    /// The section, as in `§3.7.2`.
    pub section: &'static str,
    /// The figure, table or theorem.
    pub figure: &'static str,
    /// The machine, the data and the memory of the document.
    pub setting: &'static str,
    /// Where our measurement differs in kind from the document's.
    pub differs: &'static [&'static str],
    /// What is measured.
    pub measures: &'static [Measure],
    /// How our figures come about.
    pub work: Work,
}

/// What measures an experiment, and makes figures of it.
#[derive(Debug)]
pub(crate) struct Procedure {
    /// The experiment.
    pub(crate) id: &'static str,
    /// What makes our values, by the name of the measure.
    pub(crate) ours: &'static [(&'static str, Evaluation)],
    /// How they are measured.
    pub(crate) work: Work,
}

/// Makes our values of what was measured.
pub type Evaluation = fn(&Measured) -> Vec<Line>;

/// How our figures come about.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Engines run workloads, each in a process of its own.
    Engines(Engines),
    /// A count or a computation in this process, without a store.
    Here {
        /// How many keys the quick size has.
        quick: u64,
        /// How many keys the full size has.
        full: u64,
        /// How many keys it can have.
        most: u64,
        /// Counts or computes, for a number of keys.
        measure: fn(u64) -> Result<Measured>,
    },
    /// A study of systems of others, in a process of the program that they are in.
    Study(Study),
    /// Nothing can be measured before this structure is built.
    Waits(&'static str),
}

/// A study of systems of others. `alluvium-rivals study NAME` makes it, and prints what it has
/// measured.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// What it is called there.
    pub name: &'static str,
    /// How many records the quick size has.
    pub quick: u64,
    /// How many records the full size has.
    pub full: u64,
    /// How many records it can have.
    pub most: u64,
}

/// Workloads on engines.
#[derive(Clone, Copy, Debug)]
pub struct Engines {
    /// The size for a look: seconds.
    pub quick: Scale,
    /// The size that keeps the document's ratios.
    pub full: Scale,
    /// The steps, each a load and what follows it.
    pub steps: fn(&Base) -> Result<Vec<Step>>,
}

/// One figure of an experiment: published values and ours, over the same axis.
#[derive(Debug)]
pub struct Measure {
    /// What is measured.
    pub name: &'static str,
    /// In which unit.
    pub unit: &'static str,
    /// What it is measured over.
    pub axis: Axis,
    /// The published values.
    pub published: &'static [Published],
    /// What a reader must know about the two; empty if nothing.
    pub note: &'static str,
    /// Makes our values of what was measured.
    pub ours: Evaluation,
}

/// What a figure is drawn over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What changes from place to place.
    pub name: &'static str,
    /// How places are laid out.
    pub form: Form,
}

/// How the places of an axis are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Names, side by side.
    Names,
    /// Numbers, evenly.
    Linear,
    /// Numbers, by their logarithm.
    Logarithmic,
}

/// Published values that belong together: of one system, from one place in the document.
#[derive(Debug)]
pub struct Published {
    /// The system, or the quotient of two.
    pub name: &'static str,
    /// The section that states the values.
    pub section: &'static str,
    /// The values.
    pub points: &'static [Point],
}

/// A published value and its place on the axis.
#[derive(Debug)]
pub struct Point {
    /// Where.
    pub at: At,
    /// How much.
    pub value: Value,
}

/// A place on an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum At {
    /// A number.
    Number(f64),
    /// A name.
    Name(Cow<'static, str>),
}

/// How a document states a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// As a number.
    Is(f64),
    /// As about a number.
    About(f64),
    /// As a range.
    Between(f64, f64),
    /// Not itself: it follows from numbers that are stated.
    Derived(f64),
    /// As less than a number.
    Below(f64),
    /// In words alone.
    Said(&'static str),
}

impl Experiment {
    /// The document's part of the id.
    #[must_use]
    pub fn document(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(document, _)| document)
    }

    /// What it waits for, if it cannot be run yet.
    #[must_use]
    pub fn waits_for(&self) -> Option<&'static str> {
        match self.work {
            Work::Waits(structure) => Some(structure),
            Work::Engines(_) | Work::Here { .. } | Work::Study(_) => None,
        }
    }
}

impl At {
    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            At::Number(number) => Some(*number),
            At::Name(_) => None,
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Number(number) => f.write_str(&figure(*number)),
            At::Name(name) => f.write_str(name),
        }
    }
}

impl Value {
    /// The lowest and the highest number that it can mean; none if it is stated in words alone.
    #[must_use]
    pub fn span(&self) -> Option<(f64, f64)> {
        match *self {
            Value::Is(value) | Value::About(value) | Value::Derived(value) => Some((value, value)),
            Value::Between(low, high) => Some((low, high)),
            Value::Below(_) | Value::Said(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Is(value) => f.write_str(&figure(value)),
            Value::About(value) => write!(f, "about {}", figure(value)),
            Value::Between(low, high) => write!(f, "{} to {}", figure(low), figure(high)),
            Value::Derived(value) => write!(f, "{} (derived)", figure(value)),
            Value::Below(value) => write!(f, "below {}", figure(value)),
            Value::Said(words) => f.write_str(words),
        }
    }
}

/// A number with three significant digits, or all digits before the point if there are more, in
/// groups of three.
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
        // Small numbers keep three digits behind their zeros.
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
            Value::Is(349.0),
            Value::About(7.5),
            Value::Between(2000.0, 2400.0),
            Value::Derived(1331.2),
            Value::Below(1.2),
            Value::Said("unusable"),
        ]
        .iter()
        .map(Value::to_string)
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
        assert_eq!(Value::Said("unusable").span(), None);
    }
}
