//! Messages of which each end copies a half. wire.md 4.10, 5.7.

use superpipe_core::driver::{Drive, RecvFailed, RecvOperation, SendFailed};
use superpipe_core::{
    Arrival, Closed, End, Event, Exposed, ExposedState, Origin, Protocol, Readable, Reason, SendMemory,
};
use superpipe_testkit::PairFabric;

use super::{ARRIVALS, SendOperation, Two, payload};

const MIB: usize = 1 << 20;

/// Memory out of which end 0 sends, and memory into which end 1 receives.
struct Ready {
    t: Two,
    memory: Vec<u8>,
    source: Exposed,
    room: (Exposed, superpipe_core::Buffer),
}

fn ready(arrival: Arrival, bytes: usize) -> Ready {
    let mut t = Two::new(arrival);
    let memory = payload(bytes, 1);
    let (source, _) = t.exposed(0, memory.clone());
    let room = t.writable(1, vec![0xaa; bytes + 100]);
    Ready { t, memory, source, room }
}

impl Ready {
    /// Offers the room from `offset` on, and lets the peer know.
    #[track_caller]
    fn offer(&mut self, offset: u32) {
        assert!(self.t.offer(1, self.room, offset));
        self.t.settle();
    }

    fn send(&mut self, offset: usize) -> (SendOperation, Drive<Result<(), SendFailed>>) {
        let message = self.memory[offset..].to_vec();
        self.t.try_send(0, 7, (self.source, u32::try_from(offset).unwrap()), &message)
    }

    fn drive(&mut self, op: &mut SendOperation) -> Drive<Result<(), SendFailed>> {
        let message = self.memory.clone();
        self.t.ends[0].drive_send(&mut self.t.fabric, op, &[&message])
    }

    fn room_bytes(&mut self) -> Vec<u8> {
        self.t.fabric.exposed().bytes(self.room.1).to_vec()
    }

    /// Returns the bytes that were copied by the receiver, and by the sender.
    fn halves(&self) -> [u64; 2] {
        let [sender, receiver] = [0, 1].map(|side| self.t.ends[side].counters());
        assert!(sender.split_bytes_sent >= receiver.split_bytes_received);
        [receiver.exposed_bytes_received, receiver.split_bytes_received]
    }
}

#[test]
fn a_message_is_split_between_both_ends() {
    for arrival in ARRIVALS {
        for (bytes, offset, head) in [(601, 0, 256), (5000, 7, 2496), (2_500_000, 100, 1_249_984)] {
            let mut it = ready(arrival, bytes);
            it.offer(offset);
            let (mut op, mut driven) = it.send(0);
            let mut calls = 1;
            while driven == Drive::Moved {
                driven = it.drive(&mut op);
                calls += 1;
            }
            assert_eq!((driven, op.sent()), (Drive::Done(Ok(())), bytes));
            assert_eq!(calls, (bytes - head).div_ceil(MIB), "a call writes a bounded part");
            let room = it.room_bytes();
            let (before, there) = room.split_at(offset as usize + head);
            assert!(there[..bytes - head] == it.memory[head..], "the tail is where it belongs");
            assert!(before.iter().chain(&there[bytes - head..]).all(|byte| *byte == 0xaa));
            assert!(it.t.is_offered(1, it.room.0));
            assert!(it.t.is_shared(0, it.source), "the receiver has not copied the head");
            let (received, got) = it.t.receive(1, bytes + 9).unwrap();
            assert!(received.tag == 7 && got == it.memory, "{arrival:?} {bytes}");
            assert_eq!(it.halves(), [head as u64, (bytes - head) as u64]);
            assert!(!it.t.is_offered(1, it.room.0));
            assert!(!it.t.is_shared(0, it.source));
            let sent = it.t.ends[0].counters();
            assert_eq!((sent.exposed_bytes_sent, sent.bytes_sent), (head as u64, bytes as u64));
            assert_eq!([it.t.closed(0), it.t.closed(1)], [None; 2]);
        }
    }
}

