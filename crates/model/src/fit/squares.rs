//! Linear least squares for a small number of unknowns.

/// Returns the least-squares coefficients with which the columns approximate the measured values,
/// or `None` if the columns are linearly dependent.
///
/// Solves the normal equations by elimination with pivoting. `K` is at most 3. The columns are
/// scaled first, so that a column of sizes from 4 KiB to 16 MiB does not lose precision next to a
/// constant one.
pub(super) fn least_squares<const K: usize>(rows: &[([f64; K], f64)]) -> Option<[f64; K]> {
    let mut scale = [0.0_f64; K];
    for (row, _) in rows {
        for (scale, value) in scale.iter_mut().zip(row) {
            *scale = scale.max(value.abs());
        }
    }
    if scale.contains(&0.0) {
        return None;
    }
    // Set up the normal equations. The right-hand side is stored in a separate vector.
    let mut matrix = [[0.0_f64; K]; K];
    let mut right = [0.0_f64; K];
    for (row, measured) in rows {
        for i in 0..K {
            for j in 0..K {
                matrix[i][j] += row[i] / scale[i] * (row[j] / scale[j]);
            }
            right[i] += row[i] / scale[i] * measured;
        }
    }
    for column in 0..K {
        let pivot =
            (column..K).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        if matrix[pivot][column].abs() < 1e-12 * rows.len() as f64 {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..K {
            let factor = matrix[row][column] / matrix[column][column];
            let above = matrix[column];
            for (value, above) in matrix[row].iter_mut().zip(above).skip(column) {
                *value -= factor * above;
            }
            right[row] -= factor * right[column];
        }
    }
    let mut found = [0.0_f64; K];
    for row in (0..K).rev() {
        let known: f64 = (row + 1..K)
            .map(|column| matrix[row][column] * found[column])
            .sum();
        found[row] = (right[row] - known) / matrix[row][row];
    }
    for (found, scale) in found.iter_mut().zip(scale) {
        *found /= scale;
    }
    found.iter().all(|value| value.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_among_points_on_both_sides_of_it() {
        // Points of y = 2 + 3x with errors +1, −1, −1 and +1, which are symmetric and so do not
        // change the fitted line.
        let rows = [(0.0, 3.0), (1.0, 4.0), (2.0, 7.0), (3.0, 12.0)].map(|(x, y)| ([1.0, x], y));
        let [constant, slope] = least_squares(&rows).unwrap();
        assert!((constant - 2.0).abs() < 1e-12 && (slope - 3.0).abs() < 1e-12);
    }

    #[test]
    fn columns_that_depend_on_each_other_have_no_solution() {
        assert!(least_squares(&[([1.0, 2.0], 1.0), ([1.0, 2.0], 2.0)]).is_none());
        assert!(least_squares(&[([1.0, 0.0], 1.0), ([2.0, 0.0], 2.0)]).is_none());
    }

    #[test]
    fn columns_of_very_different_size_lose_no_digits() {
        let rows: Vec<_> = (0..13)
            .map(|power| f64::from(1 << power) * 4096.0)
            .map(|size| ([1.0, size], 0.015 + 8e-9 * size))
            .collect();
        let [constant, slope] = least_squares(&rows).unwrap();
        assert!((constant / 0.015 - 1.0).abs() < 1e-9 && (slope / 8e-9 - 1.0).abs() < 1e-9);
    }
}
