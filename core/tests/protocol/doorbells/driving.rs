//! Doorbells of progress, signs of life, and the end of a connection.

use superpipe_core::{Arrival, End, Length, Line, Reason, TryRecv};
use superpipe_testkit::{Direct, Memory, Posted, Setup, TestFabric, wire};

use crate::doorbells::{Ends, LAYOUT, second_reject_waits};

on_both! {
    an_acknowledgement_that_is_asked_for
    an_acknowledgement_after_empty_rounds
    a_sign_of_life
    a_control_message_that_had_to_wait
    a_close
    a_close_for_a_broken_rule
}

fn an_acknowledgement_that_is_asked_for<F: TestFabric>() {
    one_received::<F>().rings(1, |end, fabric| end.acknowledge(fabric));
}

fn an_acknowledgement_after_empty_rounds<F: TestFabric>() {
    one_received::<F>().rings_in_progress(1, |end| end.counters().acks_sent == 1);
}

fn a_sign_of_life<F: TestFabric>() {
    Ends::<F>::new().rings(0, |end, fabric| end.send_keepalive(fabric));
}

fn a_control_message_that_had_to_wait<F: TestFabric>() {
    second_reject_waits::<F>().rings_in_progress(1, |end| end.counters().controls_sent == 2);
}

fn a_close<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.rings(0, |end, fabric| end.close(fabric, Reason::DONE));
    assert!(t.ends[0].is_flushed());
}

fn a_close_for_a_broken_rule<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.forge(Memory::control_page(0), wire::mailbox(0), Line([99, 0, 0, 0, 0, 0, 0, 1]));
    t.rings_in_progress(0, |end| end.closed().is_some());
    assert_eq!(t.ends[0].counters().controls_sent, 1);
}

/// One message in a line was received, and not acknowledged.
fn one_received<F: TestFabric>() -> Ends<F> {
    let mut t = Ends::<F>::new();
    t.ends[0].try_send(&mut t.fabric, 1, &[&[7; 8]]).unwrap();
    t.arrive();
    let (writes, pulled) = t.writes(1, |end, fabric| end.pull(fabric, &mut [&mut [0; 8]]));
    assert_eq!((writes, pulled.end), (0, End::Fin));
    t
}

/// The send queue was full when it was pushed.
#[test]
fn a_chunk_that_had_to_wait() {
    let mut t = Ends::<Posted>::with(&Setup { send_queue: 1, ..Setup::new(LAYOUT, 1) }, Arrival::Flag);
    t.ends[0].send_keepalive(&mut t.fabric);
    let id = t.ends[0].start(1, Length::Stream).unwrap();
    let (writes, pushed) = t.writes(0, |end, fabric| end.push(fabric, id, &[&[7; 100]]));
    assert_eq!((writes, pushed), (0, Ok(100)));
    t.rings_in_progress(0, |end| end.is_flushed());
}

/// Half of what the peer may notify of was taken, and is given back.
#[test]
fn credits_that_are_given_back() {
    let setup = Setup { order_inside_write: false, notifications_max: 4, ..Setup::new(LAYOUT, 1) };
    let mut t = Ends::<Posted>::with(&setup, Arrival::Notify);
    for _ in 0..2 {
        t.ends[0].try_send(&mut t.fabric, 1, &[&[7; 8]]).unwrap();
        t.arrive();
    }
    t.rings(1, |end, fabric| end.poll_acknowledgements(fabric));
}

/// Each costs whoever rings, and by direct store nothing else goes out with it.
#[test]
fn nothing_is_rung_for_where_nothing_is_written() {
    let mut t = Ends::<Direct>::new();
    t.stream(100);
    assert_eq!(t.ends[1].pull(&mut t.fabric, &mut []).bytes, 0);
    t.settle();
    let rung = t.fabric.doorbells(1);
    for _ in 0..100 {
        t.ends[1].progress(&mut t.fabric);
        assert!(t.ends[1].incoming(&mut t.fabric).is_some());
        t.ends[1].poll_acknowledgements(&mut t.fabric);
        t.ends[1].acknowledge(&mut t.fabric);
        assert_eq!(t.ends[1].try_recv(&mut t.fabric, &mut [&mut [0; 9]], 1), TryRecv::Other);
        assert_eq!(t.ends[1].pull(&mut t.fabric, &mut []).bytes, 0);
    }
    let id = t.ends[1].start(1, Length::Stream).unwrap();
    assert_eq!(t.ends[1].push(&mut t.fabric, id, &[]), Ok(0));
    assert_eq!(t.ends[1].reserve(&mut t.fabric, id, 9).map(|it| it.bytes()), Ok(9));
    assert_eq!(t.ends[1].commit(&mut t.fabric, id, 0), Ok(()));
    assert_eq!(t.fabric.doorbells(1), rung);
    // The ring is full.
    while t.ends[1].push(&mut t.fabric, id, &[&[7; 100]]) == Ok(100) {}
    let rung = t.fabric.doorbells(1);
    assert_eq!(t.ends[1].push(&mut t.fabric, id, &[&[7; 100]]), Ok(0));
    assert_eq!(t.fabric.doorbells(1), rung);
}
