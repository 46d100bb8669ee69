//! Proofs: each test says what wire.md or a method's documentation promises, and fails where it is not kept.

use core::cell::{Cell, RefCell};

use superpipe_core::recorder::Recorder;
use superpipe_core::{
    Arrival, Caps, Closed, Completion, Config, CopyKernel, End, Endpoint, Fabric, Failure, FlagPlace, Layout,
    Length, Line, Nanos, Notification, Origin, ProtocolError, Readable, Reason, RefusedSend, SqFull, WcError,
    WrId, control_page,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, EndLink, Memory, PairFabric, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 4, flags: FlagPlace::Inside };

fn one<F: TestFabric>(config: Config, origin: Origin) -> (F, Endpoint<F>) {
    let fabric = F::new(&Setup { send_queue: 8, ..Setup::new(LAYOUT, 1) });
    let end = Endpoint::new(&fabric, fabric.attachment(0), config, origin).unwrap();
    (fabric, end)
}

fn settle<F: TestFabric>(fabric: &mut F, end: &mut Endpoint<F>) {
    for _ in 0..300 {
        end.progress(fabric);
        fabric.step();
    }
}

fn config() -> Config {
    Config { c0_bytes: 400, folds: 1, ..Config::default() }
}

/// The peer's line gives a block back and acknowledges a control message that was never sent. wire.md 5.3: who finds a violation
/// says CLOSE and moves nothing any more, and sends no chunk after `last`.
fn nothing_is_sent_after_a_violation<F: TestFabric>(payload: &[&[u8]]) {
    let (mut fabric, mut end) = one::<F>(config(), Origin::default());
    for tag in 0..4 {
        end.try_send(&mut fabric, tag, &[b"12345678"]).unwrap();
    }
    for _ in 0..300 {
        fabric.step();
    }
    fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(4, 1, 0));
    let sent = end.try_send(&mut fabric, 4, payload);
    for _ in 0..300 {
        fabric.step();
    }
    let broken = Some(Closed::Failed(Failure::Protocol(ProtocolError::ControlAckBeyondSent)));
    assert_eq!(end.closed(), broken);
    let close = fabric.memories().line(Memory::control_page(1), wire::mailbox(0));
    assert_eq!(close, wire::close(4, u64::from(u32::MAX), 1), "CLOSE names chunk 4 as the last");
    assert_eq!(
        (sent, fabric.memories().line(Memory::landing(1), LAYOUT.line_at(0)).flag()),
        (Err(RefusedSend::Closed), 1),
        "a chunk was sent after CLOSE, by a connection that has failed"
    );
}

#[test]
fn no_inline_message_after_a_violation_direct() {
    nothing_is_sent_after_a_violation::<Direct>(&[b"after"]);
}

#[test]
fn no_inline_message_after_a_violation_posted() {
    nothing_is_sent_after_a_violation::<Posted>(&[b"after"]);
}

#[test]
fn no_complete_message_after_a_violation_direct() {
    nothing_is_sent_after_a_violation::<Direct>(&[&[7; 100]]);
}

#[test]
fn no_gathered_message_after_a_violation_direct() {
    nothing_is_sent_after_a_violation::<Direct>(&[&[7; 100], &[8; 100]]);
}

#[test]
fn no_gathered_message_after_a_violation_posted() {
    nothing_is_sent_after_a_violation::<Posted>(&[&[7; 100], &[8; 20]]);
}

/// wire.md 4.4: CANCEL ends a transfer once; of one that is not open it is `NoTransferOpen`.
#[test]
fn one_transfer_is_cancelled_once() {
    let (mut fabric, mut end) = one::<Direct>(config(), Origin::default());
    let id = end.start(1, Length::Stream).unwrap();
    assert_eq!(end.push(&mut fabric, id, &[&[7; 50]]), Ok(50));
    fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::reject(1, 5, 1));
    settle(&mut fabric, &mut end);
    assert_eq!(fabric.memories().line(Memory::landing(1), LAYOUT.line_at(1)), wire::cancel(1, 5, 2));
    fabric.forge(Memory::control_page(0), wire::mailbox(1), &wire::reject(1, 5, 2));
    settle(&mut fabric, &mut end);
    assert_eq!(
        fabric.memories().line(Memory::landing(1), LAYOUT.line_at(2)),
        Line([0; 8]),
        "a second CANCEL of a transfer that has ended: {:?}",
        end.closed()
    );
}

