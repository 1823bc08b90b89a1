//! Where a curve that fills a table of keys reaches a size.

/// A place on a curve: how many keys are there, how many are not yet, how fast they come.
pub(super) struct Point {
    pub(super) there: f64,
    pub(super) missing: f64,
    pub(super) slope: f64,
}

/// The longest search. Twenty steps are many.
const STEPS: usize = 1000;

/// Returns where a curve has `size` of `keys` keys; infinity for all of them.
///
/// The keys on the curve are concave, and the logarithm of the missing ones is convex: both
/// hold for sums of exponentials. So Newton's method, begun at 0, comes closer from below and
/// never steps beyond. It takes the keys while they are fewer than half, the logarithm after
/// that.
pub(super) fn solve(keys: f64, size: f64, curve: impl Fn(f64) -> Point) -> f64 {
    if size <= 0.0 {
        return 0.0;
    }
    if size >= keys {
        return f64::INFINITY;
    }
    let mut at = 0.0;
    for _ in 0..STEPS {
        let point = curve(at);
        let step = if size <= keys / 2.0 {
            (size - point.there) / point.slope
        } else {
            (point.missing / (keys - size)).ln() * point.missing / point.slope
        };
        assert!(!step.is_nan(), "U2: the curve grows strictly at {at}");
        // Rounding: the place is as exact as the curve.
        if step <= at * 1e-13 {
            return at;
        }
        at += step;
    }
    panic!("U2: {size} of {keys} keys are found in {STEPS} steps, not near {at}")
}
