//! Two honest ends that close: what was taken out is acknowledged before CLOSE, CLOSE is said once, and whoever sleeps is
//! woken by an acknowledgement.

use superpipe_core::{Closed, Config, End, Endpoint, FlagPlace, Layout, Length, Origin, Reason};
use superpipe_testkit::{Direct, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };

fn ends<F: TestFabric>() -> (F, [Endpoint<F>; 2]) {
    let fabric = F::new(&Setup::new(LAYOUT, 1));
    let end = |side| {
        let config = Config { c0_bytes: 600, ..Config::default() };
        Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap()
    };
    let ends = [end(0), end(1)];
    (fabric, ends)
}

fn settle<F: TestFabric>(fabric: &mut F, ends: &mut [Endpoint<F>; 2]) {
    for _ in 0..300 {
        for end in &mut *ends {
            end.progress(fabric);
        }
        fabric.step();
    }
}

fn take<F: TestFabric>(fabric: &mut F, ends: &mut [Endpoint<F>; 2], from: usize) {
    let mut place = [0; 600];
    let mut end = End::No;
    for _ in 0..300 {
        end = ends[from].pull(fabric, &mut [&mut place]).end;
        if end != End::No {
            break;
        }
        settle(fabric, ends);
    }
    assert_eq!(end, End::Fin);
}

fn what_was_taken_is_acknowledged_before_a_close<F: TestFabric>() {
    let (mut fabric, mut ends) = ends::<F>();
    ends[0].try_send(&mut fabric, 1, &[&[7; 8]]).unwrap();
    settle(&mut fabric, &mut ends);
    take(&mut fabric, &mut ends, 1);
    // Not a round in between that could write what is owed.
    ends[1].close(&mut fabric, Reason::DONE);
    while !ends[1].is_flushed() {
        ends[1].progress(&mut fabric);
        fabric.step();
    }
    for _ in 0..300 {
        fabric.step();
        if ends[0].poll_delivered() {
            return;
        }
        ends[0].progress(&mut fabric);
    }
    panic!("one block was consumed, and its sender never learns it");
}

fn close_is_said_once<F: TestFabric>() {
    let (mut fabric, mut ends) = ends::<F>();
    ends[0].close(&mut fabric, Reason::DONE);
    settle(&mut fabric, &mut ends);
    assert_eq!(ends[1].closed(), Some(Closed::ByPeer(Reason::DONE)));
    for _ in 0..2 {
        ends[1].close(&mut fabric, Reason::DONE);
        ends[0].close(&mut fabric, Reason(5));
        settle(&mut fabric, &mut ends);
    }
    assert_eq!(ends[0].closed(), Some(Closed::Here(Reason::DONE)));
    assert_eq!(ends[1].closed(), Some(Closed::ByPeer(Reason::DONE)));
    assert_eq!([ends[0].counters().controls_sent, ends[1].counters().controls_sent], [1, 1]);
}

/// A peer that has closed consumes nothing: no CANCEL may wait for that.
fn a_close_after_the_peers_waits_for_no_cancel<F: TestFabric>() {
    let (mut fabric, mut ends) = ends::<F>();
    for tag in [1, 2] {
        let id = ends[1].start(tag, Length::Stream).unwrap();
        ends[1].push(&mut fabric, id, &[&[7; 100]]).unwrap();
        settle(&mut fabric, &mut ends);
        if tag == 1 {
            ends[1].cancel(&mut fabric, id, Reason(9)).unwrap();
        }
    }
    ends[0].close(&mut fabric, Reason::DONE);
    settle(&mut fabric, &mut ends);
    assert_eq!(ends[1].closed(), Some(Closed::ByPeer(Reason::DONE)));
    assert!(ends[1].is_flushed());
    ends[1].close(&mut fabric, Reason::DONE);
    settle(&mut fabric, &mut ends);
    assert!(ends[1].is_flushed() && ends[0].is_flushed());
    assert!(ends[0].peer_closes());
}

#[test]
fn closing_waits_for_nobody_who_has_closed() {
    a_close_after_the_peers_waits_for_no_cancel::<Direct>();
    a_close_after_the_peers_waits_for_no_cancel::<Posted>();
}

#[test]
fn an_acknowledgement_wakes_whoever_waits_for_it() {
    let (mut fabric, mut ends) = ends::<Direct>();
    let (rung, acks) = (fabric.doorbells(1), ends[1].counters().acks_sent);
    ends[0].try_send(&mut fabric, 1, &[&[7; 150]]).unwrap();
    assert_eq!(ends[1].pull(&mut fabric, &mut [&mut [0; 150]]).end, End::Fin);
    assert_eq!(ends[1].counters().acks_sent, acks + 1, "the end of a message is worth an acknowledgement");
    assert!(fabric.doorbells(1) > rung);
}

#[test]
fn direct() {
    what_was_taken_is_acknowledged_before_a_close::<Direct>();
    close_is_said_once::<Direct>();
}

#[test]
fn posted() {
    what_was_taken_is_acknowledged_before_a_close::<Posted>();
    close_is_said_once::<Posted>();
}
