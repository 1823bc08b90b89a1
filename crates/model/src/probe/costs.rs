//! Fits of cost models to the measured reads and writes of a device.

use crate::fit::affine::{self, AffineFit};
use crate::fit::parallel::{self, ParallelFit};
use crate::fit::{BadSamples, FitQuality};
use alluvium_base::cost::AccessKind;
use alluvium_base::measurements::{DeviceMeasurements, IssueMode, OffsetOrder, ProbePoint};
use alluvium_base::{KIB, MIB};

/// Smallest measured request size, in bytes.
pub(super) const SMALL: u64 = 4 * KIB;

/// Size in bytes of the requests to which the PDAM is fitted (Bender §3.1).
pub(super) const STEP: u64 = 64 * KIB;

/// A device counts as parallel if its best throughput is at least this many times the throughput of
/// single requests.
const GROWTH: f64 = 1.3;

/// Seed of the random numbers behind the confidence interval of P.
const SEED: u64 = 7;

/// A line fitted to the times of single requests of several sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AffineEstimate {
    /// The line with the smallest relative errors, which profiles use.
    pub fit: AffineFit,
    /// Quality of the line that minimises squared errors in seconds, as in the paper. Long requests
    /// dominate this line.
    pub plain: Option<FitQuality>,
}

/// The number of requests that a device serves concurrently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceParallelism {
    /// Fewer than two depths were measured, or the PDAM cannot be fitted to the samples.
    Unknown,
    /// The device serves one request at a time, so additional requests do not increase throughput.
    One,
    /// P, the number of requests at which the throughput has its knee.
    Knee(f64),
    /// At least this number, the maximum measured depth, at which the throughput was still growing.
    Beyond(u32),
}

/// The gain from parallel requests: the best throughput divided by the throughput of single
/// requests.
///
/// In the PDAM the gain is exactly P. Even without a sharp knee, it is the number of equal requests
/// that complete in the time of one, so profiles use it as the parallelism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParallelGain {
    /// Best throughput, divided by the throughput of single requests.
    pub times: f64,
    /// Largest relative error of the time that the PDAM with this parallelism predicts for a fixed
    /// amount of work.
    pub worst_time: f64,
}

impl ParallelGain {
    fn of(rates: &[(u32, f64)]) -> Option<ParallelGain> {
        let &(_, one) = rates.iter().find(|(depth, _)| *depth == 1)?;
        let best = rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
        if rates.len() < 2 || one <= 0.0 {
            return None;
        }
        let times = best / one;
        let errors = rates
            .iter()
            .map(|&(depth, rate)| (rate / (one * f64::from(depth).min(times)) - 1.0).abs());
        Some(ParallelGain {
            times,
            worst_time: errors.fold(0.0, f64::max),
        })
    }

    /// Returns the gain, rounded and at least 1, as the parallelism of a profile.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.times.round().max(1.0) as u32
    }
}

/// The costs of a device's reads or writes.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestCosts {
    pub kind: AccessKind,
    /// The affine model: the time of a request by its size, at random offsets.
    pub affine: Result<AffineEstimate, BadSamples>,
    /// The PDAM: the throughput in MiB/s by the number of 64 KiB requests in flight, fitted to the
    /// medians of the rounds.
    pub parallel: Result<ParallelFit, BadSamples>,
    pub parallelism: DeviceParallelism,
    /// Gain from parallel requests; `None` if it was not measured.
    pub gain: Option<ParallelGain>,
    /// Throughput of sequential requests in bytes per second, by request size in bytes.
    pub in_order: Vec<(u64, f64)>,
    /// Throughput of random 4 KiB requests in bytes per second, by number of requests in flight.
    pub small: Vec<(u32, f64)>,
    /// Throughput of 64 KiB requests by number of requests in flight, one sample per round.
    depths: Vec<(f64, f64)>,
}

impl RequestCosts {
    pub(super) fn of(measured: &DeviceMeasurements, kind: AccessKind) -> RequestCosts {
        let is_random = |point: ProbePoint| {
            point.kind == kind && point.order == OffsetOrder::Random && point.issue == IssueMode::Steady
        };
        let is_step = |point: ProbePoint| is_random(point) && point.bytes == STEP;
        let depths = samples(measured, is_step);
        let steps = rates(measured, is_step);
        let medians: Vec<(f64, f64)> = steps
            .iter()
            .map(|&(depth, rate)| (f64::from(depth), rate / MIB as f64))
            .collect();
        let parallel = parallel::fit(&medians);
        let parallelism = parallelism(&medians, parallel.as_ref().ok());
        let small = |point: ProbePoint| is_random(point) && point.bytes == SMALL;
        RequestCosts {
            kind,
            affine: affine_of(measured, kind),
            parallel,
            parallelism,
            gain: ParallelGain::of(&steps),
            in_order: in_order(measured, kind),
            small: rates(measured, small),
            depths,
        }
    }

