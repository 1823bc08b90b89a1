//! Bounds and estimates of recycling rates, for m balls and bins of given probabilities
//! (Conway §5.4 to §5.6).
//!
//! The estimates are ours. Both assume many bins, none of which has nearly all balls.
//!
//! *Golden Gate.* Let D be the number of balls thrown during one cycle of the gate. A bin has p ·
//! D balls when its turn comes, and the balls present were thrown since its last turn: m = D · (1
//! + Σp²) / 2. Unique(D) bins are non-empty, so a round takes D / Unique(D) balls. If all bins
//! are alike and full, the rate is 2m/(n + 1), the bound of Theorem 7.
//!
//! *Random Ball.* A bin with x balls receives balls at the rate pR and is emptied at the rate
//! x/m. The mean numbers of balls in all bins add up to m for exactly one R. If all bins are
//! alike and full, R is π/4 of the upper bound.

use alluvium_model::Popularity;
use alluvium_model::parameter::{BadParameter, positive, require};

/// Returns an upper bound for every strategy: (2m + n − 1) / (Σ√p)² (Lemma 26), and at most m.
///
/// # Errors
/// [`BadParameter`] unless there is a ball.
pub fn upper(bins: &Popularity, balls: f64) -> Result<f64, BadParameter> {
    let balls = checked(balls)?;
    let bound = (2.0 * balls + bins.keys() - 1.0) / bins.half_norm();
    Ok(bound.min(balls))
}

/// Returns a lower bound for Random Ball: m / (Σ√p)² (Lemma 27), and at least 1.
///
/// # Errors
/// The errors of [`upper`].
pub fn random_ball_least(bins: &Popularity, balls: f64) -> Result<f64, BadParameter> {
    Ok((checked(balls)? / bins.half_norm()).max(1.0))
}

/// Returns a lower bound for Fullest Bin and Golden Gate if all bins are alike: 2m / (n + 1)
/// (Theorem 7), and at least 1.
///
/// # Errors
/// [`BadParameter`] unless there are balls and bins.
pub fn even_least(bins: f64, balls: f64) -> Result<f64, BadParameter> {
    let bins = positive("the bins", bins)?;
    Ok((2.0 * checked(balls)? / (bins + 1.0)).max(1.0))
}

/// Returns an upper bound for Random Ball if all bins are alike: 1 + 1.994 m/n (Corollary 9).
///
/// # Errors
/// The errors of [`even_least`].
pub fn random_ball_even_most(bins: f64, balls: f64) -> Result<f64, BadParameter> {
    let bins = positive("the bins", bins)?;
    Ok(1.0 + 1.994 * checked(balls)? / bins)
}

/// Returns the rate of the aggressive strategy up to a constant: 1 / ((1 − q)/R + q), where q is
/// the fraction of balls that fall outside of the kept bins, and R is the rate of the choice
/// among the kept bins (Lemma 29).
///
/// # Errors
/// [`BadParameter`] unless the rate is at least 1, and the fraction from 0 to 1.
pub fn aggressive_empty(rate: f64, outside: f64) -> Result<f64, BadParameter> {
    require("the rate", rate, rate.is_finite() && rate >= 1.0, "at least 1")?;
    let is_share = (0.0..=1.0).contains(&outside);
    require("the share outside", outside, is_share, "from 0 to 1")?;
    Ok(1.0 / ((1.0 - outside) / rate + outside))
}

/// Estimates the rate of Golden Gate.
///
/// ```
/// use alluvium_model::Popularity;
/// use research_models::recycling::bounds;
/// let leaves = Popularity::uniform(1000)?;
/// assert!((bounds::golden_gate(&leaves, 1000.0)? - 2.31).abs() < 0.01);
/// # Ok::<(), alluvium_model::BadParameter>(())
/// ```
///
/// # Errors
/// The errors of [`upper`].
pub fn golden_gate(bins: &Popularity, balls: f64) -> Result<f64, BadParameter> {
    let thrown = 2.0 * checked(balls)? / (1.0 + bins.sum_of_squares());
    Ok((thrown / bins.unique(thrown)?).max(1.0))
}

/// Estimates the rate of Random Ball.
///
/// # Errors
/// The errors of [`upper`].
pub fn random_ball(bins: &Popularity, balls: f64) -> Result<f64, BadParameter> {
    let balls = checked(balls)?;
    let (mut low, mut high) = (1.0, balls);
    for _ in 0..60 {
        let rate = f64::midpoint(low, high);
        let each = bins
            .groups()
            .iter()
            .map(|group| group.keys * mean_balls(group.probability * rate, balls));
        if each.sum::<f64>() < balls {
            low = rate;
        } else {
            high = rate;
        }
    }
    Ok(low)
}

/// Returns the mean number of balls in a bin that receives them at a given rate and is emptied at
/// the rate x/m.
fn mean_balls(rate: f64, all: f64) -> f64 {
    let (mut time, mut sum) = (1.0 / rate, 0.0);
    let (mut reached, mut balls) = (1.0, 0.0);
    while reached > 1e-12 {
        balls += 1.0;
        let here = reached / (rate + balls / all);
        time += here;
        sum += balls * here;
        reached *= rate / (rate + balls / all);
    }
    sum / time
}

fn checked(balls: f64) -> Result<f64, BadParameter> {
    require(
        "the balls",
        balls,
        balls.is_finite() && balls >= 1.0,
        "at least 1",
    )
}
