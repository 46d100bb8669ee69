//! Every control message and every slot line, legal and illegal, played to one endpoint by a peer that is this test and
//! writes its lines by hand; on both fabrics. wire.md 2 to 5.

use superpipe_core::{
    Arrival, Closed, Config, End, Endpoint, Event, Failure, FlagPlace, Layout, Length, Line, Origin,
    Protocol, ProtocolError, Reason, RefusedSend, TryRecv, WcError, seat,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, Posted, Rig, Setup, Stage, crc32c};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };

/// The sequence before the first.
const BEFORE_FIRST: u64 = u64::MAX;

/// The endpoint under test is end 0; the peer is played by `feed!` and `expect!`.
struct Victim<F: Rig> {
    fabric: F,
    end: Endpoint<F>,
    controls_fed: u32,
}

impl<F: Rig> Victim<F> {
    fn new() -> Self {
        let fabric = F::new(&Setup::new(LAYOUT, 1));
        let config = Config { c0_bytes: 100, folds: 1, ..Config::default() };
        let end = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
        Self { fabric, end, controls_fed: 0 }
    }

    /// What is on its way arrives, and is looked at.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.end.progress(&mut self.fabric);
            self.fabric.step();
        }
        self.end.look(&mut self.fabric);
    }

    fn control(&mut self, line: Line) {
        let at = wire::mailbox(self.controls_fed);
        self.controls_fed += 1;
        self.fabric.forge(Memory::seat(0), at, &line);
        self.settle();
    }

    fn slot(&mut self, block: u32, line: Line) {
        self.fabric.forge(Memory::landing(0), LAYOUT.line_at(block), &line);
        self.settle();
        self.end.incoming(&mut self.fabric);
    }

    /// What the peer finds in its mailbox, or in its landing buffer.
    fn said(&self, slot: u32) -> Line {
        self.fabric.memories().line(Memory::seat(1), wire::mailbox(slot))
    }

    fn sent(&self, block: u32) -> Line {
        self.fabric.memories().line(Memory::landing(1), LAYOUT.line_at(block))
    }

    /// A slot line, and what the short way makes of it.
    fn try_recv(&mut self, block: u32, line: Line) -> TryRecv {
        self.fabric.forge(Memory::landing(0), LAYOUT.line_at(block), &line);
        self.settle();
        let mut place = [0; 300];
        self.end.try_recv(&mut self.fabric, &mut [&mut place], 2)
    }

    fn pull(&mut self) -> (usize, End) {
        let mut place = [0; 4096];
        let pulled = self.end.pull(&mut self.fabric, &mut [&mut place]);
        self.settle();
        (pulled.bytes, pulled.end)
    }
}

macro_rules! feed {
    ($t:ident, control $line:expr) => {
        $t.control($line)
    };
    ($t:ident, slot $block:expr, $line:expr) => {
        $t.slot($block, $line)
    };
    ($t:ident, ack $line:expr) => {{
        $t.fabric.forge(Memory::seat(0), seat::ACK, &$line);
        $t.settle();
    }};
}

macro_rules! expect {
    ($t:ident, open) => {
        assert_eq!($t.end.closed(), None)
    };
    ($t:ident, broken $rule:ident) => {
        assert_eq!($t.end.closed(), Some(Closed::Failed(Failure::Protocol(ProtocolError::$rule))))
    };
    ($t:ident, closed $closed:expr) => {
        assert_eq!($t.end.closed(), Some($closed))
    };
    ($t:ident, said $slot:expr, $line:expr) => {
        assert_eq!($t.said($slot), $line)
    };
    ($t:ident, sent $block:expr, $line:expr) => {
        assert_eq!($t.sent($block), $line)
    };
    ($t:ident, pulled $bytes:expr, $end:expr) => {
        assert_eq!($t.pull(), ($bytes, $end))
    };
}

/// The same table on both fabrics.
macro_rules! tables {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<super::Direct>(); })* }
        mod posted { $(#[test] fn $name() { super::$name::<super::Posted>(); })* }
    };
}

tables! {
    acknowledgements headers chunk_shapes chunk_order message_ends controls_that_are_none cts cancel reject
    close_in_order close_out_of_order what_goes_out the_short_way acknowledged_on_the_way
}

/// A first chunk of transfer 1, a stream, with so many bytes and this flag.
const fn stream(bytes: u64, flag: u64) -> Line {
    wire::chunk(kind::RTS | kind::STREAM, 7, 0, bytes, 1, flag)
}

