//! The work of a program with its messages: it writes every word of one, and reads every word of one.
//!
//! The crate of the peer iceoryx2 includes this file, so that it does the same work. Every word of a message differs from that of the
//! message before, and reading compares every word, so neither can be left out by the compiler.

/// Bytes of a word. Messages consist of whole words.
pub const WORD_BYTES: usize = 8;

/// Returns the first word of message `number`. Those behind it count up.
#[must_use]
pub const fn first_word(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Writes words that count up from `first` on.
pub fn write(first: u64, words: &mut [u8]) {
    for (index, word) in (0_u64..).zip(words.chunks_exact_mut(WORD_BYTES)) {
        word.copy_from_slice(&first.wrapping_add(index).to_le_bytes());
    }
}

/// Reads words. Returns true if they count up from `first` on.
#[must_use]
pub fn read(first: u64, words: &[u8]) -> bool {
    let mut differences = 0;
    for (index, word) in (0_u64..).zip(words.chunks_exact(WORD_BYTES)) {
        let mut bytes = [0; WORD_BYTES];
        bytes.copy_from_slice(word);
        differences |= u64::from_le_bytes(bytes) ^ first.wrapping_add(index);
    }
    differences == 0
}

#[cfg(test)]
mod tests {
    use super::{first_word, read, write};

    #[test]
    fn a_wrong_bit_is_seen_wherever_it_is() {
        let mut message = vec![0; 1 << 10];
        write(first_word(7), &mut message);
        assert!(read(first_word(7), &message) && !read(first_word(8), &message));
        for at in [0, 7, 8, 500, 1023] {
            message[at] ^= 0x10;
            assert!(!read(first_word(7), &message));
            message[at] ^= 0x10;
        }
        let (head, rest) = message.split_at(64);
        assert!(read(first_word(7), head) && read(first_word(7) + 8, rest));
    }
}
