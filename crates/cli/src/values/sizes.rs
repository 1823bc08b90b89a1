//! Parses and formats human-readable sizes and durations.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// Parses a size such as `4096`, `64K`, `512M`, `2G` or `1.5GiB`. All units are powers of two.
///
/// # Errors
/// Describes why the text is not a valid size.
pub fn parse(text: &str) -> Result<ByteSize, String> {
    alluvium::text::parse_size(text).map(ByteSize)
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
    fn numbers_are_printed_with_three_figures() {
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1024), "1.00 KiB");
        assert_eq!(human(1_048_575), "1.00 MiB");
        assert_eq!(human(123 << 30), "123 GiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
    }
}
