//! Registrations that fail, and a device that fails: a message comes in blocks, or its memory comes back.

use superpipe_core::driver::Drive;
use superpipe_core::{Protocol, Reason, WcError};
use superpipe_testkit::PairFabric;

use super::{ARRIVALS, ROUNDS, Terms, Two, payload};

#[test]
fn a_refused_registration_makes_it_slower_and_no_failure() {
    for arrival in ARRIVALS {
        for (fail_one_in, seeds) in [(1, 10), (2, 100), (3, 100)] {
            let mut remote = [0; 2];
            for seed in 0..seeds {
                let mut t = Two::new(&Terms { fail_one_in, ..Terms::new(arrival, seed) });
                for (number, bytes) in [3000, 2000, 5000].into_iter().enumerate() {
                    let is_remote = t.carry(number % 2, 7, &payload(bytes, number));
                    remote[usize::from(is_remote)] += 1;
                }
                t.settle();
                assert!(t.fabric.is_quiescent());
                assert_eq!([t.closed(0), t.closed(1)], [None; 2], "{arrival:?} {seed}");
            }
            assert!(remote[0] > 0 && (fail_one_in == 1) == (remote[1] == 0), "{arrival:?}: {remote:?}");
        }
    }
}

#[test]
fn a_work_request_that_fails_gives_the_memory_back() {
    let error = WcError { status: 12, vendor_err: 0 };
    for arrival in ARRIVALS {
        for seed in 0..150 {
            let terms = Terms { chunk_bytes: 700, protocol: Protocol::Register, ..Terms::new(arrival, seed) };
            let mut t = Two::new(&terms);
            let mut out = t.outgoing(0, 7, &payload(4000, 1));
            let mut place = t.incoming(1, 4000);
            let side = usize::from(seed % 4 == 0);
            for round in 0..ROUNDS {
                if round as u64 == seed {
                    t.fabric.fail_next(side, error);
                }
                if t.send(0, &mut out) & t.receive(1, &mut place)
                    || t.closed(0).is_some() && t.closed(1).is_some()
                {
                    break;
                }
                t.round();
            }
            let Two { fabric, ends, .. } = &mut t;
            ends[0].cancel_send(fabric, &mut out.op, Reason::GIVEN_UP);
            ends[1].cancel_recv(fabric, &mut place.op, Reason::GIVEN_UP);
            for _ in 0..ROUNDS {
                if t.ends[0].is_send_released(&out.op) && t.ends[1].is_recv_released(&place.op) {
                    break;
                }
                t.round();
            }
            let result = t.sent(out);
            let (_, bytes, _) = t.received(1, place);
            assert!(bytes.is_empty() || bytes == payload(4000, 1), "{arrival:?} {seed}: {result:?}");
        }
    }
}

/// The application stops in the middle, and drives its operation on after a while.
#[test]
fn an_idle_end_can_go_on() {
    for arrival in ARRIVALS {
        let mut t = Two::new(&Terms::new(arrival, 11));
        let mut out = t.outgoing(0, 7, &payload(3000, 1));
        let mut place = t.incoming(1, 3000);
        let mut sends = true;
        for round in 0..ROUNDS {
            // Long pauses of either end in turn.
            sends ^= round % 50 == 0;
            let over = if sends { t.send(0, &mut out) } else { t.receive(1, &mut place) };
            if over && out.result.is_some() && place.result.is_some() {
                break;
            }
            t.round();
        }
        assert_eq!(out.result, Some(Ok(())), "{arrival:?}");
        let driven = t.ends[0].drive_send(&mut t.fabric, &mut out.op, &[&out.payload]);
        assert!(matches!(driven, Drive::Done(Err(_))), "it has ended: {driven:?}");
        let (_, bytes, is_remote) = t.received(1, place);
        assert!(is_remote && bytes == payload(3000, 1));
    }
}