#[test]
fn the_tail_is_read_in_place_once_the_last_chunk_came() {
    let mut it = ready(Arrival::Flag, 3 * MIB);
    it.offer(50);
    let head = 3 * MIB / 2;
    let (mut op, driven) = it.send(0);
    assert_eq!((driven, op.sent()), (Drive::Moved, head + MIB));
    let (end, fabric) = it.t.end(1);
    let Readable::Run(run) = end.readable(fabric, u32::MAX) else { panic!("the head is here") };
    assert_eq!((run.bytes as usize, run.offered()), (head, None));
    assert!(run.spans().all(|(at, bytes)| *fabric.visible(run.memory, at, bytes) == it.memory[..head]));
    assert_eq!(end.consume(fabric, run.bytes), End::No);
    assert!(matches!(end.readable(fabric, u32::MAX), Readable::Nothing), "the tail is not complete");
    assert_eq!(it.drive(&mut op), Drive::Done(Ok(())));
    let (end, fabric) = it.t.end(1);
    let Readable::Run(run) = end.readable(fabric, u32::MAX) else { panic!("the tail is here") };
    let at = u32::try_from(50 + head).unwrap();
    assert_eq!((run.bytes as usize, run.offered()), (head, Some((it.room.0, at))));
    assert!(run.spans().eq([(at, run.bytes)]));
    assert!(*fabric.visible(run.memory, at, run.bytes) == it.memory[head..]);
    assert_eq!(end.consume(fabric, run.bytes), End::Fin);
    assert!(!it.t.is_offered(1, it.room.0));
}

#[test]
fn a_split_message_is_tried_and_peeked_once_it_is_complete() {
    let mut it = ready(Arrival::Flag, 3 * MIB);
    it.offer(0);
    let (mut op, driven) = it.send(0);
    assert_eq!(driven, Drive::Moved);
    let mut place = vec![0; 3 * MIB];
    assert_eq!(it.t.ends[1].try_peek(&mut it.t.fabric).unwrap().tag, 7);
    assert!(it.t.ends[1].try_recv(&mut it.t.fabric, &mut [&mut place]).is_err(), "its tail is missing");
    assert_eq!(it.drive(&mut op), Drive::Done(Ok(())));
    let received = it.t.ends[1].try_recv(&mut it.t.fabric, &mut [&mut place]).unwrap();
    assert_eq!(received.map(|received| received.bytes), Some(3 * MIB));
    assert!(place == it.memory);
}

#[test]
fn what_has_no_room_or_no_halves_goes_another_way() {
    // Too short; beyond the end of the room; out of memory that is not mapped.
    let mut it = ready(Arrival::Flag, 5000);
    for (offset, from) in [(0, 4701), (101, 0), (5099, 0)] {
        it.offer(offset);
        let memory = (it.source, u32::try_from(from).unwrap());
        let copied = it.t.carry(0, 7, memory, &it.memory[from..]);
        assert_eq!(copied, if from == 0 { 5000 } else { 0 });
        assert_eq!(it.halves()[1], 0);
        assert!(!it.t.is_offered(1, it.room.0), "the offer has ended");
        it.t.take_back();
    }
    it.offer(0);
    let other = payload(5000, 3);
    let (mut op, mut driven) = (SendOperation::new(7, 5000), Drive::Idle);
    for _ in 0..200 {
        if matches!(driven, Drive::Done(_)) {
            break;
        }
        driven = it.t.ends[0].drive_send(&mut it.t.fabric, &mut op, &[&other]);
        it.t.settle();
        let _ = it.t.ends[1].endpoint_mut().incoming(&mut it.t.fabric);
        let (end, fabric) = it.t.end(1);
        end.pull(fabric, &mut [&mut [0; 300]]);
    }
    assert_eq!(driven, Drive::Done(Ok(())));
    assert_eq!(it.halves()[1], 0);
    assert_eq!([it.t.closed(0), it.t.closed(1)], [None; 2]);
}

#[test]
fn an_offer_is_refused_where_it_would_be_wrong() {
    let mut it = ready(Arrival::Flag, 5000);
    let second = it.t.writable(1, vec![0; 900]);
    let readable = it.t.exposed(1, vec![0; 900]);
    assert!(!it.t.offer(1, readable, 0), "memory that the peer reads");
    assert!(!it.t.offer(1, second, 900) && !it.t.offer(1, second, u32::MAX), "beyond its end");
    let unasked = it.t.expose_writable(1, vec![0; 900]);
    assert!(!it.t.offer(1, (unasked.0.unwrap(), unasked.1), 0), "not mapped");
    it.offer(0);
    for room in [it.room, second] {
        assert!(!it.t.offer(1, room, 0), "an offer lives");
    }
    // A message in a line, which is not looked at.
    assert!(it.t.ends[0].try_send(&mut it.t.fabric, 1, &[b"line"]).is_ok());
    let mut place = [0; 9];
    assert!(it.t.ends[1].try_recv(&mut it.t.fabric, &mut [&mut place]).unwrap().is_some());
    it.t.take_back();
    assert!(it.t.ends[0].try_send(&mut it.t.fabric, 2, &[b"line"]).is_ok());
    assert!(!it.t.offer(1, it.room, 0), "a message has arrived");
    assert!(it.t.ends[1].try_recv(&mut it.t.fabric, &mut [&mut place]).unwrap().is_some());
    it.t.settle();
    assert!(it.t.offer(1, it.room, 0));
    it.t.ends[1].close(&mut it.t.fabric, Reason::DONE);
    assert!(it.t.is_offered(1, it.room.0), "the peer may write until it knows");
    assert!(!it.t.offer(1, second, 0), "closed");
}

