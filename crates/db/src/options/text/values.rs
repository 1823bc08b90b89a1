//! Sizes, durations and tiers, as people write them.

use std::path::PathBuf;
use std::time::Duration;

/// Parses a size such as `4096`, `64K`, `512M`, `2G` or `1.5GiB`. All units are powers of two.
///
/// # Errors
/// Describes why the text is not a valid size.
pub fn parse_size(text: &str) -> Result<u64, String> {
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
    bytes.ok_or_else(|| format!("{text:?} is not a size: write a number and a unit, as in 512M"))
}

/// Parses a duration such as `90s`, `15m`, `12h`, `30d` or `250ms`.
///
/// # Errors
/// Describes why the text is not a valid duration.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
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

/// Parses the directory of a tier and its limit in bytes: `PATH` or `PATH,bytes=4T`. The path may
/// contain commas, but its end must not look like a limit.
///
/// # Errors
/// Describes why the text is not a valid tier.
pub fn parse_tier(text: &str) -> Result<(PathBuf, Option<u64>), String> {
    let (path, max_bytes) = match text.rsplit_once(",bytes=") {
        Some((path, size)) => (path, Some(parse_size(size)?)),
        None => (text, None),
    };
    if path.is_empty() {
        return Err("name a directory, optionally with a limit, as in /mnt/large,bytes=4T".to_owned());
    }
    Ok((PathBuf::from(path), max_bytes))
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
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "12X", "1.2.3G", "-4", "99999999999T", "1e4"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        assert!(parse_duration("h").is_err() && parse_duration("3 weeks").is_err());
    }

    #[test]
    fn a_path_may_have_a_limit_and_commas() {
        let tier = |path: &str, max_bytes| Ok((PathBuf::from(path), max_bytes));
        assert_eq!(parse_tier("/mnt/large"), tier("/mnt/large", None));
        assert_eq!(parse_tier("large,bytes=4T"), tier("large", Some(4 << 40)));
        assert_eq!(parse_tier("a,b,bytes=16M"), tier("a,b", Some(16 << 20)));
        assert!(parse_tier(",bytes=1G").is_err() && parse_tier("").is_err());
        assert!(parse_tier("large,bytes=much").unwrap_err().contains("is not a "));
    }
}
