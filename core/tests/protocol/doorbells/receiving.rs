//! Doorbells of calls that receive.

use superpipe_core::{End, Length, Protocol, Readable, Reason, TryRecv};
use superpipe_testkit::TestFabric;

use crate::doorbells::{Ends, LAYOUT};

on_both! {
    a_rejected_transfer
    a_cts_for_who_pulls
    a_cts_for_who_reads_in_place
    an_acknowledgement_of_what_was_pulled
    an_acknowledgement_of_what_was_consumed
    an_acknowledgement_of_an_end_that_was_read
    an_acknowledgement_of_what_was_received
}

fn a_rejected_transfer<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.stream(100);
    assert!(t.rings(1, |end, fabric| end.reject(fabric, Reason(5))));
}

fn a_cts_for_who_pulls<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.bare_rts();
    let pulled = t.rings(1, |end, fabric| end.pull(fabric, &mut [&mut [0; 1000]]));
    assert_eq!((pulled.bytes, pulled.end), (0, End::No));
    assert_eq!((t.ends[1].counters().controls_sent, t.ends[1].counters().acks_sent), (1, 0), "{}", F::NAME);
}

fn a_cts_for_who_reads_in_place<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.bare_rts();
    let readable = t.rings(1, |end, fabric| end.readable(fabric, 1000));
    assert!(matches!(readable, Readable::Nothing));
    assert_eq!((t.ends[1].counters().controls_sent, t.ends[1].counters().acks_sent), (1, 0), "{}", F::NAME);
}

/// The first is the whole line, and by direct store the second no more than a count.
fn an_acknowledgement_of_what_was_pulled<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    for acks in 1..=2 {
        t.stream(100);
        let pulled = t.rings(1, |end, fabric| end.pull(fabric, &mut [&mut [0; 100]]));
        assert_eq!((pulled.bytes, pulled.end), (100, End::Fin));
        assert_eq!(t.ends[1].counters().acks_sent, acks, "{}", F::NAME);
        t.settle();
    }
}

fn an_acknowledgement_of_what_was_consumed<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.ends[0].set_protocol(Protocol::Eager);
    let id = t.ends[0].start(1, Length::Exact(900)).unwrap();
    assert_eq!(t.ends[0].push(&mut t.fabric, id, &[&[7; 900]]), Ok(900));
    t.arrive();
    let (writes, readable) = t.writes(1, |end, fabric| end.readable(fabric, 900));
    assert!(matches!(readable, Readable::Run(run) if run.bytes == 900), "{}", F::NAME);
    assert_eq!(writes, 0, "{}", F::NAME);
    assert_eq!(t.rings(1, |end, fabric| end.consume(fabric, 900)), End::Fin);
}

fn an_acknowledgement_of_an_end_that_was_read<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.stream(100);
    assert!(matches!(t.ends[1].readable(&mut t.fabric, 100), Readable::Run(run) if run.bytes == 100));
    let (writes, end) = t.writes(1, |end, fabric| end.consume(fabric, 100));
    assert_eq!((writes, end), (0, End::No), "{}", F::NAME);
    let readable = t.rings(1, |end, fabric| end.readable(fabric, 100));
    assert!(matches!(readable, Readable::Ended(End::Fin)), "{}", F::NAME);
}

fn an_acknowledgement_of_what_was_received<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    let mut writes = 0;
    for _ in 0..LAYOUT.block_count {
        t.ends[0].try_send(&mut t.fabric, 1, &[&[7; 8]]).unwrap();
        t.arrive();
        let taken;
        (writes, taken) = t.writes(1, |end, fabric| end.try_recv(fabric, &mut [&mut [0; 8]], 1));
        assert_eq!(taken, TryRecv::Taken { tag: 1, bytes: 8 });
        if writes > 0 {
            break;
        }
    }
    assert!(writes > 0, "{}: a ring was received, and nothing of it acknowledged", F::NAME);
}
