//! The ruler schedule of the character queue (Conway §2.5), as pure functions: it determines
//! which sketches each series stores until their level needs them.

use std::ops::Range;

/// Returns the exponent of the greatest power of two that divides a level: the ruler function.
pub(super) fn ruler(level: u32) -> u32 {
    level.trailing_zeros()
}

/// Returns the levels whose sketches the series of level `j` contains, where `last` is the last
/// level. Their number is the greatest power of two that divides `j`.
///
/// Series j has a single origin: the promotion into level j − 2^ρ(j), or the leaf.
pub(super) fn sketches(j: u32, last: u32) -> Range<u32> {
    j..(j + (1 << ruler(j))).min(last + 1).max(j)
}

/// Returns the series that a new leaf starts: 1, 2, 4, … (level 0 also starts series 1, which the
/// paper does not mention).
pub(super) fn series_of_leaf(last: u32) -> impl Iterator<Item = u32> {
    (0..32).map(|q| 1 << q).take_while(move |&j| j <= last)
}

/// Returns the series that a promotion into level `j` starts: j + 2^q for q below ρ(j).
pub(super) fn series_of_promotion(j: u32, last: u32) -> impl Iterator<Item = u32> {
    (0..ruler(j))
        .map(move |q| j + (1 << q))
        .filter(move |&series| series <= last)
}

/// Returns the levels whose records store their sketches for level `j` in series `j`.
pub(super) fn source_levels(j: u32) -> Range<u32> {
    j - (1 << ruler(j))..j
}

/// Returns β for a device on which a write costs `omega` reads (Conway §2.7): the solution of β =
/// ω (λ + log_λ N / β), at most `most`.
pub(super) fn beta_for(omega: f64, growth: u32, levels: f64, most: u32) -> u32 {
    let half = omega * f64::from(growth) / 2.0;
    let beta = half + (half * half + omega * levels).sqrt();
    (beta.round().min(f64::from(most)) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_every_level_the_series_partition_the_sketches_of_all_later_levels() {
        for last in [1, 5, 63, 64, 100] {
            for level in 0..64.min(last) {
                let mut covered = Vec::new();
                for j in level + 1..=last {
                    if source_levels(j).contains(&level) {
                        covered.extend(sketches(j, last));
                    }
                }
                covered.sort_unstable();
                assert_eq!(
                    covered,
                    (level + 1..=last).collect::<Vec<_>>(),
                    "level {level} of {last}"
                );
            }
        }
    }

    #[test]
    fn series_are_those_of_the_paper() {
        // j_q is the smallest multiple of 2^q above the level; a series is empty if j_q =
        // j_(q+1).
        for level in 0u32..64 {
            let multiples: Vec<u32> = (0..7).map(|q| (level / (1 << q) + 1) * (1 << q)).collect();
            for pair in multiples.windows(2) {
                if pair[0] < pair[1] {
                    assert!(source_levels(pair[0]).contains(&level));
                    assert_eq!(sketches(pair[0], 200), pair[0]..pair[1]);
                }
            }
        }
    }

    #[test]
    fn a_promotion_passes_on_what_its_series_holds() {
        for last in [7, 40, 64] {
            for j in 1..=last {
                let mut passed: Vec<u32> = series_of_promotion(j, last)
                    .flat_map(|series| sketches(series, last))
                    .collect();
                passed.push(j);
                passed.sort_unstable();
                assert_eq!(passed, sketches(j, last).collect::<Vec<_>>(), "level {j}");
            }
            let leaf: Vec<u32> = series_of_leaf(last)
                .flat_map(|series| sketches(series, last))
                .collect();
            assert_eq!(leaf, (1..=last).collect::<Vec<_>>());
        }
    }

    #[test]
    fn characters_of_a_level_follow_the_ruler() {
        let counts: Vec<usize> = (1..=16).map(|j| sketches(j, 100).len()).collect();
        assert_eq!(counts, [1, 2, 1, 4, 1, 2, 1, 8, 1, 2, 1, 4, 1, 2, 1, 16]);
    }

    #[test]
    fn beta_solves_its_equation_within_its_bound() {
        for (omega, growth, levels) in [(1.0, 4, 8.0), (2.0, 2, 20.0), (5.0, 4, 10.0)] {
            let beta = f64::from(beta_for(omega, growth, levels, 1000));
            let right = omega * (f64::from(growth) + levels / beta);
            assert!(
                (beta - right).abs() < 1.0,
                "β = {beta}, ω (λ + log / β) = {right}"
            );
        }
        assert_eq!((beta_for(8.0, 16, 10.0, 3), beta_for(1.0, 2, 0.1, 0)), (3, 1));
    }
}
