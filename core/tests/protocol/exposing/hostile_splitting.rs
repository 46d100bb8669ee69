//! A peer that is played by hand, and splits messages: the words of both ends, and each rule that a peer can break. wire.md 4.10, 5.6, 5.7.

use superpipe_core::driver::{Drive, SendOperation, WaitStrategy};
use superpipe_core::{
    Arrival, Buffer, Driver, End, Exposed, Line, Nanos, PeerAccess, Protocol, ProtocolError, Reason,
    SendMemory,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, Posted, TestFabric};

use super::hostile::Victim;
use super::{ARRIVALS, LAYOUT, payload};

const SPLIT: u64 = kind::RTS | kind::REMOTE;
const LAST: u64 = kind::FIN | kind::REMOTE;

/// The victim has offered memory of 3000 bytes from byte 500 on, and maps 1000 bytes of the peer at place 2.
fn offering(arrival: Arrival) -> (Victim<Direct>, Exposed, Buffer) {
    let mut t = Victim::mapped(arrival);
    let buffer = t.fabric.exposed().add(0, vec![0xaa; 3000]);
    let exposed = t.end.expose_writable(&mut t.fabric, buffer).unwrap();
    t.settle();
    t.control([10, 0, 0, 0]);
    assert!(t.end.offer(&mut t.fabric, exposed, 500));
    t.fabric.exposed().offer(buffer, 500);
    t.settle();
    (t, exposed, buffer)
}

/// The peer has exposed 1000 bytes at place 2, which the victim may write.
fn writing() -> (Victim<Direct>, Buffer) {
    writing_to(1000)
}

fn writing_to(bytes: u32) -> (Victim<Direct>, Buffer) {
    let mut t = Victim::direct();
    let buffer = t.hand_over_for(2, bytes as usize, PeerAccess::Write);
    t.control([9, 2, u64::from(bytes), 1]);
    assert_eq!(t.fabric.exposed().mapped(0), 1);
    (t, buffer)
}

fn split(transfer: u64, [length, head]: [u64; 2], [place, offset]: [u64; 2]) -> Line {
    Line([SPLIT, 7, length, head, transfer, place, offset, 0])
}

fn last(transfer: u64) -> Line {
    Line([LAST, 0, 0, 0, transfer, 0, 0, 0])
}

#[test]
fn the_receivers_words_are_those_of_wire_md() {
    for arrival in ARRIVALS {
        let (mut t, exposed, buffer) = offering(arrival);
        let sent = [1, 2].map(|number| t.said(number).0[..7].to_vec());
        assert_eq!(sent, [[9, 0, 3000, 1, 0, 0, 0], [12, 1, 0, 500, 0, 0, 0]]);
        t.chunk(split(1, [900, 448], [2, 10]));
        let mut place = [0; 900];
        assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut place]).bytes, 448);
        assert_eq!(place[..448], payload(1000, 3)[10..458]);
        t.fabric.exposed().write(buffer, 948, &[9; 452]);
        t.chunk(last(1));
        let pulled = t.end.pull(&mut t.fabric, &mut [&mut place[448..]]);
        assert_eq!((pulled.bytes, pulled.end), (452, End::Fin));
        assert_eq!(place[448..], [9; 452]);
        assert!(t.end.closed().is_none() && !t.end.is_offered(exposed));
    }
}

#[test]
fn the_senders_words_are_those_of_wire_md() {
    let (mut t, room) = writing();
    let memory = payload(3000, 1);
    let buffer = t.fabric.exposed().add(0, memory.clone());
    let exposed = t.end.expose(&mut t.fabric, buffer).unwrap();
    t.settle();
    t.control([10, 0, 0, 0]);
    assert_eq!(t.said(0).0[..7], [10, 2, 0, 0, 0, 0, 0]);
    t.control([12, 1, 2, 9]);
    t.fabric.exposed().offer(room, 9);
    let mut driver = Driver::new(t.end.clone(), 1, WaitStrategy::Yield, 1_000_000_000, Nanos(0));
    let mut op = SendOperation::new(7, 990).with_memory(SendMemory::Exposed(exposed, 500));
    let driven = driver.drive_send(&mut t.fabric, &mut op, &[&memory[500..1490]]);
    assert_eq!(driven, Drive::Done(Ok(())));
    let line = |number| t.fabric.memories().line(Memory::landing(1), LAYOUT.line_at(number));
    assert_eq!(line(0), Line([SPLIT, 7, 990, 448, 1, 0, 500, 1]));
    assert_eq!(line(1), Line([LAST | kind::LEFT, 0, 0, 0, 1, 0, 0, 2]));
    assert_eq!(t.fabric.exposed().bytes(room)[457..999], memory[948..1490]);
}

