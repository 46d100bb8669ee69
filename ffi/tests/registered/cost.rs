//! What registered buffers cost: descriptors, and the budget of both ends.

use std::time::Instant;

use superpipe::{
    Budget, Connection, ErrorKind, LandingMode, Listener, Options, Protocol, Registered, RegisteredBuf,
};

use crate::{
    C0, DEADLINE, LANDINGS, alone, await_helpers, await_that, buffer, descriptors, mapped_buffers, options,
    pair, pair_with, receive, register, settle, settled_descriptors,
};

const MIB: u64 = 1 << 20;

#[test]
fn a_connection_keeps_two_descriptors_per_end() {
    let _alone = alone();
    for landing in LANDINGS {
        let (mut a, mut b) = pair_with(options(Protocol::RegisterCached, landing));
        let source = buffer(1, 1 << 20);
        // The process's own, made by the first connection and the first job.
        assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
        drop((a, b, source));
        let before = settled_descriptors();
        let await_descriptors = |more, why| await_that(why, || descriptors() == before + more);
        let (mut a, mut b) = pair_with(options(Protocol::RegisterCached, landing));
        await_descriptors(4, "nothing else is open");
        let source = buffer(1, 1 << 20);
        assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
        await_descriptors(5, "that of the buffer, which its owner keeps");
        drop(source);
        await_descriptors(4, "it is closed");
        drop((a, b));
        await_descriptors(0, "nothing is open");
    }
}

#[test]
fn both_ends_count_a_buffer_while_it_is_exposed() {
    let _alone = alone();
    for landing in LANDINGS {
        let (mut a, mut b) = pair_with(options(Protocol::RegisterCached, landing));
        let before = Budget::shared_bytes();
        let source = buffer(1, (3 << 20) - 5);
        assert_eq!(Budget::shared_bytes(), before, "memory of the program");
        assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
        assert_eq!(Budget::shared_use().cached_bytes, 2 * 3 * MIB, "ours, and the mapping of the peer");
        assert_eq!(Budget::shared_bytes(), before + 2 * 3 * MIB);
        drop(source);
        await_that("both give it back", || {
            settle(&mut a, &mut b);
            Budget::shared_bytes() == before
        });
        let again = buffer(2, 1 << 20);
        assert_eq!(register(&mut a, &mut b, &again), Registered::Ready);
        drop((a, b));
        await_that("a connection that ends gives all back", || Budget::shared_bytes() == 0);
        assert_eq!(mapped_buffers(), 1, "the program's own");
    }
}

#[test]
fn without_room_in_the_budget_messages_go_through_the_ring() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(1, 4 << 20);
    // A quarter of the limit is not lent. The rest has no room for the owner's share, or none for that of the peer beside it.
    for room in [5 * MIB, 8 * MIB] {
        Budget::set_shared_max(room);
        assert_eq!(register(&mut a, &mut b, &source), Registered::Refused, "{room}");
        std::thread::scope(|scope| {
            scope.spawn(|| a.send_registered(7, &source, 0..C0 + 1, DEADLINE).unwrap());
            receive(&mut b, &source[..C0 + 1]);
        });
        assert_eq!(b.counters().exposed_bytes_received, 0);
        assert_eq!(Budget::shared_use().cached_bytes, 0, "a refused buffer is not counted");
    }
    Budget::set_shared_max(12 * MIB);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready, "asked for again");
}

#[test]
fn a_refused_buffer_is_tried_again_after_a_number_of_messages() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(1, 1 << 20);
    Budget::set_shared_max(1);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Refused);
    Budget::set_shared_max(1 << 30);
    let mut through_the_ring = 0;
    while b.counters().exposed_bytes_received == 0 {
        assert!(through_the_ring < 100, "it is tried again");
        through_the_ring += 1;
        await_helpers(through_the_ring > 70);
        std::thread::scope(|scope| {
            scope.spawn(|| a.send_registered(7, &source, 0..C0 + 1, DEADLINE).unwrap());
            receive(&mut b, &source[..C0 + 1]);
        });
        settle(&mut a, &mut b);
    }
    assert!(through_the_ring > 60, "not at once: {through_the_ring}");
}

/// Makes and ends another connection, for which there is room once this one gives memory back.
pub(crate) fn connect_beside(a: &mut Connection, b: &mut Connection) {
    let address = crate::address();
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(move || while listener.accept(DEADLINE).is_err() {});
        let connecting = scope.spawn(|| {
            while let Err(error) = Connection::connect(&address, Options::default(), DEADLINE) {
                assert!(matches!(error.kind(), ErrorKind::Limit | ErrorKind::Closed(_)), "{error}");
                assert!(begun.elapsed() < DEADLINE, "{error}");
            }
        });
        while !(accepting.is_finished() && connecting.is_finished()) {
            a.progress();
            b.progress();
        }
    });
}

#[test]
fn a_new_connection_gets_the_room_of_an_unshared_buffer() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(1, 4 << 20);
    Budget::set_shared_max(12 * MIB);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    // Both ends of another connection need 2 MiB, and have less.
    assert!(Budget::shared_bytes() > 10 * MIB);
    connect_beside(&mut a, &mut b);
    assert_eq!(Budget::shared_use().cached_bytes, 0, "it was withdrawn");
    Budget::set_shared_max(1 << 30);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
}

#[test]
fn a_buffer_of_another_protocol_costs_nothing() {
    let _alone = alone();
    let (mut a, mut b) = pair_with(options(Protocol::Superpipeline, LandingMode::AtConnect));
    let before = Budget::shared_bytes();
    let source = RegisteredBuf::new(1 << 20).unwrap();
    let error = a.register(&source, DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    assert!(error.to_string().contains("register-cached"), "{error}");
    std::thread::scope(|scope| {
        scope.spawn(|| a.send_registered(7, &source, 0..1 << 20, DEADLINE).unwrap());
        receive(&mut b, &source);
    });
    assert!(!a.is_shared(&source));
    assert_eq!((Budget::shared_bytes(), mapped_buffers()), (before, 1));
    assert_eq!(a.description().landing, LandingMode::AtConnect);
}
