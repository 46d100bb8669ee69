//! Registered memory of messages: receives that are posted ahead, and what SENDs are taken from. wire.md 10.3.
//!
//! ```text
//! region    heads to be sent | a packet to be sent | receives ...
//! head      signal | offset of the enclosed write
//! ```
//!
//! The handshake agrees on the number of receives. Until then as many as the smallest connections have are posted, in a region of their own.
//! If there are to be more, all of the memory becomes one region; the first stays for what was posted in it.

use super::error::ConnectError;
use super::signal::{SIGNAL_BYTES, Signal};
use crate::os::page::round_to_pages;
use crate::os::{Mapping, MemoryPlacement};
use core::mem;
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use superpipe_core::driver::setup::{self, PACKET_BYTES, Packet};
use superpipe_verbs::{Access, Error, Memory, Mr, Pd, Qp, Sge};

/// Most receives.
pub(super) const RECEIVES: u16 = setup::RECEIVES as u16;
/// Receives that are posted before both ends have agreed on a number.
pub(super) const FIRST_RECEIVES: u16 = setup::RECEIVES_ON_DEMAND as u16;
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
const _: () = assert!(FIRST_RECEIVES >= setup::RECEIVES_MIN as u16 && FIRST_RECEIVES <= RECEIVES);

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
    mr: Mr<Part>,
    /// The region before there were more receives.
    first: Option<Mr<Part>>,
    memory: Arc<Mapping>,
}

/// The beginning of the pool's memory.
#[derive(Debug)]
struct Part {
    memory: Arc<Mapping>,
    len: usize,
}

impl ReceivePool {
    /// Maps the memory of all receives, and registers that of the first.
    pub(super) fn new(pd: &Pd, placement: MemoryPlacement) -> Result<Self, ConnectError> {
        let memory = Arc::new(Mapping::anonymous(bytes_of(RECEIVES))?);
        placement.place(&memory)?;
        let part = Part { len: registered_bytes(FIRST_RECEIVES), memory: Arc::clone(&memory) };
        Ok(Self { mr: Mr::register(pd, part, Access::Local)?, first: None, memory })
    }

    /// Registers the memory of `receives` receives, if they are more than the first. Returns those that are to be posted.
    pub(super) fn extend(&mut self, pd: &Pd, receives: u16) -> Result<Range<u16>, ConnectError> {
        if receives <= FIRST_RECEIVES || self.first.is_some() {
            return Ok(0..0);
        }
        let receives = receives.min(RECEIVES);
        let part = Part { len: registered_bytes(receives), memory: Arc::clone(&self.memory) };
        let all = Mr::register(pd, part, Access::Local)?;
        self.first = Some(mem::replace(&mut self.mr, all));
        Ok(FIRST_RECEIVES..receives)
    }

    /// Returns the bytes that are registered.
    pub(super) fn bytes(&self) -> usize {
        self.mr.len() + self.first.as_ref().map_or(0, Mr::len)
    }

    /// Returns the bytes that are registered for this number of receives.
    pub(super) fn bytes_for(receives: u16) -> usize {
        let more = if receives > FIRST_RECEIVES { registered_bytes(receives) } else { 0 };
        registered_bytes(FIRST_RECEIVES) + more
    }

    /// Posts the receive `slot` with this id.
    #[inline]
    pub(super) fn post(&self, qp: &mut Qp, id: u64, slot: u16) -> Result<(), Error> {
        debug_assert!(slot < RECEIVES, "the pool has RECEIVES slots");
        qp.post_receive(id, self.mr.sge(receive_at(slot), RECEIVE_BYTES))
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

// SAFETY: 1. The mapping is mapped as long as this holds it, and is at least as long. 2. The fields never change. 3. A mapping gives out raw
// pointers only.
unsafe impl Memory for Part {
    fn as_ptr(&self) -> NonNull<u8> {
        self.memory.as_ptr()
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// Returns the bytes of a pool of this many receives.
const fn bytes_of(receives: u16) -> usize {
    RECEIVES_AT + receives as usize * RECEIVE_BYTES as usize
}

/// Returns the same in whole pages.
fn registered_bytes(receives: u16) -> usize {
    let bytes = bytes_of(receives.min(RECEIVES));
    round_to_pages(bytes).unwrap_or(bytes)
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
    use superpipe_verbs::CmId;
    use superpipe_verbs::fake::{begin, channel, script};

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
        let pd = Pd::alloc(&context).unwrap();
        let mut pool = ReceivePool::new(&pd, MemoryPlacement::default()).unwrap();
        assert_eq!(pool.extend(&pd, FIRST_RECEIVES).unwrap(), 0..0);
        assert_eq!((pool.bytes(), pool.bytes()), (8 << 10, ReceivePool::bytes_for(FIRST_RECEIVES)));
        assert_eq!(pool.extend(&pd, RECEIVES).unwrap(), FIRST_RECEIVES..RECEIVES);
        let all = round_to_pages(free).unwrap();
        assert_eq!((pool.bytes(), ReceivePool::bytes_for(RECEIVES)), (all + (8 << 10), pool.bytes()));
        assert_eq!(pool.mr.len(), all);
        assert_eq!(
            script(|script| script.regions.iter().map(|it| it.bytes).sum::<u64>()),
            pool.bytes() as u64
        );
    }
}
