//! A peer that is played by hand, and breaks the rules of remote writes; and what is believed only with its notification. wire.md 4.8, 5.1.

use superpipe_core::driver::{Drive, Received, RecvOperation, SendOperation, WaitStrategy};
use superpipe_core::{
    Arrival, Buffer, Closed, Config, Driver, Endpoint, Failure, Line, Nanos, Notification, Origin, Protocol,
    ProtocolError, RecvMemory, SendMemory,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Memory, PairFabric, Posted, Setup, TestFabric};

use super::{C0_BYTES, LAYOUT, payload};

const BYTES: u64 = 2000;

/// End 0. The test plays end 1.
struct Victim {
    fabric: Posted,
    driver: Driver<Posted>,
    chunks: u32,
    controls: u32,
}

impl Victim {
    fn new() -> Self {
        Self::with(8, 0)
    }

    fn with(send_queue: usize, chunk_bytes: u32) -> Self {
        let fabric = Posted::new(&Setup { send_queue, ..Setup::new(LAYOUT, 1) });
        let config = Config {
            protocol: Protocol::Register,
            c0_bytes: C0_BYTES,
            folds: 1,
            chunk_bytes,
            ..Config::default()
        };
        let endpoint = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
        let driver = Driver::new(endpoint, 1, WaitStrategy::Yield, 1_000_000_000, Nanos(0));
        Self { fabric, driver, chunks: 0, controls: 0 }
    }

    fn settle(&mut self) {
        for _ in 0..300 {
            self.driver.progress(&mut self.fabric);
            self.fabric.step();
        }
    }

    /// Writes the peer's next chunk.
    fn chunk(&mut self, bits: u64, tag: u64, length: u64, bytes: u64) {
        let line = wire::chunk(bits, tag, length, bytes, 1, u64::from(self.chunks) + 1);
        self.fabric.forge(Memory::landing(0), LAYOUT.line_at(self.chunks), &line);
        self.chunks += 1;
    }

    fn remote_rts(&mut self) {
        self.chunk(kind::RTS | kind::WANT_CTS | kind::REMOTE | kind::LEFT, 7, BYTES, 0);
    }

    fn remote_fin(&mut self) {
        self.chunk(kind::FIN | kind::REMOTE | kind::LEFT, 0, 0, 0);
    }

    /// Writes the peer's next CTS.
    fn cts(&mut self, transfer: u64, [bytes, key, address]: [u64; 3]) {
        let flag = u64::from(self.controls) + 1;
        let line = Line([1, transfer, bytes, key, address, 0, 0, flag]);
        self.fabric.forge(Memory::control_page(0), wire::mailbox(self.controls), &line);
        self.controls += 1;
    }

    fn notify(&mut self, number: u32) {
        self.fabric.forge_notification(1, Notification(1 << 28 | number));
    }

    /// Begins to receive into lent memory, and drives it until the CTS is out.
    fn receiving(&mut self) -> (RecvOperation, Vec<u8>, Buffer) {
        let buffer = self.fabric.lend(0, vec![0xa5; 2000]);
        let mut op = RecvOperation::new().with_memory(RecvMemory::Lent(buffer));
        let mut place = vec![0; 2000];
        for _ in 0..50 {
            assert_eq!(self.receive(&mut op, &mut place), None);
            self.settle();
        }
        (op, place, buffer)
    }

    fn receive(&mut self, op: &mut RecvOperation, place: &mut [u8]) -> Option<usize> {
        match self.driver.drive_recv(&mut self.fabric, op, &mut [place]) {
            Drive::Done(result) => result.ok().map(|Received { bytes, .. }| bytes),
            Drive::Moved | Drive::Idle => None,
        }
    }

    /// Begins to send out of lent memory, and drives it until nothing moves.
    fn sending(&mut self, bytes: usize, is_lent: bool) -> (SendOperation, Vec<u8>) {
        let message = payload(bytes, 1);
        let buffer = self.fabric.lend(0, message.clone());
        let mut op = SendOperation::new(7, bytes);
        if is_lent {
            op = op.with_memory(SendMemory::Lent(buffer));
        }
        self.drive(&mut op, &message);
        (op, message)
    }

    fn drive(&mut self, op: &mut SendOperation, message: &[u8]) {
        for _ in 0..20 {
            let _ = self.driver.drive_send(&mut self.fabric, op, &[message]);
            self.settle();
        }
    }

