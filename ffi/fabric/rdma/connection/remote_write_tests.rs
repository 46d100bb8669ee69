//! Messages by remote writes on devices that carry out what is posted: their bytes, and the order of the devices' calls.

use super::played_tests::{MODES, Pair, payload};
use crate::fabric::{HostFabric, LossCause, RegisteredMemory, Way};
use crate::os::MemoryPlacement;
use core::mem::take;
use core::ptr::NonNull;
use std::sync::Arc;
use superpipe_core::driver::{Drive, Ended, Next, Received, RecvOperation, SendOperation};
use superpipe_core::{Arrival, Protocol, Reason, RecvMemory, SendMemory};
use superpipe_verbs::fake::{CmKind, answer, script};

/// Longest message, so that 5,000 bytes are several.
const MESSAGE_BYTES_MAX: u32 = 1500;

fn pair(arrival: Arrival, is_iwarp: bool, protocol: Protocol) -> Pair {
    let mut pair = Pair::on_devices(arrival, None, is_iwarp);
    for side in [0, 1] {
        pair.on(side, |driver, _| {
            driver.set_protocol(protocol);
            driver.endpoint_mut().link_mut().connection.message_bytes_max = MESSAGE_BYTES_MAX;
        });
        pair.sides[side].device.calls.clear();
    }
    pair
}

fn lend_source(pair: &mut Pair, side: usize, memory: &[u8]) -> SendMemory {
    let start = NonNull::from(memory).cast();
    // SAFETY: these tests keep the memory until it was taken back.
    pair.on(side, |driver, fabric| unsafe { fabric.lend_source(driver.endpoint_mut(), start, memory.len()) })
        .unwrap()
}

fn lend_destination(pair: &mut Pair, side: usize, memory: &mut [u8]) -> RecvMemory {
    let len = memory.len();
    let start = NonNull::from(memory).cast();
    // SAFETY: these tests keep the memory until it was taken back.
    pair.on(side, |driver, fabric| unsafe { fabric.lend_destination(driver.endpoint_mut(), start, len) })
        .unwrap()
}

fn take_back(pair: &mut Pair, side: usize, way: Way, is_released: bool) {
    pair.on(side, |driver, fabric| fabric.take_back(driver.endpoint_mut(), way, is_released));
}

/// Drives both operations to their end.
fn carry(pair: &mut Pair, mut send: SendOperation, from: &[u8], mut receive: RecvOperation, to: &mut [u8]) {
    let (mut is_sent, mut is_received) = (false, false);
    for _ in 0..20_000 {
        if !is_sent
            && let Drive::Done(done) =
                pair.on(0, |driver, fabric| driver.drive_send(fabric, &mut send, &[from]))
        {
            assert_eq!(done, Ok(()));
            is_sent = true;
        }
        if !is_received
            && let Drive::Done(done) =
                pair.on(1, |driver, fabric| driver.drive_recv(fabric, &mut receive, &mut [&mut *to]))
        {
            assert_eq!(done, Ok(Received { tag: 7, bytes: from.len() }));
            is_received = true;
        }
        if is_sent && is_received {
            return;
        }
        pair.settle();
    }
    panic!("stuck: {is_sent} {is_received}");
}

fn regions(pair: &Pair) -> [usize; 2] {
    pair.sides.each_ref().map(|side| side.device.regions.len())
}

/// Returns the position of the first call of this name.
fn first(calls: &[&str], name: &str) -> Option<usize> {
    calls.iter().position(|call| *call == name)
}

