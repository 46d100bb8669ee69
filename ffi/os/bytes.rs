//! Byte counts as people read them: `64 MiB` where that is exact, else `1234 bytes`.

use core::fmt;

/// A number of bytes, displayed in the largest binary unit that loses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, unit) in UNITS {
            let whole = self.0 >> shift;
            if whole > 0 && whole << shift == self.0 {
                return write!(f, "{whole} {unit}");
            }
        }
        write!(f, "{} {}", self.0, if self.0 == 1 { "byte" } else { "bytes" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_largest_exact_unit() {
        let cases = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1025, "1025 bytes"),
            (384 << 10, "384 KiB"),
            (64 << 20, "64 MiB"),
            ((64 << 20) + 1024, "65537 KiB"),
            (3 << 30, "3 GiB"),
            (1 << 40, "1 TiB"),
            (u64::MAX, "18446744073709551615 bytes"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
