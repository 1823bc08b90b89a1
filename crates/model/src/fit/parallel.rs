//! Fits the PDAM to a device: finds the parallelism P from the throughput at several queue depths
//! (Bender §3.1, Table 1).
//!
//! ```text
//!   throughput
//!      P·β │        ┌───────────────
//!          │      ╱ ┊
//!          │    ╱   ┊         up to P requests each adds β;
//!          │  ╱ β   ┊         beyond P more requests add nothing
//!          └────────┴───────────────  requests under way
//!                   P
//! ```

use super::squares::least_squares;
use super::{BadSamples, FitQuality, different, positive};

/// Bounds of the search for the knee, as numbers of requests in flight, and its step size.
const LEAST_KNEE: f64 = 1.5;
const MOST_KNEE: f64 = 64.0;
const STEP: f64 = 0.05;

/// Maximum ratio of the slope after the knee to the slope before it. With a greater ratio, the
/// throughput has no knee.
const FLAT: f64 = 0.25;

/// Number of bootstrap samples per confidence interval.
const DRAWS: usize = 200;

/// The fitted throughput of a device, as a function of the number of requests in flight.
///
/// ```
/// use alluvium_model::fit::parallel;
/// let samples: Vec<(f64, f64)> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 16.0, 32.0]
///     .map(|requests: f64| (requests, 100.0 * requests.min(5.5)))
///     .into();
/// let ssd = parallel::fit(&samples)?;
/// assert!((ssd.parallelism.unwrap() - 5.5).abs() < 0.1);
/// assert!((ssd.plateau - 550.0).abs() < 5.0);
/// # Ok::<(), alluvium_model::fit::BadSamples>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParallelFit {
    /// P: the number of requests that the device serves concurrently, or `None` if the throughput
    /// has no knee in the measured range.
    pub parallelism: Option<f64>,
    /// β: the throughput that each additional request contributes before the knee, in the unit of
    /// the samples.
    pub per_request: f64,
    /// Fitted throughput at the highest measured number of requests in flight.
    pub plateau: f64,
    /// Quality of the fit with two lines.
    pub goodness: FitQuality,
    /// Largest relative error of the plain model's time for a fixed amount of work. That model
    /// assumes a throughput of β·min(p, P) for p requests. Claim C1 of the paper is that the error
    /// is at most 14 %.
    pub worst_time: f64,
    /// Largest relative error of the DAM's time for a fixed amount of work. The DAM serves requests
    /// one after the other.
    pub worst_time_dam: f64,
}

/// Two connected lines. The coefficients are a constant, the slope before the knee, and the
/// decrease of the slope at the knee.
#[derive(Clone, Copy)]
struct HingeFit {
    knee: f64,
    coefficients: [f64; 3],
    squares: f64,
}

impl HingeFit {
    fn at(&self, requests: f64) -> f64 {
        let [constant, slope, less] = self.coefficients;
        constant + slope * requests - less * (requests - self.knee).max(0.0)
    }
}

/// Fits two connected lines to samples, each of which is a number of requests in flight and the
/// throughput. Several samples may have the same number of requests.
///
/// The knee is searched on a grid. For each position, least squares fit the lines, and the position
/// with the smallest sum of squared errors wins.
///
/// # Errors
/// [`BadSamples`] if there are fewer than four different numbers of requests, if a value is not
/// positive, or if the throughput does not increase with the first requests.
pub fn fit(samples: &[(f64, f64)]) -> Result<ParallelFit, BadSamples> {
    positive(samples.iter().map(|&(requests, _)| requests))?;
    positive(samples.iter().map(|&(_, throughput)| throughput))?;
    let points = different(samples.iter().map(|&(requests, _)| requests));
    let too_few = BadSamples::TooFew { points, least: 4 };
    if points < 4 {
        return Err(too_few);
    }
    let most = samples.iter().map(|&(requests, _)| requests).fold(0.0, f64::max);
    let hinge = best_hinge(samples, most).ok_or(too_few)?;
    let [_, slope, less] = hinge.coefficients;
    if slope <= 0.0 {
        return Err(BadSamples::Contradicts {
            parameter: "what the first requests add",
            value: slope,
        });
    }
    let is_flat = (slope - less).abs() <= FLAT * slope;
    let parallelism = is_flat.then_some(hinge.knee);
    let goodness = FitQuality::of(samples.iter().map(|&(requests, seen)| (seen, hinge.at(requests))));
    let (worst_time, worst_time_dam) = worst_times(samples, parallelism.unwrap_or(most));
    Ok(ParallelFit {
        parallelism,
        per_request: slope,
        plateau: hinge.at(most),
        goodness,
        worst_time,
        worst_time_dam,
    })
}

