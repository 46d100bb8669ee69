//! Registered memory of messages: receives that are posted ahead, and what SENDs are taken from. wire.md 10.3.
//!
//! ```text
//! region    heads to be sent | a packet to be sent | receives ...
//! head      signal | offset of the enclosed write
//! ```

use super::error::ConnectError;
use super::signal::{SIGNAL_BYTES, Signal};
use crate::os::Mapping;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use superpipe_core::driver::setup::{PACKET_BYTES, Packet};
use superpipe_verbs::{Access, Error, Mr, Pd, Qp, Sge};

/// Receives for core's notifications, which each end keeps posted: more than the 32 blocks of a landing buffer of the default size,
/// since control messages and acknowledgements take some as well.
pub(super) const NOTIFICATIONS: u16 = 128;
/// Receives in all: the signals of sleeping take three at most, and a packet of the handshake may arrive several times.
pub(super) const RECEIVES: u16 = NOTIFICATIONS + 16;
/// Largest depth of the send queue, and so of signals in flight: more than all notifications that the peer has receives for, and the
/// signals and packets beside them.
pub(super) const SENDS_MAX: u32 = 256;

/// Bytes of a receive: room for a packet of the handshake, and for an enclosed write of 248 bytes with its head (docs/performance.md, "Over
/// RDMA").
const RECEIVE_BYTES: u32 = 256;
const PACKET_AT: usize = SENDS_MAX as usize * HEAD_BYTES as usize;
const RECEIVES_AT: usize = PACKET_AT + RECEIVE_BYTES as usize;
/// Bit that marks the id of a receive among those of work requests.
pub(super) const IS_RECEIVE: u64 = 1 << 63;

const _: () = assert!(PACKET_BYTES <= RECEIVE_BYTES as usize);

/// Bytes of a signal and an offset.
const HEAD_BYTES: u32 = 8;
/// Longest write that is enclosed in its notification (docs/performance.md, "Over RDMA").
pub(super) const ENCLOSED_MAX: u32 = RECEIVE_BYTES - HEAD_BYTES;

/// A write that arrived in a SEND.
#[derive(Debug)]
pub(super) struct EnclosedWrite {
    /// Offset in the registered memory that it goes to.
    pub(super) offset: u32,
    buffer: [u8; ENCLOSED_MAX as usize],
    bytes: usize,
}

impl EnclosedWrite {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.bytes]
    }
}

/// Receives and send slots of one connection.
#[derive(Debug)]
pub(super) struct ReceivePool {
    mr: Mr<Mapping>,
}

impl ReceivePool {
    pub(super) fn new(pd: &Pd) -> Result<Self, ConnectError> {
        let bytes = RECEIVES_AT + usize::from(RECEIVES) * RECEIVE_BYTES as usize;
        let memory = Mapping::anonymous(bytes)?;
        Ok(Self { mr: Mr::register(pd, memory, Access::Local)? })
    }

    /// Returns the bytes that are registered.
    pub(super) fn bytes(&self) -> usize {
        self.mr.len()
    }

    /// Posts the receive `slot`.
    #[inline]
    pub(super) fn post(&self, qp: &mut Qp, slot: u16) -> Result<(), Error> {
        debug_assert!(slot < RECEIVES, "the pool has RECEIVES slots");
        qp.post_receive(IS_RECEIVE | u64::from(slot), self.mr.sge(receive_at(slot), RECEIVE_BYTES))
    }

    /// Reads the signal in `slot`, once.
    pub(super) fn signal_bits(&self, slot: u16) -> u32 {
        u32::from_le(self.cell(receive_at(slot)).load(Ordering::Relaxed))
    }

    /// Copies out the packet in `slot`.
    pub(super) fn packet(&self, slot: u16) -> Packet {
        let mut packet = Packet::empty();
        self.copy_out(receive_at(slot), &mut packet.0);
        packet
    }

