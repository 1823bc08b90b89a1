//! Fits of the costs of a device's reads and writes.

use crate::fit::affine::{self, AffineFit};
use crate::fit::parallel::{self, ParallelFit};
use crate::fit::{BadSamples, FitQuality};
use alluvium_base::cost::AccessKind;
use alluvium_base::measurements::{DeviceMeasurements, IssueMode, OffsetOrder, ProbePoint};
use alluvium_base::{KIB, MIB};

/// Smallest request size in bytes.
pub(super) const SMALL: u64 = 4 * KIB;

/// Request size for the PDAM in bytes (Bender §3.1).
pub(super) const STEP: u64 = 64 * KIB;

/// Minimum ratio of the best throughput to that of one request for a device to be parallel.
const GROWTH: f64 = 1.3;

/// Seed of the draws for the interval of P.
const SEED: u64 = 7;

/// A line fitted to the times of single requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AffineEstimate {
    /// The line with the least relative errors, as used for profiles.
    pub fit: AffineFit,
    /// R² of the least-squares line in seconds, as in the paper; long requests dominate it.
    pub plain: Option<FitQuality>,
}

/// The number of requests that a device serves concurrently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceParallelism {
    /// There are no samples at two depths, or the PDAM cannot be fitted to them.
    Unknown,
    /// One: further requests do not increase the throughput.
    One,
    /// P, the knee of the throughput.
    Knee(f64),
    /// At least the maximum measured depth: the throughput was still growing.
    Beyond(u32),
}

/// Ratio of the best throughput to that of one request.
///
/// In the PDAM this is exactly P. If the throughput has no sharp knee, it is still the number of
/// equal requests completed in the time of one, so profiles use it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParallelGain {
    /// Best throughput divided by that of one request.
    pub times: f64,
    /// Largest error of the times that the PDAM with this parallelism predicts for a fixed amount
    /// of work.
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

    /// Returns the number of concurrent requests for a profile, at least 1.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.times.round().max(1.0) as u32
    }
}

/// The costs of requests of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestCosts {
    pub kind: AccessKind,
    /// The affine model: time by size, at random offsets.
    pub affine: Result<AffineEstimate, BadSamples>,
    /// The PDAM: throughput in MiB/s by number of 64 KiB requests in flight; medians of the rounds.
    pub parallel: Result<ParallelFit, BadSamples>,
    pub parallelism: DeviceParallelism,
    /// Throughput of many requests relative to one; `None` if not measured.
    pub gain: Option<ParallelGain>,
    /// Throughput of sequential requests in bytes per second, by size.
    pub in_order: Vec<(u64, f64)>,
    /// Throughput of random 4 KiB requests in bytes per second, by depth.
    pub small: Vec<(u32, f64)>,
    /// Throughput of 64 KiB requests of all rounds, by depth.
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

    /// Returns a 90 % confidence interval of P, if there is one. It needs a tenth of a second.
    #[must_use]
    pub fn parallelism_interval(&self) -> Option<(f64, f64)> {
        match self.parallelism {
            DeviceParallelism::Knee(_) => parallel::interval(&self.depths, SEED).ok().flatten(),
            _ => None,
        }
    }
}

/// Returns the samples of the affine model: bytes, and seconds of one request, as the median of the
/// rounds. Disturbances can only make a round slower.
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

/// Returns the samples of the PDAM: requests in flight and MiB/s, for each round.
fn samples(measured: &DeviceMeasurements, is_wanted: impl Fn(ProbePoint) -> bool) -> Vec<(f64, f64)> {
    let windows = measured.samples.iter().filter(|window| is_wanted(window.point));
    windows
        .map(|window| {
            let mib_s = window.undisturbed_bytes_per_s() / MIB as f64;
            (f64::from(window.point.depth), mib_s)
        })
        .collect()
}

/// Returns the median throughput over all rounds in bytes per second, by depth.
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

/// Applies `of` to the values of each key; the result is ordered by key.
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

/// Returns the median of at least one number; with an even count, the mean of the middle two.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// Determines P from samples ordered by depth. A device that serves requests sequentially has no
/// knee: its throughput is constant.
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