/// `consume`: "More than it showed are a mistake, and ignored."
#[test]
fn more_than_was_shown_is_ignored() {
    let (mut fabric, mut end) = one::<Direct>(config(), Origin::default());
    let bits = kind::RTS | kind::STREAM | kind::LEFT;
    fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &wire::chunk(bits, 1, 0, 20, 1, 1));
    let Readable::Run(run) = end.readable(&mut fabric, 1000) else { panic!("20 bytes are here") };
    assert_eq!(run.bytes, 20);
    assert_eq!(end.consume(&mut fabric, 21), End::No);
    let again = end.readable(&mut fabric, 1000);
    assert!(matches!(again, Readable::Run(run) if run.bytes == 20), "not ignored: {again:?}");
}

/// The same where the transfer ends with what was shown: its end is never told.
#[test]
fn the_end_is_reported_although_more_was_consumed_than_shown() {
    let (mut fabric, mut end) = one::<Direct>(config(), Origin::default());
    let bits = kind::RTS | kind::FIN | kind::LEFT;
    fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &wire::chunk(bits, 1, 50, 50, 1, 1));
    assert!(matches!(end.readable(&mut fabric, 1000), Readable::Run(run) if run.bytes == 50));
    let ignored = end.consume(&mut fabric, 51);
    assert_eq!(ignored, End::No);
    assert_eq!(end.consume(&mut fabric, 50), End::Fin, "the end was swallowed");
}

/// Bytes that were shown of a message that is then rejected cannot be consumed: its end is not the end of anything
/// that the caller takes. Even nothing can be consumed "to its end".
#[test]
fn the_end_of_a_rejected_transfer_is_not_reported() {
    for bytes in [50, 0] {
        let (mut fabric, mut end) = one::<Direct>(config(), Origin::default());
        let bits = kind::RTS | kind::FIN | kind::LEFT;
        fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &wire::chunk(bits, 1, bytes, bytes, 1, 1));
        let shown = if bytes > 0 {
            let Readable::Run(run) = end.readable(&mut fabric, 1000) else { panic!("50 bytes are here") };
            run.bytes
        } else {
            0
        };
        assert!(end.reject(&mut fabric, Reason(3)));
        assert_eq!(end.consume(&mut fabric, shown), End::No, "of a transfer that was rejected");
    }
}

/// The same, once what was rejected is gone.
#[test]
fn what_was_rejected_can_be_consumed_in_vain() {
    let (mut fabric, mut end) = one::<Direct>(config(), Origin::default());
    let bits = kind::RTS | kind::FIN | kind::LEFT;
    fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &wire::chunk(bits, 1, 50, 50, 1, 1));
    assert!(matches!(end.readable(&mut fabric, 1000), Readable::Run(run) if run.bytes == 50));
    assert!(end.reject(&mut fabric, Reason(3)));
    end.progress(&mut fabric);
    assert_eq!(end.consume(&mut fabric, 50), End::No);
}

/// wire.md 3.4: "no more chunks may be notified and not consumed than there are blocks": one more is taken wherever the
/// sequence does not wrap.
#[test]
fn no_more_chunks_are_notified_than_there_are_blocks() {
    let origin = Origin { sequence: 100, controls: 100, ..Origin::default() };
    let (mut fabric, mut end) = one::<Posted>(Config { arrival: Arrival::Notify, ..config() }, origin);
    for sequence in 100..104 {
        fabric.forge_notification(1, Notification(1 << 28 | sequence));
        settle(&mut fabric, &mut end);
        assert_eq!(end.closed(), None);
    }
    fabric.forge_notification(1, Notification(1 << 28 | 104));
    settle(&mut fabric, &mut end);
    let broken = Some(Closed::Failed(Failure::Protocol(ProtocolError::NotificationWrong)));
    assert_eq!(end.closed(), broken, "five chunks in four blocks");
}

/// wire.md 5.2, 5.1: REJECT and CTS of a transfer that was not started.
#[test]
fn a_reject_before_any_transfer_is_wrong() {
    for transfer in [0, 1, 1 << 63, (1 << 63) + 5, u64::MAX] {
        let (mut fabric, mut end) = one::<Direct>(config(), Origin::default());
        fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::reject(transfer, 5, 1));
        settle(&mut fabric, &mut end);
        let broken = Some(Closed::Failed(Failure::Protocol(ProtocolError::RejectUnknownTransfer)));
        assert_eq!(
            (end.closed(), end.poll_event()),
            (broken, None),
            "REJECT of {transfer}, and nothing was ever sent"
        );
    }
}

#[test]
fn a_cts_before_any_transfer_is_wrong() {
    for transfer in [0, 1, 1 << 63, (1 << 63) + 5, u64::MAX] {
        let (mut fabric, mut end) = one::<Direct>(config(), Origin::default());
        fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::cts(transfer, 1));
        settle(&mut fabric, &mut end);
        let broken = Some(Closed::Failed(Failure::Protocol(ProtocolError::CtsUnknownTransfer)));
        assert_eq!(end.closed(), broken, "CTS of {transfer}, and nothing was ever sent");
    }
}

