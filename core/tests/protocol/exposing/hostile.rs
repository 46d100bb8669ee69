//! A peer that is played by hand: the words of both ends, and each rule that a peer can break. wire.md 4.9, 5.6.

use superpipe_core::{
    Arrival, Buffer, Closed, Config, Endpoint, Exposed, ExposedState, Failure, Line, Origin, PeerAccess,
    Protocol, ProtocolError, Readable,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, Posted, Setup, TestFabric};

use super::{C0_BYTES, LAYOUT, payload};

const NAMED: u64 = kind::RTS | kind::FIN | kind::REMOTE;

/// End 0. The test plays end 1.
pub(super) struct Victim<F: TestFabric> {
    pub(super) fabric: F,
    pub(super) end: Endpoint<F>,
    controls: u32,
    chunks: u32,
}

impl<F: TestFabric> Victim<F> {
    pub(super) fn new(protocol: Protocol, arrival: Arrival) -> Self {
        Self::with(protocol, arrival, false)
    }

    pub(super) fn with(protocol: Protocol, arrival: Arrival, triple_buffer: bool) -> Self {
        let fabric = F::new(&Setup::new(LAYOUT, 1));
        let config = Config {
            protocol,
            arrival,
            c0_bytes: C0_BYTES,
            one_copy_bytes: C0_BYTES + 1,
            folds: 1,
            triple_buffer,
            ..Config::default()
        };
        let end = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
        Self { fabric, end, controls: 0, chunks: 0 }
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..200 {
            self.end.progress(&mut self.fabric);
            self.fabric.step();
        }
        self.end.poll_acknowledgements(&mut self.fabric);
    }

    /// Writes the peer's next control message.
    pub(super) fn control(&mut self, words: [u64; 4]) {
        let flag = u64::from(self.controls) + 1;
        let [number, one, two, three] = words;
        let line = Line([number, one, two, three, 0, 0, 0, flag]);
        let checked = self.end.config().arrival == Arrival::CheckedFlag;
        let line = if checked { wire::checked(line, flag) } else { line };
        self.fabric.forge(Memory::control_page(0), wire::mailbox(self.controls), &line);
        self.controls += 1;
        self.settle();
    }

    /// Writes the peer's next chunk, and has the victim look at it.
    pub(super) fn chunk(&mut self, line: Line) {
        let flag = u64::from(self.chunks) + 1;
        let Line([head, tag, length, bytes, transfer, place, offset, _]) = line;
        let line = Line([head, tag, length, bytes, transfer, place, offset, flag]);
        let checked = self.end.config().arrival == Arrival::CheckedFlag;
        let line = if checked { wire::checked(line, flag) } else { line };
        self.fabric.forge(Memory::landing(0), LAYOUT.line_at(self.chunks), &line);
        self.chunks += 1;
        self.settle();
        self.end.incoming(&mut self.fabric);
    }

    fn name(&mut self, transfer: u64, [place, offset, bytes]: [u64; 3]) {
        self.chunk(Line([NAMED, 7, bytes, 0, transfer, place, offset, 0]));
    }

    /// Returns the victim's control message number `number`.
    pub(super) fn said(&self, number: u32) -> Line {
        self.fabric.memories().line(Memory::control_page(1), wire::mailbox(number))
    }

    #[track_caller]
    pub(super) fn is_broken(&self, rule: ProtocolError) {
        assert_eq!(self.end.closed(), Some(Closed::Failed(Failure::Protocol(rule))));
    }
}

impl Victim<Direct> {
    pub(super) fn direct() -> Self {
        Self::new(Protocol::RegisterCached, Arrival::Flag)
    }

    /// The peer has exposed memory of 1000 bytes in place 2.
    pub(super) fn mapped(arrival: Arrival) -> Self {
        let mut t = Self::new(Protocol::RegisterCached, arrival);
        t.hand_over(2, 1000);
        t.control([9, 2, 1000, 0]);
        assert_eq!(t.fabric.exposed().mapped(0), 1);
        t
    }

    fn hand_over(&mut self, place: u8, bytes: usize) {
        self.hand_over_for(place, bytes, PeerAccess::Read);
    }

    pub(super) fn hand_over_for(&mut self, place: u8, bytes: usize, access: PeerAccess) -> Buffer {
        let buffer = self.fabric.exposed().add(1, payload(bytes, 3));
        let exposed = self.fabric.exposed().expose::<()>(1, place, buffer, access);
        assert!(exposed.is_ok());
        buffer
    }

    /// Exposes memory of 3000 bytes, and asks the peer.
    fn asking() -> (Self, Exposed) {
        let mut t = Self::direct();
        let buffer = t.fabric.exposed().add(0, payload(3000, 1));
        let exposed = t.end.expose(&mut t.fabric, buffer).unwrap();
        t.settle();
        (t, exposed)
    }
}

