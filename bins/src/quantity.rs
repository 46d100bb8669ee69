//! Parsers for sizes, counts and durations on the command line: `64K`, `1.5MiB`, `500ms`, `1m30s`.

use core::ops::RangeInclusive;
use core::time::Duration;

/// Most digits of a number: 2^64 has 20, and the product of 20 digits and any unit of this file fits 128 bits.
const DIGITS_MAX: usize = 20;

/// A decimal number: its digits, of which the last `scale` follow the point.
struct Decimal {
    digits: u128,
    scale: u32,
}

/// Parses a size in bytes: a number, optionally with K, M, G or T for powers of 1024, which `B` or `iB` may follow. A fraction
/// needs a unit, and is rounded to whole bytes.
///
/// # Errors
/// The text is not a size; the error names the cause and gives an example.
pub fn bytes(text: &str) -> Result<u64, String> {
    const EXAMPLES: &str = "write a whole number of bytes, or one with a unit: 4096, 64K, 1.5M or 1G";
    let (number, unit) = split(text);
    let without_b = unit.strip_suffix(['b', 'B']).unwrap_or(unit);
    let letters = without_b.strip_suffix('i').filter(|letters| !letters.is_empty()).unwrap_or(without_b);
    let shift = match letters.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("unknown unit '{unit}'; write 4096, 64K, 1.5M or 1G")),
    };
    // ".5K" is not accepted: in a range, its point after the two of `..` would be easily missed
    let number = Decimal::read(number).filter(|_| !number.starts_with('.')).ok_or(EXAMPLES)?;
    if shift == 0 && number.scale > 0 {
        return Err(EXAMPLES.to_owned());
    }
    number.times(1 << shift)
}

/// Parses a size in bytes that fits 32 bits.
///
/// # Errors
/// As [`bytes`], or the size is 4 GiB or more.
pub fn bytes_32(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| "it must be less than 4 GiB".to_owned())
}

/// Parses a count: a number, optionally with K, M or G for powers of 1000, since it counts no bytes.
///
/// # Errors
/// The text is not a count, or the count is outside of `range`.
pub fn count(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    const EXAMPLES: &str = "write a whole number, or one with a unit: 20000, 20K or 1.5M";
    let (number, unit) = split(text);
    let factor = match unit {
        "" => 1,
        "K" | "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(format!("unknown unit '{unit}'; write 20000, 20K or 1.5M, where K is 1000")),
    };
    let number = Decimal::read(number).ok_or(EXAMPLES)?;
    if factor == 1 && number.scale > 0 {
        return Err(EXAMPLES.to_owned());
    }
    let count = number.times(factor)?;
    if range.contains(&count) {
        Ok(count)
    } else {
        Err(format!("{count} is not in {} to {}", range.start(), range.end()))
    }
}

/// Parses a duration from 1 ms to 366 days: a number with ms, s, m, h or d, or several such numbers from the largest unit to
/// the smallest. A single number without a unit is in seconds. Only the last number may have a fraction.
///
/// # Errors
/// The text is not a duration in this range; the error names the cause.
pub fn duration(text: &str) -> Result<Duration, String> {
    const EXAMPLES: &str = "write 500ms, 10s, 1m30s or 1h";
    const YEAR: Duration = Duration::from_hours(366 * 24);
    let mut rest = text.trim();
    let (mut total, mut last) = (0_u64, u64::MAX);
    loop {
        let (number, behind) = split(rest);
        let end = behind.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at(end);
        let is_alone = last == u64::MAX && next.is_empty();
        let ns = match unit {
            "ms" => 1_000_000,
            "" if is_alone => 1_000_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            "" => return Err(format!("'{rest}' has no unit; {EXAMPLES}")),
            _ => return Err(format!("unknown unit '{unit}'; {EXAMPLES}")),
        };
        if ns >= last {
            return Err(format!("the units go from large to small, each once; {EXAMPLES}"));
        }
        let number = Decimal::read(number).ok_or(EXAMPLES)?;
        rest = next.trim_start();
        if number.scale > 0 && !rest.is_empty() {
            return Err(format!("only the last number may have a fraction; {EXAMPLES}"));
        }
        // a saturated total is more than a year, and rejected below
        total = total.saturating_add(number.times_or_zero(ns).unwrap_or(u64::MAX));
        last = ns;
        if rest.is_empty() {
            break;
        }
    }
    match Duration::from_nanos(total) {
        short if short < Duration::from_millis(1) => Err("it must be at least 1ms".to_owned()),
        long if long > YEAR => Err("it must be at most 366d".to_owned()),
        duration => Ok(duration),
    }
}