    #[track_caller]
    fn is_broken(&self, rule: ProtocolError) {
        assert_eq!(self.driver.endpoint().closed(), Some(Closed::Failed(Failure::Protocol(rule))));
    }

    /// Returns the victim's CTS.
    fn said(&self) -> Line {
        self.fabric.memories().line(Memory::control_page(1), wire::mailbox(0))
    }

    /// Makes rounds until the memory of a message is released.
    fn release(&mut self, op: &RecvOperation, buffer: Buffer) {
        self.settle();
        assert!(self.driver.is_recv_released(op), "the memory of a connection that failed");
        assert!(self.fabric.has_ended(), "the peer may still write");
        self.fabric.take_back(buffer);
    }
}

#[test]
fn the_words_of_both_ends_are_those_of_wire_md() {
    let mut t = Victim::new();
    let _ = t.sending(2000, true);
    let rts = t.fabric.memories().line(Memory::landing(1), LAYOUT.line_at(0));
    assert_eq!(rts, Line([1 | 16 | 64 | 1 << 16, 7, 2000, 0, 1, 0, 0, 1]));
    let mut t = Victim::new();
    t.remote_rts();
    let _ = t.receiving();
    // The first buffer of the fabric lies at 0, and its first registration has key 1.
    assert_eq!(t.said(), Line([1, 1, 2000, 1, 0, 0, 0, 1]));
}

#[test]
fn the_end_is_believed_only_with_its_notification() {
    let mut t = Victim::new();
    t.remote_rts();
    let (mut op, mut place, buffer) = t.receiving();
    t.remote_fin();
    for _ in 0..20 {
        assert_eq!(t.receive(&mut op, &mut place), None, "its notification has not come");
        t.settle();
    }
    t.notify(2);
    let mut received = None;
    for _ in 0..20 {
        received = received.or(t.receive(&mut op, &mut place));
        t.settle();
    }
    assert_eq!(received, Some(2000));
    assert_eq!(t.driver.endpoint().closed(), None);
    t.fabric.take_back(buffer);
}

#[test]
fn a_notification_of_another_chunk_is_a_violation() {
    for number in [0, 1, 3, (1 << 28) - 1] {
        let mut t = Victim::new();
        t.remote_rts();
        let (mut op, mut place, buffer) = t.receiving();
        t.remote_fin();
        t.notify(number);
        for _ in 0..20 {
            assert_eq!(t.receive(&mut op, &mut place), None);
            t.settle();
        }
        t.is_broken(ProtocolError::NotificationWrong);
        t.release(&op, buffer);
    }
}

#[test]
fn other_notifications_than_of_chunks_are_violations() {
    for kind in [0, 2, 3] {
        let mut t = Victim::new();
        t.remote_rts();
        let (mut op, mut place, buffer) = t.receiving();
        t.remote_fin();
        t.fabric.forge_notification(1, Notification(kind << 28 | 2));
        for _ in 0..20 {
            assert_eq!(t.receive(&mut op, &mut place), None);
            t.settle();
        }
        t.is_broken(ProtocolError::NotificationWrong);
        t.release(&op, buffer);
    }
}

#[test]
fn an_end_without_grant_is_a_violation() {
    // Nobody receives it.
    let mut t = Victim::new();
    t.remote_rts();
    t.remote_fin();
    t.notify(2);
    let mut place = vec![0; 2000];
    let mut op = RecvOperation::new();
    for _ in 0..20 {
        assert_eq!(t.receive(&mut op, &mut place), None);
        t.settle();
    }
    t.is_broken(ProtocolError::RemoteEndUngranted);

    // The message is not one by remote writes.
    let mut t = Victim::new();
    t.chunk(kind::RTS | kind::WANT_CTS | kind::LEFT, 7, BYTES, 0);
    t.remote_fin();
    t.notify(2);
    for _ in 0..20 {
        let _ = t.driver.try_peek(&mut t.fabric);
        let _ = t.driver.endpoint_mut().pull(&mut t.fabric, &mut [&mut place]);
        t.settle();
    }
    t.is_broken(ProtocolError::RemoteEndUngranted);
}