fn best_hinge(samples: &[(f64, f64)], most: f64) -> Option<HingeFit> {
    let steps = ((MOST_KNEE.min(most) - LEAST_KNEE) / STEP).max(0.0) as usize;
    let knees = (0..=steps).map(|step| LEAST_KNEE + step as f64 * STEP);
    let hinges = knees.filter_map(|knee| {
        let rows: Vec<_> = samples
            .iter()
            .map(|&(requests, seen)| ([1.0, requests, -(requests - knee).max(0.0)], seen))
            .collect();
        let mut hinge = HingeFit {
            knee,
            coefficients: least_squares(&rows)?,
            squares: 0.0,
        };
        let errors = samples.iter().map(|&(requests, seen)| seen - hinge.at(requests));
        hinge.squares = errors.map(|error| error * error).sum();
        Some(hinge)
    });
    hinges.min_by(|one, other| one.squares.total_cmp(&other.squares))
}

/// Returns the largest relative errors of the times that two models predict: the plain PDAM, whose
/// β is fitted by least squares, and the DAM, whose throughput is that of a single request.
fn worst_times(samples: &[(f64, f64)], parallelism: f64) -> (f64, f64) {
    let rows: Vec<_> = samples
        .iter()
        .map(|&(requests, seen)| ([requests.min(parallelism)], seen))
        .collect();
    let [per_request] = least_squares(&rows).unwrap_or([1.0]);
    let fewest = samples
        .iter()
        .map(|&(requests, _)| requests)
        .fold(f64::INFINITY, f64::min);
    let alone: Vec<f64> = samples
        .iter()
        .filter(|&&(requests, _)| requests == fewest)
        .map(|&(_, seen)| seen)
        .collect();
    let alone = alone.iter().sum::<f64>() / alone.len() as f64;
    // The time for a fixed amount of work is the inverse of the throughput.
    let worst = |predicted: &dyn Fn(f64) -> f64| {
        let errors = samples
            .iter()
            .map(|&(requests, seen)| (seen / predicted(requests) - 1.0).abs());
        errors.fold(0.0, f64::max)
    };
    (
        worst(&|requests| per_request * requests.min(parallelism)),
        worst(&|_| alone),
    )
}

/// Returns a 90 % confidence interval of P, computed by bootstrapping the samples of each number of
/// requests, or `None` if most bootstrap samples have no knee. `seed` determines the random
/// numbers.
///
/// # Errors
/// As [`fit`].
pub fn interval(samples: &[(f64, f64)], seed: u64) -> Result<Option<(f64, f64)>, BadSamples> {
    fit(samples)?;
    let mut groups: Vec<Vec<(f64, f64)>> = Vec::new();
    for &sample in samples {
        match groups.iter_mut().find(|group| group[0].0 == sample.0) {
            Some(group) => group.push(sample),
            None => groups.push(vec![sample]),
        }
    }
    let mut state = seed;
    let mut knees = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let drawn: Vec<(f64, f64)> = groups
            .iter()
            .flat_map(|group| {
                (0..group.len())
                    .map(|_| group[draw(&mut state, group.len())])
                    .collect::<Vec<_>>()
            })
            .collect();
        knees.extend(fit(&drawn).ok().and_then(|fit| fit.parallelism));
    }
    if knees.len() < DRAWS / 2 {
        return Ok(None);
    }
    knees.sort_by(f64::total_cmp);
    Ok(Some((
        knees[knees.len() / 20],
        knees[knees.len() - 1 - knees.len() / 20],
    )))
}