/// Two honest ends: what is reserved is filled while `progress` is made, as `SendStream::read_from` does with a source that
/// blocks. wire.md 4.6: a block is the receiver's from when it is written until it is acknowledged.
fn what_is_reserved_is_ours_to_fill<F: TestFabric>() {
    let mut fabric = F::new(&Setup::new(LAYOUT, 1));
    let end = |side| Endpoint::new(&fabric, fabric.attachment(side), config(), Origin::default()).unwrap();
    let mut ends: [Endpoint<F>; 2] = [end(0), end(1)];
    let id = ends[0].start(1, Length::Stream).unwrap();
    assert_eq!(ends[0].push(&mut fabric, id, &[&[7; 50]]), Ok(50));
    while ends[1].incoming(&mut fabric).is_none() {
        fabric.step();
    }
    for _ in 0..100 {
        fabric.step();
        ends[0].progress(&mut fabric);
    }
    let reserved = ends[0].reserve(&mut fabric, id, 100).unwrap();
    assert!(ends[1].reject(&mut fabric, Reason(5)));
    for _ in 0..100 {
        fabric.step();
        ends[0].progress(&mut fabric);
    }
    for (at, bytes) in reserved.spans() {
        fabric.fill(reserved.memory, at, &vec![1; bytes as usize]);
    }
    assert_eq!(ends[0].commit(&mut fabric, id, 100), Err(RefusedSend::Rejected(Reason(5))));
}

#[test]
fn what_is_reserved_is_ours_to_fill_direct() {
    what_is_reserved_is_ours_to_fill::<Direct>();
}

#[test]
fn what_is_reserved_is_ours_to_fill_posted() {
    what_is_reserved_is_ours_to_fill::<Posted>();
}

/// wire.md 5.3: who finds a violation says CLOSE with reason 2^32 - 1 if it has not closed before. Here CLOSE is due, and not
/// said, and names a chunk that is dropped: an honest peer waits for that forever.
#[test]
fn a_failure_before_close_is_said_closes_with_its_reason() {
    let mut fabric = Posted::new(&Setup { send_queue: 1, ..Setup::new(LAYOUT, 1) });
    let end = |side| Endpoint::new(&fabric, fabric.attachment(side), config(), Origin::default()).unwrap();
    let mut ends: [Endpoint<Posted>; 2] = [end(0), end(1)];
    let id = ends[0].start(1, Length::Stream).unwrap();
    assert_eq!(ends[0].push(&mut fabric, id, &[&[7; 50]]), Ok(50));
    assert_eq!(ends[0].push(&mut fabric, id, &[&[8; 50]]), Ok(50));
    ends[0].close(&mut fabric, Reason::DONE);
    assert!(!ends[0].is_flushed());
    fabric.fail_next(0, WcError { status: 1, vendor_err: 0 });
    for _ in 0..5000 {
        fabric.step();
        ends.iter_mut().for_each(|end| _ = end.progress(&mut fabric));
        ends[1].pull(&mut fabric, &mut [&mut [0; 100]]);
    }
    assert!(matches!(ends[0].closed(), Some(Closed::Failed(_))));
    assert!(ends[0].is_flushed() && ends[1].peer_closes(), "CLOSE went out");
    assert_eq!(
        ends[1].closed(),
        Some(Closed::ByPeer(Reason::PROTOCOL)),
        "the peer never learns that it is closed"
    );
}

/// wire.md 5.3: "A transfer that it leaves open it cancels before." One that does not leaves its reader without an end.
#[test]
fn a_transfer_that_a_close_leaves_open_is_a_violation() {
    let (mut fabric, mut end) = one::<Direct>(config(), Origin::default());
    let bits = kind::RTS | kind::STREAM | kind::LEFT;
    fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &wire::chunk(bits, 1, 0, 20, 1, 1));
    fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::close(1, 0, 1));
    settle(&mut fabric, &mut end);
    assert_eq!(end.pull(&mut fabric, &mut [&mut [0; 100]]).bytes, 20);
    settle(&mut fabric, &mut end);
    assert_ne!(end.closed(), None, "all up to `last` was taken out, and the stream has no end");
}

/// Direct store, and a peer on another core that writes the next chunk whenever a flag is looked at, whether or not the block
/// was given back. It gives up after a million.
struct Racing {
    inner: RefCell<Direct>,
    looks: Cell<u64>,
    racing: Cell<bool>,
    next: Cell<(u64, u32)>,
}

