//! Fits the parameters of cost models to device measurements, and reports the quality of each fit.
//!
//! *Scope*: least squares, the affine model (time by size) and the PDAM (throughput by number of
//! requests in flight).
//!
//! *Must not depend on*: the measured device and the method of measurement.
//!
//! Source: Bender §3 (Tables 1 and 2). The paper uses segmented regression but does not specify the
//! variant. Two connected lines are our choice.
//!
//! Invariants:
//!
//! - **F1** A fit either consists of finite numbers or is an error. No result contains a NaN or an
//!   infinity.
//! - **F2** The same samples and the same seed result in the same fit.

pub mod affine;
pub mod parallel;
mod squares;

use std::fmt;

/// The reason why a model does not fit samples.
#[derive(Clone, Debug, PartialEq)]
pub enum BadSamples {
    /// There are fewer distinct points than the number of parameters requires.
    TooFew {
        points: usize,
        /// Minimum number of distinct points for the fit.
        least: usize,
    },
    /// A value in the samples is not a positive finite number.
    NotPositive {
        /// Index of the sample, starting at 0.
        index: usize,
        value: f64,
    },
    /// The samples contradict the model: a parameter that must be positive is not.
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

/// How well a fit matches the measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitQuality {
    /// R²: the fraction of the variance that the fit explains. It is at most 1.
    pub r_squared: f64,
    /// Root mean square of the errors, in the unit of the measurements.
    pub rms: f64,
    /// Largest relative error: the error divided by the measured value.
    pub worst_relative: f64,
}

impl FitQuality {
    /// Computes the quality of a fit from pairs of a measured and a predicted value.
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

/// Returns an error unless all numbers are positive and finite.
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
