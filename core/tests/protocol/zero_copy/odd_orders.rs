//! Calls in odd orders: operations that are forgotten, replaced, cancelled twice, rejected or closed in between, by ends of which either may
//! stop at any time, or break a rule. Memory always comes back, and no end accuses one that keeps the rules.

use proptest::prelude::*;
use superpipe_core::driver::{Drive, RecvOperation, SendOperation};
use superpipe_core::{Arrival, Closed, Failure, Notification, Protocol, Reason};
use superpipe_testkit::TestFabric;

use super::{Incoming, Outgoing, ROUNDS, Terms, Two, payload};

const WHY: Reason = Reason(77);
const ROOM: usize = 4000;

/// What one end has under way. Operations that were replaced are kept, since their memory must come back as well.
#[derive(Default)]
struct Side {
    out: Vec<Outgoing>,
    place: Vec<Incoming>,
}

impl Side {
    /// Returns the newest operation that sends, or a new one.
    fn out(&mut self, t: &mut Two, side: usize, bytes: usize) -> &mut Outgoing {
        if self.out.last().is_none_or(|out| out.result.is_some()) {
            self.out.push(t.outgoing(side, bytes as u64, &payload(bytes, 0)));
        }
        self.out.last_mut().unwrap()
    }

    fn place(&mut self, t: &mut Two, side: usize) -> &mut Incoming {
        if self.place.last().is_none_or(|place| place.result.is_some()) {
            self.place.push(t.incoming(side, ROOM));
        }
        self.place.last_mut().unwrap()
    }

    fn play(&mut self, t: &mut Two, side: usize, act: u8, number: usize) {
        let bytes = [30, 500, 601, 900, 2000, 4000][number % 6];
        match act {
            0..=9 => {
                let out = self.out(t, side, bytes);
                t.send(side, out);
            }
            10..=19 => {
                let place = self.place(t, side);
                if t.receive(side, place) {
                    check(t, side, place);
                }
            }
            20 => {
                let out = self.out(t, side, bytes);
                t.ends[side].cancel_send(&mut t.fabric, &mut out.op, WHY);
            }
            21 => {
                let place = self.place(t, side);
                t.ends[side].cancel_recv(&mut t.fabric, &mut place.op, WHY);
            }
            22 => {
                let place = self.place(t, side);
                t.ends[side].release_recv(&mut t.fabric, &mut place.op, WHY);
            }
            23 => drop(t.ends[side].try_peek(&mut t.fabric)),
            24 => drop(t.ends[side].reject(&mut t.fabric, WHY)),
            25 => {
                let mut small = vec![0; bytes];
                if let Ok(Some(received)) = t.ends[side].try_recv(&mut t.fabric, &mut [&mut small]) {
                    assert!(small[..received.bytes] == payload(received.bytes, 0), "{received:?}");
                }
            }
            26 => drop(t.ends[side].try_send(&mut t.fabric, 30, &[&payload(30, 0)])),
            // The newest ones are forgotten, and others take their places.
            27 => self.out.push(t.outgoing(side, bytes as u64, &payload(bytes, 0))),
            28 => self.place.push(t.incoming(side, ROOM)),
            29 => {
                // An older one is driven on.
                if let Some(place) = self.place.first_mut().filter(|it| it.result.is_none())
                    && t.receive(side, place)
                {
                    check(t, side, place);
                }
            }
            30 => {
                if let Some(out) = self.out.first_mut() {
                    t.send(side, out);
                }
            }
            31 => t.ends[side].endpoint_mut().send_keepalive(&mut t.fabric),
            32 => t.fabric.hold_jobs(number.is_multiple_of(2)),
            33 => t.ends[side].set_protocol([Protocol::Register, Protocol::Superpipeline][number % 2]),
            34 if number.is_multiple_of(8) => {
                let reason = [Reason::DONE, WHY, Reason::GIVEN_UP][number % 3];
                t.ends[side].close(&mut t.fabric, reason);
            }
            // The peer breaks a rule: no control message and no chunk has this number.
            35 if number.is_multiple_of(8) => t.fabric.forge_notification(side, Notification(u32::MAX)),
            _ => {}
        }
    }
}

/// Checks a message that was received: its tag is its length.
fn check(t: &Two, side: usize, place: &Incoming) {
    let Some(Ok(received)) = place.result else { return };
    let is_remote = t.ends[side].counters().remote_bytes_received > place.remote_bytes;
    let memory = t.fabric.lent(place.buffer);
    let expected = payload(received.bytes, 0);
    assert_eq!(received.tag, received.bytes as u64);
    let is_there = |bytes: &[u8]| bytes[..received.bytes] == expected;
    assert!(is_there(&place.place) || is_remote && is_there(memory), "{received:?}");
}

