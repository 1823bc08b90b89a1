//! Fits model parameters to measurements of devices, and reports the quality of the fit.
//!
//! *Scope*: least squares, the affine model (time by size) and the PDAM (throughput by number of
//! requests in flight).
//!
//! *Must not depend on*: the measured device and the method of measurement.
//!
//! Source: Bender §3 (Tables 1 and 2). The paper does not specify its variant of segmented
//! regression; the hinge below is our choice.
//!
//! Invariants:
//!
//! - **F1** A fit has finite numbers or is an error: no result contains a NaN or an infinity.
//! - **F2** The same samples and the same seed give the same fit.

pub mod affine;
pub mod parallel;
mod squares;

use std::fmt;

/// Why samples cannot be fitted.
#[derive(Clone, Debug, PartialEq)]
pub enum BadSamples {
    /// There are too few distinct points for the number of parameters.
    TooFew {
        points: usize,
        /// Minimum number of distinct points for the fit.
        least: usize,
    },
    /// A sample is not a positive finite number.
    NotPositive {
        /// Index of the sample, from 0.
        index: usize,
        value: f64,
    },
    /// The measurements contradict the model: a parameter that must be positive is not.
    Contradicts { parameter: &'static str, value: f64 },
}

impl fmt::Display for BadSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadSamples::TooFew { points, least } => {
                write!(
                    f,
                    "{points} different points were measured, but the fit needs at least {least}; measure \
                     more points"
                )
            }
            BadSamples::NotPositive { index, value } => {
                write!(f, "sample {index} is {value}, but must be a positive number")
            }
            BadSamples::Contradicts { parameter, value } => {
                write!(
                    f,
                    "the best fit gives {parameter} the value {value:.3e}, but it must be positive: the \
                     device does not follow the model, or the measurement was disturbed"
                )
            }
        }
    }
}

impl std::error::Error for BadSamples {}

/// The quality of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitQuality {
    /// R²: share of the variance that the fit explains, at most 1.
    pub r_squared: f64,
    /// Root mean square error, in the unit of the measurements.
    pub rms: f64,
    /// Largest error relative to its measurement.
    pub worst_relative: f64,
}

impl FitQuality {
    /// Computes the quality from pairs of measured and predicted values.
    fn of(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> FitQuality {
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
        FitQuality {
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

/// Returns the number of distinct values.
fn different(numbers: impl Iterator<Item = f64>) -> usize {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers.len()
}