impl Racing {
    fn race(&self, from: Memory, at: u32) {
        let (sequence, block) = self.next.get();
        if self.racing.get() && from == Memory::landing(0) && at == LAYOUT.flag_at(block) {
            self.looks.set(self.looks.get() + 1);
            if self.looks.get() > 1_000_000 {
                self.racing.set(false);
                return;
            }
            let line = wire::chunk(kind::LEFT, 0, 0, 1, 1, sequence);
            self.inner.borrow_mut().forge(from, LAYOUT.line_at(block), &line);
            self.next.set((sequence + 1, (block + 1) % LAYOUT.block_count));
        }
    }
}

impl Fabric for Racing {
    const DIRECT: bool = true;
    const TIMES_COPIES: bool = true;
    type Link = EndLink;
    type Region = Memory;
    type Remote = Memory;

    fn caps(&self, link: &EndLink) -> Caps {
        self.inner.borrow().caps(link)
    }
    fn now(&mut self) -> Nanos {
        self.inner.get_mut().now()
    }
    fn flag(&self, link: &EndLink, from: Memory, at: u32) -> u64 {
        self.race(from, at);
        self.inner.borrow().flag(link, from, at)
    }
    fn take_line(&self, link: &EndLink, from: Memory, at: u32) -> Line {
        self.inner.borrow().take_line(link, from, at)
    }
    fn copy_out(&mut self, link: &mut EndLink, from: Memory, at: u32, to: &mut [u8], kernel: CopyKernel) {
        self.inner.get_mut().copy_out(link, from, at, to, kernel);
    }
    fn crc_out(&self, link: &EndLink, from: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        self.inner.borrow().crc_out(link, from, at, bytes, seed)
    }
    fn write_line(&mut self, link: &mut EndLink, to: Memory, at: u32, line: &Line) {
        self.inner.get_mut().write_line(link, to, at, line);
    }
    fn publish(&mut self, link: &mut EndLink, to: Memory, at: u32, flag: u64) {
        self.inner.get_mut().publish(link, to, at, flag);
    }
    fn copy_in(&mut self, link: &mut EndLink, to: Memory, at: u32, from: &[u8], kernel: CopyKernel) {
        self.inner.get_mut().copy_in(link, to, at, from, kernel);
    }
    fn crc_in(&self, link: &EndLink, to: Memory, at: u32, bytes: u32, seed: u32) -> u32 {
        self.inner.borrow().crc_in(link, to, at, bytes, seed)
    }
    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        self.inner.borrow().crc(bytes, seed)
    }
    fn post_write(
        &mut self,
        _: &mut EndLink,
        _: Memory,
        _: u32,
        _: u32,
        _: Option<WrId>,
        _: Option<Notification>,
    ) -> Result<(), SqFull> {
        Err(SqFull)
    }
    fn ring_doorbell(&mut self, link: &mut EndLink) {
        self.inner.get_mut().ring_doorbell(link);
    }
    fn poll_cq(&mut self, _: &mut EndLink) -> Option<Completion> {
        None
    }
    fn recorder(&mut self, _: &EndLink) -> Option<&mut Recorder> {
        None
    }
}

/// `drain`: "the ring's blocks at most". `progress`: "One bounded round".
#[test]
fn draining_is_bounded() {
    let inner = Direct::new(&Setup::new(LAYOUT, 1));
    let attachment = inner.attachment(0);
    let mut fabric = Racing {
        inner: RefCell::new(inner),
        looks: Cell::new(0),
        racing: Cell::new(false),
        next: Cell::new((2, 1)),
    };
    let superpipe_core::Attachment {
        link,
        control_page,
        peer_control_page,
        landing,
        peer_landing,
        growth: _,
    } = attachment;
    let attachment = superpipe_core::Attachment {
        link,
        control_page,
        peer_control_page,
        landing,
        peer_landing,
        growth: None,
    };
    let mut end = Endpoint::new(&fabric, attachment, config(), Origin::default()).unwrap();
    let rts = wire::chunk(kind::RTS | kind::STREAM | kind::LEFT, 1, 0, 1, 1, 1);
    fabric.inner.get_mut().forge(Memory::landing(0), LAYOUT.line_at(0), &rts);
    assert!(end.incoming(&mut fabric).is_some());
    assert!(end.reject(&mut fabric, Reason(1)));
    fabric.racing.set(true);
    end.progress(&mut fabric);
    let looks = fabric.looks.get();
    assert!(
        looks <= u64::from(LAYOUT.block_count),
        "one round of progress threw away {looks} chunks in 4 blocks"
    );
}