fn acknowledgements<F: Rig>() {
    let mut t = Victim::<F>::new();
    let heard = t.end.heard();
    feed!(t, ack wire::ack(0, BEFORE_FIRST, 0)); // nothing new
    assert_eq!(t.end.heard(), heard);
    feed!(t, ack wire::ack(0, BEFORE_FIRST, 1)); // a sign of life
    assert_ne!(t.end.heard(), heard);
    let mut torn = wire::ack(3, BEFORE_FIRST, 0);
    torn.0[1] = !2;
    feed!(t, ack torn);
    expect!(t, open);
    feed!(t, ack wire::ack(u64::MAX, BEFORE_FIRST, 0)); // an older one, visible late
    expect!(t, open);

    let id = t.end.try_send(&mut t.fabric, 9, &[b"tiny"]).unwrap();
    assert_eq!(id.number(), 1);
    t.settle();
    assert!(!t.end.delivered());
    feed!(t, ack wire::ack(1, BEFORE_FIRST, 0));
    assert!(t.end.delivered());
    feed!(t, ack wire::ack(2, BEFORE_FIRST, 0));
    expect!(t, broken AckBeyondSent);

    let mut t = Victim::<F>::new();
    feed!(t, ack wire::ack(0, 1, 0));
    expect!(t, broken ControlAckBeyondSent);
}

fn headers<F: Rig>() {
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::inline(5, b"payload", 1));
    expect!(t, pulled 7, End::Fin);
    feed!(t, slot 1, wire::inline(5, b"", 3)); // not yet the one awaited
    expect!(t, pulled 0, End::No);
    feed!(t, slot 1, wire::inline(5, b"", 2));
    expect!(t, pulled 0, End::Fin);
    expect!(t, open);

    let broken = |word: usize, value: u64, line: Line| {
        let mut t = Victim::<F>::new();
        let mut line = line;
        line.0[word] ^= value;
        feed!(t, slot 0, line);
        match t.end.closed() {
            Some(Closed::Failed(Failure::Protocol(rule))) => rule,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(broken(0, 1 << 15, wire::inline(0, b"x", 1)), ProtocolError::InlineTooLong);
    assert_eq!(broken(0, kind::FIN, wire::inline(0, b"x", 1)), ProtocolError::HeaderKinds);
    assert_eq!(broken(0, kind::RTS, stream(0, 1)), ProtocolError::ReservedNotZero); // a tag without RTS
    assert_eq!(
        broken(0, kind::RTS, wire::chunk(kind::RTS | kind::STREAM, 0, 0, 1, 1, 1)),
        ProtocolError::HeaderKinds
    );
    for word in [2, 5, 6] {
        assert_eq!(broken(word, 1, stream(0, 1)), ProtocolError::ReservedNotZero);
    }
    assert_eq!(broken(0, 1 << 8, stream(0, 1)), ProtocolError::ReservedNotZero);
    assert_eq!(broken(3, 1 << 40, stream(0, 1)), ProtocolError::ChunkTooLong);
}

fn chunk_shapes<F: Rig>() {
    let whole = u64::from(LAYOUT.capacity(8));
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(whole, 1));
    expect!(t, open);
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(whole + 1, 1));
    expect!(t, broken ChunkTooLong);
    // Too long for one block, and too short to be right-aligned in two.
    let between = u64::from(LAYOUT.capacity(1)) + 1;
    assert!(!LAYOUT.can_right_align(LAYOUT.capacity(1) + 1));
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(between, 1));
    expect!(t, broken ChunkShape);
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::chunk(kind::RTS | kind::STREAM | kind::LEFT, 7, 0, between, 1, 1));
    expect!(t, open);
}

fn chunk_order<F: Rig>() {
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::chunk(0, 0, 0, 10, 1, 1));
    expect!(t, broken NoTransferOpen);

    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::chunk(kind::RTS | kind::STREAM, 7, 0, 0, 2, 1));
    expect!(t, broken WrongTransfer);

    for (bits, transfer, bytes, rule) in [
        (0, 1, 10, None),
        (kind::FIN, 1, 0, None),
        (0, 2, 10, Some(ProtocolError::WrongTransfer)),
        (0, 1, 0, Some(ProtocolError::ChunkEmpty)),
        (kind::RTS, 2, 0, Some(ProtocolError::TransferOpen)),
        (kind::RTS | kind::AFTER_CANCEL, 2, 0, None), // its CANCEL may come yet
    ] {
        let mut t = Victim::<F>::new();
        feed!(t, slot 0, stream(16, 1));
        expect!(t, pulled 16, End::No);
        feed!(t, slot 1, wire::chunk(bits, 0, 0, bytes, transfer, 2));
        assert_eq!(
            t.end.closed(),
            rule.map(|rule| Closed::Failed(Failure::Protocol(rule))),
            "{bits} {transfer}"
        );
    }
}

