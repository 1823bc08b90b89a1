//! Fits the affine model to the measured times of accesses of several sizes (Bender §3.2, Table 2).

use super::squares::least_squares;
use super::{BadSamples, FitQuality, different, positive};

/// The fitted cost of a device access: a setup time plus a time per byte.
///
/// ```
/// use alluvium_model::fit::affine;
/// // A disk of Table 2: 15 ms, and 33 µs for each 4 KiB.
/// let samples: Vec<(u64, f64)> = (0..13)
///     .map(|power| 4096 << power)
///     .map(|bytes| (bytes, 0.015 + 33e-6 * (bytes / 4096) as f64))
///     .collect();
/// let disk = affine::fit(&samples)?;
/// assert!((disk.alpha(4096) - 0.0022).abs() < 1e-9);
/// assert_eq!((disk.natural_bytes(0.5) / 4096.0).round(), 455.0);
/// # Ok::<(), alluvium_model::fit::BadSamples>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AffineFit {
    /// Setup time of an access in seconds. The paper calls it s.
    pub setup_s: f64,
    /// Transfer time of a byte in seconds. The paper calls it t, and states it for 4 KiB.
    pub per_byte_s: f64,
    /// Quality of the fit; absolute errors are in seconds.
    pub goodness: FitQuality,
}

impl AffineFit {
    /// Returns the predicted time of an access of `bytes` bytes, in seconds.
    #[must_use]
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.setup_s + self.per_byte_s * bytes
    }

    /// Returns α for units of `unit` bytes: the transfer time of a unit, divided by the setup time.
    #[must_use]
    pub fn alpha(&self, unit: u64) -> f64 {
        self.per_byte_s * unit as f64 / self.setup_s
    }

    /// Returns the access size in bytes that uses the fraction `share` of the device's bandwidth.
    /// For one half, this is 1/α: the transfer takes as long as the setup.
    ///
    /// # Panics
    /// Unless the share is greater than 0 and less than 1.
    #[must_use]
    pub fn natural_bytes(&self, share: f64) -> f64 {
        assert!(
            share > 0.0 && share < 1.0,
            "a share of the bandwidth is between 0 and 1"
        );
        share / (1.0 - share) * self.setup_s / self.per_byte_s
    }
}

/// Fits the affine model to samples, each of which is the size of an access in bytes and its time
/// in seconds. Several samples may have the same size.
///
/// The fit minimises the sum of squared errors in seconds, as the paper does, so long accesses
/// dominate it. [`FitQuality::worst_relative`] shows whether it is accurate for short accesses,
/// too.
///
/// # Errors
/// [`BadSamples`] if there are fewer than three sizes, if a time is not positive, or if the best
/// line has a setup time or a transfer time that is not positive.
pub fn fit(samples: &[(u64, f64)]) -> Result<AffineFit, BadSamples> {
    weighted(samples, |_| 1.0)
}

/// Fits the affine model to samples by minimising the sum of squared relative errors. Short and
/// long accesses then have the same weight, so the setup time is as accurate as the transfer time.
///
/// ```
/// use alluvium_model::fit::affine;
/// // Long accesses were disturbed; the setup is found all the same.
/// let samples = [(4096, 101e-6), (8192, 102e-6), (1 << 20, 356e-6 * 1.05), (4 << 20, 1124e-6 * 0.97)];
/// let (all, plain) = (affine::fit_relative(&samples)?, affine::fit(&samples)?);
/// assert!((all.setup_s / 100e-6 - 1.0).abs() < 0.01);
/// assert!((plain.setup_s / 100e-6 - 1.0).abs() > 0.05);
/// # Ok::<(), alluvium_model::fit::BadSamples>(())
/// ```
///
/// # Errors
/// As [`fit`].
pub fn fit_relative(samples: &[(u64, f64)]) -> Result<AffineFit, BadSamples> {
    weighted(samples, |seconds| seconds.recip())
}

