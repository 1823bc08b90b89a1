//! Minimises functions of several variables without derivatives (Nelder and Mead).

/// A point and the function's value there.
pub(crate) type MinimumPoint = (Vec<f64>, f64);

/// Convergence tolerance: a search stops once the function values at the vertices of the simplex
/// differ by less than this fraction.
const CLOSE: f64 = 1e-10;

/// Maximum number of steps of a search.
const STEPS: usize = 2000;

/// Returns a local minimum of the function `of` near `start`, where its value must be finite.
/// `step` is the distance of the other vertices of the initial simplex from `start`. The search
/// avoids invalid points, at which the function may be infinite.
pub(crate) fn minimum(start: &[f64], step: f64, of: &mut impl FnMut(&[f64]) -> f64) -> MinimumPoint {
    let mut best = (start.to_vec(), of(start));
    // The simplex may collapse before it reaches the minimum, so restart the search until that no
    // longer improves the value.
    for _ in 0..20 {
        let found = descend(&best.0, step, of);
        let gained = best.1 - found.1;
        let done = gained <= 1e-8 * found.1.abs();
        if found.1 < best.1 {
            best = found;
        }
        if done {
            break;
        }
    }
    best
}

fn descend(start: &[f64], step: f64, of: &mut impl FnMut(&[f64]) -> f64) -> MinimumPoint {
    let dimensions = start.len();
    let mut corners = vec![(start.to_vec(), of(start))];
    for dimension in 0..dimensions {
        let mut at = start.to_vec();
        at[dimension] += step;
        let value = of(&at);
        corners.push((at, value));
    }
    for _ in 0..STEPS {
        corners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (best, worst) = (corners[0].1, corners[dimensions].1);
        if worst - best <= CLOSE * best.abs() {
            break;
        }
        let centre = centre(&corners[..dimensions]);
        let from_worst = |factor: f64, of: &mut dyn FnMut(&[f64]) -> f64| {
            let worst = &corners[dimensions].0;
            let at: Vec<f64> = centre
                .iter()
                .zip(worst)
                .map(|(centre, worst)| centre + factor * (centre - worst))
                .collect();
            let value = of(&at);
            (at, value)
        };
        let reflected = from_worst(1.0, of);
        let instead = if reflected.1 < best {
            let expanded = from_worst(2.0, of);
            if expanded.1 < reflected.1 {
                expanded
            } else {
                reflected
            }
        } else if reflected.1 < corners[dimensions.saturating_sub(1)].1 {
            reflected
        } else {
            let inside = reflected.1 >= worst;
            from_worst(if inside { -0.5 } else { 0.5 }, of)
        };
        if instead.1 < worst {
            corners[dimensions] = instead;
        } else {
            shrink(&mut corners, of);
        }
    }
    corners.swap_remove(0)
}

fn centre(corners: &[MinimumPoint]) -> Vec<f64> {
    let mut centre = vec![0.0; corners[0].0.len()];
    for (at, _) in corners {
        for (sum, at) in centre.iter_mut().zip(at) {
            *sum += at / corners.len() as f64;
        }
    }
    centre
}

fn shrink(corners: &mut [MinimumPoint], of: &mut impl FnMut(&[f64]) -> f64) {
    let best = corners[0].0.clone();
    for (at, value) in &mut corners[1..] {
        for (at, best) in at.iter_mut().zip(&best) {
            *at = f64::midpoint(*at, *best);
        }
        *value = of(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_curved_valley_is_found() {
        // Rosenbrock's function has its minimum at (1, 1).
        let mut calls = 0;
        let (at, value) = minimum(&[-1.2, 1.0], 0.5, &mut |x: &[f64]| {
            calls += 1;
            1.0 + 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2)
        });
        assert!((value - 1.0).abs() < 1e-6, "{value} after {calls}");
        assert!((at[0] - 1.0).abs() < 1e-2 && (at[1] - 1.0).abs() < 1e-2, "{at:?}");
    }

    #[test]
    fn the_search_stays_where_the_function_is_finite() {
        let (at, value) = minimum(&[3.0], 0.5, &mut |x: &[f64]| {
            if x[0] < 2.0 { f64::INFINITY } else { x[0] }
        });
        assert!(value < 2.001 && at[0] >= 2.0, "{at:?}");
    }
}
