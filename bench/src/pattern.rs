//! Contents that identify a message: every word is computed from the message's number and its place.
//!
//! The top bit of every word is clear, and set in every flag, so that data of a ring of another layout cannot
//! be taken for a flag.

/// Set in flags, clear in payload.
pub const FLAG_BIT: u64 = 1 << 63;

/// Returns the word at `index` of message `number`.
#[must_use]
pub const fn word(number: u64, index: u64) -> u64 {
    let mixed = (number ^ index.rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)) & !FLAG_BIT
}

/// Writes the contents of message `number`.
pub fn fill(number: u64, payload: &mut [u8]) {
    for (index, part) in (0_u64..).zip(payload.chunks_mut(8)) {
        part.copy_from_slice(&word(number, index).to_le_bytes()[..part.len()]);
    }
}

/// Returns the place of the first byte that is not message `number`'s.
#[must_use]
pub fn find_wrong_byte(number: u64, payload: &[u8]) -> Option<usize> {
    (0_u64..).zip(payload.chunks(8)).enumerate().find_map(|(at, (index, part))| {
        let wanted = word(number, index).to_le_bytes();
        let wrong = part.iter().zip(wanted).position(|(&got, wanted)| got != wanted)?;
        Some(at * 8 + wrong)
    })
}

#[cfg(test)]
mod tests {
    use super::{FLAG_BIT, fill, find_wrong_byte, word};

    #[test]
    fn a_wrong_byte_is_found_wherever_it_is() {
        let mut payload = vec![0; 1003];
        fill(7, &mut payload);
        assert_eq!(find_wrong_byte(7, &payload), None);
        assert!(find_wrong_byte(8, &payload).is_some());
        for at in [0, 7, 8, 500, 1002] {
            payload[at] ^= 0x10;
            assert_eq!(find_wrong_byte(7, &payload), Some(at));
            payload[at] ^= 0x10;
        }
    }

    #[test]
    fn no_payload_word_looks_like_a_flag() {
        assert!((0..10_000).all(|i| word(i, i * 3) & FLAG_BIT == 0));
    }
}
