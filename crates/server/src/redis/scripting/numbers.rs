//! The text of numbers as C's `printf` writes it, which Lua programs and their libraries expect.

/// Formats a number as `%.{precision}g` does.
pub(super) fn general(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return match value {
            _ if value.is_nan() => "nan".to_owned(),
            _ if value > 0.0 => "inf".to_owned(),
            _ => "-inf".to_owned(),
        };
    }
    let scientific = format!("{:.*e}", precision - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let precision = i32::try_from(precision).unwrap_or(i32::MAX);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= precision {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(precision - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (value, precision, expected) in [
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1e15, 14, "1e+15"),
            (123_456.0, 14, "123456"),
            (-1.5e-7, 14, "-1.5e-07"),
            (0.0001, 14, "0.0001"),
            (3.0, 17, "3"),
            (1e300, 17, "1.0000000000000001e+300"),
            (f64::INFINITY, 17, "inf"),
            (0.0, 14, "0"),
        ] {
            assert_eq!(general(value, precision), expected);
        }
    }
}