fn message_ends<F: Rig>() {
    for (bits, length, bytes, rule) in [
        (kind::FIN, 10, 10, None),
        (0, 10, 9, None),
        (0, 10, 11, Some(ProtocolError::LengthExceeded)),
        (0, 10, 10, Some(ProtocolError::WrongEnd)),
        (kind::FIN, 10, 9, Some(ProtocolError::WrongEnd)),
        (kind::FIN, 0, 0, None),
        (0, 0, 0, Some(ProtocolError::WrongEnd)),
    ] {
        let mut t = Victim::<F>::new();
        feed!(t, slot 0, wire::chunk(kind::RTS | bits, 3, length, bytes, 1, 1));
        assert_eq!(
            t.end.closed(),
            rule.map(|rule| Closed::Failed(Failure::Protocol(rule))),
            "{bits} {length} {bytes}"
        );
    }
    // Over several chunks.
    for (bits, bytes, rule) in [
        (kind::FIN, 5, None),
        (0, 4, None),
        (0, 6, Some(ProtocolError::LengthExceeded)),
        (kind::FIN, 4, Some(ProtocolError::WrongEnd)),
    ] {
        let mut t = Victim::<F>::new();
        feed!(t, slot 0, wire::chunk(kind::RTS, 3, 10, 5, 1, 1));
        expect!(t, pulled 5, End::No);
        feed!(t, slot 1, wire::chunk(bits, 0, 0, bytes, 1, 2));
        assert_eq!(
            t.end.closed(),
            rule.map(|rule| Closed::Failed(Failure::Protocol(rule))),
            "{bits} {bytes}"
        );
    }
}

fn controls_that_are_none<F: Rig>() {
    for number in [0, 5, u64::MAX] {
        let mut t = Victim::<F>::new();
        feed!(t, control Line([number, 0, 0, 0, 0, 0, 0, 1]));
        expect!(t, broken UnknownControl);
    }
    for word in 4..7 {
        let mut t = Victim::<F>::new();
        let mut line = wire::cancel(1, 1, 0, 1);
        line.0[word] = 1;
        feed!(t, control line);
        expect!(t, broken ReservedNotZero);
    }
    let mut t = Victim::<F>::new();
    feed!(t, control Line([1, 1, 1, 0, 0, 0, 0, 1])); // a CTS that names a chunk
    expect!(t, broken ReservedNotZero);
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cts(1, 2)); // not yet the one awaited
    expect!(t, open);
}

fn cts<F: Rig>() {
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cts(1, 1));
    expect!(t, broken CtsUnknownTransfer);

    // Started, but nothing of it was sent.
    let mut t = Victim::<F>::new();
    t.end.start(4, Length::Exact(300)).unwrap();
    feed!(t, control wire::cts(1, 1));
    expect!(t, broken CtsUnknownTransfer);

    let mut t = Victim::<F>::new();
    let id = t.end.start(4, Length::Exact(300)).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 300]]), Ok(100)); // C0
    t.settle();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 200]]), Ok(0));
    feed!(t, control wire::cts(1, 1));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 100]]), Ok(100));
    feed!(t, control wire::cts(1, 2));
    expect!(t, broken CtsTwice);

    // One that comes after the end is late, and harmless.
    let mut t = Victim::<F>::new();
    t.end.try_send(&mut t.fabric, 9, &[b"tiny"]).unwrap();
    feed!(t, control wire::cts(1, 1));
    expect!(t, open);
}

