//! A write under way: what of it is still invisible, and whether its WR has ended.

use core::hash::{Hash, Hasher};
use std::rc::Rc;

use superpipe_core::{Arrival, LINE_BYTES, Notice, seat};
use superpipe_testkit::{Memory, Place};

use super::case::Case;
use super::memory::hash_ack;

/// How far the WR of a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// The device may still read the image.
    Posted,
    /// The device is done with the image, and its completion was not polled.
    InCq,
    /// It takes up no room in the send queue.
    Done,
}

/// A write, or with direct store a store, that is not wholly visible or not over.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) to: Memory,
    pub(super) at: u32,
    pub(super) bytes: u32,
    pub(super) wr: Option<u64>,
    pub(super) stage: Stage,
    /// What was read of the image; before that it is read as it becomes visible.
    pub(super) data: Option<Rc<[u8]>>,
    /// The words that become visible together, in the order of their addresses: bit i is word i of those it touches.
    pub(super) pieces: Rc<[u64]>,
    /// The words that are still invisible.
    pub(super) hidden: u64,
    /// What the peer is notified of it, until that was taken.
    pub(super) notice: Option<Notice>,
    /// The same, but for the counts in it: how much more the last one says than the one before.
    pub(super) news: u32,
    arrival: Arrival,
}

/// Bits `from..to`.
const fn bits(from: u32, to: u32) -> u64 {
    let upto = if to >= 64 { u64::MAX } else { (1 << to) - 1 };
    upto & !((1 << from) - 1)
}

impl Write {
    pub(super) fn new(
        (to, at, bytes): (Memory, u32, u32),
        wr: Option<u64>,
        stage: Stage,
        pieces: Vec<u64>,
        arrival: Arrival,
    ) -> Self {
        let hidden = pieces.iter().fold(0, |all, piece| all | piece);
        Self {
            to,
            at,
            bytes,
            wr,
            stage,
            data: None,
            pieces: pieces.into(),
            hidden,
            notice: None,
            news: 0,
            arrival,
        }
    }

    /// Whether it writes the line of acknowledgements, in place and over and over.
    pub(super) fn is_ack(&self) -> bool {
        self.to.place == Place::Seat && self.at < seat::ACK + LINE_BYTES
    }

    /// Whether it writes any of these bytes.
    pub(super) fn touches(&self, to: Memory, at: u32, bytes: u32) -> bool {
        self.to == to && self.at < at + bytes && at < self.at + self.bytes
    }

    /// Whether core must leave these bytes of the image alone.
    pub(super) fn owns(&self, to: Memory, at: u32, bytes: u32) -> bool {
        let reads = self.stage != Stage::Done && (self.wr.is_some() || self.hidden != 0);
        reads && !self.is_ack() && self.touches(to, at, bytes)
    }

    pub(super) const fn is_over(&self) -> bool {
        self.hidden == 0 && matches!(self.stage, Stage::Done) && self.notice.is_none()
    }

    /// The bytes of word `index`, as offsets in memory.
    pub(super) fn word(&self, index: u32) -> (u32, u32) {
        let begin = (self.at / 8 + index) * 8;
        (begin.max(self.at), (begin + 8).min(self.at + self.bytes))
    }

    /// The words that the bytes from `at` on touch.
    pub(super) const fn words(at: u32, bytes: u32) -> u64 {
        bits(0, (at + bytes).div_ceil(8) - at / 8)
    }

    /// The pieces of one posted write, in ascending order: the blocks, and where it is torn each flag by itself, as what
    /// comes before it; of an acknowledgement the first count, its complement, and the rest.
    pub(super) fn cut(to: Memory, at: u32, bytes: u32, case: &Case) -> Vec<u64> {
        let layout = case.layout();
        let cuts: Vec<u32> = match to.place {
            Place::Landing if !case.torn => {
                (0..layout.block_count).map(|index| layout.flag_at(index) + 8).collect()
            }
            Place::Seat if !case.torn => Vec::new(),
            Place::Seat if at == seat::ACK => vec![8, 16],
            Place::Seat => vec![at + LINE_BYTES - 8],
            Place::Landing => {
                let flags = (0..layout.block_count).map(|index| layout.flag_at(index));
                flags.flat_map(|flag| [flag, flag + 8]).collect()
            }
        };
        let inside = cuts.into_iter().filter(|cut| at < *cut && *cut < at + bytes);
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in inside.chain([at + bytes]) {
            let to = cut.div_ceil(8) - at / 8;
            pieces.push(bits(from, to));
            from = to;
        }
        pieces
    }

    /// The pieces of a line that is stored, in the order of `word::write_line`.
    pub(super) fn cut_stored(to: Memory, at: u32, case: &Case) -> Vec<u64> {
        match to.place {
            _ if !case.torn => vec![bits(0, 8)],
            Place::Seat if at == seat::ACK => vec![0b0110_1010, 0b1, 0b100, 0b1001_0000],
            Place::Seat | Place::Landing => vec![bits(0, 7), bits(7, 8)],
        }
    }
}

impl Hash for Write {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.to, self.at, self.bytes, self.wr, self.stage, self.hidden).hash(hasher);
        self.notice.map(|_| self.news).hash(hasher);
        match &self.data {
            Some(data) if self.is_ack() && self.bytes == LINE_BYTES => hash_ack(data, self.arrival, hasher),
            data => data.hash(hasher),
        }
    }
}
