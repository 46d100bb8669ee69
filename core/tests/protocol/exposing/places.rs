//! Places: exposed, refused, withdrawn and used again.

use superpipe_core::driver::Drive;
use superpipe_core::{Arrival, ExposedState, Origin, Protocol};

use super::{ARRIVALS, Two, payload};

#[test]
fn until_it_is_mapped_messages_go_through_the_ring() {
    for arrival in ARRIVALS {
        let mut t = Two::new(arrival);
        let memory = payload(3000, 1);
        let (exposed, _) = t.expose(0, memory.clone());
        let exposed = exposed.unwrap();
        assert_eq!(t.state(0, exposed), ExposedState::Pending);
        let (_, driven) = t.try_send(0, 7, (exposed, 0), &memory);
        assert!(matches!(driven, Drive::Moved | Drive::Idle), "it is not sent at once: {driven:?}");
        assert!(!t.is_shared(0, exposed));
    }
}

#[test]
fn a_refused_memory_keeps_its_place_until_it_is_withdrawn() {
    for seed in 0..40 {
        let mut t = Two::with(Arrival::Flag, [Protocol::RegisterCached; 2], seed, Origin::default());
        t.fabric.fail_exposing(2);
        let memory = payload(3000, 1);
        let mut seen = [0; 2];
        for _ in 0..20 {
            let (exposed, _) = t.exposed(0, memory.clone());
            let state = t.state(0, exposed);
            let copied = t.carry(0, 7, (exposed, 0), &memory);
            match state {
                ExposedState::Ready => assert_eq!(copied, 3000),
                ExposedState::Refused => assert_eq!(copied, 0),
                ExposedState::Pending | ExposedState::Gone => panic!("{state:?}"),
            }
            seen[usize::from(copied > 0)] += 1;
            t.withdraw(0, exposed);
            assert_eq!(t.state(0, exposed), ExposedState::Gone);
            t.settle();
            assert_eq!(t.fabric.exposed().mapped(1), 0);
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
        let refused: u64 = t.ends[1].counters().maps_refused.iter().sum();
        assert!(refused <= seen[0]);
        assert_eq!([t.closed(0), t.closed(1)], [None; 2]);
    }
}

#[test]
fn there_are_eight_places() {
    let mut t = Two::new(Arrival::Flag);
    let memory = payload(3000, 1);
    let all: Vec<_> = (0..8).map(|_| t.expose(0, memory.clone()).0.unwrap()).collect();
    assert_eq!(t.expose(0, memory.clone()).0, None);
    t.settle();
    assert!(all.iter().all(|exposed| t.state(0, *exposed) == ExposedState::Ready));
    assert_eq!(t.ends[1].counters().mapped_bytes, 24_000);
    for exposed in &all {
        assert_eq!(t.carry(0, 7, (*exposed, 0), &memory), 3000);
    }
    t.withdraw(0, all[3]);
    assert_eq!(t.expose(0, memory.clone()).0, None, "WITHDRAWN is not acknowledged");
    t.settle();
    assert_eq!(t.fabric.exposed().mapped(1), 7);
    let (again, _) = t.exposed(0, memory);
    assert_eq!(t.state(0, again), ExposedState::Ready);
    assert_eq!((t.state(0, all[3]), t.is_shared(0, all[3])), (ExposedState::Gone, false));
}

#[test]
fn withdrawn_memory_is_unmapped_once_its_messages_are_taken() {
    for arrival in ARRIVALS {
        let mut t = Two::new(arrival);
        let memory = payload(3000, 1);
        let (exposed, _) = t.exposed(0, memory.clone());
        let (other, _) = t.exposed(0, payload(3000, 2));
        t.send(0, 1, (exposed, 0), &memory);
        t.send(0, 2, (exposed, 1), &memory[1..]);
        t.send(0, 3, (other, 0), &payload(3000, 2));
        t.withdraw(0, exposed);
        assert_eq!(t.state(0, exposed), ExposedState::Gone);
        t.settle();
        assert_eq!(t.fabric.exposed().mapped(1), 2, "messages that name it are on the way");
        assert!(t.is_shared(0, exposed));
        for (number, offset) in [(1, 0), (2, 1)] {
            assert_eq!(t.fabric.exposed().mapped(1), 2);
            let (received, bytes) = t.receive(1, 3000).unwrap();
            assert!(received.tag == number && bytes == memory[offset..]);
        }
        t.settle();
        assert_eq!(t.fabric.exposed().mapped(1), 1, "the message of the other memory waits");
        assert!(!t.is_shared(0, exposed) && t.is_shared(0, other));
        assert!(t.receive(1, 3000).is_some_and(|(received, _)| received.tag == 3));
        assert_eq!([t.closed(0), t.closed(1)], [None; 2]);
    }
}

/// A handle of memory that was withdrawn never names the memory that is exposed in its place.
#[test]
fn a_stale_handle_names_nothing() {
    let mut t = Two::new(Arrival::Flag);
    let [first, second] = [payload(3000, 1), payload(3000, 2)];
    let (stale, _) = t.exposed(0, first.clone());
    t.withdraw(0, stale);
    t.settle();
    let (exposed, _) = t.exposed(0, second.clone());
    assert_eq!((t.state(0, stale), t.state(0, exposed)), (ExposedState::Gone, ExposedState::Ready));
    assert_eq!(t.carry(0, 7, (stale, 0), &first), 0, "through the ring");
    t.send(0, 8, (exposed, 0), &second);
    assert!(t.is_shared(0, exposed) && !t.is_shared(0, stale));
    t.withdraw(0, stale);
    assert_eq!(t.state(0, exposed), ExposedState::Ready);
    assert!(t.receive(1, 3000).is_some_and(|(_, bytes)| bytes == second));
}

/// Whenever it is withdrawn, the peer maps nothing in the end, and the place can be used again.
#[test]
fn memory_can_be_withdrawn_at_any_moment() {
    for arrival in ARRIVALS {
        for seed in 0..30 {
            for rounds in 0..25 {
                let mut t = Two::with(arrival, [Protocol::RegisterCached; 2], seed, Origin::default());
                let memory = payload(3000, 1);
                let exposed = t.expose(0, memory.clone()).0.unwrap();
                for round in 0..rounds {
                    t.ends[usize::from(round % 3 == 0)].progress(&mut t.fabric);
                }
                let sent = t.try_send(0, 7, (exposed, 0), &memory);
                t.withdraw(0, exposed);
                assert_eq!(t.state(0, exposed), ExposedState::Gone);
                t.finish(0, 7, sent, &memory);
                t.settle();
                assert_eq!(t.fabric.exposed().mapped(1), 0, "{seed} {rounds}");
                assert!(!t.is_shared(0, exposed));
                let all = (0..8).filter(|_| t.expose(0, memory.clone()).0.is_some()).count();
                assert_eq!(all, 8, "{seed} {rounds}: every place is free");
                t.settle();
                assert_eq!(t.fabric.exposed().mapped(1), 8);
                assert_eq!([t.closed(0), t.closed(1)], [None; 2]);
            }
        }
    }
}

#[test]
fn no_memory_is_exposed_by_another_protocol() {
    for protocol in Protocol::ALL {
        let mut t = Two::with(Arrival::Flag, [protocol; 2], 1, Origin::default());
        let is_exposed = t.expose(0, payload(3000, 1)).0.is_some();
        let is_wanted = matches!(protocol, Protocol::RegisterCached | Protocol::Auto);
        assert_eq!(is_exposed, is_wanted, "{protocol}");
    }
}
