//! Doorbells of writes in passing: a CLOSE for a rule that a call finds broken, a REJECT that had to wait, an RTS without payload.

use superpipe_core::{Endpoint, Length, Protocol, RefusedSend, control_page};
use superpipe_testkit::{
    Memory, TestFabric,
    wire::{self, kind},
};

use crate::doorbells::{Ends, LAYOUT, second_reject_waits};

on_both! {
    an_rts_before_pushed_bytes
    a_close_for_a_broken_rule_that_a_receiving_call_finds
    a_close_for_a_broken_rule_that_a_sending_call_finds
    a_close_for_a_broken_rule_that_a_look_finds
    an_acknowledgement_that_breaks_a_rule_closes
    a_reject_that_the_next_call_says
}

fn an_rts_before_pushed_bytes<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.ends[0].set_protocol(Protocol::Copy);
    let id = t.ends[0].start(1, Length::Exact(1000)).unwrap();
    assert_eq!(t.rings(0, |end, fabric| end.push(fabric, id, &[&[7; 1000]])), Ok(0));
}

fn a_close_for_a_broken_rule_that_a_receiving_call_finds<F: TestFabric>() {
    let calls: [fn(&mut Endpoint<F>, &mut F); 3] = [
        |end, fabric| _ = end.incoming(fabric),
        |end, fabric| _ = end.pull(fabric, &mut [&mut [0; 9]]),
        |end, fabric| _ = end.readable(fabric, 9),
    ];
    for call in calls {
        let mut t = Ends::<F>::new();
        t.forge(Memory::landing(0), LAYOUT.line_at(0), wire::chunk(kind::FIN, 0, 0, 9, 1, 1));
        t.rings(0, call);
        assert!(t.ends[0].closed().is_some());
    }
}

fn a_close_for_a_broken_rule_that_a_sending_call_finds<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    for _ in 0..LAYOUT.block_count {
        t.ends[0].try_send(&mut t.fabric, 1, &[&[7; 8]]).unwrap();
        t.arrive();
    }
    t.forge(Memory::control_page(0), control_page::ACK, wire::ack(99, u64::MAX, 0));
    let sent = t.rings(0, |end, fabric| end.try_send(fabric, 1, &[&[7; 8]]));
    assert_eq!(sent, Err(RefusedSend::Closed));
    assert!(t.ends[0].closed().is_some());
}

fn a_close_for_a_broken_rule_that_a_look_finds<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.forge(Memory::control_page(0), control_page::ACK, wire::ack(99, u64::MAX, 0));
    t.rings(0, |end, fabric| end.poll_acknowledgements(fabric));
    assert!(t.ends[0].closed().is_some());
}

fn an_acknowledgement_that_breaks_a_rule_closes<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.ends[0].try_send(&mut t.fabric, 1, &[&[7; 8]]).unwrap();
    t.arrive();
    t.forge(Memory::control_page(0), control_page::ACK, wire::ack(99, u64::MAX, 0));
    assert!(!t.ends[0].poll_delivered());
    t.rings_in_progress(0, |end| end.closed().is_some());
}

/// It is found to be due by whoever asks what comes next.
fn a_reject_that_the_next_call_says<F: TestFabric>() {
    let mut t = second_reject_waits::<F>();
    t.ends[1].poll_acknowledgements(&mut t.fabric);
    t.rings(1, |end, fabric| _ = end.incoming(fabric));
    assert_eq!(t.ends[1].counters().controls_sent, 2, "{}", F::NAME);
}