/// Advances `state` and returns a random integer from 0 to `below` − 1 (SplitMix64).
fn draw(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((mixed ^ (mixed >> 31)) % below as u64) as usize
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A seeded noise generator. It adds twelve uniform random numbers, whose sum is nearly
    /// normally distributed.
    pub(crate) struct NoiseGenerator(pub(crate) u64);

    impl NoiseGenerator {
        /// Returns a random number with mean 1 and the given standard deviation.
        pub(crate) fn around_one(&mut self, deviation: f64) -> f64 {
            let sum: f64 = (0..12)
                .map(|_| draw(&mut self.0, 1 << 20) as f64 / f64::from(1 << 20))
                .sum();
            1.0 + deviation * (sum - 6.0)
        }
    }

    const REQUESTS: [f64; 11] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 16.0, 32.0, 64.0];

    /// Table 1 of the paper: P, and the throughput of the plateau in MiB/s.
    const TABLE_1: [(f64, f64); 4] = [(5.5, 240.0), (4.5, 530.0), (5.4, 900.0), (5.6, 2300.0)];

    fn measured(parallelism: f64, plateau: f64, noise: &mut NoiseGenerator) -> Vec<(f64, f64)> {
        let once = |requests: f64| plateau * requests.min(parallelism) / parallelism;
        REQUESTS
            .into_iter()
            .flat_map(|requests| [requests; 8])
            .map(|requests| (requests, once(requests) * noise.around_one(0.03)))
            .collect()
    }

    #[test]
    fn every_ssd_of_table_1_is_found_again_behind_noise_of_three_percent() {
        for seed in 0..20 {
            for (parallelism, plateau) in TABLE_1 {
                let found = fit(&measured(parallelism, plateau, &mut NoiseGenerator(seed))).unwrap();
                let knee = found.parallelism.expect("a knee");
                assert!(
                    (knee - parallelism).abs() <= 0.2,
                    "{seed}: {found:?}, not {parallelism}"
                );
                assert!((found.plateau / plateau - 1.0).abs() < 0.03, "{found:?}");
                assert!(found.goodness.r_squared > 0.98, "{found:?}");
                // Claim C1: the PDAM predicts times within 14 %, whereas the DAM is off by nearly a
                // factor of P.
                assert!(found.worst_time < 0.14, "{found:?}");
                assert!(found.worst_time_dam > parallelism - 1.5, "{found:?}");
            }
        }
    }

    #[test]
    fn the_interval_holds_the_parallelism_and_is_narrow() {
        let mut held = 0;
        for seed in 0..8 {
            let samples = measured(5.5, 240.0, &mut NoiseGenerator(1000 + seed));
            let (low, high) = interval(&samples, seed).unwrap().unwrap();
            assert!(low <= high && high - low < 0.5, "{low} to {high}");
            assert_eq!(interval(&samples, seed), interval(&samples, seed), "F2");
            held += i32::from(low <= 5.5 && 5.5 <= high);
        }
        assert!(held >= 5, "{held} of 8");
    }

    #[test]
    fn a_device_without_a_knee_in_range_has_no_parallelism() {
        let mut noise = NoiseGenerator(3);
        let samples: Vec<_> = REQUESTS
            .into_iter()
            .map(|requests| (requests, 17.0 * requests * noise.around_one(0.01)))
            .collect();
        let found = fit(&samples).unwrap();
        assert_eq!(found.parallelism, None, "{found:?}");
        assert!((found.per_request / 17.0 - 1.0).abs() < 0.2, "{found:?}");
        assert_eq!(interval(&samples, 1), Ok(None));
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let short = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (3.0, 3.5)];
        assert_eq!(fit(&short), Err(BadSamples::TooFew { points: 3, least: 4 }));
        let broken = [(1.0, 1.0), (2.0, f64::INFINITY), (3.0, 3.0), (4.0, 4.0)];
        assert!(matches!(
            fit(&broken),
            Err(BadSamples::NotPositive { index: 1, .. })
        ));
        let falling: Vec<_> = REQUESTS.map(|requests| (requests, 100.0 - requests)).into();
        let refused = fit(&falling).unwrap_err();
        assert!(
            refused.to_string().contains("what the first requests add"),
            "{refused}"
        );
    }
}
