//! Mail: what the two fabrics say to each other beside the writes, by SENDs into receives that are posted ahead, or by
//! the immediate of a write. wire.md 10.3.
//!
//! ```text
//! region    heads to be sent | a packet to be sent | receives ...
//! head      word | place, of what is enclosed
//! word      2 bits of kind | 30 bits: core's notice, else 0
//! ```

use super::error::ConnectError;
use crate::os::Mapping;
use crate::packet::{PACKET_BYTES, Packet};
use crate::verbs::{Access, Error, Mr, Pd, Qp, Sge};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

/// Receives for core's notifications, which both ends keep posted.
pub(super) const NOTICES: u16 = 128;
/// Receives in all: sleeping takes three at most, and a handshake's packet may come several times.
pub(super) const RECEIVES: u16 = NOTICES + 16;
/// Work requests that may stand in the send queue: as many words can be on the way.
pub(super) const SENDS_MAX: u32 = 256;

const RECEIVE_BYTES: u32 = 256;
const PACKET_AT: usize = SENDS_MAX as usize * HEAD_BYTES as usize;
const RECEIVES_AT: usize = PACKET_AT + RECEIVE_BYTES as usize;
/// Marks the numbers of receives among those of work requests.
pub(super) const IS_RECEIVE: u64 = 1 << 63;

const _: () = assert!(PACKET_BYTES <= RECEIVE_BYTES as usize);

/// Bytes of a word.
pub(super) const WORD_BYTES: u32 = 4;
/// Bytes of a word and a place.
const HEAD_BYTES: u32 = 8;
/// The longest write that is enclosed in its notice.
pub(super) const ENCLOSED_MAX: u32 = RECEIVE_BYTES - HEAD_BYTES;
const KIND_SHIFT: u32 = 30;

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Of core: a write is there. Its 30 bits.
    Notice(u32),
    /// I want to sleep.
    Sleep,
    /// From now on you will be woken.
    SleepOk,
    /// Something was written: look.
    Wake,
}

impl Word {
    pub(super) const fn encode(self) -> u32 {
        match self {
            Self::Notice(bits) => bits & (u32::MAX >> 2),
            Self::Sleep => 1 << KIND_SHIFT,
            Self::SleepOk => 2 << KIND_SHIFT,
            Self::Wake => 3 << KIND_SHIFT,
        }
    }

    /// Whether it is a notice, if it is a word at all; packets do not begin so.
    pub(super) const fn is_notice(word: u32) -> bool {
        word >> KIND_SHIFT == 0
    }

    /// None where bits are set that must not be.
    pub(super) const fn decode(word: u32) -> Option<Self> {
        match (word >> KIND_SHIFT, word & (u32::MAX >> 2)) {
            (0, bits) => Some(Self::Notice(bits)),
            (1, 0) => Some(Self::Sleep),
            (2, 0) => Some(Self::SleepOk),
            (3, 0) => Some(Self::Wake),
            _ => None,
        }
    }
}

/// A write that came by mail.
#[derive(Debug)]
pub(super) struct Enclosed {
    /// Where it goes.
    pub(super) place: u32,
    room: [u8; ENCLOSED_MAX as usize],
    bytes: usize,
}

impl Enclosed {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.room[..self.bytes]
    }
}

/// The registered memory of all mail.
#[derive(Debug)]
pub(super) struct Mailroom {
    mr: Mr,
}

impl Mailroom {
    pub(super) fn new(pd: &Pd) -> Result<Self, ConnectError> {
        let bytes = RECEIVES_AT + usize::from(RECEIVES) * RECEIVE_BYTES as usize;
        let memory = Mapping::anonymous(bytes).map_err(Error::Verb)?;
        Ok(Self { mr: Mr::register(pd, memory, Access::Local)? })
    }

    /// Bytes of it.
    pub(super) fn bytes(&self) -> usize {
        self.mr.len()
    }

    /// Posts the receive number `slot`.
    #[inline]
    pub(super) fn post(&self, qp: &mut Qp, slot: u16) -> Result<(), Error> {
        debug_assert!(slot < RECEIVES, "there are so many");
        qp.post_receive(IS_RECEIVE | u64::from(slot), self.mr.sge(receive_at(slot), RECEIVE_BYTES))
    }

    /// The word that came into `slot`, once.
    pub(super) fn word(&self, slot: u16) -> u32 {
        u32::from_le(self.cell(receive_at(slot)).load(Ordering::Relaxed))
    }

    /// The packet that came into `slot`, copied out.
    pub(super) fn packet(&self, slot: u16) -> Packet {
        let mut packet = Packet::empty();
        self.copy_out(receive_at(slot), &mut packet.0);
        packet
    }