fn cancel<F: Rig>() {
    // Under way.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(16, 1));
    assert!(t.end.incoming(&mut t.fabric).is_some());
    feed!(t, control wire::cancel(1, 1, 5, 1));
    assert_eq!(
        t.end.incoming(&mut t.fabric).map(|incoming| incoming.transfer),
        Some(1),
        "it is still to be ended"
    );
    expect!(t, pulled 0, End::Cancelled(Reason(5)));
    feed!(t, slot 1, wire::inline(0, b"next", 2));
    expect!(t, pulled 4, End::Fin);
    expect!(t, open);

    // Visible before the transfer is, and with chunks to come.
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cancel(1, 2, 5, 1));
    expect!(t, pulled 0, End::No);
    feed!(t, slot 0, stream(16, 1));
    expect!(t, pulled 0, End::No);
    feed!(t, slot 1, wire::chunk(0, 0, 0, 8, 1, 2));
    feed!(t, slot 2, wire::inline(0, b"next", 3));
    expect!(t, pulled 0, End::Cancelled(Reason(5)));
    expect!(t, pulled 4, End::Fin);

    // Later than the transfer that follows.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(16, 1));
    expect!(t, pulled 16, End::No);
    let mut next = wire::inline(0, b"next", 2);
    next.0[0] |= kind::AFTER_CANCEL;
    feed!(t, slot 1, next);
    expect!(t, pulled 0, End::No);
    feed!(t, control wire::cancel(1, 1, 6, 1));
    expect!(t, pulled 0, End::Cancelled(Reason(6)));
    expect!(t, pulled 4, End::Fin);

    // Of what cannot be cancelled: nothing, what has ended, what ends before what was consumed, what is far away.
    for (transfer, last) in [(0, 0), (1, BEFORE_FIRST), (1, 1), (3, 1), (2, 1000)] {
        let mut t = Victim::<F>::new();
        feed!(t, slot 0, wire::inline(0, b"", 1));
        expect!(t, pulled 0, End::Fin);
        feed!(t, slot 1, wire::inline(0, b"", 2));
        expect!(t, pulled 0, End::Fin);
        feed!(t, control wire::cancel(transfer, last, 0, 1));
        expect!(t, broken CancelUnknownTransfer);
    }

    let mut t = Victim::<F>::new();
    feed!(t, control wire::cancel(1, 1, 0, 1));
    feed!(t, control wire::cancel(1, 1, 0, 2));
    expect!(t, broken CancelPending);

    // Two in a row, before the application has asked how the first ended; not three.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(16, 1));
    expect!(t, pulled 16, End::No);
    feed!(t, control wire::cancel(1, 1, 5, 1));
    feed!(t, slot 1, wire::chunk(kind::RTS | kind::STREAM | kind::AFTER_CANCEL, 7, 0, 16, 2, 2));
    feed!(t, control wire::cancel(2, 2, 6, 2));
    expect!(t, pulled 0, End::Cancelled(Reason(5)));
    expect!(t, open);
    expect!(t, pulled 16, End::No);
    expect!(t, pulled 0, End::Cancelled(Reason(6)));
    feed!(t, slot 2, wire::inline(0, b"next", 3));
    expect!(t, pulled 4, End::Fin);
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cancel(1, 1, 0, 1));
    feed!(t, control wire::cancel(2, 2, 0, 2));
    expect!(t, open);
    feed!(t, control wire::cancel(3, 3, 0, 3));
    expect!(t, broken CancelPending);

    // It ends, although it was cancelled.
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cancel(1, 1, 0, 1));
    feed!(t, slot 0, wire::chunk(kind::RTS | kind::FIN, 0, 4, 4, 1, 1));
    t.end.pull(&mut t.fabric, &mut []);
    expect!(t, broken CancelUnknownTransfer);
}