/// Fits the affine model by minimising the sum of squared weighted errors. A sample's weight is
/// `weight` of its measured time.
fn weighted(samples: &[(u64, f64)], weight: impl Fn(f64) -> f64) -> Result<AffineFit, BadSamples> {
    positive(samples.iter().map(|&(_, seconds)| seconds))?;
    let points = different(samples.iter().map(|&(bytes, _)| bytes as f64));
    let too_few = BadSamples::TooFew { points, least: 3 };
    if points < 3 {
        return Err(too_few);
    }
    let rows: Vec<_> = samples
        .iter()
        .map(|&(bytes, seconds)| {
            let weight = weight(seconds);
            ([weight, weight * bytes as f64], weight * seconds)
        })
        .collect();
    let [setup_s, per_byte_s] = least_squares(&rows).ok_or(too_few)?;
    for (parameter, value) in [("the setup", setup_s), ("the time of a byte", per_byte_s)] {
        if value <= 0.0 {
            return Err(BadSamples::Contradicts { parameter, value });
        }
    }
    let pairs = samples
        .iter()
        .map(|&(bytes, seconds)| (seconds, setup_s + per_byte_s * bytes as f64));
    Ok(AffineFit {
        setup_s,
        per_byte_s,
        goodness: FitQuality::of(pairs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::parallel::tests::NoiseGenerator;

    /// Table 2 of the paper: s in seconds, t in seconds for 4 KiB, and α for 4 KiB.
    const TABLE_2: [(f64, f64, f64); 5] = [
        (0.015, 0.000_033, 0.0022),
        (0.013, 0.000_041, 0.0031),
        (0.012, 0.000_035, 0.0029),
        (0.018, 0.000_021, 0.0012),
        (0.016, 0.000_026, 0.0017),
    ];

    #[test]
    fn every_disk_of_table_2_is_found_again_behind_noise_of_three_percent() {
        for (disk, (setup, per_block, alpha)) in (0..).zip(TABLE_2) {
            let mut noise = NoiseGenerator(disk);
            let mut samples = Vec::new();
            for power in 0..13 {
                let blocks = 1_u64 << power;
                for _ in 0..64 {
                    let seconds = setup + per_block * blocks as f64;
                    samples.push((blocks * 4096, seconds * noise.around_one(0.03)));
                }
            }
            let found = fit(&samples).unwrap();
            // Allow for rounding, since the paper states α with two digits.
            assert!(
                (found.alpha(4096) / alpha - 1.0).abs() < 0.05,
                "{disk}: {found:?}"
            );
            assert!(
                (found.per_byte_s * 4096.0 / per_block - 1.0).abs() < 0.01,
                "{disk}: {found:?}"
            );
            assert!((found.setup_s / setup - 1.0).abs() < 0.03, "{disk}: {found:?}");
            assert!(found.goodness.r_squared > 0.99, "{disk}: {found:?}");
        }
    }

    #[test]
    fn the_mean_of_many_accesses_gives_setup_and_slope_within_a_percent() {
        for (disk, (setup, per_block, _)) in (0..).zip(TABLE_2) {
            let mut noise = NoiseGenerator(100 + disk);
            let samples: Vec<_> = (0..13)
                .map(|power| 1_u64 << power)
                .map(|blocks| {
                    let noises: f64 = (0..1024).map(|_| noise.around_one(0.03)).sum();
                    let seconds = (setup + per_block * blocks as f64) * noises / 1024.0;
                    (blocks * 4096, seconds)
                })
                .collect();
            let found = fit(&samples).unwrap();
            assert!((found.setup_s / setup - 1.0).abs() < 0.01, "{disk}: {found:?}");
            assert!((found.per_byte_s * 4096.0 / per_block - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn relative_errors_make_the_setup_of_an_ssd_sure_where_plain_ones_lose_it() {
        let (setup, per_byte) = (65e-6, 0.5e-9);
        let mut noise = NoiseGenerator(9);
        let mut worst = (0.0_f64, 0.0_f64);
        for _ in 0..20 {
            let samples: Vec<_> = (0..11)
                .flat_map(|power| [4096_u64 << power; 4])
                .map(|bytes| (bytes, (setup + per_byte * bytes as f64) * noise.around_one(0.01)))
                .collect();
            let off = |fit: AffineFit| (fit.setup_s / setup - 1.0).abs();
            worst.0 = worst.0.max(off(fit_relative(&samples).unwrap()));
            worst.1 = worst.1.max(off(fit(&samples).unwrap()));
        }
        assert!(worst.0 < 0.01 && worst.1 > 0.02, "{worst:?}");
    }

    #[test]
    fn natural_sizes_get_their_share_of_the_bandwidth() {
        let samples: Vec<_> = [1_u64, 1 << 10, 1 << 20]
            .map(|bytes| (bytes, 1e-3 + 1e-8 * bytes as f64))
            .into();
        let found = fit(&samples).unwrap();
        for share in [0.5, 0.9] {
            let bytes = found.natural_bytes(share);
            let bandwidth = bytes / found.seconds(bytes);
            assert!((bandwidth * found.per_byte_s / share - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn samples_that_no_line_explains_are_refused() {
        let fails = |samples: &[(u64, f64)]| fit(samples).unwrap_err();
        assert_eq!(
            fails(&[(1, 1.0), (1, 2.0), (2, 1.0)]),
            BadSamples::TooFew { points: 2, least: 3 }
        );
        assert_eq!(fails(&[]), BadSamples::TooFew { points: 0, least: 3 });
        let nan = fails(&[(1, 1.0), (2, f64::NAN), (3, 1.0)]);
        assert!(matches!(nan, BadSamples::NotPositive { index: 1, .. }));
        let falling = fails(&[(1, 3.0), (2, 2.0), (3, 1.0)]);
        assert!(matches!(falling, BadSamples::Contradicts { .. }), "{falling}");
        let from_zero = fails(&[(1, 1.0), (2, 4.0), (3, 7.0)]);
        assert!(from_zero.to_string().contains("the setup"), "{from_zero}");
    }
}