/// The sender has sent another message before it saw the offer, and the offer is for that one.
#[test]
fn an_offer_for_a_transfer_that_was_started_is_ignored() {
    for arrival in ARRIVALS {
        let mut it = ready(arrival, 5000);
        assert!(it.t.offer(1, it.room, 0));
        assert!(it.t.ends[0].try_send(&mut it.t.fabric, 1, &[b"line"]).is_ok());
        it.t.settle();
        let (_, driven) = it.send(0);
        assert_eq!(driven, Drive::Done(Ok(())), "it is sent by one copy");
        assert_eq!(it.t.receive(1, 9).unwrap().0.bytes, 4);
        assert!(!it.t.is_offered(1, it.room.0));
        it.t.take_back();
        assert!(it.t.receive(1, 5000).unwrap().1 == it.memory);
        assert_eq!(it.halves(), [5000, 0]);
        // The next message can have an offer again.
        it.t.settle();
        it.offer(0);
        let (_, driven) = it.send(0);
        assert_eq!(driven, Drive::Done(Ok(())));
        assert!(it.t.receive(1, 5000).unwrap().1 == it.memory);
        assert_eq!(it.halves()[1], 2504);
    }
}

/// Whatever came meanwhile, an offer that lives is used by the next message only.
#[test]
fn an_offer_ends_with_the_first_chunk_of_its_transfer() {
    let mut it = ready(Arrival::Flag, 5000);
    it.offer(0);
    assert!(it.t.ends[0].try_send(&mut it.t.fabric, 1, &[b"line"]).is_ok());
    let (_, driven) = it.send(0);
    assert_eq!(driven, Drive::Done(Ok(())));
    assert_eq!(it.t.receive(1, 9).unwrap().0.bytes, 4);
    it.t.take_back();
    assert!(it.t.receive(1, 5000).unwrap().1 == it.memory);
    assert_eq!(it.halves(), [5000, 0]);
}

#[test]
fn a_split_message_can_be_cancelled_between_its_parts() {
    for arrival in ARRIVALS {
        let mut it = ready(arrival, 4 * MIB);
        it.offer(0);
        let (mut op, driven) = it.send(0);
        assert_eq!(driven, Drive::Moved);
        it.t.ends[0].cancel_send(&mut it.t.fabric, &mut op, Reason(9));
        let (mut into, mut place) = (RecvOperation::new(), vec![0; 4 * MIB]);
        let mut driven = Drive::Moved;
        for _ in 0..9 {
            if matches!(driven, Drive::Done(_)) {
                break;
            }
            assert!(it.t.is_offered(1, it.room.0));
            driven = it.t.ends[1].drive_recv(&mut it.t.fabric, &mut into, &mut [&mut place]);
        }
        assert_eq!(driven, Drive::Done(Err(RecvFailed::Cancelled(Reason(9)))));
        assert!(!it.t.is_offered(1, it.room.0));
        it.t.take_back();
        let message = it.memory.clone();
        assert_eq!(it.t.carry(0, 8, (it.source, 0), &message), 4 << 20, "by one copy");
    }
}

#[test]
fn a_rejected_split_message_is_not_taken() {
    for parts in 0..3 {
        let mut it = ready(Arrival::Flag, 4 * MIB);
        it.offer(0);
        let (mut op, mut driven) = it.send(0);
        for _ in 0..parts {
            if driven == Drive::Moved {
                driven = it.drive(&mut op);
            }
        }
        assert!(it.t.ends[1].reject(&mut it.t.fabric, Reason(5)));
        it.t.settle();
        if parts == 0 {
            assert_eq!(it.drive(&mut op), Drive::Done(Err(SendFailed::Rejected(Reason(5)))));
        } else {
            assert_eq!(driven, Drive::Done(Ok(())));
        }
        it.t.settle();
        assert!(!it.t.is_offered(1, it.room.0) && !it.t.is_shared(0, it.source));
        it.t.take_back();
        assert_eq!(it.t.ends[0].poll_event(), Some(Event::Rejected { transfer: 1, reason: Reason(5) }));
        let message = it.memory.clone();
        assert_eq!(it.t.carry(0, 8, (it.source, 0), &message), 4 << 20);
    }
}