    /// Copies out the write that is enclosed in the `bytes` bytes in `slot`. Returns none if these are no head with bytes behind it.
    pub(super) fn enclosed(&self, slot: u16, bytes: u32) -> Option<EnclosedWrite> {
        let bytes =
            bytes.checked_sub(HEAD_BYTES).filter(|bytes| (1..=ENCLOSED_MAX).contains(bytes))? as usize;
        let at = receive_at(slot);
        let offset = u32::from_le(self.cell(at + SIGNAL_BYTES as usize).load(Ordering::Relaxed));
        let mut buffer = [0; ENCLOSED_MAX as usize];
        self.copy_out(at + HEAD_BYTES as usize, &mut buffer[..bytes]);
        Some(EnclosedWrite { offset, buffer, bytes })
    }

    /// Writes a signal to the slot of the SEND at this position of the queue.
    #[inline]
    pub(super) fn put_signal(&self, position: u64, signal: Signal) -> Sge<'_> {
        let at = head_at(position);
        self.cell(at).store(signal.encode().to_le(), Ordering::Relaxed);
        self.sge(at, SIGNAL_BYTES)
    }

    /// Writes a signal and the offset of the enclosed write.
    #[inline]
    pub(super) fn put_head(&self, position: u64, signal: Signal, offset: u32) -> Sge<'_> {
        let at = head_at(position);
        self.cell(at).store(signal.encode().to_le(), Ordering::Relaxed);
        self.cell(at + SIGNAL_BYTES as usize).store(offset.to_le(), Ordering::Relaxed);
        self.sge(at, HEAD_BYTES)
    }

    /// Writes the packet to be sent next. The one before must have arrived.
    pub(super) fn put_packet(&self, packet: &Packet) {
        let to = self.pointer(PACKET_AT, PACKET_BYTES);
        // SAFETY: both are valid for this many bytes, and one is borrowed from elsewhere.
        unsafe { ptr::copy_nonoverlapping(packet.0.as_ptr(), to, PACKET_BYTES) };
    }

    /// Returns the packet of [`put_packet`](Self::put_packet).
    pub(super) fn packet_sge(&self) -> Sge<'_> {
        self.sge(PACKET_AT, u32::try_from(PACKET_BYTES).unwrap_or(0))
    }

    fn copy_out(&self, at: usize, to: &mut [u8]) {
        let from = self.pointer(at, to.len());
        // SAFETY: both are valid for this many bytes, and nobody borrows the region.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    fn sge(&self, at: usize, bytes: u32) -> Sge<'_> {
        match self.mr.sge(at, bytes) {
            Some(sge) => sge,
            None => unreachable!("the region was made to hold it"),
        }
    }

    fn pointer(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at + bytes <= self.mr.len(), "the region was made to hold it");
        // SAFETY: the assertion keeps the sum inside the region.
        unsafe { self.mr.as_ptr().as_ptr().add(at) }
    }

    fn cell(&self, at: usize) -> &AtomicU32 {
        let pointer = self.pointer(at, SIGNAL_BYTES as usize).cast::<u32>();
        assert!(pointer.is_aligned(), "signals and receives are");
        // SAFETY: it is aligned, inside the region, and lives as long as this; if a NIC writes it at the same time, the
        // peer loses its own signal.
        unsafe { AtomicU32::from_ptr(pointer) }
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
    use superpipe_verbs::CmId;
    use superpipe_verbs::fake::{begin, channel};

    #[test]
    fn send_slots_and_receives_do_not_overlap() {
        let heads = (0..u64::from(SENDS_MAX)).map(|position| (head_at(position), HEAD_BYTES as usize));
        let receives = (0..RECEIVES).map(|slot| (receive_at(slot), RECEIVE_BYTES as usize));
        let mut free = 0;
        for (at, bytes) in heads.chain([(PACKET_AT, PACKET_BYTES)]).chain(receives) {
            assert!(at >= free, "{at} is not free before {free}");
            free = at + bytes;
        }
        assert_eq!(head_at(u64::from(SENDS_MAX) + 3), head_at(3), "positions take turns in the slots");

        begin();
        let channel = channel();
        let context = CmId::create(&channel).unwrap().context().unwrap();
        let pool = ReceivePool::new(&Pd::alloc(&context).unwrap()).unwrap();
        assert_eq!(Some(pool.bytes()), round_to_pages(free), "the budget counts these");
    }
}
