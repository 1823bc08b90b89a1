//! Parses and formats human-readable sizes and durations.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// Parses a size such as `4096`, `64K`, `512M`, `2G` or `1.5GiB`. All units are powers of two.
///
/// # Errors
/// Describes why the text is not a valid size.
pub fn parse(text: &str) -> Result<ByteSize, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit
        .trim()
        .to_ascii_lowercase()
        .trim_end_matches("ib")
        .trim_end_matches('b')
    {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(format!("{unit:?} is not a unit: write K, M, G or T, as in 512M")),
    };
    let factor = 1u64 << shift;
    let whole = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    let bytes = whole.or_else(|| {
        let number: f64 = number.parse().ok()?;
        let bytes = number * factor as f64;
        (bytes.is_finite() && bytes < 1e19 && number.fract() != 0.0).then_some(bytes as u64)
    });
    bytes
        .map(ByteSize)
        .ok_or_else(|| format!("{text:?} is not a size: write a number and a unit, as in 512M"))
}

/// Parses a duration such as `90s`, `15m`, `12h`, `30d` or `250ms`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong =
        || format!("{text:?} is not a duration: write a number and a unit, as in 90s, 15m, 12h or 30d");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let ms = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(ms)
        .map(Duration::from_millis)
        .ok_or_else(wrong)
}

/// Converts a time to live to milliseconds, at least one.
pub(crate) fn milliseconds(after: Duration) -> u64 {
    u64::try_from(after.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Formats a number of bytes with three significant digits and a unit.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1023.5 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    let digits = if amount < 9.995 {
        2
    } else if amount < 99.95 {
        1
    } else {
        0
    };
    format!("{amount:.digits$} {}", UNITS[unit])
}

/// Formats a number with its digits in groups of three.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 65_536),
            ("512mb", 536_870_912),
            ("1.5 GiB", 1_610_612_736),
        ] {
            assert_eq!(parse(text), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "M", "12X", "1.2.3G", "-4", "99999999999T", "1e4"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        assert!(parse_duration("h").is_err() && parse_duration("3 weeks").is_err());
    }

    #[test]
    fn numbers_are_printed_with_three_figures() {
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1024), "1.00 KiB");
        assert_eq!(human(1_048_575), "1.00 MiB");
        assert_eq!(human(123 << 30), "123 GiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
    }
}
