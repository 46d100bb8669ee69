//! Messages of the crowd. The seed, the connection and the number decide a message, so that both processes know it.

use crate::random::Random;

/// Bytes of the longest message.
pub(crate) const BYTES_MAX: usize = 64 << 20;
/// From this length on a message is large: few are under way at a time, since its receiver needs memory for all of it.
pub(crate) const LARGE_BYTES: usize = 4 << 20;
/// Most large messages that a process sends at a time.
pub(crate) const LARGE_MAX: u32 = 2;
/// Distinct offsets of contents.
const OFFSETS: usize = 1 << 20;
/// Bit in the tag of the last message.
const LAST: u64 = 1 << 63;
const LENGTH_BITS: u32 = 32;

/// Bytes from which all contents are cut, each at its own offset.
pub(crate) struct Pool(Vec<u8>);

impl Pool {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(&[seed]);
        Self((0..(BYTES_MAX + OFFSETS) / 8).flat_map(|_| random.word().to_le_bytes()).collect())
    }
}

/// A message. Its tag tells the length and the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    connection: u32,
    pub(crate) number: u32,
    pub(crate) bytes: usize,
    pub(crate) is_last: bool,
}

impl Message {
    /// Draws the next message of a connection. Without room for a large one it is shorter.
    pub(crate) fn draw(random: &mut Random, connection: u32, number: u32, may_be_large: bool) -> Self {
        let most = if may_be_large { BYTES_MAX } else { LARGE_BYTES - 1 };
        Self { connection, number, bytes: random.doubling(8, most), is_last: false }
    }

    /// Returns the last message of a connection.
    pub(crate) const fn last(connection: u32, number: u32) -> Self {
        Self { connection, number, bytes: 8, is_last: true }
    }

    /// Returns the message of this tag on a connection.
    #[expect(clippy::cast_possible_truncation, reason = "both halves are 32 bits")]
    pub(crate) const fn of_tag(connection: u32, tag: u64) -> Self {
        let number = (tag & !LAST) >> LENGTH_BITS;
        Self { connection, number: number as u32, bytes: tag as u32 as usize, is_last: tag & LAST != 0 }
    }

    pub(crate) const fn tag(&self) -> u64 {
        let last = if self.is_last { LAST } else { 0 };
        (self.number as u64) << LENGTH_BITS | self.bytes as u64 | last
    }

    pub(crate) const fn is_large(&self) -> bool {
        self.bytes >= LARGE_BYTES
    }

    pub(crate) fn content<'a>(&self, pool: &'a Pool) -> &'a [u8] {
        let mut random = Random::new(&[self.connection.into(), self.number.into()]);
        &pool.0[random.below(OFFSETS)..][..self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_its_message() {
        let mut random = Random::new(&[3]);
        for number in 1..1000 {
            let message = Message::draw(&mut random, 7, number, number % 2 == 0);
            assert_eq!(Message::of_tag(7, message.tag()), message);
            assert!((8..=BYTES_MAX).contains(&message.bytes) && (number % 2 == 0 || !message.is_large()));
        }
        let last = Message::last(7, 1 << 30);
        assert_eq!(Message::of_tag(7, last.tag()), last);
    }
}
