//! Waiting for a source or sink outside of the connection.

use superpipe_core::driver::{Ended, KEEPALIVE_NS, NAP_NS, Outside, OutsideNext};
use superpipe_core::{Closed, Length, Reason, TransferId};
use superpipe_testkit::{Rig, wire};

use crate::{BEFORE_FIRST, One, after, stream};

tables! {
    what_is_not_ready_is_waited_for
    a_source_of_a_rejected_stream_is_over
    a_source_for_a_peer_that_is_gone_is_lost
    a_sink_has_a_second_for_what_a_dead_peer_left
    an_end_that_was_stopped_has_not_waited_for_its_sink
    work_that_is_left_is_done_first
    a_closed_connection_ends_both
    a_peer_that_closed_before_it_went
    life_is_shown_meanwhile
}

const SECOND: u64 = 1_000_000_000;
const LOST: OutsideNext = OutsideNext::Ended(Ended::Lost);

/// A stream that has begun.
fn begin<F: Rig>(t: &mut One<F>) -> TransferId {
    let id = t.driver.endpoint_mut().start(1, Length::Stream).unwrap();
    assert_eq!(t.driver.endpoint_mut().push(&mut t.fabric, id, &[&[1; 50]]), Ok(50));
    t.settle();
    id
}

fn round<F: Rig>(t: &mut One<F>, outside: &mut Outside, is_ready: bool, at: u64) -> OutsideNext {
    t.driver.outside_round(&mut t.fabric, outside, is_ready, after(at))
}

fn what_is_not_ready_is_waited_for<F: Rig>() {
    for is_source in [true, false] {
        let mut t = One::<F>::new();
        let id = begin(&mut t);
        let mut outside = if is_source { Outside::source(id) } else { Outside::sink() };
        // However long, and however silent the peer is.
        for at in [0, 1, SECOND, 1000 * SECOND] {
            assert_eq!(round(&mut t, &mut outside, false, at), OutsideNext::Wait);
        }
        // Work of the connection's is none of the descriptor's.
        t.control(wire::cts(1, 1));
        assert_eq!(round(&mut t, &mut outside, false, 0), OutsideNext::Wait);
        assert_eq!(t.driver.counters().controls_received, 1);
        assert_eq!(round(&mut t, &mut outside, true, 0), OutsideNext::Ready);
        t.control(wire::cts(1, 2));
        assert_eq!(
            round(&mut t, &mut outside, true, 0),
            OutsideNext::Ended(t.driver.ended(&t.fabric).unwrap())
        );
    }
}

fn a_source_of_a_rejected_stream_is_over<F: Rig>() {
    for is_gone in [false, true] {
        for closes in [false, true] {
            let mut t = One::<F>::new();
            let id = begin(&mut t);
            t.control(wire::reject(1, 5, 1));
            if is_gone {
                t.driver.peer_is_gone();
            }
            if closes {
                t.control(wire::close(BEFORE_FIRST, 0, 2));
                assert!(t.driver.progress(&mut t.fabric));
            }
            let mut source = Outside::source(id);
            assert_eq!(round(&mut t, &mut source, false, 0), OutsideNext::Ready, "{is_gone} {closes}");
            // A sink has nothing to do with that.
            let mut sink = Outside::sink();
            let next = round(&mut t, &mut sink, false, 0);
            let ended = OutsideNext::Ended(Ended::Closed(Closed::ByPeer(Reason::DONE)));
            assert_eq!(next, if closes { ended } else { OutsideNext::Wait });
        }
    }
}

fn a_source_for_a_peer_that_is_gone_is_lost<F: Rig>() {
    for is_ready in [false, true] {
        let mut t = One::<F>::new();
        let mut source = Outside::source(begin(&mut t));
        assert_eq!(round(&mut t, &mut source, false, 0), OutsideNext::Wait);
        t.driver.peer_is_gone();
        assert_eq!(round(&mut t, &mut source, is_ready, 1), LOST);
    }
}

fn a_sink_has_a_second_for_what_a_dead_peer_left<F: Rig>() {
    let mut t = One::<F>::new();
    let mut sink = Outside::sink();
    assert_eq!(round(&mut t, &mut sink, false, 0), OutsideNext::Wait);
    t.driver.peer_is_gone();
    // The second begins when that is seen.
    let begin = 5 * SECOND;
    let naps = (0..SECOND / NAP_NS).map(|nap| begin + nap * NAP_NS);
    for at in naps.chain([begin + SECOND - 1]) {
        assert_eq!(round(&mut t, &mut sink, false, at), OutsideNext::Wait);
    }
    assert_eq!(round(&mut t, &mut sink, true, begin + SECOND), OutsideNext::Ready, "it takes what was left");
    assert_eq!(round(&mut t, &mut sink, false, begin + SECOND), LOST);
    // The next wait has its own.
    assert_eq!(round(&mut t, &mut Outside::sink(), false, begin + SECOND), OutsideNext::Wait);
}

