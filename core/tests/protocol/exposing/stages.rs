//! A message out of memory that is not sent by the first attempt: what an operation does in each stage, and that both ends count the same.
//! wire.md 4.9.

use superpipe_core::driver::{Drive, SendFailed, SendOperation};
use superpipe_core::{Arrival, End, Reason, SendMemory};

use super::{ARRIVALS, Two, payload};

/// Messages of all ways: short at once, long at once, and longer than C0.
const LENGTHS: [usize; 4] = [300, 600, 601, 3000];

/// The memory is withdrawn while the message waits for a block: it goes through the ring, in its order.
#[test]
fn a_message_falls_back_to_the_ring_between_attempts() {
    for arrival in ARRIVALS {
        for bytes in LENGTHS {
            let mut t = Two::new(arrival);
            let memory = payload(3000, 1);
            let (exposed, _) = t.exposed(0, memory.clone());
            let (other, _) = t.exposed(0, memory.clone());
            for number in 0..8 {
                t.send(0, number, (other, 0), &memory[..700]);
            }
            let mut op = SendOperation::new(8, bytes).with_memory(SendMemory::Exposed(exposed, 0));
            let message = &memory[..bytes];
            for _ in 0..3 {
                let driven = t.ends[0].drive_send(&mut t.fabric, &mut op, &[message]);
                assert_eq!((driven, op.has_begun()), (Drive::Idle, false));
            }
            t.withdraw(0, exposed);
            let driven = t.ends[0].drive_send(&mut t.fabric, &mut op, &[message]);
            assert_eq!(driven, Drive::Idle);
            assert!(!op.is_exposed(), "it goes through the ring");
            for number in 0..8 {
                let (received, got) = t.receive(1, 700).unwrap();
                assert!(received.tag == number && got == memory[..700]);
            }
            t.settle();
            let before = t.ends[1].counters().exposed_bytes_received;
            t.finish(0, 8, (op, Drive::Moved), message);
            assert_eq!(t.ends[1].counters().exposed_bytes_received, before);
            assert_eq!([t.closed(0), t.closed(1)], [None; 2]);
        }
    }
}

/// An operation that was cancelled before it was sent leaves nothing, and one with other slices neither.
#[test]
fn an_operation_that_waits_can_be_given_up() {
    for bytes in LENGTHS {
        let mut t = Two::new(Arrival::Flag);
        let memory = payload(3000, 1);
        let (exposed, _) = t.exposed(0, memory.clone());
        for number in 0..8 {
            t.send(0, number, (exposed, 0), &memory[..700]);
        }
        let (mut op, driven) = t.try_send(0, 8, (exposed, 0), &memory[..bytes]);
        assert_eq!(driven, Drive::Idle);
        t.ends[0].cancel_send(&mut t.fabric, &mut op, Reason(3));
        let driven = t.ends[0].drive_send(&mut t.fabric, &mut op, &[&memory[..bytes]]);
        assert_eq!(driven, Drive::Done(Err(SendFailed::NotOpen)));
        let (mut op, driven) = t.try_send(0, 8, (exposed, 0), &memory[..bytes]);
        assert_eq!(driven, Drive::Idle);
        let driven = t.ends[0].drive_send(&mut t.fabric, &mut op, &[&memory[..bytes], b"x"]);
        assert_eq!(driven, Drive::Done(Err(SendFailed::WrongLength)));
        for number in 0..8 {
            assert_eq!(t.receive(1, 700).unwrap().0.tag, number);
        }
        assert!(!t.is_shared(0, exposed));
        t.settle();
        assert_eq!(t.carry(0, 9, (exposed, 0), &memory[..bytes]), bytes as u64);
    }
}

/// An open transfer keeps a message waiting, and the message keeps no transfer open.
#[test]
fn a_message_waits_for_an_open_stream() {
    let mut t = Two::new(Arrival::Flag);
    let memory = payload(3000, 1);
    let (exposed, _) = t.exposed(0, memory.clone());
    for bytes in LENGTHS {
        let (end, fabric) = t.end(0);
        let id = end.start(5, superpipe_core::Length::Stream).unwrap();
        assert_eq!(end.push(fabric, id, &[b"stream"]), Ok(6));
        let (mut op, driven) = t.try_send(0, 7, (exposed, 0), &memory[..bytes]);
        assert_eq!(driven, Drive::Idle);
        let (end, fabric) = t.end(0);
        end.finish(fabric, id).unwrap();
        let driven = t.ends[0].drive_send(&mut t.fabric, &mut op, &[&memory[..bytes]]);
        assert_eq!(driven, Drive::Done(Ok(())));
        let mut place = [0; 100];
        let (end, fabric) = t.end(1);
        assert_eq!(end.incoming(fabric).map(|incoming| incoming.tag), Some(5));
        let pulled = end.pull(fabric, &mut [&mut place]);
        assert_eq!(&place[..pulled.bytes], b"stream");
        if pulled.end == End::No {
            assert_eq!(end.pull(fabric, &mut [&mut place]).end, End::Fin);
        }
        assert!(t.receive(1, 3000).unwrap().1 == memory[..bytes]);
        t.settle();
    }
}

/// Both ends count the same bytes, chunks and messages.
#[test]
fn both_ends_count_the_same() {
    for arrival in ARRIVALS {
        let mut t = Two::new(arrival);
        let memory = payload(5000, 1);
        let (exposed, _) = t.exposed(0, memory.clone());
        let room = t.writable(1, vec![0; 5000]);
        for round in 0..40 {
            let bytes = [0, 41, 299, 300, 600, 601, 5000][round % 7];
            if round % 3 == 0 {
                t.settle();
                t.offer(1, room, 0);
                t.settle();
            }
            t.carry(0, 7, (exposed, 0), &memory[..bytes]);
            t.settle();
            t.take_back();
        }
        let [sent, received] = [0, 1].map(|side| t.ends[side].counters());
        assert_eq!(sent.bytes_sent, received.bytes_received);
        assert_eq!(sent.chunks_sent, received.chunks_received);
        assert_eq!(sent.inline_sent, received.inline_received);
        assert_eq!(sent.exposed_bytes_sent, received.exposed_bytes_received);
        assert_eq!(sent.split_bytes_sent, received.split_bytes_received);
        assert!(sent.split_bytes_sent > 0);
        assert_eq!(sent.controls_sent, received.controls_received);
        assert_eq!(received.controls_sent, sent.controls_received);
    }
}
