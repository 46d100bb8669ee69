//! Messages: each is a function of the seed, the round and its number, and so is what becomes of it at the
//! sender.

use core::ops::Range;
use core::time::Duration;

use crate::random::Random;
use crate::round::{BYTES_MAX, C0_BYTES, Draw, INLINE_BYTES_MAX, Round};
use crate::watchdog::HANG;

/// In the tag of a round's last message, beside its number.
const LAST: u64 = 1 << 63;

/// One message or stream.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) number: u64,
    pub(crate) is_last: bool,
    pub(crate) bytes: usize,
    /// Offset of its bytes in the [`Pool`].
    at: usize,
    pub(crate) way: SendWay,
    /// Of `send` and `finish`.
    pub(crate) deadline: Duration,
}

/// The way it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendWay {
    /// `send` of one slice.
    Whole,
    /// `send` of so many slices, some of them empty.
    Slices(usize),
    /// A stream that is finished.
    Stream,
    /// A stream of so many bytes that is cancelled.
    Cancelled(usize),
    /// A stream of so many bytes that is dropped.
    Dropped(usize),
}

impl Message {
    /// Message `number`, the first being 1.
    pub(crate) fn new(round: &Round, number: u64, is_last: bool) -> Self {
        let mut random = round.random(Draw::Message, number);
        let bytes = length(round, &mut random);
        let way = match random.below(100) {
            _ if is_last || round.is_chunks => SendWay::Whole,
            0..80 => SendWay::Whole,
            80..88 => SendWay::Slices(2 + random.below(6)),
            88..95 => SendWay::Stream,
            95..98 => SendWay::Cancelled(random.below(bytes + 1)),
            _ => SendWay::Dropped(random.below(bytes + 1)),
        };
        let deadline = match random.below(10) {
            _ if is_last => HANG,
            0..7 => Duration::from_secs(1),
            7..9 => random.time(1000, 20_000),
            _ => random.time(20, 1000),
        };
        Self { number, is_last, bytes, at: random.below(BYTES_MAX), way, deadline }
    }

    /// The one that a tag names.
    pub(crate) fn of_tag(round: &Round, tag: u64) -> Self {
        Self::new(round, tag & !LAST, tag & LAST != 0)
    }

    pub(crate) const fn tag(&self) -> u64 {
        self.number | if self.is_last { LAST } else { 0 }
    }

    pub(crate) const fn is_stream(&self) -> bool {
        matches!(self.way, SendWay::Stream | SendWay::Cancelled(_) | SendWay::Dropped(_))
    }

    /// Returns true if its sender never ends it.
    pub(crate) const fn is_given_up(&self) -> bool {
        matches!(self.way, SendWay::Cancelled(_) | SendWay::Dropped(_))
    }

    /// Its bytes.
    pub(crate) fn content<'a>(&self, pool: &'a Pool) -> &'a [u8] {
        &pool.0[self.at..][..self.bytes]
    }

    /// Its size by what it means for the protocol.
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

/// A message's size, by what it means for the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// In a slot line.
    Inline,
    /// In one block.
    Block,
    /// One chunk of several blocks.
    Chunk,
    /// More than C0.
    Long,
    /// More than the landing buffer.
    Beyond,
}

impl Class {
    pub(crate) const NAMES: [&'static str; 5] =
        ["up to 40 B", "up to a block", "up to C0", "up to the ring", "beyond the ring"];
}

/// Half of the lengths are at a boundary of the round, give or take one.
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

/// Draws the ends of the slices of a message of `bytes` bytes: random places, some of them twice.
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

/// The bytes that all messages are cut out of, each at a place of its own.
pub(crate) struct Pool(Vec<u8>);

impl Pool {
    /// Random bytes; now and then some that look like flags and headers.
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
    use crate::options::Wishes;

    #[test]
    fn both_processes_draw_the_same_and_parts_make_the_whole() {
        let round = |number| Round::new(7, number, &Wishes::default());
        let pool = Pool::new(7);
        for number in 1..500 {
            let (a, b) = (round(3), round(3));
            let (one, other) = (Message::new(&a, number, false), Message::of_tag(&b, number));
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
            assert_eq!(one.content(&pool).len(), one.bytes);
            let mut random = a.random(Draw::Stop, number);
            let all: Vec<usize> = parts(one.bytes, 5, &mut random).into_iter().flatten().collect();
            assert_eq!(all.len(), one.bytes);
            assert!(all.is_sorted());
        }
        assert_eq!(Message::of_tag(&round(0), Message::new(&round(0), 9, true).tag()).number, 9);
    }

    #[test]
    fn every_class_of_size_is_drawn() {
        for number in (0..16).filter(|number| number % 4 != 0) {
            let round = Round::new(1, number, &Wishes::default());
            let mut drawn = [0; 5];
            for number in 1..2000 {
                drawn[Message::new(&round, number, false).class(&round) as usize] += 1;
            }
            // A small ring has no size between C0 and itself.
            let seldom = drawn.iter().filter(|count| **count < 20).count();
            assert!(seldom <= 2 && drawn[0] >= 20 && drawn[4] >= 20 || round.is_chunks, "{round}: {drawn:?}");
        }
    }
}