fn is_accused(t: &Two) -> bool {
    t.ends.iter().any(|end| matches!(end.endpoint().closed(), Some(Closed::Failed(Failure::Protocol(_)))))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn odd_orders_of_calls_keep_no_memory(
        arrival in prop::sample::select(vec![Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify]),
        seed: u64,
        fail_one_in in prop_oneof![2 => Just(0usize), 1 => 2..=4usize],
        send_queue in 1..=5usize,
        plays in prop::collection::vec((0..2usize, 0..37u8, 0..64usize, 1..12u8), 1..150),
        stopped in prop::collection::vec(0..4u8, 1..10),
        dies: bool,
    ) {
        let terms = Terms { send_queue, chunk_bytes: 700, fail_one_in, ..Terms::new(arrival, seed) };
        let mut t = Two::new(&terms);
        let mut sides: [Side; 2] = Default::default();
        let is_forged = plays.iter().any(|(_, act, draw, _)| *act == 35 && draw.is_multiple_of(8));
        for (number, (side, act, draw, times)) in plays.iter().copied().enumerate() {
            for _ in 0..times {
                sides[side].play(&mut t, side, act, draw);
                let stopped = stopped[number / 16 % stopped.len()];
                for end in 0..2 {
                    if stopped != 1 + u8::try_from(end).unwrap() {
                        t.ends[end].progress(&mut t.fabric);
                    }
                }
                t.fabric.step();
                if act >= 20 { break; }
            }
            prop_assert!(is_forged || !is_accused(&t), "{number}: {:?}", [t.closed(0), t.closed(1)]);
        }
        t.fabric.hold_jobs(false);
        if dies {
            t.fabric.end_link();
            t.ends.iter_mut().for_each(|end| end.note_peer_gone());
        }
        for (end, side) in sides.iter_mut().enumerate() {
            for out in &mut side.out {
                t.ends[end].cancel_send(&mut t.fabric, &mut out.op, WHY);
            }
            for place in &mut side.place {
                t.ends[end].cancel_recv(&mut t.fabric, &mut place.op, WHY);
            }
        }
        let are_released = |t: &Two, sides: &[Side; 2]| (0..2).all(|end| {
            sides[end].out.iter().all(|out| t.ends[end].is_send_released(&out.op))
                && sides[end].place.iter().all(|place| t.ends[end].is_recv_released(&place.op))
        });
        for _ in 0..ROUNDS {
            if are_released(&t, &sides) {
                break;
            }
            if t.fabric.has_ended() {
                // The device of the other end notices.
                t.ends.iter_mut().for_each(|end| end.note_peer_gone());
            }
            t.round();
        }
        prop_assert!(are_released(&t, &sides), "{:?}", t.ends);
        prop_assert!(is_forged || !is_accused(&t));
        for side in sides {
            for out in side.out {
                t.fabric.take_back(out.buffer);
            }
            for place in side.place {
                t.fabric.take_back(place.buffer);
            }
        }
        // A connection that goes on is as good as new.
        if !dies && !is_forged && t.ends.iter().all(|end| end.endpoint().closed().is_none()) && !t.fabric.has_ended() {
            t.fabric.fail_registrations(0);
            t.ends.iter_mut().for_each(|end| end.set_protocol(Protocol::Register));
            for end in 0..2 {
                drain(&mut t, end);
            }
            for end in 0..2 {
                prop_assert!(t.carry(end, 9, &payload(2000, 2)));
            }
        }
    }
}

/// Takes and rejects what one end has left for the other, up to a message of its own.
fn drain(t: &mut Two, side: usize) {
    let (mut last, mut is_sent) = (SendOperation::new(1, 3), false);
    let (mut op, mut place) = (RecvOperation::new(), [0; 40]);
    for _ in 0..ROUNDS {
        if !is_sent {
            let driven = t.ends[side].drive_send(&mut t.fabric, &mut last, &[b"end"]);
            is_sent = matches!(driven, Drive::Done(_));
        }
        match t.ends[1 - side].drive_recv(&mut t.fabric, &mut op, &mut [&mut place]) {
            Drive::Done(Ok(received)) if received.tag == 1 => return,
            Drive::Done(driven) => {
                if driven.is_err() {
                    t.ends[1 - side].reject(&mut t.fabric, WHY);
                }
                op = RecvOperation::new();
            }
            Drive::Moved | Drive::Idle => {}
        }
        t.round();
    }
    panic!("stuck: {is_sent} {:?}", t.ends);
}
