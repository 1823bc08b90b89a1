//! The fits of a device's reads, and of its writes.

use crate::fit::affine::{self, AffineFit};
use crate::fit::parallel::{self, ParallelFit};
use crate::fit::{BadSamples, Goodness};
use alluvium_base::cost::AccessKind;
use alluvium_base::measured::{Issue, Measured, Order, Point};
use alluvium_base::{KIB, MIB};

/// The smallest requests, in bytes.
pub(super) const SMALL: u64 = 4 * KIB;

/// How many bytes the requests of the PDAM have (Bender §3.1).
pub(super) const STEP: u64 = 64 * KIB;

/// Further requests must add this share of the throughput of one for a device to be parallel.
const GROWTH: f64 = 1.3;

/// Decides what the interval of P draws.
const SEED: u64 = 7;

/// A line through times of requests, one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    /// The line with the least relative errors: what profiles have.
    pub fit: AffineFit,
    /// R² of the line with the least squares of seconds, as in the paper; long requests decide it.
    pub plain: Option<Goodness>,
}

/// How many requests a device serves at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parallelism {
    /// It was not measured.
    Unknown,
    /// One: further requests add nothing.
    One,
    /// P, where the throughput has its knee.
    Knee(f64),
    /// At least as many as were under way at most: the throughput grew to the end.
    Beyond(u32),
}

/// How many times the throughput of one request a device reaches with many.
///
/// In the PDAM this is P, exactly. Where the throughput has no sharp knee, it is still how many
/// requests as long as one are done in the time of one, so that profiles have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The best throughput in those of one request.
    pub times: f64,
    /// The largest error of the times of a fixed amount of work that the PDAM predicts with it.
    pub worst_time: f64,
}

impl Gain {
    fn of(rates: &[(u32, f64)]) -> Option<Gain> {
        let &(_, one) = rates.iter().find(|(depth, _)| *depth == 1)?;
        let best = rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
        if rates.len() < 2 || one <= 0.0 {
            return None;
        }
        let times = best / one;
        let errors = rates
            .iter()
            .map(|&(depth, rate)| (rate / (one * f64::from(depth).min(times)) - 1.0).abs());
        Some(Gain {
            times,
            worst_time: errors.fold(0.0, f64::max),
        })
    }

    /// Returns the number of requests at a time for a profile, at least 1.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.times.round().max(1.0) as u32
    }
}

/// What requests of one kind cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Reads or writes.
    pub kind: AccessKind,
    /// The affine model: times over sizes, at random places.
    pub affine: Result<Fitted, BadSamples>,
    /// The PDAM: throughputs in MiB/s over numbers of requests of 64 KiB under way, medians of the
    /// rounds.
    pub parallel: Result<ParallelFit, BadSamples>,
    /// P, as far as there is one.
    pub parallelism: Parallelism,
    /// The same from the throughputs of one request and of many; `None` if they were not measured.
    pub gain: Option<Gain>,
    /// Throughputs of requests in order, in bytes a second, by their size.
    pub in_order: Vec<(u64, f64)>,
    /// Throughputs of random requests of 4 KiB, in bytes a second, by how many are under way.
    pub small: Vec<(u32, f64)>,
    /// Throughputs of requests of 64 KiB, of all rounds, by how many were under way.
    depths: Vec<(f64, f64)>,
}

impl Costs {
    pub(super) fn of(measured: &Measured, kind: AccessKind) -> Costs {
        let is_random =
            |point: Point| point.kind == kind && point.order == Order::Random && point.issue == Issue::Steady;
        let is_step = |point: Point| is_random(point) && point.bytes == STEP;
        let depths = samples(measured, is_step);
        let steps = rates(measured, is_step);
        let medians: Vec<(f64, f64)> = steps
            .iter()
            .map(|&(depth, rate)| (f64::from(depth), rate / MIB as f64))
            .collect();
        let parallel = parallel::fit(&medians);
        let parallelism = parallelism(&medians, parallel.as_ref().ok());
        let small = |point: Point| is_random(point) && point.bytes == SMALL;
        Costs {
            kind,
            affine: affine_of(measured, kind),
            parallel,
            parallelism,
            gain: Gain::of(&steps),
            in_order: in_order(measured, kind),
            small: rates(measured, small),
            depths,
        }
    }

    /// Returns an interval in which P lies in nine of ten repetitions, if there is one. It takes a
    /// tenth of a second.
    #[must_use]
    pub fn parallelism_interval(&self) -> Option<(f64, f64)> {
        match self.parallelism {
            Parallelism::Knee(_) => parallel::interval(&self.depths, SEED).ok().flatten(),
            _ => None,
        }
    }
}

/// Returns the samples of the affine model: bytes, and seconds of one request, the median of the
/// rounds. What disturbs a round makes it longer, never shorter.
pub(super) fn times(measured: &Measured, kind: AccessKind) -> Vec<(u64, f64)> {
    let windows = measured.windows.iter().filter(|window| {
        let point = window.point;
        point.kind == kind && point.order == Order::Random && point.issue == Issue::Steady && point.depth == 1
    });
    let times = windows.map(|window| (window.point.bytes, window.typical_ns as f64 / 1e9));
    by_key(times.collect(), median)
}

fn affine_of(measured: &Measured, kind: AccessKind) -> Result<Fitted, BadSamples> {
    let times = times(measured, kind);
    Ok(Fitted {
        fit: affine::fit_relative(&times)?,
        plain: affine::fit(&times).ok().map(|fit| fit.goodness),
    })
}

/// Returns the samples of the PDAM: requests under way, and MiB/s, once a round.
fn samples(measured: &Measured, is_wanted: impl Fn(Point) -> bool) -> Vec<(f64, f64)> {
    let windows = measured.windows.iter().filter(|window| is_wanted(window.point));
    windows
        .map(|window| {
            let mib_s = window.undisturbed_bytes_per_s() / MIB as f64;
            (f64::from(window.point.depth), mib_s)
        })
        .collect()
}

/// Returns the median throughputs over all rounds, by depth, in bytes a second.
pub(super) fn rates(measured: &Measured, is_wanted: impl Fn(Point) -> bool) -> Vec<(u32, f64)> {
    let windows = measured.windows.iter().filter(|window| is_wanted(window.point));
    let rates = windows.map(|window| (window.point.depth, window.undisturbed_bytes_per_s()));
    by_key(rates.collect(), median)
}

fn in_order(measured: &Measured, kind: AccessKind) -> Vec<(u64, f64)> {
    let windows = measured
        .windows
        .iter()
        .filter(|window| window.point.kind == kind && window.point.order == Order::Sequential);
    let rates = windows.map(|window| (window.point.bytes, window.undisturbed_bytes_per_s()));
    by_key(rates.collect(), median)
}

/// Returns what `of` says of the values of each key, in the order of keys.
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

/// Returns the median of some numbers, of which there is at least one: the mean of the middle two
/// where there are two.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// Returns P, from samples in the order of depths. A device that serves one request after the other
/// has no knee: its throughput is flat from the beginning.
fn parallelism(samples: &[(f64, f64)], fit: Option<&ParallelFit>) -> Parallelism {
    let (Some(&(fewest, one)), Some(&(most, _))) = (samples.first(), samples.last()) else {
        return Parallelism::Unknown;
    };
    if most <= fewest {
        return Parallelism::Unknown;
    }
    let best = samples.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    if best < GROWTH * one {
        return Parallelism::One;
    }
    match fit {
        None => Parallelism::Unknown,
        Some(fit) => match fit.parallelism {
            Some(knee) => Parallelism::Knee(knee),
            None => Parallelism::Beyond(most as u32),
        },
    }
}
