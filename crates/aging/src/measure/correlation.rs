//! Correlation of two series: Pearson's of the values, and Spearman's of their ranks.

/// Returns Pearson's correlation, from −1 to 1. `None` with fewer than two pairs, or if one of the
/// series is constant.
#[must_use]
pub fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut covariance, mut variance_x, mut variance_y) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (x, y) = (x - mean_x, y - mean_y);
        covariance += x * y;
        variance_x += x * x;
        variance_y += y * y;
    }
    let scale = (variance_x * variance_y).sqrt();
    (pairs.len() > 1 && scale > 0.0).then(|| (covariance / scale).clamp(-1.0, 1.0))
}

/// Returns Spearman's rank correlation. Equal values share the mean of their ranks.
#[must_use]
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let xs = ranks(pairs.iter().map(|pair| pair.0));
    let ys = ranks(pairs.iter().map(|pair| pair.1));
    let ranked: Vec<(f64, f64)> = xs.into_iter().zip(ys).collect();
    pearson(&ranked)
}

fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut ranks = vec![0.0; values.len()];
    for group in order.chunk_by(|&one, &other| values[one] == values[other]) {
        let first = order.partition_point(|&at| values[at] < values[group[0]]);
        let mean = first as f64 + (group.len() - 1) as f64 / 2.0;
        for &at in group {
            ranks[at] = mean;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-9)
    }

    #[test]
    fn lines_have_correlation_one_and_minus_one() {
        let up: Vec<(f64, f64)> = (0..10)
            .map(|at| (f64::from(at), 3.0 * f64::from(at) + 1.0))
            .collect();
        let down: Vec<(f64, f64)> = up.iter().map(|&(x, y)| (x, -y)).collect();
        assert!(close(pearson(&up), 1.0) && close(spearman(&up), 1.0));
        assert!(close(pearson(&down), -1.0) && close(spearman(&down), -1.0));
    }

    #[test]
    fn a_monotonic_curve_has_rank_correlation_one_and_less_by_value() {
        let curve: Vec<(f64, f64)> = (0..10).map(|at| (f64::from(at), f64::from(at).powi(6))).collect();
        assert!(close(spearman(&curve), 1.0));
        assert!(pearson(&curve).unwrap() < 0.9);
    }

    #[test]
    fn a_known_example_has_its_known_values() {
        // Five pairs with deviations whose products sum to 6, and squares to 10 and 6.
        let pairs = [(1.0, 2.0), (2.0, 4.0), (3.0, 5.0), (4.0, 4.0), (5.0, 5.0)];
        assert!(close(pearson(&pairs), 6.0 / 60.0_f64.sqrt()));
        // Ranks of the second series: 0, 1.5, 3.5, 1.5, 3.5.
        assert!(close(spearman(&pairs), 7.0 / 90.0_f64.sqrt()));
    }

    #[test]
    fn constant_and_short_series_have_none() {
        assert_eq!(pearson(&[(1.0, 2.0), (2.0, 2.0)]), None);
        assert_eq!(spearman(&[(1.0, 2.0)]), None);
        assert_eq!(pearson(&[]), None);
    }
}
