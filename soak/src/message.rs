//! Messages. The seed, the round and the number decide a message and how it is sent.

use core::ops::Range;
use core::time::Duration;

use crate::random::Random;
use crate::round::{BYTES_MAX, C0_BYTES, INLINE_BYTES_MAX, RandomStream, Round};
use crate::watchdog::HANG_TIMEOUT;

/// Bit in the tag of a round's last message, beside its number.
const LAST: u64 = 1 << 63;

/// A message or stream.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) number: u64,
    pub(crate) is_last: bool,
    pub(crate) bytes: usize,
    /// Offset of the content in the [`ContentPool`].
    at: usize,
    pub(crate) method: SendMethod,
    /// Deadline of `send` and `finish`.
    pub(crate) deadline: Duration,
}

/// Call that sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMethod {
    /// `send` of one slice.
    Whole,
    /// `send` of this many slices, some of them empty.
    Slices(usize),
    /// A stream that is finished.
    Stream,
    /// A stream that is cancelled after this many bytes.
    Cancelled(usize),
    /// A stream that is dropped after this many bytes.
    Dropped(usize),
}

impl Message {
    /// Returns message `number`, counted from 1.
    pub(crate) fn new(round: &Round, number: u64, is_last: bool) -> Self {
        let mut random = round.random(RandomStream::Message, number);
        let bytes = length(round, &mut random);
        let method = match random.below(100) {
            _ if is_last || round.is_chunks => SendMethod::Whole,
            0..80 => SendMethod::Whole,
            80..88 => SendMethod::Slices(2 + random.below(6)),
            88..95 => SendMethod::Stream,
            95..98 => SendMethod::Cancelled(random.below(bytes + 1)),
            _ => SendMethod::Dropped(random.below(bytes + 1)),
        };
        let deadline = match random.below(10) {
            _ if is_last => HANG_TIMEOUT,
            0..7 => Duration::from_secs(1),
            7..9 => random.time(1000, 20_000),
            _ => random.time(20, 1000),
        };
        Self { number, is_last, bytes, at: random.below(BYTES_MAX), method, deadline }
    }

    /// Returns the message that a tag names.
    pub(crate) fn of_tag(round: &Round, tag: u64) -> Self {
        Self::new(round, tag & !LAST, tag & LAST != 0)
    }

    pub(crate) const fn tag(&self) -> u64 {
        self.number | if self.is_last { LAST } else { 0 }
    }

    pub(crate) const fn is_stream(&self) -> bool {
        matches!(self.method, SendMethod::Stream | SendMethod::Cancelled(_) | SendMethod::Dropped(_))
    }

    /// Returns true if its sender never finishes it.
    pub(crate) const fn is_given_up(&self) -> bool {
        matches!(self.method, SendMethod::Cancelled(_) | SendMethod::Dropped(_))
    }

    pub(crate) fn content<'a>(&self, pool: &'a ContentPool) -> &'a [u8] {
        &pool.0[self.at..][..self.bytes]
    }

    /// Returns the size class.
    pub(crate) const fn class(&self, round: &Round) -> Class {
        let ring_bytes = round.ring_bytes();
        match self.bytes {
            ..=INLINE_BYTES_MAX => Class::Inline,
            bytes if bytes <= round.block_bytes => Class::Block,
            bytes if bytes > ring_bytes => Class::Beyond,
            bytes if bytes > C0_BYTES => Class::Long,
            _ => Class::Chunk,
        }
    }
}

/// Size class of a message in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// In a slot line.
    Inline,
    /// In one block.
    Block,
    /// One chunk of several blocks.
    Chunk,
    /// Longer than C0.
    Long,
    /// Longer than the landing buffer.
    Beyond,
}

impl Class {
    pub(crate) const NAMES: [&'static str; 5] =
        ["up to 40 B", "up to a block", "up to C0", "up to the ring", "beyond the ring"];
}

/// Draws a length. Half of the lengths are within one byte of a boundary of the round.
fn length(round: &Round, random: &mut Random) -> usize {
    let (block, ring) = (round.block_bytes, round.ring_bytes());
    let chunk = C0_BYTES.min(ring);
    let bytes = match random.below(100) {
        _ if round.is_chunks => chunk - random.below(chunk / 4 + 1),
        0..50 => {
            let (blocks, rings) = (2 + random.below(62), 1 + random.below(8));
            let at = random.pick(&[
                0,
                8,
                INLINE_BYTES_MAX,
                block,
                2 * block,
                3 * block,
                blocks * block,
                C0_BYTES,
                C0_BYTES + block,
                ring / usize::from(round.folds),
                ring / 2,
                ring.saturating_sub(block),
                ring,
                ring + block,
                2 * ring,
                rings * ring,
                BYTES_MAX,
            ]);
            (at + random.below(3)).saturating_sub(1)
        }
        50..75 => random.below(chunk + 1),
        75..85 => random.below(INLINE_BYTES_MAX + 9),
        _ => random.doubling(1, BYTES_MAX),
    };
    bytes.min(BYTES_MAX)
}

/// Draws the slices of a message of `bytes` bytes, some of them empty.
pub(crate) fn parts(bytes: usize, count: usize, random: &mut Random) -> Vec<Range<usize>> {
    let mut cuts: Vec<_> = (1..count).map(|_| random.below(bytes + 1)).collect();
    if random.chance(20) {
        cuts.push(cuts.first().copied().unwrap_or(0));
    }
    cuts.push(bytes);
    cuts.sort_unstable();
    let mut from = 0;
    cuts.into_iter().map(|to| core::mem::replace(&mut from, to)..to).collect()
}

/// Bytes from which the content of all messages is cut, each at its own offset.
pub(crate) struct ContentPool(Vec<u8>);

impl ContentPool {
    /// Fills the pool with random bytes. One word in seven looks like a flag or header.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(&[seed]);
        let words = (0..2 * BYTES_MAX / 8).flat_map(|_| {
            let word = random.word();
            if word.is_multiple_of(7) { word >> 8 & 63 } else { word }.to_le_bytes()
        });
        Self(words.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Overrides;

    #[test]
    fn both_processes_draw_the_same_messages() {
        let round = |number| Round::new(7, number, &Overrides::default());
        let pool = ContentPool::new(7);
        for number in 1..500 {
            let (a, b) = (round(3), round(3));
            let (one, other) = (Message::new(&a, number, false), Message::of_tag(&b, number));
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
            assert_eq!(one.content(&pool).len(), one.bytes);
            let mut random = a.random(RandomStream::Stop, number);
            let all: Vec<usize> = parts(one.bytes, 5, &mut random).into_iter().flatten().collect();
            assert_eq!(all.len(), one.bytes);
            assert!(all.is_sorted());
        }
        assert_eq!(Message::of_tag(&round(0), Message::new(&round(0), 9, true).tag()).number, 9);
    }

    #[test]
    fn every_class_of_size_is_drawn() {
        for number in (0..16).filter(|number| number % 4 != 0) {
            let round = Round::new(1, number, &Overrides::default());
            let mut drawn = [0; 5];
            for number in 1..2000 {
                drawn[Message::new(&round, number, false).class(&round) as usize] += 1;
            }
            // A small ring has no size between C0 and the ring.
            let seldom = drawn.iter().filter(|count| **count < 20).count();
            assert!(seldom <= 2 && drawn[0] >= 20 && drawn[4] >= 20 || round.is_chunks, "{round}: {drawn:?}");
        }
    }
}