#[test]
fn a_split_message_needs_an_offer_and_two_halves() {
    for ([length, head], transfer, rule) in [
        ([900, 0], 1, ProtocolError::SplitWrong),
        ([900, 900], 1, ProtocolError::SplitWrong),
        ([900, 901], 1, ProtocolError::SplitWrong),
        ([0, 0], 1, ProtocolError::SplitWrong),
        ([900, u64::MAX], 1, ProtocolError::SplitWrong),
        ([2501, 64], 1, ProtocolError::SplitWrong),
        ([u64::MAX, 64], 1, ProtocolError::SplitWrong),
        // In the room, and not in the source.
        ([1001, 64], 1, ProtocolError::SourceWrong),
        ([900, 64], 2, ProtocolError::WrongTransfer),
    ] {
        let (mut t, _, _) = offering(Arrival::Flag);
        t.chunk(split(transfer, [length, head], [2, 0]));
        t.is_broken(rule);
    }
    for source in [[2, 101], [3, 0], [8, 0], [u64::MAX, 0], [2, u64::MAX]] {
        let (mut t, _, _) = offering(Arrival::Flag);
        t.chunk(split(1, [900, 448], source));
        t.is_broken(ProtocolError::SourceWrong);
    }
    let mut t = Victim::mapped(Arrival::Flag);
    t.chunk(split(1, [900, 448], [2, 0]));
    t.is_broken(ProtocolError::SplitWrong);
    let mut t = Victim::<Posted>::new(Protocol::RegisterCached, Arrival::Flag);
    t.chunk(split(1, [900, 448], [2, 0]));
    t.is_broken(ProtocolError::SplitWrong);
}

#[test]
fn an_offer_is_for_one_transfer() {
    let (mut t, exposed, _) = offering(Arrival::Flag);
    t.chunk(wire::inline(7, b"other", 0));
    assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 100]]).bytes, 5);
    assert!(!t.end.is_offered(exposed));
    t.chunk(split(2, [900, 448], [2, 0]));
    t.is_broken(ProtocolError::SplitWrong);
    let (mut t, _, _) = offering(Arrival::Flag);
    for line in [split(1, [900, 448], [2, 0]), last(1)] {
        t.chunk(line);
        t.end.pull(&mut t.fabric, &mut [&mut [0; 900]]);
    }
    t.chunk(split(2, [900, 448], [2, 0]));
    t.is_broken(ProtocolError::SplitWrong);
}

#[test]
fn between_both_chunks_there_is_nothing_else() {
    let payload_chunk = |bits| wire::chunk(bits | kind::LEFT, 0, 0, 10, 1, 0);
    for (line, rule) in [
        (payload_chunk(0), ProtocolError::SplitWrong),
        (payload_chunk(kind::FIN), ProtocolError::SplitWrong),
        (wire::chunk(kind::FIN | kind::LEFT, 0, 0, 0, 1, 0), ProtocolError::SplitWrong),
        (last(2), ProtocolError::WrongTransfer),
        (split(1, [900, 448], [2, 0]), ProtocolError::TransferOpen),
        (split(2, [900, 448], [2, 0]), ProtocolError::TransferOpen),
        (wire::inline(7, b"other", 0), ProtocolError::TransferOpen),
        (wire::cancel(2, 5, 0), ProtocolError::WrongTransfer),
    ] {
        let (mut t, exposed, _) = offering(Arrival::Flag);
        t.chunk(split(1, [900, 448], [2, 0]));
        assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 900]]).bytes, 448);
        t.chunk(line);
        t.is_broken(rule);
        assert!(t.end.is_offered(exposed), "the peer may write for ever");
    }
    // The end of what is not split.
    let (mut t, _, _) = offering(Arrival::Flag);
    t.chunk(last(1));
    t.is_broken(ProtocolError::NoTransferOpen);
    let (mut t, _, _) = offering(Arrival::Flag);
    t.chunk(wire::chunk(kind::RTS | kind::LEFT, 7, 900, 10, 1, 0));
    t.end.pull(&mut t.fabric, &mut [&mut [0; 900]]);
    t.chunk(last(1));
    t.is_broken(ProtocolError::RemoteEndUngranted);
    // A CANCEL ends it.
    let (mut t, exposed, _) = offering(Arrival::Flag);
    t.chunk(split(1, [900, 448], [2, 0]));
    t.end.pull(&mut t.fabric, &mut [&mut [0; 900]]);
    t.chunk(wire::cancel(1, 5, 0));
    assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 9]]).end, End::Cancelled(Reason(5)));
    assert!(t.end.closed().is_none() && !t.end.is_offered(exposed));
}

#[test]
fn memory_to_be_written_is_handed_over_as_such() {
    for (handed, asked) in [(PeerAccess::Read, 1), (PeerAccess::Write, 0)] {
        let mut t = Victim::direct();
        t.hand_over_for(2, 1000, handed);
        t.control([9, 2, 1000, asked]);
        assert_eq!(t.said(0), Line([10, 2, 0, 3, 0, 0, 0, 1]));
        assert_eq!((t.end.closed(), t.fabric.exposed().mapped(0)), (None, 0));
    }
    // It is no source of a message.
    let (mut t, _) = writing();
    t.chunk(Line([kind::RTS | kind::FIN | kind::REMOTE, 7, 100, 0, 1, 2, 0, 0]));
    t.is_broken(ProtocolError::SourceWrong);
}