fn reject<F: Rig>() {
    let mut t = Victim::<F>::new();
    feed!(t, control wire::reject(1, 8, 1));
    expect!(t, broken RejectUnknownTransfer);

    // Under way: the sender learns it from its next call, and answers with CANCEL.
    let mut t = Victim::<F>::new();
    let id = t.end.start(4, Length::Stream).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Ok(50));
    t.settle();
    feed!(t, control wire::reject(1, 8, 1));
    assert_eq!(t.end.poll_event(), Some(Event::Rejected { transfer: 1, reason: Reason(8) }));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Err(RefusedSend::Rejected(Reason(8))));
    t.settle();
    expect!(t, said 0, wire::cancel(1, 1, 8, 1));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Err(RefusedSend::NotOpen));

    // Sent whole already: an event, and nothing else.
    let mut t = Victim::<F>::new();
    t.end.try_send(&mut t.fabric, 9, &[b"tiny"]).unwrap();
    feed!(t, control wire::reject(1, 8, 1));
    assert_eq!(t.end.poll_event(), Some(Event::Rejected { transfer: 1, reason: Reason(8) }));
    assert_eq!(t.end.poll_event(), None);
    expect!(t, said 0, Line::default());
    expect!(t, open);

    // The other way: what is rejected is thrown away, and what follows comes.
    let mut t = Victim::<F>::new();
    assert!(!t.end.reject(&mut t.fabric, Reason(2)), "there is nothing");
    feed!(t, slot 0, stream(16, 1));
    assert!(t.end.reject(&mut t.fabric, Reason(2)));
    t.settle();
    expect!(t, said 0, wire::reject(1, 2, 1));
    assert_eq!(t.end.incoming(&mut t.fabric), None);
    feed!(t, control wire::cancel(1, 1, 2, 1));
    feed!(t, slot 1, wire::inline(0, b"next", 2));
    expect!(t, pulled 4, End::Fin);
}

fn close_in_order<F: Rig>() {
    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(BEFORE_FIRST, 0, 1));
    expect!(t, closed Closed::ByPeer(Reason::DONE));

    // What was sent before is taken out first.
    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(1, 0, 1));
    expect!(t, open);
    feed!(t, slot 0, wire::inline(0, b"last", 1));
    expect!(t, open);
    expect!(t, pulled 4, End::Fin);
    expect!(t, closed Closed::ByPeer(Reason::DONE));
    assert_eq!(t.end.try_send(&mut t.fabric, 0, &[]), Err(RefusedSend::Closed));

    // Any other reason does not wait.
    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(1, 77, 1));
    expect!(t, closed Closed::ByPeer(Reason(77)));

    // An open transfer is cancelled, and everything is refused afterwards.
    let mut t = Victim::<F>::new();
    let id = t.end.start(4, Length::Stream).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Ok(50));
    t.end.close(&mut t.fabric, Reason(3));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Err(RefusedSend::Closed));
    assert_eq!(t.end.start(0, Length::Stream), Err(RefusedSend::Closed));
    t.settle();
    assert!(t.end.is_told());
    expect!(t, said 0, wire::cancel(1, 1, 3, 1));
    expect!(t, said 1, wire::close(1, 3, 2));
    expect!(t, closed Closed::Here(Reason(3)));
}

fn close_out_of_order<F: Rig>() {
    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(5, 0, 1));
    feed!(t, control wire::close(5, 0, 2));
    expect!(t, broken CloseTwice);

    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(BEFORE_FIRST, 0, 1));
    feed!(t, slot 0, wire::inline(0, b"more", 1));
    expect!(t, broken ChunkAfterClose);

    // Chunks that were consumed already lie behind the last one.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::inline(0, b"", 1));
    expect!(t, pulled 0, End::Fin);
    feed!(t, control wire::close(BEFORE_FIRST, 0, 1));
    expect!(t, broken ChunkAfterClose);
}

fn what_goes_out<F: Rig>() {
    let mut t = Victim::<F>::new();
    t.end.try_send(&mut t.fabric, 9, &[b"in a ", b"line"]).unwrap();
    t.settle();
    expect!(t, sent 0, wire::inline(9, b"in a line", 1));
    t.end.try_send(&mut t.fabric, 10, &[&[3; 41]]).unwrap();
    t.settle();
    expect!(t, sent 1, wire::chunk(kind::RTS | kind::FIN, 10, 41, 41, 2, 2));
    t.end.set_protocol(Protocol::Copy);
    let id = t.end.start(11, Length::Exact(1000)).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[3; 1000]]), Ok(0));
    t.settle();
    expect!(t, sent 2, wire::chunk(kind::RTS | kind::WANT_CTS | kind::WHOLE, 11, 1000, 0, 3, 3));
    t.end.cancel(&mut t.fabric, id, Reason(6)).unwrap();
    t.settle();
    expect!(t, said 0, wire::cancel(3, 3, 6, 1));
    t.end.try_send(&mut t.fabric, 12, &[]).unwrap();
    t.settle();
    let mut next = wire::inline(12, b"", 4);
    next.0[0] |= kind::AFTER_CANCEL;
    expect!(t, sent 3, next);

    // A CTS answers the first pull of a transfer that wants one, once.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::chunk(kind::RTS | kind::STREAM | kind::WANT_CTS, 1, 0, 8, 1, 1));
    expect!(t, said 0, Line::default());
    expect!(t, pulled 8, End::No);
    expect!(t, said 0, wire::cts(1, 1));
    expect!(t, pulled 0, End::No);
    expect!(t, said 1, Line::default());
    // The block and no control message was consumed.
    let ack = t.fabric.memories().line(Memory::seat(1), seat::ACK);
    assert_eq!(ack, wire::ack(1, BEFORE_FIRST, 0));
}

