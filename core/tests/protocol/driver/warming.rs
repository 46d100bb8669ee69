//! Warming a connection up: both ends in turn, and peers that do something else.

use superpipe_core::driver::{Drive, RecvOperation, SendOperation, WarmUp, WarmUpFailed, WarmUpPlan};
use superpipe_core::{Arrival, Counters, Reason};
use superpipe_testkit::{Posted, TestFabric};

use crate::driver::{LAYOUT, One, Two, config, taken};

tables! {
    both_ends_exchange_every_message
    the_first_end_begins
    a_peer_that_sends_something_else_is_out_of_turn
    a_peer_that_rejects_is_told_of
    a_peer_that_gives_up_is_told_of
    a_closed_connection_warms_nothing_up
    a_room_that_is_too_small_is_no_panic
}

/// Messages that one call exchanges at most.
const HALVES_MAX: u32 = 8;

type Warmed = Drive<Result<(), WarmUpFailed>>;

const OUT_OF_TURN: Warmed = Drive::Done(Err(WarmUpFailed::OutOfTurn));

fn plan<F: TestFabric>(arrival: Arrival) -> WarmUpPlan {
    WarmUpPlan::new(LAYOUT, &config(arrival), F::DIRECT)
}

impl<F: TestFabric> Two<F> {
    fn warm(&mut self, side: usize, warm_up: &mut WarmUp) -> Warmed {
        let mut room = vec![0xa5; plan::<F>(Arrival::Flag).room_bytes()];
        let warmed = self.ends[side].drive_warm_up(&mut self.fabric, warm_up, &mut room);
        self.ends[side].progress(&mut self.fabric);
        self.fabric.step();
        warmed
    }
}

fn exchange<F: TestFabric>(arrival: Arrival, first: usize) {
    let mut t = Two::<F>::with(arrival);
    let plan = plan::<F>(arrival);
    let mut warm_ups = [0, 1].map(|side| WarmUp::new(plan, side == first));
    let mut done = [false; 2];
    let mut moved = [0; 2];
    for _ in 0..200_000 {
        for side in 0..2 {
            match t.warm(side, &mut warm_ups[side]) {
                Drive::Done(result) => {
                    assert_eq!(result, Ok(()));
                    if !done[side] {
                        // The round of progress after it may find the send queue full.
                        let mut counters = t.ends[side].counters();
                        counters.sq_full = 0;
                        // The window is no count.
                        counters.window_bytes = 0;
                        assert_eq!(counters, Counters::default(), "they begin anew");
                    }
                    done[side] = true;
                }
                Drive::Moved => moved[side] += 1,
                Drive::Idle => {}
            }
        }
        if done == [true; 2] {
            break;
        }
    }
    assert_eq!(done, [true; 2], "stuck");
    let messages: u32 = plan.messages().iter().map(|(_, count)| count).sum();
    assert_eq!(warm_ups.map(|warm_up| warm_up.steps()), [2 * messages; 2], "each message, this way and that");
    for (side, moved) in moved.into_iter().enumerate() {
        assert!(moved * HALVES_MAX >= 2 * messages - HALVES_MAX, "a call exchanges a bounded number");
        assert_eq!(t.ends[side].try_recv(&mut t.fabric, &mut [&mut [0; 9]]), Ok(None), "nothing is left");
    }
    t.settle();
    for side in 0..2 {
        let next = t.ends[side].try_send(&mut t.fabric, 1, &[b"next"]).unwrap();
        assert_eq!(next.number(), u64::from(messages) + 1);
    }
}

fn both_ends_exchange_every_message<F: TestFabric>() {
    for first in 0..2 {
        exchange::<F>(Arrival::Flag, first);
        exchange::<F>(Arrival::CheckedFlag, first);
    }
}

#[test]
fn notified_messages_warm_up_too() {
    exchange::<Posted>(Arrival::Notify, 0);
}

fn the_first_end_begins<F: TestFabric>() {
    let plan = plan::<F>(Arrival::Flag);
    let mut t = One::<F>::new();
    let mut room = vec![0; plan.room_bytes()];
    let mut second = WarmUp::new(plan, false);
    assert_eq!(t.driver.drive_warm_up(&mut t.fabric, &mut second, &mut room), Drive::Idle);
    assert_eq!(t.sent(0).0, [0; 8]);
    let mut first = WarmUp::new(plan, true);
    assert_eq!(t.driver.drive_warm_up(&mut t.fabric, &mut first, &mut room), Drive::Moved);
    assert_ne!(t.sent(0).0, [0; 8]);
}