#[test]
fn borrowed_memory_is_registered_and_deregistered_in_order() {
    for (arrival, is_iwarp) in MODES.into_iter().flat_map(|arrival| [(arrival, false), (arrival, true)]) {
        let mut pair = pair(arrival, is_iwarp, Protocol::Register);
        let before = regions(&pair);
        for bytes in [601, 5000, 600] {
            let (message, mut place) = (payload(bytes), vec![0xEE; bytes.max(601) + 8]);
            let mut send = SendOperation::new(7, bytes);
            if bytes > 600 {
                send = send.with_memory(lend_source(&mut pair, 0, &message));
            }
            let receive = RecvOperation::new().with_memory(lend_destination(&mut pair, 1, &mut place));
            carry(&mut pair, send, &message, receive, &mut place);
            assert_eq!(regions(&pair), before, "{bytes} bytes: all is deregistered before the calls return");
            take_back(&mut pair, 0, Way::Out, true);
            take_back(&mut pair, 1, Way::In, true);
            assert!(place[..bytes] == message[..], "{arrival:?} {is_iwarp}: {bytes} bytes");
            assert!(place[bytes..].iter().all(|byte| *byte == 0xEE));
            let [sender, receiver] = [0, 1].map(|side| take(&mut pair.sides[side].device.calls));
            if bytes > 600 {
                assert!(first(&sender, "ibv_reg_mr") < first(&sender, "ibv_dereg_mr"), "{sender:?}");
                let posted = sender.iter().rposition(|call| *call == "post_send");
                assert!(posted < first(&sender, "ibv_dereg_mr"), "after the last write: {sender:?}");
                // RTS was taken; the first that the receiver posts is the CTS.
                assert!(first(&receiver, "ibv_reg_mr") < first(&receiver, "post_send"), "{receiver:?}");
                assert!(first(&receiver, "post_send") < first(&receiver, "ibv_dereg_mr"), "{receiver:?}");
            } else {
                assert!(!sender.contains(&"ibv_reg_mr") && !receiver.contains(&"ibv_reg_mr"));
            }
            assert!(!sender.contains(&"ibv_modify_qp") && !receiver.contains(&"ibv_modify_qp"));
        }
        let counters = pair.on(0, |driver, _| driver.counters());
        assert_eq!(counters.remote_bytes_sent, 5601, "{arrival:?} {is_iwarp}");
        assert_eq!((counters.registrations_missed, counters.remote_writes), (2, 2));
    }
}

#[test]
fn a_receiver_fails_its_queue_pair_before_it_deregisters() {
    for is_forced in [false, true] {
        let mut pair = pair(Arrival::Flag, false, Protocol::Register);
        let before = regions(&pair);
        let (message, mut place) = (payload(5000), vec![0; 5000]);
        let mut send = SendOperation::new(7, 5000).with_memory(lend_source(&mut pair, 0, &message));
        let mut receive = RecvOperation::new().with_memory(lend_destination(&mut pair, 1, &mut place));
        // Up to the CTS.
        for _ in 0..10 {
            let _ = pair.on(0, |driver, fabric| driver.drive_send(fabric, &mut send, &[&message]));
            let _ = pair.on(1, |driver, fabric| driver.drive_recv(fabric, &mut receive, &mut [&mut place]));
            pair.on(1, |driver, fabric| driver.progress(fabric));
            if regions(&pair)[1] > before[1] {
                break;
            }
        }
        for _ in 0..4 {
            pair.on(1, |driver, fabric| driver.progress(fabric));
        }
        assert_eq!(regions(&pair)[1], before[1] + 1, "registered, and granted");
        pair.sides[1].device.calls.clear();
        if is_forced {
            take_back(&mut pair, 1, Way::In, false);
        } else {
            pair.on(1, |driver, fabric| driver.release_recv(fabric, &mut receive, Reason::GIVEN_UP));
            let is_released = (0..100).any(|_| {
                pair.on(1, |driver, fabric| {
                    driver.progress(fabric);
                    driver.is_recv_released(&receive)
                })
            });
            assert!(is_released);
            take_back(&mut pair, 1, Way::In, true);
        }
        assert_eq!(regions(&pair)[1], before[1]);
        let calls = take(&mut pair.sides[1].device.calls);
        assert!(first(&calls, "ibv_modify_qp").is_some(), "{calls:?}");
        assert!(first(&calls, "ibv_modify_qp") < first(&calls, "ibv_dereg_mr"), "{calls:?}");
        assert!(!pair.on(1, |driver, fabric| fabric.is_alive(driver.endpoint().link())));
        // What core asks for later finds nothing, and ends.
        for _ in 0..10 {
            pair.on(1, |driver, fabric| driver.progress(fabric));
        }
        assert!(pair.on(1, |driver, _| driver.is_recv_released(&receive)) || is_forced);
    }
}

