//! Waiting for a source or sink outside of the connection.

use superpipe_core::driver::{DescriptorWait, DescriptorWaitNext, Ended, KEEPALIVE_NS, SLEEP_MAX_NS};
use superpipe_core::{Closed, Length, Reason, TransferId};
use superpipe_testkit::{TestFabric, wire};

use crate::driver::{BEFORE_FIRST, One, after, stream};

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
const LOST: DescriptorWaitNext = DescriptorWaitNext::Ended(Ended::Lost);

/// A stream that has begun.
fn begin<F: TestFabric>(t: &mut One<F>) -> TransferId {
    let id = t.driver.endpoint_mut().start(1, Length::Stream).unwrap();
    assert_eq!(t.driver.endpoint_mut().push(&mut t.fabric, id, &[&[1; 50]]), Ok(50));
    t.settle();
    id
}

fn round<F: TestFabric>(
    t: &mut One<F>,
    outside: &mut DescriptorWait,
    is_ready: bool,
    at: u64,
) -> DescriptorWaitNext {
    t.driver.descriptor_round(&mut t.fabric, outside, is_ready, after(at))
}

fn what_is_not_ready_is_waited_for<F: TestFabric>() {
    for is_source in [true, false] {
        let mut t = One::<F>::new();
        let id = begin(&mut t);
        let mut outside = if is_source { DescriptorWait::source(id) } else { DescriptorWait::sink() };
        // However long, and however silent the peer is.
        for at in [0, 1, SECOND, 1000 * SECOND] {
            assert_eq!(round(&mut t, &mut outside, false, at), DescriptorWaitNext::Wait);
        }
        // Work of the connection's is none of the descriptor's.
        t.control(wire::cts(1, 1));
        assert_eq!(round(&mut t, &mut outside, false, 0), DescriptorWaitNext::Wait);
        assert_eq!(t.driver.counters().controls_received, 1);
        assert_eq!(round(&mut t, &mut outside, true, 0), DescriptorWaitNext::Ready);
        t.control(wire::cts(1, 2));
        assert_eq!(
            round(&mut t, &mut outside, true, 0),
            DescriptorWaitNext::Ended(t.driver.ended(&t.fabric).unwrap())
        );
    }
}

fn a_source_of_a_rejected_stream_is_over<F: TestFabric>() {
    for is_gone in [false, true] {
        for closes in [false, true] {
            let mut t = One::<F>::new();
            let id = begin(&mut t);
            t.control(wire::reject(1, 5, 1));
            if is_gone {
                t.driver.note_peer_gone();
            }
            if closes {
                t.control(wire::close(BEFORE_FIRST, 0, 2));
                assert!(t.driver.progress(&mut t.fabric));
            }
            let mut source = DescriptorWait::source(id);
            assert_eq!(round(&mut t, &mut source, false, 0), DescriptorWaitNext::Ready, "{is_gone} {closes}");
            // A sink has nothing to do with that.
            let mut sink = DescriptorWait::sink();
            let next = round(&mut t, &mut sink, false, 0);
            let ended = DescriptorWaitNext::Ended(Ended::Closed(Closed::ByPeer(Reason::DONE)));
            assert_eq!(next, if closes { ended } else { DescriptorWaitNext::Wait });
        }
    }
}

fn a_source_for_a_peer_that_is_gone_is_lost<F: TestFabric>() {
    for is_ready in [false, true] {
        let mut t = One::<F>::new();
        let mut source = DescriptorWait::source(begin(&mut t));
        assert_eq!(round(&mut t, &mut source, false, 0), DescriptorWaitNext::Wait);
        t.driver.note_peer_gone();
        assert_eq!(round(&mut t, &mut source, is_ready, 1), LOST);
    }
}

fn a_sink_has_a_second_for_what_a_dead_peer_left<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut sink = DescriptorWait::sink();
    assert_eq!(round(&mut t, &mut sink, false, 0), DescriptorWaitNext::Wait);
    t.driver.note_peer_gone();
    // The second begins when that is seen.
    let begin = 5 * SECOND;
    let naps = (0..SECOND / SLEEP_MAX_NS).map(|nap| begin + nap * SLEEP_MAX_NS);
    for at in naps.chain([begin + SECOND - 1]) {
        assert_eq!(round(&mut t, &mut sink, false, at), DescriptorWaitNext::Wait);
    }
    assert_eq!(
        round(&mut t, &mut sink, true, begin + SECOND),
        DescriptorWaitNext::Ready,
        "it takes what was left"
    );
    assert_eq!(round(&mut t, &mut sink, false, begin + SECOND), LOST);
    // The next wait has its own.
    assert_eq!(round(&mut t, &mut DescriptorWait::sink(), false, begin + SECOND), DescriptorWaitNext::Wait);
}