#[test]
fn withdrawn_waits_until_nothing_is_written_any_more() {
    for arrival in ARRIVALS {
        let mut it = ready(arrival, 3 * MIB);
        it.offer(0);
        it.t.withdraw(1, it.room.0);
        assert_eq!(it.t.state(1, it.room.0), ExposedState::Gone);
        it.t.settle();
        assert_eq!(it.t.fabric.exposed().mapped(0), 1, "the offer lives");
        let (mut op, driven) = it.send(0);
        assert_eq!(driven, Drive::Moved);
        it.t.settle();
        assert!(it.t.is_offered(1, it.room.0));
        assert_eq!(it.t.fabric.exposed().mapped(0), 1, "the tail is being written");
        assert_eq!(it.drive(&mut op), Drive::Done(Ok(())));
        it.t.settle();
        assert_eq!(it.t.fabric.exposed().mapped(0), 1, "it is not taken");
        assert!(it.t.receive(1, 3 * MIB).unwrap().1 == it.memory);
        it.t.settle();
        assert_eq!(it.t.fabric.exposed().mapped(0), 0);
        assert!(!it.t.is_offered(1, it.room.0));
        // All eight places are free again.
        let all: Vec<_> = (0..9).map(|_| it.t.expose_writable(1, vec![0; 900]).0).collect();
        assert_eq!(all.iter().flatten().count(), 8);
        assert_eq!([it.t.closed(0), it.t.closed(1)], [None; 2]);
    }
}

#[test]
fn memory_to_be_written_is_no_source() {
    let mut it = ready(Arrival::Flag, 5000);
    let bytes = it.room_bytes();
    let memory = (it.room.0, 0);
    assert_eq!(it.t.carry(1, 7, memory, &bytes), 0, "through the ring");
    assert!(!it.t.is_shared(1, it.room.0));
}

#[test]
fn other_slices_than_those_at_the_begin_are_refused() {
    let mut it = ready(Arrival::Flag, 4 * MIB);
    it.offer(0);
    let (mut op, driven) = it.send(0);
    assert_eq!(driven, Drive::Moved);
    let short = it.memory[..3 * MIB].to_vec();
    let driven = it.t.ends[0].drive_send(&mut it.t.fabric, &mut op, &[&short]);
    assert_eq!(driven, Drive::Done(Err(SendFailed::WrongLength)));
    let (mut into, mut place) = (RecvOperation::new(), vec![0; 4 * MIB]);
    let mut driven = Drive::Moved;
    while driven == Drive::Moved {
        driven = it.t.ends[1].drive_recv(&mut it.t.fabric, &mut into, &mut [&mut place]);
    }
    assert_eq!(driven, Drive::Done(Err(RecvFailed::Cancelled(Reason::GIVEN_UP))));
}

/// Closes after a number of rounds since memory was offered, whatever is under way then.
#[test]
fn a_close_may_come_while_a_message_is_split() {
    for closer in 0..2 {
        for reason in [Reason::DONE, Reason(7)] {
            for rounds in 0..30 {
                let mut it = ready(Arrival::Flag, 5000);
                assert!(it.t.offer(1, it.room, 0));
                let (mut op, mut into, mut place) = (
                    SendOperation::new(7, 5000).with_memory(SendMemory::Exposed(it.source, 0)),
                    RecvOperation::new(),
                    vec![0; 5000],
                );
                let mut taken = false;
                for round in 0..rounds {
                    let side = usize::from(round % 3 == 0);
                    it.t.ends[side].progress(&mut it.t.fabric);
                    if round % 5 == 3 {
                        let _ = it.drive(&mut op);
                    }
                    if round % 7 == 6 && !taken {
                        let fabric = &mut it.t.fabric;
                        let driven = it.t.ends[1].drive_recv(fabric, &mut into, &mut [&mut place]);
                        taken = matches!(driven, Drive::Done(_));
                    }
                }
                it.t.ends[closer].close(&mut it.t.fabric, reason);
                it.t.settle();
                while let Drive::Moved =
                    it.t.ends[1].drive_recv(&mut it.t.fabric, &mut into, &mut [&mut place])
                {}
                it.t.settle();
                assert_eq!(it.t.closed(closer), Some(Closed::Here(reason)), "{rounds}");
                assert_eq!(it.t.closed(1 - closer), Some(Closed::ByPeer(reason)), "{rounds}");
                assert!(
                    it.t.ends
                        .iter_mut()
                        .all(|end| matches!(end.drive_close(&mut it.t.fabric), Drive::Done(_)))
                );
            }
        }
    }
}

#[test]
fn nothing_is_written_where_memory_cannot_be_exposed() {
    for protocol in Protocol::ALL {
        let mut t = Two::with(Arrival::Flag, [protocol; 2], 1, Origin::default());
        let (exposed, _) = t.expose_writable(1, vec![0; 900]);
        assert_eq!(exposed.is_some(), protocol == Protocol::RegisterCached, "{protocol}");
    }
}
