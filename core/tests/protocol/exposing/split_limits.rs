//! A split message and its limits: free blocks, the slices, and what a REJECT allows. wire.md 4.4, 4.10, 5.6.

use superpipe_core::driver::{Drive, SendFailed, SendOperation, WaitStrategy};
use superpipe_core::{Arrival, Buffer, Driver, Exposed, Nanos, PeerAccess, Protocol, Reason, SendMemory};
use superpipe_testkit::wire::kind;
use superpipe_testkit::{Direct, Memory, TestFabric};

use super::hostile::Victim;
use super::{LAYOUT, payload};

/// The victim has exposed memory that the peer maps, and maps memory of the peer for writing. The peer acknowledges no block.
struct Sender {
    t: Victim<Direct>,
    driver: Driver<Direct>,
    memory: Vec<u8>,
    source: Exposed,
    room: Buffer,
}

fn sender(bytes: usize, triple_buffer: bool) -> Sender {
    let mut t = Victim::with(Protocol::RegisterCached, Arrival::Flag, triple_buffer);
    let room = t.hand_over_for(2, bytes, PeerAccess::Write);
    t.control([9, 2, bytes as u64, 1]);
    let memory = payload(bytes, 1);
    let buffer = t.fabric.exposed().add(0, memory.clone());
    let source = t.end.expose(&mut t.fabric, buffer).unwrap();
    t.settle();
    t.control([10, 0, 0, 0]);
    let driver = Driver::new(t.end.clone(), 1, WaitStrategy::Yield, 1_000_000_000, Nanos(0));
    Sender { t, driver, memory, source, room }
}

impl Sender {
    /// The peer offers its memory to this transfer.
    fn offer(&mut self, transfer: u64) {
        self.control([12, transfer, 2, 0]);
        self.t.fabric.exposed().offer(self.room, 0);
    }

    /// Writes a control message of the peer. The driver takes it out.
    fn control(&mut self, words: [u64; 4]) {
        self.t.end = self.driver.endpoint().clone();
        self.t.control(words);
        *self.driver.endpoint_mut() = self.t.end.clone();
    }

    fn op(&self) -> SendOperation {
        SendOperation::new(7, self.memory.len()).with_memory(SendMemory::Exposed(self.source, 0))
    }

    fn drive(&mut self, op: &mut SendOperation, slices: &[&[u8]]) -> Drive<Result<(), SendFailed>> {
        self.driver.drive_send(&mut self.t.fabric, op, slices)
    }

    /// Sends lines that nobody takes.
    fn fill(&mut self, blocks: u32) {
        for _ in 0..blocks {
            assert!(self.driver.try_send(&mut self.t.fabric, 1, &[b"line"]).is_ok());
        }
    }

    /// Returns the first word of the chunk in a block.
    fn kinds(&self, block: u32) -> u64 {
        self.t.fabric.memories().line(Memory::landing(1), LAYOUT.line_at(block)).0[0]
    }
}

/// "A chunk that leaves its transfer open must leave at least one block of the ring free."
#[test]
fn the_first_chunk_leaves_a_block_for_the_last() {
    let count = LAYOUT.block_count;
    for taken in 0..=count {
        let mut it = sender(2000, false);
        it.fill(taken);
        it.offer(u64::from(taken) + 1);
        let (mut op, memory) = (it.op(), it.memory.clone());
        let driven = it.drive(&mut op, &[&memory]);
        if taken + 2 <= count {
            assert_eq!(driven, Drive::Done(Ok(())), "{taken}");
            assert!(op.is_exposed(), "the peer copies the head");
            assert_eq!(it.kinds(taken), kind::RTS | kind::REMOTE, "{taken}");
        } else {
            assert_eq!((driven, op.has_begun(), op.sent()), (Drive::Idle, false, 0), "{taken}");
        }
        assert_eq!(it.driver.endpoint().closed(), None);
    }
}

/// With triple buffering a third chunk waits until the first is acknowledged.
#[test]
fn the_last_chunk_waits_as_chunks_do() {
    let mut it = sender(2000, true);
    it.fill(1);
    it.offer(2);
    let (mut op, memory) = (it.op(), it.memory.clone());
    assert_eq!(it.drive(&mut op, &[&memory]), Drive::Idle, "two chunks are not acknowledged");
    assert!(op.has_begun());
    assert_eq!(it.kinds(1), kind::RTS | kind::REMOTE);
    assert_eq!(it.kinds(2), 0, "no last chunk");
}

/// A message of which the slices have more than was announced is cancelled, whatever part of it was sent.
#[test]
fn slices_with_more_than_the_message_are_refused() {
    let mut it = sender(3 << 20, false);
    it.offer(1);
    let (mut op, memory) = (it.op(), it.memory.clone());
    assert_eq!(it.drive(&mut op, &[&memory]), Drive::Moved);
    let driven = it.drive(&mut op, &[&memory, b"more"]);
    assert_eq!(driven, Drive::Done(Err(SendFailed::WrongLength)));
    assert_eq!(it.kinds(1) & (kind::CANCEL | kind::FIN), kind::CANCEL, "no end but CANCEL");
}

/// A receiver that has sent REJECT may withdraw the memory: its sender has taken the REJECT, and writes no more.
#[test]
fn memory_of_a_rejected_message_can_be_withdrawn() {
    let mut it = sender(3 << 20, false);
    it.offer(1);
    let (mut op, memory) = (it.op(), it.memory.clone());
    assert_eq!(it.drive(&mut op, &[&memory]), Drive::Moved);
    it.control([2, 1, 0, 5]);
    it.control([11, 2, 0, 0]);
    assert_eq!(it.driver.endpoint().closed(), None);
    assert_eq!(it.t.fabric.exposed().mapped(0), 0);
    let driven = it.drive(&mut op, &[&memory]);
    assert_eq!(driven, Drive::Done(Err(SendFailed::Rejected(Reason(5)))));
    assert_eq!(it.kinds(1) & kind::CANCEL, kind::CANCEL);
}