#[test]
fn the_words_of_both_ends_are_those_of_wire_md() {
    let (mut t, exposed) = Victim::asking();
    assert_eq!(t.said(0), Line([9, 0, 3000, 0, 0, 0, 0, 1]));
    t.control([10, 0, 0, 0]);
    assert_eq!(t.end.exposed_state(exposed), ExposedState::Ready);
    t.end.withdraw_exposed(&mut t.fabric, exposed);
    t.settle();
    assert_eq!(t.said(1), Line([11, 0, 0, 0, 0, 0, 0, 2]), "no chunk names it");
    let mut t = Victim::mapped(Arrival::Flag);
    assert_eq!(t.said(0), Line([10, 2, 0, 0, 0, 0, 0, 1]));
    t.name(1, [2, 1, 999]);
    let mut place = [0; 999];
    assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut place]).bytes, 999);
    assert_eq!(place, payload(1000, 3)[1..]);
}

#[test]
fn the_chunk_and_withdrawn_have_the_words_of_wire_md() {
    let (mut t, exposed) = Victim::asking();
    t.control([10, 0, 0, 0]);
    let (mut op, message) = (
        superpipe_core::driver::SendOperation::new(7, 2500)
            .with_memory(superpipe_core::SendMemory::Exposed(exposed, 500)),
        payload(3000, 1)[500..].to_vec(),
    );
    let mut driver = superpipe_core::Driver::new(
        t.end.clone(),
        1,
        superpipe_core::driver::WaitStrategy::Yield,
        1_000_000_000,
        superpipe_core::Nanos(0),
    );
    let driven = driver.drive_send(&mut t.fabric, &mut op, &[&message]);
    assert_eq!(driven, superpipe_core::driver::Drive::Done(Ok(())));
    let sent = t.fabric.memories().line(Memory::landing(1), LAYOUT.line_at(0));
    assert_eq!(sent, Line([NAMED, 7, 2500, 0, 1, 0, 500, 1]));
    driver.endpoint_mut().withdraw_exposed(&mut t.fabric, exposed);
    for _ in 0..100 {
        driver.progress(&mut t.fabric);
    }
    assert_eq!(t.said(1), Line([11, 0, 1, 0, 0, 0, 0, 2]), "its last chunk has sequence 1");
}

#[test]
fn what_was_not_agreed_is_a_violation() {
    let messages = [[9, 0, 100, 0], [10, 0, 0, 0], [10, 0, 0, 1], [11, 0, 0, 0]];
    for words in messages {
        for protocol in Protocol::ALL.into_iter().filter(|it| !it.uses_registered()) {
            let mut t = Victim::<Direct>::new(protocol, Arrival::Flag);
            t.control(words);
            t.is_broken(ProtocolError::ExposeNotAgreed);
        }
        let mut t = Victim::<Posted>::new(Protocol::RegisterCached, Arrival::Flag);
        t.control(words);
        t.is_broken(ProtocolError::ExposeNotAgreed);
    }
    // By auto, which nobody asked for, no memory is mapped whose pages the peer can remove.
    let mut t = Victim::<Direct>::new(Protocol::Auto, Arrival::Flag);
    t.control([9, 0, 100, 1]);
    t.is_broken(ProtocolError::ExposeNotAgreed);
    for protocol in [Protocol::Superpipeline, Protocol::RegisterCached] {
        let mut t = Victim::<Posted>::new(protocol, Arrival::Flag);
        t.name(1, [0, 0, 100]);
        t.is_broken(ProtocolError::SourceWrong);
        let mut t = Victim::<Direct>::new(protocol, Arrival::Flag);
        t.name(1, [0, 0, 100]);
        t.is_broken(ProtocolError::SourceWrong);
    }
}

#[test]
fn an_expose_names_a_free_place_and_bytes() {
    for (place, bytes) in [(8, 1000), (255, 1000), (0, 0), (2, 1000)] {
        let mut t = Victim::mapped(Arrival::Flag);
        t.control([9, place, bytes, 0]);
        t.is_broken(ProtocolError::ExposeWrong);
    }
    for (word, value) in [(1, 256), (2, 1 << 32), (3, 2)] {
        let mut words = [9, 0, 1000, 0];
        words[word] |= value;
        let mut t = Victim::direct();
        t.control(words);
        t.is_broken(ProtocolError::ReservedNotZero);
    }
}

#[test]
fn an_expose_waits_for_the_answer_to_the_last() {
    let mut t = Victim::direct();
    // Both come before the victim looks.
    for (number, place) in [(0, 1), (1, 2)] {
        let line = Line([9, place, 1000, 0, 0, 0, 0, u64::from(number) + 1]);
        t.fabric.forge(Memory::control_page(0), wire::mailbox(number), &line);
    }
    t.settle();
    t.is_broken(ProtocolError::ExposeWrong);
}

