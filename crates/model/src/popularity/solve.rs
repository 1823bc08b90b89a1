//! Finds the number of requests at which a curve of distinct keys reaches a given size.

/// A point on a curve of distinct keys: the number of keys present, the number missing, and the
/// slope of the curve.
pub(super) struct CurvePoint {
    pub(super) there: f64,
    pub(super) missing: f64,
    pub(super) slope: f64,
}

/// Maximum number of iterations. Usually fewer than twenty are needed.
const STEPS: usize = 1000;

/// Returns the argument at which `curve` reaches `size` of `keys` keys, which is infinite if `size`
/// includes all of them.
///
/// As a function of the argument, the number of present keys is concave, and the logarithm of the
/// number of missing keys is convex, because the curves are sums of exponentials. Newton's method
/// from 0 therefore converges from below and never overshoots. It uses the number of present keys
/// until half of the keys are present, and the logarithm of the missing keys after that.
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
        // The step is at the rounding limit, so the result is as exact as the curve.
        if step <= at * 1e-13 {
            return at;
        }
        at += step;
    }
    panic!("U2: {size} of {keys} keys are found in {STEPS} steps, not near {at}")
}
