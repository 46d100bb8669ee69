//! Byte counts as people read them.

use core::fmt;

/// A count of bytes, displayed as `64 MiB` if that is exact, else as `1234 bytes`.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let whole = UNITS.iter().find(|(shift, _)| self.0 >> shift > 0 && self.0.trailing_zeros() >= *shift);
        match whole {
            Some((shift, unit)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_exact_unit_is_taken() {
        let cases =
            [(0, "0 bytes"), (1025, "1025 bytes"), (8 << 20, "8 MiB"), ((64 << 20) + 1024, "65537 KiB")];
        for (bytes, text) in cases {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
