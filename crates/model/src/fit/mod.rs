//! Fits of measured devices: which parameters of a model explain measurements best, and how well.
//!
//! *Knows*: least squares, the affine model (time over size) and the PDAM (throughput over the
//! number of requests under way).
//!
//! *Does not know*: how anything was measured, and on what.
//!
//! *Read in this order*: this file (samples and errors), [`affine`], [`parallel`], `squares.rs`.
//!
//! Source: Bender §3 (Tables 1 and 2). Where the paper does not say which variant of segmented
//! regression it has used, the hinge below is ours.
//!
//! Invariants:
//!
//! - **F1** A fit is of finite numbers, or it is an error: no result has a NaN or an infinity.
//! - **F2** The same samples and the same seed give the same fit.

pub mod affine;
pub mod parallel;
mod squares;

use std::fmt;

/// Why samples cannot be fitted.
#[derive(Clone, Debug, PartialEq)]
pub enum BadSamples {
    /// There are fewer different points than the model has parameters.
    TooFew {
        /// How many different points there are.
        points: usize,
        /// How many there must be.
        least: usize,
    },
    /// A sample is not a positive finite number.
    NotPositive {
        /// Which one, from 0.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// What was measured contradicts the model: a parameter that must be positive is not.
    Contradicts {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: f64,
    },
}

impl fmt::Display for BadSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadSamples::TooFew { points, least } => {
                write!(
                    f,
                    "{points} different points were measured, and the fit needs {least}: measure more"
                )
            }
            BadSamples::NotPositive { index, value } => {
                write!(f, "sample {index} is {value}: it must be a positive number")
            }
            BadSamples::Contradicts { parameter, value } => {
                write!(
                    f,
                    "the best fit has {parameter} at {value:.3e}, which must be positive: the device is not as \
                     the model says, or the measurement was disturbed"
                )
            }
        }
    }
}

impl std::error::Error for BadSamples {}

/// How well a fit explains what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodness {
    /// The share of the variance that the fit explains: 1 is all of it.
    pub r_squared: f64,
    /// The root of the mean square of the errors, in the unit of what was measured.
    pub rms: f64,
    /// The largest error, as a share of what was measured.
    pub worst_relative: f64,
}

impl Goodness {
    /// Returns how well predictions meet measurements.
    fn of(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Goodness {
        let count = pairs.clone().count() as f64;
        let mean = pairs.clone().map(|(measured, _)| measured).sum::<f64>() / count;
        let squares = |of: fn(f64, f64, f64) -> f64| {
            let squares = pairs
                .clone()
                .map(|(measured, predicted)| of(measured, predicted, mean));
            squares.sum::<f64>()
        };
        let errors = squares(|measured, predicted, _| (measured - predicted).powi(2));
        let total = squares(|measured, _, mean| (measured - mean).powi(2));
        let relative = pairs.map(|(measured, predicted)| ((predicted - measured) / measured).abs());
        Goodness {
            r_squared: if total > 0.0 { 1.0 - errors / total } else { 1.0 },
            rms: (errors / count).sqrt(),
            worst_relative: relative.fold(0.0, f64::max),
        }
    }
}

/// Fails unless all numbers are positive and finite.
fn positive(numbers: impl Iterator<Item = f64>) -> Result<(), BadSamples> {
    for (index, value) in numbers.enumerate() {
        if !(value.is_finite() && value > 0.0) {
            return Err(BadSamples::NotPositive { index, value });
        }
    }
    Ok(())
}

/// Returns how many different numbers there are.
fn different(numbers: impl Iterator<Item = f64>) -> usize {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers.len()
}