/// The time during which it was stopped is none in which its sink was waited for.
fn an_end_that_was_stopped_has_not_waited_for_its_sink<F: Rig>() {
    let mut t = One::<F>::new();
    let mut sink = Outside::sink();
    t.driver.peer_is_gone();
    for at in [0, 10 * SECOND, 20 * SECOND] {
        assert_eq!(round(&mut t, &mut sink, false, at), OutsideNext::Wait);
    }
}

/// What the peer wrote before it went is read before it is lost: it may have closed.
fn work_that_is_left_is_done_first<F: Rig>() {
    let mut t = One::<F>::new();
    let id = begin(&mut t);
    let mut source = Outside::source(id);
    t.driver.peer_is_gone();
    t.control(wire::cts(1, 1));
    assert_eq!(round(&mut t, &mut source, false, 0), OutsideNext::Look);
    assert_eq!(round(&mut t, &mut source, true, 0), LOST);

    let mut t = One::<F>::new();
    let mut sink = Outside::sink();
    t.driver.peer_is_gone();
    assert_eq!(round(&mut t, &mut sink, false, 0), OutsideNext::Wait);
    t.control(wire::close(BEFORE_FIRST, 9, 1));
    let closed = OutsideNext::Ended(Ended::Closed(Closed::ByPeer(Reason(9))));
    assert_eq!(round(&mut t, &mut sink, false, SECOND), closed);
}

fn a_closed_connection_ends_both<F: Rig>() {
    for is_ready in [false, true] {
        let mut t = One::<F>::new();
        let id = begin(&mut t);
        t.driver.close(&mut t.fabric, Reason(3));
        let closed = OutsideNext::Ended(Ended::Closed(Closed::Here(Reason(3))));
        assert_eq!(round(&mut t, &mut Outside::source(id), is_ready, 0), closed);
        assert_eq!(round(&mut t, &mut Outside::sink(), is_ready, 0), closed);
    }
}

/// It has sent all that it will, which a sink still takes, and takes nothing from a source.
fn a_peer_that_closed_before_it_went<F: Rig>() {
    let mut t = One::<F>::new();
    let id = begin(&mut t);
    // Its close names a chunk that is not taken yet.
    t.slot(0, stream(10, 1, 1));
    assert!(t.driver.try_peek(&mut t.fabric).is_some());
    t.slot(1, wire::chunk(wire::kind::FIN, 0, 0, 10, 1, 2));
    t.control(wire::close(2, 0, 1));
    t.settle();
    assert!(t.driver.endpoint().peer_closes() && t.driver.endpoint().closed().is_none());
    let (mut source, mut sink) = (Outside::source(id), Outside::sink());
    assert_eq!(round(&mut t, &mut source, false, 0), OutsideNext::Wait, "it may still be there");
    assert_eq!(round(&mut t, &mut source, true, 0), OutsideNext::Ready);
    t.driver.peer_is_gone();
    let done = OutsideNext::Ended(Ended::Closed(Closed::ByPeer(Reason::DONE)));
    for is_ready in [false, true] {
        assert_eq!(round(&mut t, &mut source, is_ready, 0), done);
    }
    for at in [0, SECOND, 100 * SECOND] {
        assert_eq!(round(&mut t, &mut sink, false, at), OutsideNext::Wait, "all of it was sent");
    }
    assert_eq!(round(&mut t, &mut sink, true, 100 * SECOND), OutsideNext::Ready);
    // Once all was taken there is nothing to wait for.
    assert_eq!(t.driver.endpoint_mut().pull(&mut t.fabric, &mut [&mut [0; 90]]).bytes, 20);
    assert_eq!(round(&mut t, &mut sink, false, 100 * SECOND), done);
}

fn life_is_shown_meanwhile<F: Rig>() {
    let mut t = One::<F>::new();
    let mut sink = Outside::sink();
    for (at, life) in [(0, 0), (KEEPALIVE_NS - 1, 0), (KEEPALIVE_NS, 1), (2 * KEEPALIVE_NS, 2)] {
        assert_eq!(round(&mut t, &mut sink, false, at), OutsideNext::Wait);
        assert_eq!(t.acked().0[4], life);
    }
}
