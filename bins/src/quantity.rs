//! Sizes and durations as people write them: `64K`, `1MiB`, `500ms`, `2m`.

use core::time::Duration;

/// Bytes: a whole number, with K, M, G or T for powers of 1024, and `B` or `iB` after them for whoever likes it.
///
/// # Errors
/// What is wrong, and an example.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let letters = unit.trim_end_matches(['b', 'B']).trim_end_matches('i');
    let shift = match letters.to_ascii_uppercase().as_str() {
        "" if !unit.contains('i') => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("unknown unit '{unit}'; write 4096, 64K, 16M or 1G")),
    };
    let number: u64 = number.parse().map_err(|_| "write a whole number of bytes: 4096, 64K, 16M or 1G")?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than 64 bits hold".to_owned())
}

/// Bytes that fit 32 bits.
///
/// # Errors
/// As [`bytes`], or when there are more.
pub fn bytes_32(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| "at most 4 GiB, less one byte".to_owned())
}

/// A duration of at least a millisecond and at most a year: a number with ms, s, m, h or d; seconds without.
///
/// # Errors
/// What is wrong, and an example.
pub fn duration(text: &str) -> Result<Duration, String> {
    const YEAR: Duration = Duration::from_hours(366 * 24);
    let (number, unit) = split(text);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(format!("unknown unit '{unit}'; write 500ms, 10s, 2m or 1h")),
    };
    let number: f64 = number.parse().map_err(|_| "write 500ms, 10s, 2m or 1h")?;
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())?;
    match duration {
        short if short < Duration::from_millis(1) => Err("at least 1ms".to_owned()),
        long if long > YEAR => Err("at most 366d".to_owned()),
        duration => Ok(duration),
    }
}

/// A duration as [`duration`] reads it, in the largest unit that loses nothing.
#[must_use]
pub fn shown(duration: Duration) -> String {
    const UNITS: [(u128, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let ms = duration.as_millis();
    let exact = UNITS.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    exact.map_or_else(|| format!("{ms}ms"), |(unit, name)| format!("{}{name}", ms / unit))
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let good = [
            ("0", 0),
            ("4096", 4096),
            ("8K", 8192),
            ("8k", 8192),
            ("1MiB", 1 << 20),
            ("2 GB", 2 << 30),
            ("7b", 7),
        ];
        for (text, bytes) in good {
            assert_eq!(super::bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1.5K", "1X", "1KK", "1i", "99999999999G", "0x10"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(bytes_32("4294967295"), Ok(u32::MAX));
        assert!(bytes_32("4G").is_err());
    }

    #[test]
    fn durations() {
        let good = [
            ("500ms", 500),
            ("10s", 10_000),
            ("10", 10_000),
            ("1.5s", 1500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ];
        for (text, ms) in good {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1s", "0", "0.1ms", "367d", "1y", "1e3", "nan", "inf", "1.2.3s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read_again() {
        for (text, shown) in
            [("90s", "90s"), ("120s", "2m"), ("1.5s", "1500ms"), ("24h", "1d"), ("60m", "1h")]
        {
            assert_eq!(super::shown(duration(text).unwrap()), shown);
        }
    }
}
