//! Half-open connections that are driven side by side, without a thread and without waiting.

use super::*;
use crate::fabric::shm::foreign::allocated_bytes;
use crate::os::MemoryNode;
use crate::os::poll::poll_now;
use superpipe_core::Protocol;
use superpipe_core::driver::setup::{Defaults, LandingMode};

const DEADLINE_NS: u64 = 5_000_000_000;

fn options(tuning: &Tuning) -> ShmOptions<'_> {
    ShmOptions {
        tuning,
        landing_bytes_max: 64 << 20,
        idle_timeout_ns: 30_000_000_000,
        memory_node: MemoryNode::Auto,
        deadline_ns: DEADLINE_NS,
    }
}

/// Both ends of a connection.
fn pair(tuning: &Tuning) -> [HalfOpen; 2] {
    let (one, other) = Socket::pair().unwrap();
    [HalfOpen::connect(one, &options(tuning), 0), HalfOpen::accept(other, &options(&Tuning::default()), 0)]
}

#[test]
fn one_thread_drives_several_handshakes() {
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
            Progress::Done(established) => {
                done.push(established);
                false
            }
            Progress::Failed(error) => panic!("{error}"),
        });
        if ends.is_empty() {
            break;
        }
    }
    assert_eq!(done.len(), 6);
    assert!(done.iter().all(|end| end.negotiated == done[0].negotiated && end.serves));
}

#[test]
fn the_share_of_the_budget_is_what_both_ends_provision() {
    let with_small = Tuning { protocol: Some(Protocol::Provision), ..Tuning::default() };
    let [at_connect, on_demand] = [LandingMode::AtConnect, LandingMode::OnDemand]
        .map(|landing| Tuning { landing: Some(landing), ..Tuning::default() });
    for (tuning, bytes) in [(at_connect, 532 << 10), (on_demand, 4096), (with_small, 2 * 4096)] {
        let negotiated = Defaults::SHM.negotiate(&tuning, &Tuning::default()).unwrap();
        let Own { segment, share, .. } = provision(&negotiated, MemoryNode::Auto).unwrap();
        assert_eq!(share.bytes(), 2 * bytes);
        assert_eq!(allocated_bytes(segment.fd()), bytes);
    }
}

#[test]
fn a_packet_and_the_end_of_the_peer_make_it_ready() {
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
fn a_silent_peer_fails_the_handshake_at_the_deadline() {
    type Begin = fn(Socket, &ShmOptions<'_>, u64) -> HalfOpen;
    for begin in [HalfOpen::connect as Begin, HalfOpen::accept] {
        let (socket, _silent) = Socket::pair().unwrap();
        let mut end = begin(socket, &options(&Tuning::default()), 0);
        assert!(matches!(end.drive(DEADLINE_NS - 1), Progress::Pending));
        let Progress::Failed(error) = end.drive(DEADLINE_NS) else { panic!("it is over") };
        assert_eq!(error, SocketError::TimedOut.into());
        assert!(matches!(end.drive(DEADLINE_NS), Progress::Pending), "there is nothing more to drive");
    }
}
