//! Byte counts for people: `64 MiB` if that is exact, otherwise `1234 bytes`.

pub use superpipe_core::driver::setup::Bytes;

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