/// Blocks go back to their sender while more are taken out, by one call.
fn acknowledged_on_the_way<F: Rig>() {
    let mut t = Victim::<F>::new();
    let chunk = wire::chunk(kind::RTS | kind::FIN, 7, 900, 900, 1, 1);
    for block in 0..4 {
        feed!(t, slot block, chunk);
    }
    let acks = t.end.counters().acks_sent;
    expect!(t, pulled 900, End::Fin);
    assert!(t.end.counters().acks_sent >= acks + 2, "a block is an eighth of the ring");
}

/// What [`Endpoint::try_recv`] takes, and what it leaves to be judged.
fn the_short_way<F: Rig>() {
    let message = |bytes, transfer, flag| wire::chunk(kind::RTS | kind::FIN, 7, bytes, bytes, transfer, flag);
    let mut t = Victim::<F>::new();
    let taken = |bytes| TryRecv::Taken { tag: 7, bytes };
    assert_eq!(t.try_recv(0, message(100, 1, 1)), taken(100));
    assert_eq!(t.try_recv(1, message(0, 2, 2)), taken(0));
    // The later block is late.
    assert_eq!(t.try_recv(2, message(300, 3, 3)), TryRecv::Begun { tag: 7, bytes: 52 });
    expect!(t, pulled 0, End::No);
    assert_eq!(t.try_recv(3, message(300, 3, 3)), TryRecv::Other);
    expect!(t, pulled 248, End::Fin);
    // The line of acknowledgements is whole, however little of it was written.
    let ack = |t: &Victim<F>| t.fabric.memories().line(Memory::seat(1), seat::ACK);
    assert_eq!(ack(&t), wire::ack(4, BEFORE_FIRST, 0));
    feed!(t, control wire::reject(0, 1, 1));
    feed!(t, control wire::cts(0, 2));
    assert_eq!(ack(&t), wire::ack(4, 2, 0));
    t.end.show_life(&mut t.fabric);
    t.settle();
    assert_eq!(ack(&t), wire::ack(4, 2, 1));
    // One that does not fit stays.
    assert_eq!(t.try_recv(4, message(301, 4, 4)), TryRecv::Other);
    expect!(t, open);

    let judged = |line: Line| {
        let mut t = Victim::<F>::new();
        assert_eq!(t.try_recv(0, line), TryRecv::Other);
        expect!(t, open);
        t.end.incoming(&mut t.fabric);
        t.end.closed()
    };
    let broken = |rule| Some(Closed::Failed(Failure::Protocol(rule)));
    let with = |word: usize, value| {
        let mut line = message(100, 1, 1);
        line.0[word] = value;
        line
    };
    assert_eq!(judged(message(100, 2, 1)), broken(ProtocolError::WrongTransfer));
    assert_eq!(judged(with(2, 101)), broken(ProtocolError::WrongEnd));
    assert_eq!(judged(with(5, 1)), broken(ProtocolError::ReservedNotZero));
    assert_eq!(judged(with(6, 1)), broken(ProtocolError::ReservedNotZero));
    assert_eq!(judged(message(1 << 20, 1, 1)), broken(ProtocolError::ChunkTooLong));
    assert_eq!(judged(message(1 << 40, 1, 1)), broken(ProtocolError::ChunkTooLong));

    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(0, 0, 1));
    assert_eq!(t.try_recv(0, message(100, 1, 1)), TryRecv::Other);
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cancel(1, 1, 5, 1));
    assert_eq!(t.try_recv(0, message(100, 1, 1)), TryRecv::Other);
}

