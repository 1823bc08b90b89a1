//! Parses and formats numbers the way Redis does.

use super::hexadecimal::HexFloat;

/// Parses a decimal integer as Redis does, without accepting blanks, plus signs or leading zeros.
#[must_use]
pub fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if is_negative {
        0i64.checked_sub_unsigned(value)
    } else {
        i64::try_from(value).ok()
    }
}

/// Parses a double as Redis does. Rejects blanks and NaN, and accepts `inf` in upper and lower
/// case.
#[must_use]
pub fn double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest.eq_ignore_ascii_case("inf") || rest.eq_ignore_ascii_case("infinity") {
        return Some(sign * f64::INFINITY);
    }
    let value: f64 = match behind_mark(rest.as_bytes()) {
        Some(digits) => HexFloat::read(digits)?.to_double(),
        None if rest.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
            rest.parse().ok()?
        }
        None => return None,
    };
    if value.is_infinite() || (value == 0.0 && mantissa_has_digits(rest.as_bytes())) {
        return None;
    }
    Some(sign * value)
}

/// Returns the text after an unsigned number's `0x` prefix, or `None` if it has none.
fn behind_mark(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'0', b'x' | b'X', digits @ ..] => Some(digits),
        _ => None,
    }
}

/// Returns whether a number's mantissa has a non-zero digit.
fn mantissa_has_digits(text: &[u8]) -> bool {
    let is_not_zero = |byte: &u8| byte.is_ascii_hexdigit() && *byte != b'0';
    match behind_mark(text) {
        Some(digits) => digits
            .iter()
            .take_while(|byte| !matches!(byte, b'p' | b'P'))
            .any(is_not_zero),
        None => text
            .iter()
            .take_while(|byte| !matches!(byte, b'e' | b'E'))
            .any(is_not_zero),
    }
}

/// Parses a bound of a score range as Redis does. Accepts leading blanks, reads an empty text as
/// zero, and turns numbers out of range into infinities.
#[must_use]
pub fn bound(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let blanks = text
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b)
        .count();
    let text = &text[blanks..];
    double(text).or_else(|| {
        // The remaining valid numbers are out of a double's range.
        let (sign, rest) = match text.split_first()? {
            (b'-', rest) => (-1.0, rest),
            (b'+', rest) => (1.0, rest),
            _ => (1.0, text),
        };
        if let Some(digits) = behind_mark(rest) {
            return Some(sign * HexFloat::read(digits)?.to_double());
        }
        let is_number = text.last()?.is_ascii_digit() && text.iter().all(|&byte| is_of_number(byte));
        let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        is_number.then_some(value)
    })
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-')
}

/// Formats a double like C's `%.17g`, which Redis 7.0 uses for replies.
pub fn write_double(out: &mut Vec<u8>, value: f64) {
    if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
        return;
    }
    if value == 0.0 {
        out.extend_from_slice(if value.is_sign_negative() { b"-0" } else { b"0" });
        return;
    }
    // One digit before the point, sixteen digits after it, and an exponent.
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if mantissa.starts_with('-') {
        out.push(b'-');
    }
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let kept = digits
        .iter()
        .rposition(|&digit| digit != b'0')
        .map_or(1, |last| last + 1);
    let digits = &digits[..kept];
    match exponent {
        -4..0 => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - 1) as usize, b'0');
            out.extend_from_slice(digits);
        }
        0..17 => {
            let whole = exponent as usize + 1;
            if digits.len() <= whole {
                out.extend_from_slice(digits);
                out.resize(out.len() + whole - digits.len(), b'0');
            } else {
                out.extend_from_slice(&digits[..whole]);
                out.push(b'.');
                out.extend_from_slice(&digits[whole..]);
            }
        }
        _ => {
            out.push(digits[0]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            let sign = if exponent < 0 { '-' } else { '+' };
            out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
        }
    }
}

/// Appends a decimal integer to `out`.
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

/// Number of decimal places in INCRBYFLOAT's arithmetic.
const DECIMALS: u32 = 17;
const ONE: i128 = 10i128.pow(DECIMALS);

/// From this value on, numbers have more than nineteen integer digits, which a long double cannot
/// represent exactly.
const MOST_FIXED: i128 = ONE * 10i128.pow(19);

