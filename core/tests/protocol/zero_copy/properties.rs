//! Whole connections with messages of both directions by remote writes: sizes, arrival modes, refused registrations, cancels at any moment,
//! ends that stop for a while, and counts near their wraps.

use proptest::prelude::*;
use superpipe_core::driver::{Drive, Received, RecvFailed, RecvOperation, SendFailed, SendOperation};
use superpipe_core::{Arrival, Closed, Origin, Protocol, Reason};
use superpipe_testkit::PairFabric;

use super::{Incoming, Outgoing, ROUNDS, Terms, Two, payload};

const WHY: Reason = Reason(77);

/// A message, and what its ends do.
#[derive(Clone, Copy, Debug)]
struct Plan {
    bytes: usize,
    /// The ends lend memory.
    lends: [bool; 2],
    /// The sender cancels after so many of its turns.
    cancels_after: Option<usize>,
}

prop_compose! {
    fn plan()(
        bytes in prop_oneof![1 => 0..=700usize, 3 => 601..=9000usize],
        lends in (prop::bool::weighted(0.9), prop::bool::weighted(0.9)),
        cancels_after in prop::option::weighted(0.2, 0..=60usize),
    ) -> Plan {
        Plan { bytes, lends: [lends.0, lends.1], cancels_after }
    }
}

prop_compose! {
    fn terms()(
        arrival in prop::sample::select(vec![Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify]),
        chunk_bytes in prop_oneof![Just(0u32), 1..=3000u32],
        send_queue in 1..=5usize,
        fail_one_in in prop_oneof![2 => Just(0usize), 1 => 1..=4usize],
        seed: u64,
        near in 0..=6u64,
        wraps: bool,
    ) -> Terms {
        let before = u64::MAX - near;
        let wrapped =
            Origin { sequence: before, blocks: before, controls: before, transfers: before, ..Origin::default() };
        let origin = if wraps { wrapped } else { Origin::default() };
        Terms { arrival, protocol: Protocol::Register, chunk_bytes, send_queue, fail_one_in, seed, origin }
    }
}

/// One direction: what is being sent and received, and which message each is.
#[derive(Default)]
struct Direction {
    out: Option<Outgoing>,
    place: Option<Incoming>,
    sent: usize,
    turns: usize,
    /// Results of the sender by message.
    results: Vec<Result<(), SendFailed>>,
    /// Messages that the receiver has passed.
    received: usize,
}

impl Direction {
    /// Returns true if every message was sent, and those that were sent to their end have come.
    fn is_over(&self, plans: &[Plan]) -> bool {
        let upto = self.results.iter().rposition(Result::is_ok).map_or(0, |last| last + 1);
        self.results.len() == plans.len() && self.out.is_none() && self.received >= upto
    }

    fn send(&mut self, t: &mut Two, side: usize, plans: &[Plan]) {
        let Some(plan) = plans.get(self.sent) else { return };
        let mut out = self.out.take().unwrap_or_else(|| {
            let mut out = t.outgoing(side, self.sent as u64, &payload(plan.bytes, self.sent));
            if !plan.lends[0] {
                out.op = SendOperation::new(self.sent as u64, plan.bytes);
            }
            out
        });
        self.turns += 1;
        if plan.cancels_after == Some(self.turns) && out.result.is_none() {
            t.ends[side].cancel_send(&mut t.fabric, &mut out.op, WHY);
            out.result = Some(Err(SendFailed::NotOpen));
        }
        if !t.send(side, &mut out) || !t.ends[side].is_send_released(&out.op) {
            self.out = Some(out);
            return;
        }
        self.results.extend(t.sent(out));
        (self.sent, self.turns) = (self.sent + 1, 0);
    }