#[test]
fn an_end_behind_payload_in_blocks_is_a_violation() {
    for is_early in [true, false] {
        let mut t = Victim::new();
        t.remote_rts();
        if is_early {
            // Before the CTS.
            t.chunk(kind::LEFT, 0, 0, 100);
        }
        let buffer = t.fabric.lend(0, vec![0; 2000]);
        let mut op = RecvOperation::new().with_memory(RecvMemory::Lent(buffer));
        let mut place = vec![0; 2000];
        for _ in 0..20 {
            let _ = t.receive(&mut op, &mut place);
            t.settle();
        }
        if !is_early {
            t.chunk(kind::LEFT, 0, 0, 100);
        }
        t.remote_fin();
        t.notify(3);
        for _ in 0..20 {
            assert_eq!(t.receive(&mut op, &mut place), None);
            t.settle();
        }
        t.is_broken(ProtocolError::RemoteEndUngranted);
        assert!(t.driver.is_recv_released(&op));
        t.fabric.take_back(buffer);
    }
}

#[test]
fn blocks_wait_until_the_peer_cannot_write_remotely() {
    let mut t = Victim::new();
    t.remote_rts();
    let (mut op, mut place, buffer) = t.receiving();
    t.fabric.hold_jobs(true);
    t.chunk(kind::LEFT, 0, 0, 100);
    place.fill(0xee);
    for _ in 0..20 {
        assert_eq!(t.receive(&mut op, &mut place), None);
        t.settle();
    }
    assert!(place.iter().all(|byte| *byte == 0xee), "core writes memory that the peer may write");
    t.fabric.hold_jobs(false);
    for _ in 0..20 {
        assert_eq!(t.receive(&mut op, &mut place), None);
        t.settle();
    }
    assert_eq!(place[..101], [&[0; 100][..], &[0xee]].concat(), "the payload in blocks");
    t.fabric.take_back(buffer);
}

#[test]
fn a_cancel_of_remote_writes_needs_its_notification() {
    let mut t = Victim::new();
    t.remote_rts();
    let (mut op, mut place, buffer) = t.receiving();
    t.fabric.forge(Memory::landing(0), LAYOUT.line_at(1), &wire::cancel(1, 5, 2));
    for _ in 0..20 {
        assert_eq!(t.receive(&mut op, &mut place), None);
        t.settle();
    }
    assert!(op.has_begun() && !t.driver.is_recv_released(&op), "writes may be under way");
    t.notify(2);
    for _ in 0..20 {
        let _ = t.receive(&mut op, &mut place);
        t.settle();
    }
    assert!(!op.has_begun() && t.driver.is_recv_released(&op));
    assert_eq!((t.driver.endpoint().closed(), t.fabric.has_ended()), (None, false));
    t.fabric.take_back(buffer);
}

#[test]
fn a_claim_must_be_for_the_message() {
    for claim in [[1999, 1, 0], [2001, 1, 0], [u64::MAX, 1, 0], [2000, 1, u64::MAX - 1999]] {
        let mut t = Victim::new();
        let (mut op, message) = t.sending(2000, true);
        t.cts(1, claim);
        t.drive(&mut op, &message);
        t.is_broken(ProtocolError::ClaimInvalid);
        assert!(t.driver.is_send_released(&op));
    }
    let mut t = Victim::new();
    let (mut op, message) = t.sending(2000, false);
    t.cts(1, [2000, 1, 0]);
    t.drive(&mut op, &message);
    t.is_broken(ProtocolError::ClaimUnwanted);
    let mut t = Victim::new();
    let (mut op, message) = t.sending(2000, true);
    t.cts(1, [2000, 1, 0]);
    t.cts(1, [2000, 1, 0]);
    t.settle();
    t.drive(&mut op, &message);
    t.is_broken(ProtocolError::CtsTwice);
    assert!(t.driver.is_send_released(&op));
    let mut t = Victim::new();
    let (mut op, message) = t.sending(2000, true);
    t.cts(2, [2000, 1, 0]);
    t.drive(&mut op, &message);
    t.is_broken(ProtocolError::CtsUnknownTransfer);
}

#[test]
fn a_claim_to_nothing_ends_the_link_and_no_more() {
    let mut t = Victim::new();
    let (mut op, message) = t.sending(2000, true);
    t.cts(1, [2000, 77, 12]);
    t.drive(&mut op, &message);
    assert!(t.fabric.has_ended());
    assert!(matches!(t.driver.endpoint().closed(), Some(Closed::Failed(Failure::Device(_)))));
    assert!(t.driver.is_send_released(&op));
}

