//! Random keys from coupled distributions: one random number between 0 and 1 determines a key of
//! each distribution.

use alluvium_model::SplitMix64;
use alluvium_model::parameter::{BadParameter, positive};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyDistribution {
    /// Uniform from 0 up to a bound.
    Uniform {
        /// The upper bound, which is excluded.
        below: f64,
    },
    /// Pareto with the minimum 1.
    Pareto {
        /// The exponent of the tail.
        alpha: f64,
    },
    /// Normal with the mean 0.
    Normal {
        /// The standard deviation.
        deviation: f64,
    },
}

impl KeyDistribution {
    /// Fails unless the parameter of the distribution is positive and finite.
    pub(super) fn checked(self) -> Result<KeyDistribution, BadParameter> {
        match self {
            KeyDistribution::Uniform { below } => positive("the largest key", below)?,
            KeyDistribution::Pareto { alpha } => positive("the exponent", alpha)?,
            KeyDistribution::Normal { deviation } => positive("the deviation", deviation)?,
        };
        Ok(self)
    }

    /// Returns the quantile of a probability strictly between 0 and 1.
    #[must_use]
    pub fn quantile(self, share: f64) -> f64 {
        match self {
            KeyDistribution::Uniform { below } => below * share,
            KeyDistribution::Pareto { alpha } => (1.0 - share).powf(-1.0 / alpha),
            KeyDistribution::Normal { deviation } => deviation * normal_quantile(share),
        }
    }

    pub fn draw(self, random: &mut SplitMix64) -> f64 {
        // Never 0, which has no normal quantile.
        self.quantile((random.unit() + f64::EPSILON / 4.0).min(1.0 - f64::EPSILON))
    }
}

/// Returns the quantile of the standard normal distribution (Wichura, algorithm AS 241: a
/// rational function for the middle and two for the tails, accurate to 16 digits).
fn normal_quantile(share: f64) -> f64 {
    let from_middle = share - 0.5;
    if from_middle.abs() <= 0.425 {
        let square = 0.180_625 - from_middle * from_middle;
        return from_middle * ratio(&MIDDLE, square);
    }
    let tail = if from_middle < 0.0 { share } else { 1.0 - share };
    let root = (-tail.ln()).sqrt();
    let distance = if root <= 5.0 {
        ratio(&TAIL, root - 1.6)
    } else {
        ratio(&FAR_TAIL, root - 5.0)
    };
    distance.copysign(from_middle)
}

/// Returns the quotient of two polynomials.
fn ratio((above, below): &([f64; 8], [f64; 8]), at: f64) -> f64 {
    let value = |of: &[f64; 8]| of.iter().rev().fold(0.0, |sum, factor| sum * at + factor);
    value(above) / value(below)
}

const MIDDLE: ([f64; 8], [f64; 8]) = (
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
);

const TAIL: ([f64; 8], [f64; 8]) = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        0.000_774_545_014_278_341_4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        0.000_547_593_808_499_534_5,
        1.050_750_071_644_416_9e-9,
    ],
);

const FAR_TAIL: ([f64; 8], [f64; 8]) = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        0.000_786_869_131_145_613_2,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantiles_are_those_of_tables() {
        let rows = [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.9, 1.281_551_565_544_600_4),
            (0.001, -3.090_232_306_167_813_7),
            (1e-10, -6.361_340_902_404_056),
            (1e-20, -9.262_340_089_798_408),
        ];
        for (share, wanted) in rows {
            let found = normal_quantile(share);
            assert!(
                (found - wanted).abs() < 1e-12 * (1.0 + wanted.abs()),
                "{share}: {found}"
            );
        }
        // The pieces are continuous at their boundary.
        for seam in [0.075, 0.925, (-25.0_f64).exp()] {
            let (left, right) = (
                normal_quantile(seam * (1.0 - 1e-12)),
                normal_quantile(seam * (1.0 + 1e-12)),
            );
            assert!(left < right && right - left < 1e-9, "{seam}: {left} {right}");
        }
    }

    #[test]
    fn drawn_keys_have_their_distribution() {
        let mut random = SplitMix64::from_seed(8);
        for keys in [
            KeyDistribution::Uniform { below: 1000.0 },
            KeyDistribution::Pareto { alpha: 0.5 },
            KeyDistribution::Normal { deviation: 1000.0 },
        ] {
            let below = |share: f64| {
                let mut random = random.clone();
                let limit = keys.quantile(share);
                (0..20_000).filter(|_| keys.draw(&mut random) < limit).count()
            };
            for share in [0.1, 0.5, 0.9] {
                let found = below(share) as f64 / 20_000.0;
                assert!((found - share).abs() < 0.012, "{keys:?} {share}: {found}");
            }
            random.bits();
        }
    }
}