/// Does the first half of the exchanges as it should, for so many messages; then says what it likes.
fn misled<F: TestFabric>(is_first: bool, honest: u32, tag: u64, more: isize) -> Warmed {
    let mut t = Two::<F>::new();
    let plan = plan::<F>(Arrival::Flag);
    let mut warm_up = WarmUp::new(plan, is_first);
    let mut left = honest;
    let mut messages = plan.messages().into_iter().flat_map(|(bytes, count)| (0..count).map(move |_| bytes));
    let mut sends: Option<(SendOperation, Vec<u8>)> = None;
    let mut receives = RecvOperation::new();
    let mut is_sending = !is_first;
    let mut bytes = messages.next().unwrap() as usize;
    for _ in 0..200_000 {
        match t.warm(0, &mut warm_up) {
            Drive::Idle | Drive::Moved => {}
            done => return done,
        }
        let peer = &mut t.ends[1];
        peer.progress(&mut t.fabric);
        let is_half_done = if is_sending {
            let (send, message) = sends.get_or_insert_with(|| {
                let (tag, bytes) = if left == 0 { (tag, bytes.strict_add_signed(more)) } else { (0, bytes) };
                (SendOperation::new(tag, bytes), vec![1; bytes])
            });
            let sent = peer.drive_send(&mut t.fabric, send, &[message]);
            matches!(sent, Drive::Done(_)) && sends.take().is_some()
        } else {
            let received = peer.drive_recv(&mut t.fabric, &mut receives, &mut [&mut vec![0; bytes]]);
            let is_done = received != Drive::Idle && received != Drive::Moved;
            if is_done {
                assert_eq!(received, Drive::Done(Ok(taken(0, bytes))));
                receives = RecvOperation::new();
            }
            is_done
        };
        if is_half_done {
            if is_sending == is_first {
                left = left.saturating_sub(1);
                bytes = messages.next().unwrap_or(0) as usize;
            }
            is_sending = !is_sending;
        }
    }
    panic!("stuck");
}

fn a_peer_that_sends_something_else_is_out_of_turn<F: TestFabric>() {
    let messages: u32 = plan::<F>(Arrival::Flag).messages().iter().map(|(_, count)| count).sum();
    for is_first in [false, true] {
        for honest in 0..messages {
            assert_eq!(misled::<F>(is_first, honest, 1, 0), OUT_OF_TURN, "another tag");
            assert_eq!(misled::<F>(is_first, honest, 0, 1), OUT_OF_TURN, "a longer message");
            assert_eq!(misled::<F>(is_first, honest, 0, -1), OUT_OF_TURN, "a shorter message");
        }
        assert_eq!(misled::<F>(is_first, messages, 0, 0), Drive::Done(Ok(())));
    }
}

fn a_peer_that_rejects_is_told_of<F: TestFabric>() {
    let mut t = Two::<F>::new();
    let mut warm_up = WarmUp::new(plan::<F>(Arrival::Flag), true);
    for _ in 0..20_000 {
        t.ends[1].reject(&mut t.fabric, Reason(5));
        t.ends[1].progress(&mut t.fabric);
        match t.warm(0, &mut warm_up) {
            Drive::Idle | Drive::Moved => {}
            done => {
                assert_eq!(done, Drive::Done(Err(WarmUpFailed::Rejected(Reason(5)))));
                assert_eq!(t.warm(0, &mut warm_up), OUT_OF_TURN, "it has ended");
                return;
            }
        }
    }
    panic!("stuck");
}

fn a_peer_that_gives_up_is_told_of<F: TestFabric>() {
    let mut t = Two::<F>::new();
    let mut warm_up = WarmUp::new(plan::<F>(Arrival::Flag), false);
    let mut send = SendOperation::new(0, 1200);
    assert_eq!(t.drive_send(1, &mut send, &[&[1; 1200]]), Drive::Moved);
    for _ in 0..1000 {
        assert!(matches!(t.warm(0, &mut warm_up), Drive::Idle | Drive::Moved));
    }
    t.ends[1].cancel_send(&mut t.fabric, &mut send, Reason(5));
    for _ in 0..20_000 {
        t.ends[1].progress(&mut t.fabric);
        match t.warm(0, &mut warm_up) {
            Drive::Idle | Drive::Moved => {}
            done => return assert_eq!(done, Drive::Done(Err(WarmUpFailed::Cancelled(Reason(5))))),
        }
    }
    panic!("stuck");
}

fn a_closed_connection_warms_nothing_up<F: TestFabric>() {
    let plan = plan::<F>(Arrival::Flag);
    let mut t = One::<F>::new();
    t.driver.close(&mut t.fabric, Reason(5));
    let mut room = vec![0; plan.room_bytes()];
    let mut warm =
        |is_first| t.driver.drive_warm_up(&mut t.fabric, &mut WarmUp::new(plan, is_first), &mut room);
    assert_eq!(warm(true), Drive::Done(Err(WarmUpFailed::Closed)));
    assert_eq!(warm(false), Drive::Idle, "the wait tells that it is closed");
}

fn a_room_that_is_too_small_is_no_panic<F: TestFabric>() {
    let plan = plan::<F>(Arrival::Flag);
    let mut t = One::<F>::new();
    let mut warm_up = WarmUp::new(plan, true);
    assert_eq!(t.driver.drive_warm_up(&mut t.fabric, &mut warm_up, &mut [0; 9]), OUT_OF_TURN);
}