#[test]
fn an_offer_names_the_next_transfer_and_memory_once() {
    for words in [
        [12, 2, 2, 0],
        [12, 0, 2, 0],
        [12, u64::MAX, 2, 0],
        [12, 1, 3, 0],
        [12, 1, 8, 0],
        [12, 1, 255, 0],
        [12, 1, 2, 1000],
        [12, 1, 2, u64::from(u32::MAX)],
    ] {
        let (mut t, _) = writing();
        t.control(words);
        t.is_broken(ProtocolError::OfferWrong);
    }
    let (mut t, _) = writing();
    t.control([12, 1, 2, 999]);
    assert_eq!(t.end.closed(), None);
    t.control([12, 1, 2, 0]);
    t.is_broken(ProtocolError::OfferWrong);
    let mut t = Victim::mapped(Arrival::Flag);
    t.control([12, 1, 2, 0]);
    t.is_broken(ProtocolError::OfferWrong);
    for words in [[12, 1, 1 << 8 | 2, 0], [12, 1, 2, 1 << 32]] {
        let (mut t, _) = writing();
        t.control(words);
        t.is_broken(ProtocolError::ReservedNotZero);
    }
    for protocol in Protocol::ALL.into_iter().filter(|it| *it != Protocol::RegisterCached) {
        let mut t = Victim::<Direct>::new(protocol, Arrival::Flag);
        t.control([12, 1, 2, 0]);
        t.is_broken(ProtocolError::ExposeNotAgreed);
    }
    let mut t = Victim::<Posted>::new(Protocol::RegisterCached, Arrival::Flag);
    t.control([12, 1, 2, 0]);
    t.is_broken(ProtocolError::ExposeNotAgreed);
}

#[test]
fn an_offer_for_a_transfer_that_was_sent_is_ignored() {
    let (mut t, _) = writing();
    assert!(t.end.try_send(&mut t.fabric, 7, &[b"line"]).is_ok());
    for words in [[12, 1, 2, 0], [12, 1, 2, 0], [12, 1, 7, 5000]] {
        t.control(words);
        assert_eq!(t.end.closed(), None);
    }
    t.control([12, 2, 2, 0]);
    assert_eq!(t.end.closed(), None);
    t.control([12, 3, 2, 0]);
    t.is_broken(ProtocolError::OfferWrong);
}

#[test]
fn withdrawn_names_no_memory_that_may_be_written() {
    let (mut t, _) = writing();
    t.control([12, 1, 2, 0]);
    t.control([11, 2, 0, 0]);
    t.is_broken(ProtocolError::WithdrawnOffered);
    assert_eq!(t.fabric.exposed().mapped(0), 1, "it goes with the connection");
    // No chunk names it.
    let (mut t, _) = writing();
    t.control([11, 2, 1, 0]);
    t.is_broken(ProtocolError::ReservedNotZero);
    // The offer has ended.
    let (mut t, _) = writing();
    t.control([12, 1, 2, 0]);
    assert!(t.end.try_send(&mut t.fabric, 7, &[b"line"]).is_ok());
    t.control([11, 2, 0, 0]);
    assert_eq!((t.end.closed(), t.fabric.exposed().mapped(0)), (None, 0));
    t.control([12, 2, 2, 0]);
    t.is_broken(ProtocolError::OfferWrong);
    // While a message is written into it.
    let (mut t, room) = writing_to(3 << 20);
    let memory = payload(3 << 20, 1);
    let buffer = t.fabric.exposed().add(0, memory.clone());
    let exposed = t.end.expose(&mut t.fabric, buffer).unwrap();
    t.settle();
    t.control([10, 0, 0, 0]);
    t.control([12, 1, 2, 0]);
    t.fabric.exposed().offer(room, 0);
    let mut driver = Driver::new(t.end.clone(), 1, WaitStrategy::Yield, 1_000_000_000, Nanos(0));
    let mut op = SendOperation::new(7, memory.len()).with_memory(SendMemory::Exposed(exposed, 0));
    assert_eq!(driver.drive_send(&mut t.fabric, &mut op, &[&memory]), Drive::Moved);
    t.end = driver.endpoint().clone();
    t.control([11, 2, 0, 0]);
    t.is_broken(ProtocolError::WithdrawnOffered);
}

#[test]
fn after_close_no_offer_is_looked_at() {
    for words in [[12, 1, 2, 0], [12, 9, 2, 0], [12, 1, 8, 0]] {
        let (mut t, _) = writing();
        t.control([3, 0, 1, 0]);
        t.control(words);
        assert_eq!(t.end.closed(), None);
        let (mut t, _) = writing();
        t.end.close(&mut t.fabric, Reason::DONE);
        t.control(words);
        assert_eq!(t.end.closed(), Some(superpipe_core::Closed::Here(Reason::DONE)));
    }
}