#[test]
fn a_sender_that_is_forced_fails_its_queue_pair_first() {
    let mut pair = pair(Arrival::Flag, false, Protocol::Register);
    let before = regions(&pair);
    let message = payload(5000);
    let mut send = SendOperation::new(7, 5000).with_memory(lend_source(&mut pair, 0, &message));
    for _ in 0..4 {
        let _ = pair.on(0, |driver, fabric| driver.drive_send(fabric, &mut send, &[&message]));
        pair.on(0, |driver, fabric| driver.progress(fabric));
    }
    assert_eq!(regions(&pair)[0], before[0] + 1);
    pair.sides[0].device.calls.clear();
    take_back(&mut pair, 0, Way::Out, false);
    let calls = take(&mut pair.sides[0].device.calls);
    assert_eq!(regions(&pair)[0], before[0]);
    assert!(first(&calls, "ibv_modify_qp").is_some(), "{calls:?}");
    assert!(first(&calls, "ibv_modify_qp") < first(&calls, "ibv_dereg_mr"), "{calls:?}");
    let _ = pair.on(0, |driver, fabric| driver.drive_send(fabric, &mut send, &[&message]));
    let is_released = (0..100).any(|_| {
        pair.on(0, |driver, fabric| {
            driver.cancel_send(fabric, &mut send, Reason::GIVEN_UP);
            driver.progress(fabric);
            driver.is_send_released(&send)
        })
    });
    assert!(is_released, "core learns that the memory is gone");
}

#[test]
fn a_sender_without_its_device_waits_for_no_completion() {
    for (arrival, is_iwarp) in MODES.into_iter().flat_map(|arrival| [(arrival, false), (arrival, true)]) {
        let mut pair = pair(arrival, is_iwarp, Protocol::Register);
        let before = regions(&pair);
        let (message, mut place) = (payload(5000), vec![0; 5000]);
        let mut send = SendOperation::new(7, 5000).with_memory(lend_source(&mut pair, 0, &message));
        let mut receive = RecvOperation::new().with_memory(lend_destination(&mut pair, 1, &mut place));
        // Until all is posted.
        pair.sides[0].completes_nothing = true;
        for _ in 0..1000 {
            let _ = pair.on(0, |driver, fabric| driver.drive_send(fabric, &mut send, &[&message]));
            if send.awaits_release() {
                break;
            }
            let _ = pair.on(1, |driver, fabric| driver.drive_recv(fabric, &mut receive, &mut [&mut place]));
            pair.settle();
        }
        pair.settle();
        assert!(send.awaits_release() && regions(&pair)[0] == before[0] + 1, "{arrival:?} {is_iwarp}");
        pair.on(0, |driver, fabric| {
            assert!(fabric.is_alive(driver.endpoint().link()));
            script(|script| script.events = [(CmKind::RDMA_CM_EVENT_DEVICE_REMOVAL, 0)].into());
            driver.endpoint_mut().link_mut().connection.cm.get_mut().take_events();
            assert!(!fabric.is_alive(driver.endpoint().link()));
            driver.note_peer_gone();
        });
        pair.sides[0].device.calls.clear();
        // As a waiting call does it.
        let (mut wait, mut sent) = (pair.on(0, |driver, _| driver.begin_wait()), Drive::Idle);
        let next = (0..100).map(|_| {
            pair.on(0, |driver, fabric| {
                if !matches!(sent, Drive::Done(_)) {
                    sent = driver.drive_send(fabric, &mut send, &[&message]);
                }
                driver.round(fabric, &mut wait, false)
            })
        });
        let next = next.last().unwrap();
        assert_eq!((sent, next), (Drive::Done(Ok(())), Next::Ended(Ended::Lost)), "{arrival:?} {is_iwarp}");
        assert_eq!(regions(&pair)[0], before[0]);
        let calls = take(&mut pair.sides[0].device.calls);
        assert!(first(&calls, "ibv_modify_qp").is_some(), "{calls:?}");
        assert!(first(&calls, "ibv_modify_qp") < first(&calls, "ibv_dereg_mr"), "{calls:?}");
        take_back(&mut pair, 0, Way::Out, true);
        take_back(&mut pair, 1, Way::In, false);
        let cause = pair.on(0, |driver, fabric| fabric.why_gone(driver.endpoint().link()));
        assert!(matches!(cause, Some(LossCause::Device(_))), "{cause:?}");
    }
}