/// Parses a decimal number as a fixed-point number with seventeen decimal places, the precision at
/// which Redis prints INCRBYFLOAT's long doubles. Sums of such numbers are exact.
fn fixed(text: &[u8]) -> Option<i128> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    if let Some(digits) = behind_mark(digits) {
        let value = HexFloat::read(digits)?.scaled(ONE as u64)?;
        let value = i128::try_from(value).ok().filter(|&value| value < MOST_FIXED)?;
        return Some(if is_negative { -value } else { value });
    }
    let mut parts = digits.splitn(2, |&byte| byte == b'.');
    let (whole, decimals) = (parts.next()?, parts.next().unwrap_or_default());
    // More integer digits could exceed `MOST_FIXED`.
    if whole.len() > 19 || decimals.len() > DECIMALS as usize || whole.len() + decimals.len() == 0 {
        return None;
    }
    let zeros = (DECIMALS as usize - decimals.len()) as u32;
    let mut value: i128 = 0;
    for &digit in whole.iter().chain(decimals) {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i128::from(digit - b'0');
    }
    value *= 10i128.pow(zeros);
    Some(if is_negative { -value } else { value })
}

/// Returns the sum that INCRBYFLOAT computes, or `None` if it is not finite.
#[must_use]
pub fn add_floats(left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
    if let (Some(left), Some(right)) = (fixed(left), fixed(right)) {
        return Some(write_fixed(left + right));
    }
    let sum = double(left)? + double(right)?;
    if !sum.is_finite() {
        return None;
    }
    Some(trimmed(format!("{sum:.17}")))
}

fn write_fixed(value: i128) -> Vec<u8> {
    let sign = if value < 0 { "-" } else { "" };
    let value = value.unsigned_abs();
    let one = ONE.unsigned_abs();
    trimmed(format!("{sign}{}.{:017}", value / one, value % one))
}

fn trimmed(text: String) -> Vec<u8> {
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    };
    if text == "-0" {
        b"0".to_vec()
    } else {
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_strictly_as_redis_does() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1a", None),
        ] {
            assert_eq!(integer(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn integers_are_written_with_all_their_digits() {
        for value in [0, 7, -7, 10, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_integer(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }

    #[test]
    fn doubles_are_written_as_c_does() {
        for (value, text) in [
            (1.0, "1"),
            (-3.5, "-3.5"),
            (0.1, "0.10000000000000001"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (123_456.75, "123456.75"),
            (1.5e-7, "1.4999999999999999e-07"),
            (0.0001, "0.0001"),
            (f64::NEG_INFINITY, "-inf"),
            (-0.0, "-0"),
        ] {
            let mut out = Vec::new();
            write_double(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn doubles_are_read_without_blanks_and_never_as_nan() {
        assert_eq!(double(b"-1.5e3"), Some(-1500.0));
        assert_eq!(double(b"+inf"), Some(f64::INFINITY));
        assert_eq!(double(b"0x10"), Some(16.0));
        assert_eq!(double(b"-0X1.8p1"), Some(-3.0));
        assert_eq!(double(b"0x0p-5000"), Some(0.0));
        for text in [
            "",
            "nan",
            " 1",
            "1 ",
            "1a",
            "--1",
            "-",
            "e5",
            "0x",
            "1e400",
            "-1e400",
            "1e-400",
            "0x1p1024",
            "-0x1p1024",
            "0x1p-1075",
            "1p3",
            "0x-1",
            "0xinf",
            "0x1e+5",
        ] {
            assert_eq!(double(text.as_bytes()), None, "{text}");
        }
        assert_eq!(double(b"0e5"), Some(0.0));
    }

    #[test]
    fn ends_of_ranges_are_read_as_c_does() {
        for (text, value) in [
            ("", Some(0.0)),
            (" 1.5", Some(1.5)),
            ("1e400", Some(f64::INFINITY)),
            ("-1e400", Some(f64::NEG_INFINITY)),
            ("1e-400", Some(0.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            (" 0x1p3", Some(8.0)),
            ("-0x1p1024", Some(f64::NEG_INFINITY)),
            ("0x1p-2000", Some(0.0)),
            ("0x1p", None),
            (" ", None),
            ("1 ", None),
            ("nan", None),
            ("x", None),
        ] {
            assert_eq!(bound(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn sums_of_decimals_are_exact() {
        for (left, right, sum) in [
            ("10.50", "0.1", "10.6"),
            ("0.1", "0.2", "0.3"),
            ("5.0e3", "200", "5200"),
            ("-1", "1", "0"),
            ("0x1p3", "1", "9"),
            ("-0x1.8p1", "0.5", "-2.5"),
            ("0x1p-1074", "1", "1"),
            ("0x1.00000000000008p0", "0", "1.00000000000000011"),
            ("0x1.23456789abcdef123p4", "1", "19.20444444444444422"),
        ] {
            let found = add_floats(left.as_bytes(), right.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(found).unwrap(), sum);
        }
        assert_eq!(add_floats(b"1e308", b"1e308"), None);
        assert_eq!(add_floats(b"x", b"1"), None);
    }
}
