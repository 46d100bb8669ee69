//! Contents by which a message is recognised: every byte follows from the plan's seed, who sent the message, which it is,
//! and the byte's place.

/// Bytes between two looks at whether to stop: 1 GiB takes seconds.
pub const LOOK_BYTES: usize = 1 << 20;
/// Words of them.
const LOOK_WORDS: u64 = LOOK_BYTES as u64 / 8;

/// The contents of the messages that one end sends, message by message. The other end compares with the same.
#[derive(Debug, Clone)]
pub struct Contents {
    key: u64,
    /// the number of the next message
    number: u64,
    /// bytes of the messages before it
    bytes: u64,
    /// of them all, the byte that is to be wrong
    flip_at: Option<u64>,
}

impl Contents {
    /// Contents that the client sends.
    #[must_use]
    pub const fn of_client(seed: u64) -> Self {
        Self::new(mix(seed))
    }

    /// Contents that the server sends.
    #[must_use]
    pub const fn of_server(seed: u64) -> Self {
        Self::new(mix(!seed))
    }

    const fn new(key: u64) -> Self {
        Self { key, number: 0, bytes: 0, flip_at: None }
    }

    /// The same with one bit of one byte wrong, counted over all messages to come.
    #[must_use]
    pub const fn with_flip(self, flip_at: Option<u64>) -> Self {
        Self { flip_at, ..self }
    }

    /// Makes the next message, and looks now and then whether to stop.
    ///
    /// # Errors
    /// Those of `look`. The message is then not made.
    pub fn fill<E>(&mut self, message: &mut [u8], mut look: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let key = self.next_key();
        for (piece, number) in message.chunks_mut(LOOK_BYTES).zip(0..) {
            look()?;
            for (part, index) in piece.chunks_mut(8).zip(number * LOOK_WORDS..) {
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

    /// The place of the first byte that is not the next message's; looks now and then whether to stop.
    ///
    /// # Errors
    /// Those of `look`. The message is then not compared.
    pub fn find_wrong_byte<E>(
        &mut self,
        message: &[u8],
        mut look: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<usize>, E> {
        let key = self.next_key();
        for (piece, number) in message.chunks(LOOK_BYTES).zip(0..) {
            look()?;
            let wrong = piece.chunks(8).zip(number * LOOK_WORDS..).find_map(|(part, index)| {
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

    /// The next message is not looked at.
    pub const fn skip(&mut self) {
        self.number += 1;
    }

    /// The number of the message that was made or compared last.
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

/// The finalizer of SplitMix64: each bit of the input changes half of the output's.
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
    fn a_long_message_is_given_up_on_the_way() {
        let mut message = vec![0; 3 * LOOK_BYTES + 5];
        let mut sender = Contents::of_client(7).with_flip(Some(2 * LOOK_BYTES as u64 + 3));
        sender.filled(&mut message);
        let mut receiver = Contents::of_client(7);
        assert_eq!(receiver.wrong_byte(&message), Some(2 * LOOK_BYTES + 3));
        Contents::of_client(7).filled(&mut message);
        assert_eq!(Contents::of_client(7).wrong_byte(&message), None);
        // in one go it is the same
        for (part, index) in message.chunks(8).zip(0..) {
            assert_eq!(*part, word(mix(mix(7)), index).to_le_bytes()[..part.len()]);
        }
        for allowed in 0..4 {
            let mut looks = 0;
            let look = || {
                looks += 1;
                if looks > allowed { Err("stop") } else { Ok(()) }
            };
            assert_eq!(Contents::of_client(7).find_wrong_byte(&message, look), Err("stop"));
            assert_eq!(looks, allowed + 1);
            let mut part = vec![0; 4 * LOOK_BYTES];
            looks = 0;
            let look = || {
                looks += 1;
                if looks > allowed { Err("stop") } else { Ok(()) }
            };
            assert_eq!(Contents::of_client(7).fill(&mut part, look), Err("stop"));
            let made = part.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            assert_eq!(made.next_multiple_of(8), allowed * LOOK_BYTES);
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
