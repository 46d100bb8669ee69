//! Landing buffers that grow, shrink and are refused. wire.md 5.4, 5.5.

use super::*;

#[test]
fn messages_cross_while_landing_buffers_grow_and_shrink() {
    for arrival in MODES {
        let mut pair = Pair::of(arrival, Some(LARGEST));
        let first = pair.regions();
        for round in 0..3 {
            for (tag, bytes) in (0..).zip([0, 8, 41, 600, 2500, 9000, 100_000, 300_000, 41, 193, 600_000]) {
                pair.carry(0, tag, &payload(bytes));
                pair.carry(1, tag + 100, &payload(bytes));
            }
            pair.quiesce();
            assert_eq!(pair.grown(), [true, true], "{arrival:?} {round}");
            assert_eq!(pair.regions(), first.map(|count| count + 2), "a landing buffer and an image each");
            pair.shrink();
            // The senders move with the next chunk.
            pair.carry(0, 7, &payload(100));
            pair.carry(1, 7, &payload(100));
            pair.quiesce();
            assert_eq!((pair.grown(), pair.regions()), ([false, false], first), "{arrival:?} {round}");
        }
        let moves = pair.sides.each_ref().map(|side| side.driver.endpoint().counters().moves);
        assert!(moves.iter().all(|moves| *moves >= 6), "{moves:?}");
        assert!(pair.are_open());
    }
}

#[test]
fn an_end_does_not_sleep_while_its_jobs_run() {
    let mut pair = Pair::of(Arrival::Notify, Some(LARGEST));
    pair.settle();
    assert_eq!(pair.begin_sleep(1), Ok(SECOND_NS));
    pair.end_sleep(1, Polled::TimedOut, false, false);
    let mut send = SendOperation::new(1, 100_000);
    let message = payload(100_000);
    for _ in 0..1000 {
        let sent = pair.on(0, |driver, fabric| driver.drive_send(fabric, &mut send, &[&message]));
        assert!(!matches!(sent, Drive::Done(_)), "nobody receives it");
        pair.on(0, |driver, fabric| driver.progress(fabric));
        pair.on(1, |driver, fabric| driver.progress(fabric));
        if pair.link(1).memory.growth.as_ref().unwrap().has_jobs() {
            assert_eq!(pair.begin_sleep(1), Err(SleepEnd::Poll));
            assert!(pair.link(1).sleepers.is_empty());
            return;
        }
    }
    panic!("no landing buffer was provisioned");
}

#[test]
fn memory_that_another_connection_wants_is_given_back() {
    // The budget is the process's.
    let test =
        "fabric::rdma::connection::played_tests::growing::memory_that_another_connection_wants_is_given_back";
    if !with_half_a_mebibyte(test) {
        return;
    }
    Budget::set_registered_max(8 << 20);
    let mut pair = Pair::of(Arrival::Flag, Some(LARGEST));
    pair.carry(0, 1, &payload(300_000));
    pair.quiesce();
    assert!(pair.grown()[1], "the receiver's");
    let tick = |pair: &mut Pair, ns| {
        pair.on(1, |driver, fabric| driver.tick(fabric, Nanos(ns)));
        pair.quiesce();
    };
    tick(&mut pair, SECOND_NS);
    assert!(pair.grown()[1]);
    // All that is lent has gone to these two and to another one, which wants more.
    let other = BudgetShare::open(MemoryKind::Registered, 0).unwrap();
    Budget::set_registered_max(4 * (Budget::registered_bytes() + 1) / 3);
    assert!(other.grow(64 << 10).is_err());
    tick(&mut pair, SECOND_NS + SECOND_NS / 100);
    assert!(!pair.grown()[1] && pair.are_open());
    assert_eq!(other.grow(64 << 10), Ok(()));
}