    /// What is enclosed in the `bytes` bytes that came into `slot`, copied out. None: they are no head with something behind it.
    pub(super) fn enclosed(&self, slot: u16, bytes: u32) -> Option<Enclosed> {
        let bytes =
            bytes.checked_sub(HEAD_BYTES).filter(|bytes| (1..=ENCLOSED_MAX).contains(bytes))? as usize;
        let at = receive_at(slot);
        let place = u32::from_le(self.cell(at + WORD_BYTES as usize).load(Ordering::Relaxed));
        let mut room = [0; ENCLOSED_MAX as usize];
        self.copy_out(at + HEAD_BYTES as usize, &mut room[..bytes]);
        Some(Enclosed { place, room, bytes })
    }

    /// Puts a word where the SEND at this position of the queue takes it from.
    #[inline]
    pub(super) fn put_word(&self, position: u64, word: Word) -> Sge<'_> {
        let at = head_at(position);
        self.cell(at).store(word.encode().to_le(), Ordering::Relaxed);
        self.sge(at, WORD_BYTES)
    }

    /// The same with the place of what is enclosed.
    #[inline]
    pub(super) fn put_head(&self, position: u64, word: Word, place: u32) -> Sge<'_> {
        let at = head_at(position);
        self.cell(at).store(word.encode().to_le(), Ordering::Relaxed);
        self.cell(at + WORD_BYTES as usize).store(place.to_le(), Ordering::Relaxed);
        self.sge(at, HEAD_BYTES)
    }

    /// Puts a packet where the next SEND of one takes it from. The one before must be there.
    pub(super) fn put_packet(&self, packet: &Packet) {
        let to = self.place(PACKET_AT, PACKET_BYTES);
        // SAFETY: both are valid for this many bytes, and one is borrowed from elsewhere.
        unsafe { ptr::copy_nonoverlapping(packet.0.as_ptr(), to, PACKET_BYTES) };
    }

    /// Where [`put_packet`](Self::put_packet) has put it.
    pub(super) fn packet_sge(&self) -> Sge<'_> {
        self.sge(PACKET_AT, u32::try_from(PACKET_BYTES).unwrap_or(0))
    }

    fn copy_out(&self, at: usize, to: &mut [u8]) {
        let from = self.place(at, to.len());
        // SAFETY: both are valid for this many bytes, and nobody borrows the region.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    fn sge(&self, at: usize, bytes: u32) -> Sge<'_> {
        match self.mr.sge(at, bytes) {
            Some(sge) => sge,
            None => unreachable!("the region was made to hold it"),
        }
    }

    fn place(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at + bytes <= self.mr.len(), "the region was made to hold it");
        // SAFETY: the assertion keeps the sum inside the region.
        unsafe { self.mr.as_ptr().as_ptr().add(at) }
    }

    fn cell(&self, at: usize) -> &AtomicU32 {
        let place = self.place(at, WORD_BYTES as usize).cast::<u32>();
        assert!(place.is_aligned(), "words and receives are");
        // SAFETY: it is aligned, inside the region, and lives as long as this; a NIC that writes it at the same time costs
        // the peer its own word.
        unsafe { AtomicU32::from_ptr(place) }
    }
}

fn head_at(position: u64) -> usize {
    usize::try_from(position % u64::from(SENDS_MAX)).unwrap_or(0) * HEAD_BYTES as usize
}

const fn receive_at(slot: u16) -> usize {
    RECEIVES_AT + slot as usize * RECEIVE_BYTES as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::page::round_to_pages;
    use crate::verbs::CmId;
    use crate::verbs::fake::{begin, channel};

    #[test]
    fn words_survive_the_way_and_others_are_refused() {
        for word in [Word::Notice(0), Word::Notice(0x3FFF_FFFF), Word::Sleep, Word::SleepOk, Word::Wake] {
            assert_eq!(Word::decode(word.encode()), Some(word));
        }
        for wrong in [1 << 30 | 1, 2 << 30 | 1 << 29, u32::MAX] {
            assert_eq!(Word::decode(wrong), None);
        }
    }

    #[test]
    fn what_is_sent_and_what_is_received_lie_apart() {
        let heads = (0..u64::from(SENDS_MAX)).map(|position| (head_at(position), HEAD_BYTES as usize));
        let receives = (0..RECEIVES).map(|slot| (receive_at(slot), RECEIVE_BYTES as usize));
        let mut free = 0;
        for (at, bytes) in heads.chain([(PACKET_AT, PACKET_BYTES)]).chain(receives) {
            assert!(at >= free, "{at} is not free before {free}");
            free = at + bytes;
        }
        assert_eq!(head_at(u64::from(SENDS_MAX) + 3), head_at(3), "each position has its place again");

        begin();
        let channel = channel();
        let context = CmId::create(&channel).unwrap().context().unwrap();
        let mail = Mailroom::new(&Pd::alloc(&context).unwrap()).unwrap();
        assert_eq!(Some(mail.bytes()), round_to_pages(free), "what is counted against the budget");
    }
}