#[test]
fn memory_that_does_not_come_is_refused() {
    // Nothing was handed over; other memory was; and memory for another place.
    for handed in [None, Some((3, 999)), Some((4, 1000))] {
        let mut t = Victim::direct();
        if let Some((place, bytes)) = handed {
            t.hand_over(place, bytes);
        }
        t.control([9, 3, 1000, 0]);
        assert_eq!(t.said(0), Line([10, 3, 0, 3, 0, 0, 0, 1]), "{handed:?}");
        assert_eq!((t.end.closed(), t.fabric.exposed().mapped(0)), (None, 0));
        assert_eq!(t.end.counters().maps_refused, [0, 0, 1]);
        // The place is free.
        t.hand_over(3, 1000);
        t.control([9, 3, 1000, 0]);
        assert_eq!((t.end.closed(), t.fabric.exposed().mapped(0)), (None, 1));
        assert_eq!(t.end.counters().mapped_bytes, 1000);
    }
}

#[test]
fn an_answer_needs_its_question() {
    for cause in [0, 1, 2, 3] {
        let mut t = Victim::direct();
        t.control([10, 0, 0, cause]);
        t.is_broken(ProtocolError::ExposeAnswer);
        for place in [1, 8, 255] {
            let (mut t, _) = Victim::asking();
            t.control([10, place, 0, cause]);
            t.is_broken(ProtocolError::ExposeAnswer);
        }
        let (mut t, exposed) = Victim::asking();
        t.control([10, 0, 0, cause]);
        let state = if cause == 0 { ExposedState::Ready } else { ExposedState::Refused };
        assert_eq!((t.end.closed(), t.end.exposed_state(exposed)), (None, state));
        t.control([10, 0, 0, cause]);
        t.is_broken(ProtocolError::ExposeAnswer);
    }
    let (mut t, _) = Victim::asking();
    t.control([10, 0, 0, 4]);
    t.is_broken(ProtocolError::ReservedNotZero);
}

#[test]
fn a_message_must_be_in_memory_that_is_mapped() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
        for named in [
            [3, 0, 100],
            [8, 0, 100],
            [u64::MAX, 0, 100],
            [1 << 32 | 2, 0, 100],
            [2, 0, 1001],
            [2, 1, 1000],
            [2, 1001, 0],
            [2, u64::MAX, 1],
            [2, u64::MAX - 99, 100],
            [2, 1 << 32, 100],
            [2, 0, u64::MAX],
        ] {
            let mut t = Victim::mapped(arrival);
            t.name(1, named);
            t.is_broken(ProtocolError::SourceWrong);
        }
        for (named, bytes) in [([2, 0, 1000], 1000), ([2, 1000, 0], 0), ([2, 999, 1], 1)] {
            let mut t = Victim::mapped(arrival);
            t.name(1, named);
            let mut place = [0; 1000];
            let pulled = t.end.pull(&mut t.fabric, &mut [&mut place]);
            assert_eq!((pulled.bytes, pulled.end), (bytes, superpipe_core::End::Fin));
            assert_eq!(t.end.closed(), None);
        }
    }
}

#[test]
fn a_message_in_memory_is_a_transfer_like_any() {
    for transfer in [0, 2, u64::MAX] {
        let mut t = Victim::mapped(Arrival::Flag);
        t.name(transfer, [2, 0, 100]);
        t.is_broken(ProtocolError::WrongTransfer);
    }
    let mut t = Victim::mapped(Arrival::Flag);
    t.chunk(wire::chunk(kind::RTS | kind::LEFT, 7, 500, 10, 1, 0));
    assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 100]]).bytes, 10);
    t.name(2, [2, 0, 100]);
    t.is_broken(ProtocolError::TransferOpen);
    // It has ended: nothing continues or cancels it.
    for line in [wire::chunk(kind::FIN | kind::LEFT, 0, 0, 10, 1, 0), wire::cancel(1, 5, 0)] {
        let mut t = Victim::mapped(Arrival::Flag);
        t.name(1, [2, 0, 100]);
        assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 100]]).bytes, 100);
        t.chunk(line);
        t.is_broken(ProtocolError::NoTransferOpen);
    }
    for bits in [kind::LEFT, kind::WHOLE, kind::WANT_CTS, kind::STREAM] {
        let mut t = Victim::mapped(Arrival::Flag);
        t.chunk(Line([NAMED | bits, 7, 100, 0, 1, 2, 0, 0]));
        t.is_broken(ProtocolError::HeaderKinds);
    }
    let mut t = Victim::mapped(Arrival::Flag);
    t.chunk(Line([NAMED, 7, 100, 100, 1, 2, 0, 0]));
    t.is_broken(ProtocolError::ReservedNotZero);
}

