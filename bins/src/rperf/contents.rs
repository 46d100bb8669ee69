//! Contents of the measured messages. Each byte is a function of the plan's seed, the sender, the message's number and the
//! byte's offset, so a message that is lost, repeated or misplaced is found as well.

/// Bytes between two checks for a signal: a message of 1 GiB takes seconds.
pub const STOP_CHECK_BYTES: usize = 1 << 20;
/// The same in words of 8 bytes.
const STOP_CHECK_WORDS: u64 = STOP_CHECK_BYTES as u64 / 8;

/// Generator of the messages that one end sends. The other end compares with the same generator.
#[derive(Debug, Clone)]
pub struct Contents {
    key: u64,
    /// number of the next message
    number: u64,
    /// bytes of all messages before it
    bytes: u64,
    /// offset, counted over all messages, of the byte to corrupt
    flip_at: Option<u64>,
}

impl Contents {
    /// Returns the contents that the client sends.
    #[must_use]
    pub const fn of_client(seed: u64) -> Self {
        Self::new(mix(seed))
    }

    /// Returns the contents that the server sends.
    #[must_use]
    pub const fn of_server(seed: u64) -> Self {
        Self::new(mix(!seed))
    }

    const fn new(key: u64) -> Self {
        Self { key, number: 0, bytes: 0, flip_at: None }
    }

    /// Flips one bit of the byte at this offset, counted over all messages.
    #[must_use]
    pub const fn with_flip(self, flip_at: Option<u64>) -> Self {
        Self { flip_at, ..self }
    }

    /// Fills in the next message. Calls `check_stop` before every piece of it, to stop early.
    ///
    /// # Errors
    /// The error of `check_stop`, which leaves the message incomplete.
    pub fn fill<E>(
        &mut self,
        message: &mut [u8],
        mut check_stop: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let key = self.next_key();
        for (piece, number) in message.chunks_mut(STOP_CHECK_BYTES).zip(0..) {
            check_stop()?;
            for (part, index) in piece.chunks_mut(8).zip(number * STOP_CHECK_WORDS..) {
                part.copy_from_slice(&word(key, index).to_le_bytes()[..part.len()]);
            }
        }
        let flip_at = self.flip_at.and_then(|at| at.checked_sub(self.bytes));
        if let Some(byte) = flip_at.and_then(|at| message.get_mut(usize::try_from(at).ok()?)) {
            *byte ^= 1;
        }
        self.bytes += message.len() as u64;
        Ok(())
    }

    /// Compares with the next message. Returns the offset of the first byte that differs. Calls `check_stop` before every
    /// piece, to stop early.
    ///
    /// # Errors
    /// The error of `check_stop`, which leaves the rest uncompared.
    pub fn find_wrong_byte<E>(
        &mut self,
        message: &[u8],
        mut check_stop: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<usize>, E> {
        let key = self.next_key();
        for (piece, number) in message.chunks(STOP_CHECK_BYTES).zip(0..) {
            check_stop()?;
            let wrong = piece.chunks(8).zip(number * STOP_CHECK_WORDS..).find_map(|(part, index)| {
                let wanted = word(key, index).to_le_bytes();
                if *part == wanted[..part.len()] {
                    return None;
                }
                let wrong = part.iter().zip(wanted).position(|(&got, wanted)| got != wanted)?;
                Some(usize::try_from(index * 8).unwrap_or(usize::MAX) + wrong)
            });
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        Ok(None)
    }

    /// Skips the next message without comparing it.
    pub const fn skip(&mut self) {
        self.number += 1;
    }

    /// Returns the number of the message that was filled, compared or skipped last.
    #[must_use]
    pub const fn last_number(&self) -> u64 {
        self.number.saturating_sub(1)
    }

    const fn next_key(&mut self) -> u64 {
        let key = mix(self.key ^ self.number);
        self.number += 1;
        key
    }
}

const fn word(key: u64, index: u64) -> u64 {
    mix(key.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// Finalizer of SplitMix64: each bit of the input changes about half of the bits of the output.
const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;

    fn go_on() -> Result<(), Infallible> {
        Ok(())
    }

    impl Contents {
        fn filled(&mut self, message: &mut [u8]) {
            self.fill(message, go_on).unwrap();
        }

        fn wrong_byte(&mut self, message: &[u8]) -> Option<usize> {
            self.find_wrong_byte(message, go_on).unwrap()
        }
    }

    #[test]
    fn filling_and_comparing_stop_at_a_signal() {
        let mut message = vec![0; 3 * STOP_CHECK_BYTES + 5];
        let mut sender = Contents::of_client(7).with_flip(Some(2 * STOP_CHECK_BYTES as u64 + 3));
        sender.filled(&mut message);
        let mut receiver = Contents::of_client(7);
        assert_eq!(receiver.wrong_byte(&message), Some(2 * STOP_CHECK_BYTES + 3));
        Contents::of_client(7).filled(&mut message);
        assert_eq!(Contents::of_client(7).wrong_byte(&message), None);
        // the pieces do not change the contents
        for (part, index) in message.chunks(8).zip(0..) {
            assert_eq!(*part, word(mix(mix(7)), index).to_le_bytes()[..part.len()]);
        }
        for allowed in 0..4 {
            let mut checks = 0;
            let check_stop = || {
                checks += 1;
                if checks > allowed { Err("stop") } else { Ok(()) }
            };
            assert_eq!(Contents::of_client(7).find_wrong_byte(&message, check_stop), Err("stop"));
            assert_eq!(checks, allowed + 1);
            let mut part = vec![0; 4 * STOP_CHECK_BYTES];
            checks = 0;
            let check_stop = || {
                checks += 1;
                if checks > allowed { Err("stop") } else { Ok(()) }
            };
            assert_eq!(Contents::of_client(7).fill(&mut part, check_stop), Err("stop"));
            let made = part.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            assert_eq!(made.next_multiple_of(8), allowed * STOP_CHECK_BYTES);
        }
    }

    #[test]
    fn a_wrong_byte_is_found_wherever_it_is() {
        for at in [0, 7, 8, 500, 1002] {
            let mut sender = Contents::of_client(7).with_flip(Some(2006 + at));
            let mut receiver = Contents::of_client(7);
            let mut message = [0; 1003];
            for number in 0..4 {
                sender.filled(&mut message);
                let wrong = receiver.wrong_byte(&message).map(|at| at as u64);
                assert_eq!(wrong, (number == 2).then_some(at));
                assert_eq!(receiver.last_number(), number);
            }
        }
    }

    #[test]
    fn no_message_is_taken_for_another() {
        let mut message = [0; 64];
        Contents::of_client(1).filled(&mut message);
        assert_eq!(Contents::of_client(1).wrong_byte(&message), None);
        assert!(Contents::of_client(2).wrong_byte(&message).is_some());
        assert!(Contents::of_server(1).wrong_byte(&message).is_some());
        let mut second = Contents::of_client(1);
        second.filled(&mut [0; 64]);
        assert!(second.wrong_byte(&message).is_some());
        assert_eq!(Contents::of_client(3).wrong_byte(&[]), None);
    }
}
