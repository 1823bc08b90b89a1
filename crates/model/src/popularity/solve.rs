//! Finds where a curve of distinct keys reaches a size.

/// A point on a curve: the number of keys present, the number missing, and the slope.
pub(super) struct CurvePoint {
    pub(super) there: f64,
    pub(super) missing: f64,
    pub(super) slope: f64,
}

/// Maximum number of iterations. Usually fewer than twenty are needed.
const STEPS: usize = 1000;

/// Returns where a curve reaches `size` of `keys` keys; infinity for all of them.
///
/// The number of present keys is concave, and the logarithm of the missing ones is convex: both
/// hold for sums of exponentials. So Newton's method, started at 0, converges from below and never
/// overshoots. It uses the keys while fewer than half are present, and the logarithm after that.
pub(super) fn solve(keys: f64, size: f64, curve: impl Fn(f64) -> CurvePoint) -> f64 {
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
        // Limit of rounding: the result is as exact as the curve.
        if step <= at * 1e-13 {
            return at;
        }
        at += step;
    }
    panic!("U2: {size} of {keys} keys are found in {STEPS} steps, not near {at}")
}