#[test]
fn withdrawn_memory_is_not_named_again() {
    // `last` names no chunk, and the chunk before.
    for last in [0, 1] {
        let mut t = Victim::mapped(Arrival::Flag);
        t.name(1, [2, 0, 100]);
        assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 100]]).bytes, 100);
        t.control([11, 2, last, 0]);
        assert_eq!((t.end.closed(), t.fabric.exposed().mapped(0)), (None, 0));
        t.name(2, [2, 0, 100]);
        t.is_broken(ProtocolError::SourceWrong);
    }
    // WITHDRAWN comes before the chunks up to `last`.
    let mut t = Victim::mapped(Arrival::Flag);
    t.control([11, 2, 1, 0]);
    assert_eq!(t.fabric.exposed().mapped(0), 1);
    t.name(1, [2, 0, 100]);
    assert_eq!(t.fabric.exposed().mapped(0), 1, "it is not consumed");
    assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 100]]).bytes, 100);
    t.settle();
    assert_eq!(t.fabric.exposed().mapped(0), 0);
    t.name(2, [2, 0, 100]);
    t.is_broken(ProtocolError::SourceWrong);
    // A chunk after `last`, which waits for another.
    let mut t = Victim::mapped(Arrival::Flag);
    t.control([11, 2, 1, 0]);
    t.chunk(wire::inline(7, b"other", 0));
    assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 100]]).bytes, 5);
    t.name(2, [2, 0, 100]);
    t.is_broken(ProtocolError::SourceWrong);
}

/// A program may be reading it in place, without the endpoint.
#[test]
fn memory_that_is_being_read_is_not_unmapped() {
    for last in [0, u64::MAX] {
        let mut t = Victim::mapped(Arrival::Flag);
        t.name(1, [2, 0, 1000]);
        assert!(matches!(t.end.readable(&mut t.fabric, 1000), Readable::Run(run) if run.bytes == 1000));
        t.control([11, 2, last, 0]);
        assert_eq!(t.fabric.exposed().mapped(0), 1, "it goes with the connection");
        t.is_broken(ProtocolError::SourceWrong);
    }
}

#[test]
fn withdrawn_names_memory_that_is_mapped_once() {
    for place in [1, 8, 255] {
        let mut t = Victim::mapped(Arrival::Flag);
        t.control([11, place, 0, 0]);
        t.is_broken(ProtocolError::WithdrawnUnknown);
    }
    for last in [0, 5] {
        let mut t = Victim::mapped(Arrival::Flag);
        t.control([11, 2, last, 0]);
        t.control([11, 2, last, 0]);
        t.is_broken(ProtocolError::WithdrawnUnknown);
    }
    // A place whose chunks are not consumed is taken.
    let mut t = Victim::mapped(Arrival::Flag);
    t.control([11, 2, 5, 0]);
    t.control([9, 2, 1000, 0]);
    t.is_broken(ProtocolError::ExposeWrong);
    for word in [2, 3] {
        let mut t = Victim::mapped(Arrival::Flag);
        let mut words = [11, 2, 0, 0];
        words[word - 1] |= 1 << 40;
        words[3] |= u64::from(word == 3);
        t.control(words);
        assert!(t.end.closed().is_some() == (word == 2 || words[3] > 0));
    }
}

#[test]
fn after_close_memory_is_neither_mapped_nor_unmapped() {
    for words in [[9, 1, 1000, 0], [9, 2, 0, 0], [10, 0, 0, 0], [11, 2, 0, 0], [11, 5, 0, 0]] {
        // The peer's CLOSE names a chunk that has not come.
        let mut t = Victim::mapped(Arrival::Flag);
        t.control([3, 0, 1, 0]);
        t.control(words);
        assert_eq!((t.end.closed(), t.fabric.exposed().mapped(0)), (None, 1));
        // The victim's own.
        let mut t = Victim::mapped(Arrival::Flag);
        t.end.close(&mut t.fabric, superpipe_core::Reason::DONE);
        t.control(words);
        let closed = Some(Closed::Here(superpipe_core::Reason::DONE));
        assert_eq!((t.end.closed(), t.fabric.exposed().mapped(0)), (closed, 1));
    }
}

#[test]
fn a_message_that_breaks_a_rule_ends_what_is_being_read() {
    let mut t = Victim::mapped(Arrival::Flag);
    t.name(1, [2, 0, 1000]);
    assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 400]]).bytes, 400);
    t.control([99, 0, 0, 0]);
    t.is_broken(ProtocolError::UnknownControl);
    assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 400]]).bytes, 0);
    assert_eq!(t.fabric.exposed().mapped(0), 1, "it goes with the connection");
}