    /// Returns a 90 % confidence interval of P, or `None` if the throughput has no knee. Takes a
    /// tenth of a second to compute.
    #[must_use]
    pub fn parallelism_interval(&self) -> Option<(f64, f64)> {
        match self.parallelism {
            DeviceParallelism::Knee(_) => parallel::interval(&self.depths, SEED).ok().flatten(),
            _ => None,
        }
    }
}

/// Returns the samples for the affine model: request sizes in bytes and times in seconds. Each time
/// is a median over the rounds, because disturbances can only make a round slower.
pub(super) fn times(measured: &DeviceMeasurements, kind: AccessKind) -> Vec<(u64, f64)> {
    let windows = measured.samples.iter().filter(|window| {
        let point = window.point;
        point.kind == kind
            && point.order == OffsetOrder::Random
            && point.issue == IssueMode::Steady
            && point.depth == 1
    });
    let times = windows.map(|window| (window.point.bytes, window.typical_ns as f64 / 1e9));
    by_key(times.collect(), median)
}

fn affine_of(measured: &DeviceMeasurements, kind: AccessKind) -> Result<AffineEstimate, BadSamples> {
    let times = times(measured, kind);
    Ok(AffineEstimate {
        fit: affine::fit_relative(&times)?,
        plain: affine::fit(&times).ok().map(|fit| fit.goodness),
    })
}

/// Returns the samples for the PDAM: numbers of requests in flight and the throughput in MiB/s, for
/// each round.
fn samples(measured: &DeviceMeasurements, is_wanted: impl Fn(ProbePoint) -> bool) -> Vec<(f64, f64)> {
    let windows = measured.samples.iter().filter(|window| is_wanted(window.point));
    windows
        .map(|window| {
            let mib_s = window.undisturbed_bytes_per_s() / MIB as f64;
            (f64::from(window.point.depth), mib_s)
        })
        .collect()
}

/// Returns the throughput in bytes per second by number of requests in flight, as the median over
/// all rounds.
pub(super) fn rates(
    measured: &DeviceMeasurements,
    is_wanted: impl Fn(ProbePoint) -> bool,
) -> Vec<(u32, f64)> {
    let windows = measured.samples.iter().filter(|window| is_wanted(window.point));
    let rates = windows.map(|window| (window.point.depth, window.undisturbed_bytes_per_s()));
    by_key(rates.collect(), median)
}

fn in_order(measured: &DeviceMeasurements, kind: AccessKind) -> Vec<(u64, f64)> {
    let windows = measured
        .samples
        .iter()
        .filter(|window| window.point.kind == kind && window.point.order == OffsetOrder::Sequential);
    let rates = windows.map(|window| (window.point.bytes, window.undisturbed_bytes_per_s()));
    by_key(rates.collect(), median)
}

/// Groups values by key and applies `of` to the values of each key. The result is in key order.
fn by_key<K: Copy + Ord>(mut values: Vec<(K, f64)>, of: impl Fn(&[f64]) -> f64) -> Vec<(K, f64)> {
    values.sort_by_key(|&(key, _)| key);
    values
        .chunk_by(|one, other| one.0 == other.0)
        .map(|same| {
            let values: Vec<f64> = same.iter().map(|&(_, value)| value).collect();
            (same[0].0, of(&values))
        })
        .collect()
}

/// Returns the median of the values, of which there must be at least one. For an even number, it is
/// the mean of the two middle values.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// Determines P from samples in ascending order of requests in flight. A device that serves one
/// request at a time has a constant throughput without a knee.
fn parallelism(samples: &[(f64, f64)], fit: Option<&ParallelFit>) -> DeviceParallelism {
    let (Some(&(fewest, one)), Some(&(most, _))) = (samples.first(), samples.last()) else {
        return DeviceParallelism::Unknown;
    };
    if most <= fewest {
        return DeviceParallelism::Unknown;
    }
    let best = samples.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    if best < GROWTH * one {
        return DeviceParallelism::One;
    }
    match fit {
        None => DeviceParallelism::Unknown,
        Some(fit) => match fit.parallelism {
            Some(knee) => DeviceParallelism::Knee(knee),
            None => DeviceParallelism::Beyond(most as u32),
        },
    }
}
