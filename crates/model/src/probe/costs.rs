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

impl Parallelism {
    /// Returns the number for a profile, at least 1.
    #[must_use]
    pub fn slots(self) -> u32 {
        match self {
            Parallelism::Unknown | Parallelism::One => 1,
            Parallelism::Knee(knee) => knee.round().max(1.0) as u32,
            Parallelism::Beyond(depth) => depth.max(1),
        }
    }
}

/// What requests of one kind cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Reads or writes.
    pub kind: AccessKind,
    /// The affine model: times over sizes, at random places.
    pub affine: Result<Fitted, BadSamples>,
    /// The PDAM: throughputs in MiB/s over numbers of requests of 64 KiB under way.
    pub parallel: Result<ParallelFit, BadSamples>,
    /// P, as far as there is one.
    pub parallelism: Parallelism,
    /// An interval in which P lies in nine of ten repetitions.
    pub interval: Option<(f64, f64)>,
    /// Throughputs of requests in order, in bytes a second, by their size.
    pub in_order: Vec<(u64, f64)>,
    /// Throughputs of random requests of 4 KiB, in bytes a second, by how many are under way.
    pub small: Vec<(u32, f64)>,
}

impl Costs {
    pub(super) fn of(measured: &Measured, kind: AccessKind) -> Costs {
        let is_random =
            |point: Point| point.kind == kind && point.order == Order::Random && point.issue == Issue::Steady;
        let depths = samples(measured, |point| is_random(point) && point.bytes == STEP);
        let parallel = parallel::fit(&depths);
        let parallelism = parallelism(&depths, parallel.as_ref().ok());
        let interval = match parallelism {
            Parallelism::Knee(_) => parallel::interval(&depths, SEED).ok().flatten(),
            _ => None,
        };
        let small = |point: Point| is_random(point) && point.bytes == SMALL;
        Costs {
            kind,
            affine: affine_of(measured, kind),
            parallel,
            parallelism,
            interval,
            in_order: in_order(measured, kind),
            small: rates(measured, small),
        }
    }
}

/// Returns the samples of the affine model: bytes, and seconds of one request, once a round.
pub(super) fn times(measured: &Measured, kind: AccessKind) -> Vec<(u64, f64)> {
    let windows = measured.windows.iter().filter(|window| {
        let point = window.point;
        point.kind == kind && point.order == Order::Random && point.issue == Issue::Steady && point.depth == 1
    });
    windows
        .map(|window| (window.point.bytes, window.typical_ns as f64 / 1e9))
        .collect()
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
        .map(|window| (f64::from(window.point.depth), window.bytes_per_s() / MIB as f64))
        .collect()
}

/// Returns the mean throughputs over all rounds, by depth, in bytes a second.
pub(super) fn rates(measured: &Measured, is_wanted: impl Fn(Point) -> bool) -> Vec<(u32, f64)> {
    let windows = measured.windows.iter().filter(|window| is_wanted(window.point));
    let rates = windows.map(|window| (window.point.depth, window.bytes_per_s()));
    means(rates.collect())
}

fn in_order(measured: &Measured, kind: AccessKind) -> Vec<(u64, f64)> {
    let windows = measured
        .windows
        .iter()
        .filter(|window| window.point.kind == kind && window.point.order == Order::Sequential);
    means(
        windows
            .map(|window| (window.point.bytes, window.bytes_per_s()))
            .collect(),
    )
}

/// Returns the mean of the values of each key, in the order of keys.
fn means<K: Copy + Ord>(mut values: Vec<(K, f64)>) -> Vec<(K, f64)> {
    values.sort_by_key(|&(key, _)| key);
    values
        .chunk_by(|one, other| one.0 == other.0)
        .map(|same| {
            let sum: f64 = same.iter().map(|&(_, value)| value).sum();
            (same[0].0, sum / same.len() as f64)
        })
        .collect()
}

/// Returns P. A device that serves one request after the other has no knee: its throughput is flat
/// from the beginning.
fn parallelism(samples: &[(f64, f64)], fit: Option<&ParallelFit>) -> Parallelism {
    let at = |depth: f64| {
        let same: Vec<f64> = samples
            .iter()
            .filter(|&&(requests, _)| requests == depth)
            .map(|&(_, rate)| rate)
            .collect();
        same.iter().sum::<f64>() / same.len() as f64
    };
    let depths = || samples.iter().map(|&(requests, _)| requests);
    let (fewest, most) = (
        depths().fold(f64::INFINITY, f64::min),
        depths().fold(0.0, f64::max),
    );
    if samples.is_empty() || most <= fewest {
        return Parallelism::Unknown;
    }
    let best = depths().map(at).fold(0.0, f64::max);
    if best < GROWTH * at(fewest) {
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
