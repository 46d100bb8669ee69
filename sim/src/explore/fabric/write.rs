//! A write on its way: its invisible pieces, and the state of its WR.

use core::hash::{Hash, Hasher};
use std::rc::Rc;

use superpipe_core::{Arrival, LINE_BYTES, Layout, Notification, control_page};
use superpipe_testkit::{Memory, Place, Span};

use super::memory::hash_ack;
use crate::explore::cases::Case;

/// State of a write's WR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WrState {
    /// The device may still read the image.
    Posted,
    /// The device has read the image, and its completion was not polled.
    InCq,
    /// It takes no place in the send queue.
    Done,
}

/// A posted write or a direct store that is not yet visible and over.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) to: Memory,
    pub(super) at: u32,
    pub(super) bytes: u32,
    pub(super) wr: Option<u64>,
    pub(super) wr_state: WrState,
    /// Bytes read from the image. `None` if they are read when they become visible.
    pub(super) data: Option<Rc<[u8]>>,
    /// Words that become visible together, in ascending order. Bit i is word i of the write.
    pub(super) pieces: Rc<[u64]>,
    /// Words that are still invisible.
    pub(super) invisible: u64,
    /// Notification, until it is taken.
    pub(super) notification: Option<Notification>,
    /// The notification, with the count as a difference to the one before.
    pub(super) hashed_notification: u32,
    /// Number of the lent memory that it is read from.
    pub(super) source: Option<u8>,
    /// Its WR was flushed, or never reached the peer.
    pub(super) is_flushed: bool,
    arrival: Arrival,
}

/// Returns bits `from..to`.
const fn bits(from: u32, to: u32) -> u64 {
    let upto = if to >= 64 { u64::MAX } else { (1 << to) - 1 };
    upto & !((1 << from) - 1)
}

impl Write {
    pub(super) fn new(
        (to, at, bytes): (Memory, u32, u32),
        wr: Option<u64>,
        wr_state: WrState,
        pieces: Vec<u64>,
        arrival: Arrival,
    ) -> Self {
        let invisible = pieces.iter().fold(0, |all, piece| all | piece);
        Self {
            to,
            at,
            bytes,
            wr,
            wr_state,
            data: None,
            pieces: pieces.into(),
            invisible,
            notification: None,
            hashed_notification: 0,
            source: None,
            is_flushed: false,
            arrival,
        }
    }

    /// Returns true if it writes the acknowledgement line.
    pub(super) fn is_ack(&self) -> bool {
        self.to.place == Place::ControlPage && self.at < control_page::ACK + LINE_BYTES
    }

    /// Returns true if it writes any of these bytes.
    pub(super) fn touches(&self, memory: Memory, at: u32, bytes: u32) -> bool {
        Span { memory: self.to, at: self.at, bytes: self.bytes }.overlaps(&Span { memory, at, bytes })
    }

    /// Returns true if core must not change these bytes of the image.
    pub(super) fn owns(&self, to: Memory, at: u32, bytes: u32) -> bool {
        let reads = self.wr_state != WrState::Done && (self.wr.is_some() || self.invisible != 0);
        reads && !self.is_ack() && self.touches(to, at, bytes)
    }

    pub(super) const fn is_over(&self) -> bool {
        self.invisible == 0 && matches!(self.wr_state, WrState::Done) && self.notification.is_none()
    }

    /// Drops what is on its way.
    pub(super) const fn drop(&mut self) {
        (self.invisible, self.notification, self.is_flushed) = (0, None, true);
    }

    /// Ends the WR.
    pub(super) const fn flush(&mut self) {
        self.wr_state = if self.wr.is_some() { WrState::InCq } else { WrState::Done };
        self.is_flushed = true;
    }

    /// Returns the pieces of a remote write: its halves, if it is split.
    pub(super) fn cut_remote(at: u32, bytes: u32, case: &Case) -> Vec<u64> {
        let all = Self::words(at, bytes);
        let half = Self::words(at, bytes / 2);
        if case.split { vec![half, all & !half] } else { vec![all] }
    }

    /// Returns the bytes of word `index`, as offsets in memory.
    pub(super) fn word(&self, index: u32) -> (u32, u32) {
        let begin = (self.at / 8 + index) * 8;
        (begin.max(self.at), (begin + 8).min(self.at + self.bytes))
    }

    /// Returns the words that the bytes from `at` on touch.
    pub(super) const fn words(at: u32, bytes: u32) -> u64 {
        bits(0, (at + bytes).div_ceil(8) - at / 8)
    }

    /// Returns the pieces of a posted write, in ascending order: the blocks, and if it is split, each flag by itself. An acknowledgement has
    /// the first count, its complement, and the rest.
    pub(super) fn cut(span: (Memory, u32, u32), layout: Option<Layout>, case: &Case) -> Vec<u64> {
        let (to, at, bytes) = span;
        assert!((at + bytes).div_ceil(8) - at / 8 <= u64::BITS, "{bytes} bytes are too many for one write");
        let flags = layout
            .into_iter()
            .flat_map(|layout| (0..layout.block_count).map(move |index| layout.flag_at(index)));
        let cuts: Vec<u32> = match to.place {
            Place::Landing if !case.split => flags.map(|flag| flag + 8).collect(),
            Place::ControlPage if !case.split => Vec::new(),
            Place::ControlPage if at == control_page::ACK => vec![8, 16],
            Place::ControlPage => vec![at + LINE_BYTES - 8],
            Place::Landing => flags.flat_map(|flag| [flag, flag + 8]).collect(),
            Place::Exposed | Place::Writable => unreachable!("{to:?} is of an application"),
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

    /// Returns the pieces of a stored line, in the order of `word::write_line`.
    pub(super) fn cut_stored(to: Memory, at: u32, case: &Case) -> Vec<u64> {
        match to.place {
            _ if !case.split => vec![bits(0, 8)],
            Place::ControlPage if at == control_page::ACK => vec![0b0110_1010, 0b1, 0b100, 0b1001_0000],
            Place::ControlPage | Place::Landing => vec![bits(0, 7), bits(7, 8)],
            Place::Exposed | Place::Writable => unreachable!("{to:?} is of an application"),
        }
    }
}

impl Hash for Write {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.to, self.at, self.bytes, self.wr, self.wr_state, self.invisible).hash(hasher);
        (self.source, self.is_flushed).hash(hasher);
        self.notification.map(|_| self.hashed_notification).hash(hasher);
        match &self.data {
            Some(data) if self.is_ack() && self.bytes == LINE_BYTES => hash_ack(data, self.arrival, hasher),
            data => data.hash(hasher),
        }
    }
}
