//! Acknowledgements of the peer and of this end. wire.md 5.

use superpipe_core::{End, Length, Protocol, RefusedSend, control_page};
use superpipe_testkit::{
    Memory, Posted, TestFabric,
    wire::{self, kind},
};

use crate::table::{BEFORE_FIRST, LAYOUT, Victim};

tables! {
    acknowledgements acknowledged_on_the_way
}

fn acknowledgements<F: TestFabric>() {
    let mut t = Victim::<F>::new();
    let heard = t.end.activity();
    feed!(t, ack wire::ack(0, BEFORE_FIRST, 0)); // nothing new
    assert_eq!(t.end.activity(), heard);
    feed!(t, ack wire::ack(0, BEFORE_FIRST, 1)); // a sign of life
    assert_ne!(t.end.activity(), heard);
    let mut torn = wire::ack(3, BEFORE_FIRST, 0);
    torn.0[1] = !2;
    feed!(t, ack torn);
    expect!(t, open);
    feed!(t, ack wire::ack(u64::MAX, BEFORE_FIRST, 0)); // an older one, visible late
    expect!(t, open);

    let id = t.end.try_send(&mut t.fabric, 9, &[b"tiny"]).unwrap();
    assert_eq!(id.number(), 1);
    t.settle();
    assert!(!t.end.poll_delivered());
    feed!(t, ack wire::ack(1, BEFORE_FIRST, 0));
    assert!(t.end.poll_delivered());
    feed!(t, ack wire::ack(2, BEFORE_FIRST, 0));
    expect!(t, broken AckBeyondSent);

    let mut t = Victim::<F>::new();
    feed!(t, ack wire::ack(0, 1, 0));
    expect!(t, broken ControlAckBeyondSent);
}

/// Blocks go back to their sender while more are taken out, by one call.
fn acknowledged_on_the_way<F: TestFabric>() {
    let mut t = Victim::<F>::new();
    let chunk = wire::chunk(kind::RTS | kind::FIN, 7, 900, 900, 1, 1);
    for block in 0..4 {
        feed!(t, slot block, chunk);
    }
    let acks = t.end.counters().acks_sent;
    expect!(t, pulled 900, End::Fin);
    assert!(t.end.counters().acks_sent >= acks + 2, "two blocks are a quarter of the ring");
}

/// The device may still read an acknowledged block, which is not free until its write completes.
#[test]
fn acknowledged_before_completed() {
    let mut t = Victim::<Posted>::new();
    t.end.set_protocol(Protocol::Eager);
    let whole = vec![7; LAYOUT.capacity(8) as usize];
    let id = t.end.start(1, Length::Exact(whole.len() as u64)).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&whole]), Ok(whole.len()));
    t.fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(8, BEFORE_FIRST, 0));
    assert_eq!(t.end.try_send(&mut t.fabric, 2, &[b"tiny"]), Err(RefusedSend::NoCredit));
    assert_eq!(t.end.try_send(&mut t.fabric, 2, &[&[0; 60]]), Err(RefusedSend::NoCredit));
    assert!(!t.end.poll_delivered() && !t.end.is_quiescent());
    t.settle();
    assert!(t.end.poll_delivered() && t.end.is_quiescent());
    assert!(t.end.try_send(&mut t.fabric, 2, &[b"tiny"]).is_ok());
}