/// What was acknowledged may still be read by the device, and is nobody's until that is done.
#[test]
fn acknowledged_before_completed() {
    let mut t = Victim::<Posted>::new();
    t.end.set_protocol(Protocol::Eager);
    let whole = vec![7; LAYOUT.capacity(8) as usize];
    let id = t.end.start(1, Length::Exact(whole.len() as u64)).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&whole]), Ok(whole.len()));
    t.fabric.forge(Memory::seat(0), seat::ACK, &wire::ack(8, BEFORE_FIRST, 0));
    assert_eq!(t.end.try_send(&mut t.fabric, 2, &[b"tiny"]), Err(RefusedSend::NoCredit));
    assert_eq!(t.end.try_send(&mut t.fabric, 2, &[&[0; 60]]), Err(RefusedSend::NoCredit));
    assert!(!t.end.delivered() && !t.end.is_quiescent());
    t.settle();
    assert!(t.end.delivered() && t.end.is_quiescent());
    assert!(t.end.try_send(&mut t.fabric, 2, &[b"tiny"]).is_ok());
}

/// A full ring stays as it is until something is acknowledged.
#[test]
fn nothing_is_written_without_credit() {
    let mut t = Victim::<Direct>::new();
    for tag in 0..8 {
        t.end.try_send(&mut t.fabric, tag, &[b"tiny"]).unwrap();
    }
    let before = t.fabric.memories().bytes(Memory::landing(1), 0, LAYOUT.bytes()).to_vec();
    assert_eq!(t.end.try_send(&mut t.fabric, 9, &[b"tiny"]), Err(RefusedSend::NoCredit));
    assert_eq!(t.end.try_send(&mut t.fabric, 9, &[&[0; 60]]), Err(RefusedSend::NoCredit));
    let id = t.end.start(9, Length::Stream).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[0; 60]]), Ok(0));
    assert!(matches!(t.end.reserve(&mut t.fabric, id, 60), Err(RefusedSend::NoCredit)));
    assert_eq!(t.end.finish(&mut t.fabric, id), Err(RefusedSend::NoCredit));
    assert_eq!(t.fabric.memories().bytes(Memory::landing(1), 0, LAYOUT.bytes()), before);
    feed!(t, ack wire::ack(1, BEFORE_FIRST, 0));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[0; 60]]), Ok(60));
}

/// Checked flags: the low half of the sequence, and a CRC of all that the flag stands for.
#[test]
fn checked_flags() {
    let sequence = (5 << 32) + 9;
    let fabric = Posted::new(&Setup { order_inside_write: false, ..Setup::new(LAYOUT, 1) });
    let config = Config { arrival: Arrival::CheckedFlag, ..Config::default() };
    let origin = Origin { sequence, ..Origin::default() };
    let end = Endpoint::new(&fabric, fabric.attachment(0), config, origin).unwrap();
    let mut t = Victim { fabric, end, controls_fed: 0 };
    t.end.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
    t.end.try_send(&mut t.fabric, 2, &[&[3; 41]]).unwrap();
    t.settle();
    expect!(t, sent 0, wire::checked(wire::inline(1, b"tiny", 0), sequence));
    let line = wire::chunk(kind::RTS | kind::FIN, 2, 41, 41, 2, 0);
    let seed = crc32c(&41u32.to_le_bytes(), crc32c(&(sequence + 1).to_le_bytes(), !0));
    let crc = crc32c(&line.body_bytes(), crc32c(&[3; 41], seed));
    expect!(t, sent 1, wire::chunk(kind::RTS | kind::FIN, 2, 41, 41, 2, (sequence + 1) << 32 | u64::from(crc)));

    // One wrong bit, and it has not arrived.
    for bit in [0, 63, 64 * 3 + 5, 64 * 7] {
        let mut wrong = wire::checked(wire::inline(4, b"to you", 0), sequence);
        wrong.0[bit / 64] ^= 1 << (bit % 64);
        feed!(t, slot 0, wrong);
        expect!(t, pulled 0, End::No);
    }
    feed!(t, slot 0, wire::checked(wire::inline(4, b"to you", 0), sequence));
    expect!(t, pulled 6, End::Fin);
    expect!(t, open);
}

/// A work request that fails ends the connection, and is named.
#[test]
fn a_failed_work_request() {
    let mut t = Victim::<Posted>::new();
    let error = WcError { status: 12, vendor_err: 0x81 };
    t.fabric.fail_next(0, error);
    t.end.try_send(&mut t.fabric, 1, &[&[0; 60]]).unwrap();
    t.settle();
    expect!(t, closed Closed::Failed(Failure::Device(error)));
    assert_eq!(t.end.try_send(&mut t.fabric, 1, &[]), Err(RefusedSend::Closed));
}