/// The time during which it was stopped is none in which its sink was waited for.
fn an_end_that_was_stopped_has_not_waited_for_its_sink<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut sink = DescriptorWait::sink();
    t.driver.note_peer_gone();
    for at in [0, 10 * SECOND, 20 * SECOND] {
        assert_eq!(round(&mut t, &mut sink, false, at), DescriptorWaitNext::Wait);
    }
}

/// Words that the peer wrote before it went are read before it counts as lost: it may have closed.
fn work_that_is_left_is_done_first<F: TestFabric>() {
    let mut t = One::<F>::new();
    let id = begin(&mut t);
    let mut source = DescriptorWait::source(id);
    t.driver.note_peer_gone();
    t.control(wire::cts(1, 1));
    assert_eq!(round(&mut t, &mut source, false, 0), DescriptorWaitNext::Poll);
    assert_eq!(round(&mut t, &mut source, true, 0), LOST);

    let mut t = One::<F>::new();
    let mut sink = DescriptorWait::sink();
    t.driver.note_peer_gone();
    assert_eq!(round(&mut t, &mut sink, false, 0), DescriptorWaitNext::Wait);
    t.control(wire::close(BEFORE_FIRST, 9, 1));
    let closed = DescriptorWaitNext::Ended(Ended::Closed(Closed::ByPeer(Reason(9))));
    assert_eq!(round(&mut t, &mut sink, false, SECOND), closed);
}

fn a_closed_connection_ends_both<F: TestFabric>() {
    for is_ready in [false, true] {
        let mut t = One::<F>::new();
        let id = begin(&mut t);
        t.driver.close(&mut t.fabric, Reason(3));
        let closed = DescriptorWaitNext::Ended(Ended::Closed(Closed::Here(Reason(3))));
        assert_eq!(round(&mut t, &mut DescriptorWait::source(id), is_ready, 0), closed);
        assert_eq!(round(&mut t, &mut DescriptorWait::sink(), is_ready, 0), closed);
    }
}

/// It has sent all that it will, which a sink still takes, and takes nothing from a source.
fn a_peer_that_closed_before_it_went<F: TestFabric>() {
    let mut t = One::<F>::new();
    let id = begin(&mut t);
    // The CLOSE names a chunk that is not taken yet.
    t.slot(0, stream(10, 1, 1));
    assert!(t.driver.try_peek(&mut t.fabric).is_some());
    t.slot(1, wire::chunk(wire::kind::FIN, 0, 0, 10, 1, 2));
    t.control(wire::close(2, 0, 1));
    t.settle();
    assert!(t.driver.endpoint().peer_closes() && t.driver.endpoint().closed().is_none());
    let (mut source, mut sink) = (DescriptorWait::source(id), DescriptorWait::sink());
    assert_eq!(round(&mut t, &mut source, false, 0), DescriptorWaitNext::Wait, "it may still be there");
    assert_eq!(round(&mut t, &mut source, true, 0), DescriptorWaitNext::Ready);
    t.driver.note_peer_gone();
    let done = DescriptorWaitNext::Ended(Ended::Closed(Closed::ByPeer(Reason::DONE)));
    for is_ready in [false, true] {
        assert_eq!(round(&mut t, &mut source, is_ready, 0), done);
    }
    for at in [0, SECOND, 100 * SECOND] {
        assert_eq!(round(&mut t, &mut sink, false, at), DescriptorWaitNext::Wait, "all of it was sent");
    }
    assert_eq!(round(&mut t, &mut sink, true, 100 * SECOND), DescriptorWaitNext::Ready);
    // Once all was taken there is nothing to wait for.
    assert_eq!(t.driver.endpoint_mut().pull(&mut t.fabric, &mut [&mut [0; 90]]).bytes, 20);
    assert_eq!(round(&mut t, &mut sink, false, 100 * SECOND), done);
}

fn life_is_shown_meanwhile<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut sink = DescriptorWait::sink();
    for (at, life) in [(0, 0), (KEEPALIVE_NS - 1, 0), (KEEPALIVE_NS, 1), (2 * KEEPALIVE_NS, 2)] {
        assert_eq!(round(&mut t, &mut sink, false, at), DescriptorWaitNext::Wait);
        assert_eq!(t.acked().0[4], life);
    }
}
