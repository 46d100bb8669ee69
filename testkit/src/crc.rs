//! CRC32C by table, as a simple reference.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

/// Continues `crc`, which is 0 at the beginning, over `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8], crc: u32) -> u32 {
    !bytes.iter().fold(!crc, |crc, byte| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(super::crc32c(b"123456789", 0), 0xe306_9283);
        assert_eq!(super::crc32c(b"6789", super::crc32c(b"12345", 0)), 0xe306_9283);
    }
}
