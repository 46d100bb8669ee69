//! Sizes on the command line: `8`, `4K`, `1M`, `2G`, in powers of 1024.
//!
//! The tools have a larger parser. Sharing it would compile their dependencies, and the recorder, into every benchmark.

use core::str::FromStr;

/// A number of bytes, parsed from `4K` and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub usize);

const UNITS: [(char, u32); 3] = [('G', 30), ('M', 20), ('K', 10)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a size such as 8, 4K, 1M or 2G");
        let upper = text.trim().to_ascii_uppercase();
        let unit = UNITS.iter().find_map(|&(letter, shift)| Some((upper.strip_suffix(letter)?, shift)));
        let (digits, shift) = unit.unwrap_or((&upper, 0));
        let count: usize = digits.parse().map_err(|_| wrong())?;
        count.checked_mul(1 << shift).map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in
            [("0", 0), ("8", 8), ("4K", 4096), ("1M", 1 << 20), ("2G", 2 << 30), ("1000", 1000)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
        assert_eq!(" 64k ".parse(), Ok(Size(65_536)));
        for wrong in ["", "K", "4KB", "-1", "1.5M", "99999999999G"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }
}