#[test]
fn a_claim_for_a_message_that_was_cancelled_is_ignored() {
    let mut t = Victim::new();
    let (mut op, _) = t.sending(2000, true);
    t.driver.cancel_send(&mut t.fabric, &mut op, superpipe_core::Reason(5));
    let (mut second, message) = t.sending(2000, true);
    t.cts(1, [2000, 77, 12]);
    t.drive(&mut second, &message);
    assert_eq!((t.driver.endpoint().closed(), t.fabric.has_ended()), (None, false));
    assert_eq!(second.sent(), 0, "the claim is for the first message");
}

#[test]
fn notifications_nobody_awaits_are_not_taken() {
    let mut t = Victim::new();
    for number in 1..4 {
        t.notify(number);
    }
    t.settle();
    assert_eq!(t.driver.endpoint().closed(), None);
    assert_eq!(t.driver.endpoint().config().arrival, Arrival::Flag);
}

/// The device completes nothing meanwhile, so the last chunk finds the send queue full, and is never posted.
#[test]
fn remote_writes_without_their_end_are_not_over() {
    for is_kept in [false, true] {
        let mut t = Victim::with(3, 700);
        let there = t.fabric.lend(1, vec![0; 2000]);
        let (_, claim) = t.fabric.register(1, there, true);
        let message = payload(2000, 1);
        let buffer = t.fabric.lend(0, message.clone());
        let memory = if is_kept {
            SendMemory::Registered(t.fabric.register(0, buffer, false).0)
        } else {
            SendMemory::Lent(buffer)
        };
        let mut op = SendOperation::new(7, 2000).with_memory(memory);
        t.drive(&mut op, &message);
        t.cts(1, [2000, claim.key.into(), claim.address]);
        let _ = t.driver.drive_send(&mut t.fabric, &mut op, &[&message]);
        assert!(op.awaits_release(), "all of it is sent");
        assert_eq!(t.driver.counters().remote_writes, 3);
        // No transfer has this number.
        t.cts(9, [2000, 1, 0]);
        for _ in 0..100 {
            t.driver.progress(&mut t.fabric);
        }
        t.is_broken(ProtocolError::CtsUnknownTransfer);
        assert!(t.driver.is_send_released(&op));
        assert!(t.fabric.has_ended(), "the device may still read it");
    }
}

/// The CTS with a claim waits for a place in the send queue while its message is cancelled, and the next message is at the head.
#[test]
fn a_cts_that_was_withdrawn_is_not_that_of_the_next_message() {
    let mut t = Victim::with(1, 0);
    t.driver.endpoint_mut().send_keepalive(&mut t.fabric);
    t.remote_rts();
    let buffer = t.fabric.lend(0, vec![0xa5; 2000]);
    let mut op = RecvOperation::new().with_memory(RecvMemory::Lent(buffer));
    let mut place = vec![0; 2000];
    // The device makes no step.
    for _ in 0..50 {
        assert_eq!(t.receive(&mut op, &mut place), None);
        t.driver.progress(&mut t.fabric);
    }
    assert!(op.has_begun() && !t.driver.is_recv_released(&op));
    t.fabric.forge(Memory::landing(0), LAYOUT.line_at(1), &wire::cancel(1, 5, 2));
    t.notify(2);
    t.fabric.forge(
        Memory::landing(0),
        LAYOUT.line_at(2),
        &wire::chunk(kind::RTS | kind::LEFT, 8, BYTES, 0, 2, 3),
    );
    for _ in 0..50 {
        assert_eq!(t.receive(&mut op, &mut place), None);
        if !op.has_begun() {
            break;
        }
        t.driver.progress(&mut t.fabric);
    }
    assert!(!op.has_begun(), "cancelled");
    assert!(t.driver.try_peek(&mut t.fabric).is_some(), "the next message");
    let mut next = RecvOperation::new();
    for _ in 0..3 {
        t.settle();
        assert_eq!(t.receive(&mut next, &mut place), None, "its payload has not come");
    }
    assert!(next.has_begun() && t.driver.is_recv_released(&op));
    let counters = t.driver.counters();
    assert_eq!((t.driver.endpoint().closed(), counters.controls_sent), (None, 0), "nobody asked for a CTS");
}