#[test]
fn a_device_that_refuses_growth_fails_no_message() {
    for (side, call) in [(0, "ibv_reg_mr"), (1, "ibv_reg_mr"), (0, "ibv_dereg_mr"), (1, "ibv_dereg_mr")] {
        let mut pair = Pair::of(Arrival::Notify, Some(LARGEST));
        pair.on(side, |_, _| answer(call, libc::ENOMEM));
        for round in 0..2 {
            for bytes in [9000, 100_000, 600_000] {
                pair.carry(0, 1, &payload(bytes));
                pair.carry(1, 2, &payload(bytes));
            }
            pair.quiesce();
            assert!(pair.are_open(), "{call} {side}");
            if call == "ibv_reg_mr" {
                assert_eq!(pair.grown(), [false, false], "no landing buffer there, no image for the other");
            } else if round == 0 {
                assert_eq!(pair.grown(), [true, true]);
            }
            pair.shrink();
        }
    }
}

#[test]
fn a_link_that_is_dropped_gives_everything_back_in_order() {
    let mut with_jobs = [0; 2];
    for rounds in 0..24 {
        let mut pair = Pair::of(Arrival::Notify, Some(LARGEST));
        let message = payload(100_000);
        let mut send = SendOperation::new(1, message.len());
        for _ in 0..rounds {
            let _ = pair.on(0, |driver, fabric| driver.drive_send(fabric, &mut send, &[&message]));
            for side in [0, 1] {
                pair.on(side, |driver, fabric| driver.progress(fabric));
            }
        }
        for (side, count) in with_jobs.iter_mut().enumerate() {
            *count += u32::from(pair.link(side).memory.growth.as_ref().unwrap().has_jobs());
        }
        for Side { driver, mut device, .. } in pair.sides {
            device.calls.clear();
            script(|script| swap(script, &mut device));
            drop(driver);
            assert!(script(|script| script.regions.is_empty()), "{rounds}");
            let calls = calls();
            let first = |name| calls.iter().position(|call| *call == name);
            let last = |name| calls.iter().rposition(|call| *call == name);
            assert!(first("ibv_destroy_qp") < first("ibv_dereg_mr"), "{rounds}: {calls:?}");
            assert!(last("ibv_dereg_mr") < first("ibv_dealloc_pd"), "{rounds}: {calls:?}");
        }
    }
    assert!(with_jobs.iter().all(|count| *count > 1), "jobs were under way: {with_jobs:?}");
}

/// End 0 asks for a landing buffer, has its image made, and gets no answer. The budget is that of the process.
fn unanswered() -> Pair {
    Budget::set_registered_max(8 << 20);
    let mut pair = Pair::of(Arrival::Flag, Some(LARGEST));
    let message = payload(100_000);
    let mut send = SendOperation::new(1, message.len());
    for _ in 0..100 {
        let sent = pair.on(0, |driver, fabric| driver.drive_send(fabric, &mut send, &[&message]));
        assert!(!matches!(sent, Drive::Done(_)), "nobody receives it");
        pair.on(0, |driver, fabric| driver.progress(fabric));
    }
    assert_eq!(Budget::registered_use().grown_bytes, 64 << 10, "the image");
    pair
}

#[test]
fn an_image_without_a_grant_is_given_back_if_others_wait() {
    let test = "fabric::rdma::connection::played_tests::growing::an_image_without_a_grant_is_given_back_if_others_wait";
    if !with_half_a_mebibyte(test) {
        return;
    }
    let mut pair = unanswered();
    let first = pair.regions();
    // All that is lent has gone to this image, and half of it is the fair share of another connection.
    let other = BudgetShare::open(MemoryKind::Registered, 0).unwrap();
    Budget::set_registered_max(4 * (Budget::registered_bytes() + 1) / 3);
    assert!(other.grow(64 << 10).is_err());
    pair.on(0, |driver, fabric| driver.tick(fabric, Nanos(SECOND_NS)));
    for _ in 0..100 {
        pair.on(0, |driver, fabric| driver.progress(fabric));
    }
    assert_eq!((Budget::registered_use().grown_bytes, pair.regions()[0]), (0, first[0] - 1));
    assert_eq!(other.grow(64 << 10), Ok(()));
    assert!(pair.are_open());
}