    /// Receives, and compares with what was sent.
    fn receive(&mut self, t: &mut Two, side: usize, plans: &[Plan]) {
        let mut place = self.place.take().unwrap_or_else(|| {
            let mut place = t.incoming(side, 9000);
            if !plans.get(self.received).is_some_and(|plan| plan.lends[1]) {
                place.op = RecvOperation::new();
            }
            place
        });
        if !t.receive(side, &mut place) {
            self.place = Some(place);
            return;
        }
        match t.received(side, place) {
            (Some(Ok(Received { tag, bytes })), got, _) => {
                let number = usize::try_from(tag).unwrap();
                assert!(number >= self.received, "message {number} came twice");
                assert!(
                    got == payload(plans[number].bytes, number),
                    "message {number}: {bytes} bytes differ"
                );
                self.received = number + 1;
            }
            (Some(Err(RecvFailed::Cancelled(why))), ..) => assert_eq!(why, WHY),
            other => panic!("{other:?}"),
        }
    }
}

/// Rounds within which all is over: an end may take one turn in sixteen, and a queue of one posted send moves one chunk a turn.
fn limit(terms: &Terms, plans: &[Vec<Plan>; 2]) -> usize {
    let chunk = (terms.chunk_bytes as usize).max(1);
    let chunks = |plan: &Plan| if terms.chunk_bytes == 0 { 1 } else { plan.bytes / chunk + 1 };
    200_000 + 32 * plans.iter().flatten().map(chunks).sum::<usize>()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_whole_or_was_cancelled(
        terms in terms(),
        plans in (prop::collection::vec(plan(), 0..=5), prop::collection::vec(plan(), 0..=5)),
        pauses in prop::collection::vec(0..=7u8, 1..=8),
    ) {
        let plans = [plans.0, plans.1];
        let mut t = Two::new(&terms);
        let mut ways: [Direction; 2] = Default::default();
        for round in 0..limit(&terms, &plans) {
            // Nobody stops for ever.
            let does = if round % 16 == 0 { 0 } else { pauses[(round / 37) % pauses.len()] };
            for (side, way) in ways.iter_mut().enumerate() {
                if does & 1 << side == 0 {
                    way.send(&mut t, side, &plans[side]);
                }
                if does & 4 == 0 {
                    way.receive(&mut t, 1 - side, &plans[side]);
                }
            }
            t.round();
            if round % 512 == 0 && (0..2).all(|side| ways[side].is_over(&plans[side])) {
                break;
            }
        }
        for (side, way) in ways.iter_mut().enumerate() {
            prop_assert!(way.is_over(&plans[side]), "stuck: {:?} {} {:?}", way.results, way.received, t.ends);
            // A message that was cancelled may still be under way, and its notification is taken with it.
            for round in 0..ROUNDS {
                if round > 3000 && way.place.as_ref().is_none_or(|place| t.ends[1 - side].is_recv_released(&place.op)) {
                    break;
                }
                way.receive(&mut t, 1 - side, &plans[side]);
                t.round();
            }
            if let Some(place) = way.place.take() {
                t.fabric.take_back(place.buffer);
            }
        }
        for side in 0..2 {
            let closed: Option<Closed> = t.closed(side);
            prop_assert_eq!(closed, None);
        }
        for _ in 0..ROUNDS {
            if t.fabric.is_quiescent() {
                break;
            }
            t.turn();
        }
        prop_assert!(t.fabric.is_quiescent());
    }
}

/// The plans above make messages go by remote writes, or they would prove nothing.
#[test]
fn the_harness_sends_remotely() {
    let mut t = Two::new(&Terms::new(Arrival::Flag, 1));
    let plans = [Plan { bytes: 3000, lends: [true; 2], cancels_after: None }];
    let mut way = Direction::default();
    for _ in 0..5000 {
        way.send(&mut t, 0, &plans);
        way.receive(&mut t, 1, &plans);
        t.round();
    }
    assert_eq!((way.results, way.received), (vec![Ok(())], 1));
    assert_eq!(t.ends[1].counters().remote_bytes_received, 3000);
    assert!(matches!(
        t.ends[0].drive_send(&mut t.fabric, &mut SendOperation::new(7, 3), &[b"end"]),
        Drive::Done(Ok(()))
    ));
}
