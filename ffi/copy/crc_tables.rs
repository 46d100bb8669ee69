//! CRC-32C by tables, for any CPU: sixteen bytes per step, each with a table of its own.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// Bytes per step, and so the number of tables: they take 16 KiB, half of a first-level cache of 32 KiB.
const STEP_BYTES: usize = 16;

/// `TABLES[n][byte]` is the contribution of `byte` to the checksum if `n` bytes follow it.
static TABLES: [[u32; 256]; STEP_BYTES] = tables();

const fn tables() -> [[u32; 256]; STEP_BYTES] {
    let mut tables = [[0; 256]; STEP_BYTES];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "at most 255")]
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ POLYNOMIAL & (crc & 1).wrapping_neg();
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut after = 1;
    while after < STEP_BYTES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[after - 1][byte];
            tables[after][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        after += 1;
    }
    tables
}

/// Returns the checksum of the bytes that `seed` stands for, then `bytes`.
pub(super) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    let (steps, rest) = bytes.as_chunks::<STEP_BYTES>();
    let crc = steps.iter().fold(!seed, step);
    !rest.iter().fold(crc, |crc, &byte| crc >> 8 ^ TABLES[0][usize::from(crc.to_le_bytes()[0] ^ byte)])
}

#[inline]
fn step(crc: u32, bytes: &[u8; STEP_BYTES]) -> u32 {
    let mut mixed = *bytes;
    for (byte, of_crc) in mixed.iter_mut().zip(crc.to_le_bytes()) {
        *byte ^= of_crc;
    }
    mixed.iter().zip(TABLES.iter().rev()).fold(0, |crc, (&byte, table)| crc ^ table[usize::from(byte)])
}