#[test]
fn a_registered_buffer_is_registered_once() {
    for is_trusted in [false, true] {
        let mut pair = pair(Arrival::Flag, false, Protocol::RegisterCached);
        let before = regions(&pair);
        let [out, into] =
            [0; 2].map(|_| Arc::new(RegisteredMemory::new(8192, MemoryPlacement::default()).unwrap()));
        // SAFETY: the memory has so many bytes, which nobody else uses but the devices of this test.
        let [message, place] = [&out, &into]
            .map(|memory| unsafe { core::slice::from_raw_parts_mut(memory.as_ptr().as_ptr(), 8192) });
        message[100..5100].copy_from_slice(&payload(5000));
        for round in 0..3 {
            place.fill(0);
            let source = pair.on(0, |driver, fabric| {
                fabric.source_memory(driver.endpoint_mut(), &out, 100..5100).unwrap()
            });
            assert_eq!(matches!(source, SendMemory::Registered(_)), round > 0);
            let destination = pair.on(1, |driver, fabric| {
                // SAFETY: 1. The peer is that of this test.
                unsafe { fabric.trust_peer(is_trusted) };
                // SAFETY: nobody else uses the memory until it was taken back.
                unsafe { fabric.destination_memory(driver.endpoint_mut(), &into) }.unwrap()
            });
            assert_eq!(matches!(destination, RecvMemory::Registered(_)), is_trusted && round > 0);
            let send = SendOperation::new(7, 5000).with_memory(source);
            let receive = RecvOperation::new().with_memory(destination);
            carry(&mut pair, send, &message[100..5100], receive, place);
            take_back(&mut pair, 0, Way::Out, true);
            take_back(&mut pair, 1, Way::In, true);
            assert!(place[..5000] == message[100..5100]);
            assert_eq!(regions(&pair), [before[0] + 1, before[1] + usize::from(is_trusted)]);
        }
        let counters = [0, 1].map(|side| pair.on(side, |driver, _| driver.counters()));
        assert_eq!(counters.map(|it| it.registrations_missed), [1, if is_trusted { 1 } else { 3 }]);
        assert_eq!(counters.map(|it| it.registrations_hit), [2, if is_trusted { 2 } else { 0 }]);
        pair.on(0, |_, _| out.registrations().end());
        pair.on(1, |_, _| into.registrations().end());
        assert_eq!(regions(&pair), before, "registrations end with their buffer");
    }
}

#[test]
fn a_trusted_peer_loses_its_rights_when_the_link_ends() {
    let mut pair = pair(Arrival::Flag, false, Protocol::RegisterCached);
    let before = regions(&pair);
    let into = Arc::new(RegisteredMemory::new(8192, MemoryPlacement::default()).unwrap());
    for is_lost in [false, true] {
        let memory = pair.on(1, |driver, fabric| {
            // SAFETY: 1. The peer does nothing.
            unsafe { fabric.trust_peer(true) };
            // SAFETY: nobody uses the memory.
            unsafe { fabric.destination_memory(driver.endpoint_mut(), &into) }.unwrap()
        });
        if let RecvMemory::Lent(buffer) = memory {
            let ended = pair.on(1, |driver, fabric| {
                let job = superpipe_core::Job::RegisterDestination { buffer, bytes: 5000 };
                let link = driver.endpoint_mut().link_mut();
                superpipe_core::Fabric::begin(fabric, link, superpipe_core::Ticket::new(6, 9), job).unwrap();
                (0..10).find_map(|_| superpipe_core::Fabric::finished(fabric, link)).unwrap()
            });
            assert!(ended.1.is_ok());
        }
        assert_eq!(regions(&pair)[1], before[1] + 1, "it is kept");
        // The call fails in the middle of its message.
        take_back(&mut pair, 1, Way::In, !is_lost);
        assert_eq!(regions(&pair)[1], before[1] + usize::from(!is_lost));
    }
    pair.on(1, |_, _| into.registrations().end());
}

#[test]
fn a_buffer_is_read_by_no_device_once_its_call_has_failed() {
    for has_refused in [false, true] {
        let mut pair = pair(Arrival::Flag, false, Protocol::RegisterCached);
        let before = regions(&pair);
        let out = Arc::new(RegisteredMemory::new(8192, MemoryPlacement::default()).unwrap());
        let message = payload(5000);
        let source =
            pair.on(0, |driver, fabric| fabric.source_memory(driver.endpoint_mut(), &out, 0..5000).unwrap());
        let mut send = SendOperation::new(7, 5000).with_memory(source);
        for _ in 0..4 {
            let _ = pair.on(0, |driver, fabric| driver.drive_send(fabric, &mut send, &[&message]));
            pair.on(0, |driver, fabric| driver.progress(fabric));
        }
        assert_eq!(regions(&pair)[0], before[0] + 1);
        if has_refused {
            pair.on(0, |_, _| answer("ibv_modify_qp", libc::EIO));
        }
        take_back(&mut pair, 0, Way::Out, false);
        assert_eq!(regions(&pair)[0], before[0], "whatever the queue pair still does");
    }
}
