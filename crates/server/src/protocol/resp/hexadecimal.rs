//! Parses hexadecimal floating-point numbers as C does. For example, `0x1.8p3` is twelve.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

/// Maximum number of mantissa digits to keep: the number of hexadecimal digits that fit into 64
/// bits.
const DIGITS: u32 = 16;

/// A number's absolute value, as a mantissa times a power of two. If digits were dropped, the exact
/// value is slightly larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HexFloat {
    mantissa: u64,
    exponent: i64,
    /// Whether any of the dropped digits is non-zero.
    has_more: bool,
}

impl HexFloat {
    /// Parses the text after `0x`: hexadecimal digits with at most one point, optionally followed
    /// by `p` and a decimal exponent of two. Returns `None` if the text is malformed.
    pub(super) fn read(text: &[u8]) -> Option<HexFloat> {
        let end = text.iter().position(|byte| matches!(byte, b'p' | b'P'));
        let (digits, power) = match end {
            Some(at) => (text.get(..at)?, Some(text.get(at + 1..)?)),
            None => (text, None),
        };
        let mut number = HexFloat {
            mantissa: 0,
            exponent: 0,
            has_more: false,
        };
        let (mut kept, mut has_digits, mut is_behind_point) = (0, false, false);
        for &byte in digits {
            if byte == b'.' && !is_behind_point {
                is_behind_point = true;
                continue;
            }
            let digit = char::from(byte).to_digit(16)?;
            has_digits = true;
            if kept < DIGITS {
                number.mantissa = number.mantissa << 4 | u64::from(digit);
                kept += u32::from(number.mantissa > 0);
                number.exponent -= 4 * i64::from(is_behind_point);
            } else {
                number.has_more |= digit != 0;
                number.exponent += 4 * i64::from(!is_behind_point);
            }
        }
        number.exponent = number
            .exponent
            .saturating_add(power.map_or(Some(0), power_of_two)?);
        has_digits.then_some(number)
    }

    /// Returns the nearest double, rounding ties to even. Returns infinity on overflow, and zero on
    /// underflow.
    pub(super) fn to_double(self) -> f64 {
        if self.mantissa == 0 {
            return 0.0;
        }
        let zeros = self.mantissa.leading_zeros();
        // The exponent of the most significant bit.
        let first = self.exponent.saturating_add(63 - i64::from(zeros));
        if first > 1023 {
            return f64::INFINITY;
        }
        // A subnormal double has fewer mantissa bits.
        let bits = 53 - (-1022_i64).saturating_sub(first).max(0);
        if bits < 0 {
            return 0.0;
        }
        let dropped = 64 - bits as u32;
        let wide = u128::from(self.mantissa << zeros);
        let rounded = self.round(wide, dropped) as u64;
        // If rounding carries out of the mantissa, the addition rightly increments the exponent.
        let biased = (first + 1022).max(0) as u64;
        f64::from_bits((biased << 52) + rounded)
    }

    /// Returns the number times `scale`, rounded to the nearest integer with ties to even. `scale`
    /// must be below 2⁶⁴. Returns `None` if the result has more than 127 bits.
    pub(super) fn scaled(self, scale: u64) -> Option<u128> {
        let product = u128::from(self.mantissa) * u128::from(scale);
        if product == 0 {
            return Some(0);
        }
        match u32::try_from(self.exponent) {
            Ok(up) => (product.leading_zeros() > up).then(|| product << up),
            Err(_) => {
                let down = u32::try_from(self.exponent.unsigned_abs()).unwrap_or(u32::MAX);
                Some(self.round(product, down))
            }
        }
    }

    /// Removes the last `bits` bits of `number`, rounding to the nearest integer with ties to even.
    /// Takes into account the digits dropped during parsing.
    fn round(self, number: u128, bits: u32) -> u128 {
        if bits == 0 {
            return number;
        }
        let half = 1_u128.checked_shl(bits - 1).unwrap_or(0);
        let kept = number.checked_shr(bits).unwrap_or(0);
        if half == 0 {
            return kept;
        }
        let rest = number & (half | (half - 1));
        let is_above = rest > half || (rest == half && (self.has_more || kept & 1 == 1));
        kept + u128::from(is_above)
    }
}

/// Parses a decimal exponent with an optional sign. Values beyond 64 bits saturate.
fn power_of_two(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text.split_first()? {
        (b'-', digits) => (-1, digits),
        (b'+', digits) => (1, digits),
        _ => (1, text),
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i64, |power, &byte| {
        let digit = char::from(byte).to_digit(10)?;
        Some(power.saturating_mul(10).saturating_add(sign * i64::from(digit)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(text: &str) -> Option<f64> {
        HexFloat::read(text.as_bytes()).map(HexFloat::to_double)
    }

    #[test]
    fn numbers_are_the_nearest_doubles() {
        for (text, value) in [
            ("10", 16.0),
            ("1p3", 8.0),
            ("1.8P+3", 12.0),
            (".8", 0.5),
            ("1.", 1.0),
            ("00000000000000000000000000001", 1.0),
            ("0.0000000000000000000000000001p100", 1.0 / 4096.0),
            ("100000000000000000000000000p-104", 1.0),
            ("0p99999999999999999999", 0.0),
            // Ties are rounded to even, values above a tie upwards.
            ("1.00000000000008", 1.0),
            ("1.000000000000080000001", 1.0 + f64::EPSILON),
            ("1.00000000000018", 1.0 + 2.0 * f64::EPSILON),
            ("1.fffffffffffff7p1023", f64::MAX),
            ("1.fffffffffffff8p1023", f64::INFINITY),
            ("1p99999999999999999999", f64::INFINITY),
            ("1p-1022", f64::MIN_POSITIVE),
            ("1.fffffffffffffp-1023", f64::MIN_POSITIVE),
            ("1p-1074", f64::from_bits(1)),
            ("1.8p-1075", f64::from_bits(1)),
            ("1p-1075", 0.0),
            ("1.0000000000000000001p-1075", f64::from_bits(1)),
            ("1p-1076", 0.0),
            ("1p-99999999999999999999", 0.0),
        ] {
            assert_eq!(double(text), Some(value), "{text}");
        }
        for text in [
            "", ".", "p1", ".p1", "1p", "1p+", "1p1.", "1..2", "g", " 1", "1 ", "-1", "1p1p1",
        ] {
            assert_eq!(double(text), None, "{text}");
        }
    }

    #[test]
    fn every_double_is_read_as_itself() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..10_000 {
            let value = f64::from_bits(random.u64(..f64::INFINITY.to_bits()));
            let bits = value.to_bits();
            let (biased, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
            let text = match biased {
                0 => format!("0.{fraction:013x}p-1022"),
                _ => format!("1.{fraction:013X}p{}", biased as i64 - 1023),
            };
            assert_eq!(double(&text), Some(value), "{text}");
        }
    }

    #[test]
    fn scaled_numbers_are_the_nearest_integers() {
        let scaled = |text: &str| HexFloat::read(text.as_bytes()).unwrap().scaled(1000);
        assert_eq!(scaled("1.8"), Some(1500));
        assert_eq!(scaled("1p-4"), Some(62), "of 62 and 63 the even one");
        assert_eq!(scaled("1p-2000"), Some(0));
        assert_eq!(scaled("1p-99999999999999999999"), Some(0));
        assert_eq!(scaled("0p99999999999"), Some(0));
        assert_eq!(scaled("1p70"), Some(1000 << 70));
        assert_eq!(scaled("1p120"), None);
    }
}