/// Formats a duration as [`duration`] reads it, in the largest unit that expresses its milliseconds exactly.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    const UNITS: [(u128, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let ms = duration.as_millis();
    let exact = UNITS.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    exact.map_or_else(|| format!("{ms}ms"), |(unit, name)| format!("{}{name}", ms / unit))
}

impl Decimal {
    /// Parses digits with at most one point.
    fn read(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction}");
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number || digits.len() > DIGITS_MAX {
            return None;
        }
        Some(Self { digits: digits.parse().ok()?, scale: u32::try_from(fraction.len()).ok()? })
    }

    /// Multiplies by a unit, and rounds. Fails if a number above zero would become zero.
    fn times(&self, unit: u64) -> Result<u64, String> {
        match self.times_or_zero(unit) {
            None => Err("it does not fit 64 bits".to_owned()),
            Some(0) if self.digits > 0 => Err("it is less than 1".to_owned()),
            Some(product) => Ok(product),
        }
    }

    fn times_or_zero(&self, unit: u64) -> Option<u64> {
        let divisor = 10_u128.pow(self.scale);
        u64::try_from((self.digits * u128::from(unit) + divisor / 2) / divisor).ok()
    }
}

/// Splits a text into its leading number and the rest.
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
            ("1.5K", 1536),
            ("0.5MiB", 1 << 19),
            ("1.0K", 1024),
            // to the nearest byte
            ("0.1K", 102),
            ("0.3G", 322_122_547),
            ("0K", 0),
            ("0.0K", 0),
            ("18446744073709551615", u64::MAX),
            ("16777215.99999999999T", u64::MAX - 10),
        ];
        for (text, bytes) in good {
            assert_eq!(super::bytes(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            "-1",
            "1.5",
            "1.0",
            "1.5B",
            ".5K",
            "1.5.0K",
            ".",
            ".K",
            "1,5K",
            "1 500",
            "1X",
            "1KK",
            "1i",
            "1iB",
            "8Kii",
            "8KiiB",
            "7bB",
            "7bBb",
            "8KBi",
            "1e3",
            "99999999999G",
            "16777216T",
            "18446744073709551616",
            "0.0001K",
            "0x10",
            "1.000000000000000000000K",
            "\u{661}K",
        ] {
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
            ("1m30s", 90_000),
            ("1h 30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1m0.5s", 60_500),
            ("1min", 60_000),
            (".5s", 500),
            ("366d", 31_622_400_000),
        ];
        for (text, ms) in good {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "s",
            "-1s",
            "0",
            "0m0s",
            "0.1ms",
            "367d",
            "366d1ms",
            "1y",
            "1e3",
            "nan",
            "inf",
            "1.2.3s",
            "1m30",
            "30 1m",
            "30s1m",
            "1m1m",
            "1m1min",
            "1.5h30m",
            "1h-30m",
            "1M",
            "10S",
            "1m30s5",
            "99999999999999999999d",
            "999999999999999999999s",
            "1h30m,",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts() {
        let all = |text: &str| count(text, 0..=u64::MAX);
        for (text, number) in [
            ("0", 0),
            ("20000", 20_000),
            ("20K", 20_000),
            ("20k", 20_000),
            ("1.5M", 1_500_000),
            ("2G", 2_000_000_000),
            ("0.001K", 1),
        ] {
            assert_eq!(all(text), Ok(number), "{text}");
        }
        for text in ["", "1.5", "-1", "1m", "1Ki", "1KB", "1KK", "20 000", "99999999999G", "0.0001K", "1e3"] {
            assert!(all(text).is_err(), "{text}");
        }
        assert_eq!(count("16M", 1..=1 << 24), Ok(16_000_000));
        assert_eq!(count("17M", 1..=1 << 24).unwrap_err(), "17000000 is not in 1 to 16777216");
        assert!(count("0", 1..=9).is_err());
    }

    #[test]
    fn durations_are_shown_in_the_largest_exact_unit() {
        for (text, shown) in
            [("90s", "90s"), ("120s", "2m"), ("1.5s", "1500ms"), ("24h", "1d"), ("60m", "1h")]
        {
            assert_eq!(format_duration(duration(text).unwrap()), shown);
        }
    }
}
