//! Half-open connections that are driven side by side, without a thread and without waiting.

use super::*;
use crate::os::poll::poll_now;
use superpipe_core::FlagPlace;

const DEADLINE_NS: u64 = 5_000_000_000;

fn wishes(tuning: &Tuning) -> Wishes<'_> {
    Wishes { tuning, landing_bytes_max: 64 << 20, deadline_ns: DEADLINE_NS }
}

/// Both ends of a connection.
fn pair(tuning: &Tuning) -> [HalfOpen; 2] {
    let (one, other) = Socket::pair().unwrap();
    [HalfOpen::connect(one, &wishes(tuning), 0), HalfOpen::accept(other, &wishes(&Tuning::default()), 0)]
}

#[test]
fn several_handshakes_go_side_by_side_in_one_thread() {
    let tuning = Tuning { landing_bytes: Some(64 << 10), ..Tuning::default() };
    let mut ends: Vec<HalfOpen> = (0..3).flat_map(|_| pair(&tuning)).collect();
    let mut done = Vec::new();
    for round in 0.. {
        assert!(round < 10, "a handshake takes as many turns as it has packets");
        ends.retain_mut(|end| match end.drive(round) {
            Progress::Pending => {
                assert_eq!(end.timeout_ns(), DEADLINE_NS);
                true
            }
            Progress::Done(agreed) => {
                done.push(agreed);
                false
            }
            Progress::Failed(error) => panic!("{error}"),
        });
        if ends.is_empty() {
            break;
        }
    }
    assert_eq!(done.len(), 6);
    assert!(done.iter().all(|agreed| agreed.settled == done[0].settled && agreed.serves));
}

#[test]
fn the_share_of_the_budget_is_both_segments() {
    let layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
    let Own { segment, share } = provision(layout).unwrap();
    assert_eq!(share.bytes(), u64::from(segment_bytes(layout)) * 2);
    assert!(segment.len() >= segment_bytes(layout) as usize);
}

#[test]
fn a_half_open_end_is_worth_a_look_when_its_peer_has_spoken_or_is_gone() {
    let [mut connecting, mut accepting] = pair(&Tuning::default());
    assert!(matches!(accepting.drive(0), Progress::Pending));
    assert!(!poll_now(&mut [accepting.interest()]));
    assert!(matches!(connecting.drive(0), Progress::Pending));
    assert!(poll_now(&mut [accepting.interest()]));
    assert!(matches!(accepting.drive(1), Progress::Pending));
    assert!(!poll_now(&mut [accepting.interest()]));
    drop(connecting);
    assert!(poll_now(&mut [accepting.interest()]));
    let Progress::Failed(error) = accepting.drive(2) else { panic!("it is gone") };
    assert_eq!(error, SocketError::Closed.into());
}

#[test]
fn silence_ends_at_the_deadline_and_not_before() {
    type Begin = fn(Socket, &Wishes<'_>, u64) -> HalfOpen;
    for begin in [HalfOpen::connect as Begin, HalfOpen::accept] {
        let (socket, _silent) = Socket::pair().unwrap();
        let mut end = begin(socket, &wishes(&Tuning::default()), 0);
        assert!(matches!(end.drive(DEADLINE_NS - 1), Progress::Pending));
        let Progress::Failed(error) = end.drive(DEADLINE_NS) else { panic!("it is over") };
        assert_eq!(error, SocketError::TimedOut.into());
        assert!(matches!(end.drive(DEADLINE_NS), Progress::Pending), "there is nothing more to drive");
    }
}
