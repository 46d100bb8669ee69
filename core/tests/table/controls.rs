//! Control lines that none can be, CTS, CANCEL and REJECT. wire.md 5.

use superpipe_core::{End, Event, Length, Line, Reason, RefusedSend};
use superpipe_testkit::{
    Rig,
    wire::{self, kind},
};

use crate::{BEFORE_FIRST, Victim, stream};

tables! {
    controls_that_are_none cts cancel reject
}

fn controls_that_are_none<F: Rig>() {
    for number in [0, 5, u64::MAX] {
        let mut t = Victim::<F>::new();
        feed!(t, control Line([number, 0, 0, 0, 0, 0, 0, 1]));
        expect!(t, broken UnknownControl);
    }
    for word in 4..7 {
        let mut t = Victim::<F>::new();
        let mut line = wire::cancel(1, 1, 0, 1);
        line.0[word] = 1;
        feed!(t, control line);
        expect!(t, broken ReservedNotZero);
    }
    let mut t = Victim::<F>::new();
    feed!(t, control Line([1, 1, 1, 0, 0, 0, 0, 1])); // a CTS that names a chunk
    expect!(t, broken ReservedNotZero);
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cts(1, 2)); // not yet the one awaited
    expect!(t, open);
}

fn cts<F: Rig>() {
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cts(1, 1));
    expect!(t, broken CtsUnknownTransfer);

    // Started, but nothing of it was sent.
    let mut t = Victim::<F>::new();
    t.end.start(4, Length::Exact(300)).unwrap();
    feed!(t, control wire::cts(1, 1));
    expect!(t, broken CtsUnknownTransfer);

    let mut t = Victim::<F>::new();
    let id = t.end.start(4, Length::Exact(300)).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 300]]), Ok(100)); // C0
    t.settle();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 200]]), Ok(0));
    feed!(t, control wire::cts(1, 1));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 100]]), Ok(100));
    feed!(t, control wire::cts(1, 2));
    expect!(t, broken CtsTwice);

    // One that comes after the end is late, and harmless.
    let mut t = Victim::<F>::new();
    t.end.try_send(&mut t.fabric, 9, &[b"tiny"]).unwrap();
    feed!(t, control wire::cts(1, 1));
    expect!(t, open);
}

fn cancel<F: Rig>() {
    // Under way.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(16, 1));
    assert!(t.end.incoming(&mut t.fabric).is_some());
    feed!(t, control wire::cancel(1, 1, 5, 1));
    assert_eq!(
        t.end.incoming(&mut t.fabric).map(|incoming| incoming.transfer),
        Some(1),
        "it is still to be ended"
    );
    expect!(t, pulled 0, End::Cancelled(Reason(5)));
    feed!(t, slot 1, wire::inline(0, b"next", 2));
    expect!(t, pulled 4, End::Fin);
    expect!(t, open);

    // Visible before the transfer is, and with chunks to come.
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cancel(1, 2, 5, 1));
    expect!(t, pulled 0, End::No);
    feed!(t, slot 0, stream(16, 1));
    expect!(t, pulled 0, End::No);
    feed!(t, slot 1, wire::chunk(0, 0, 0, 8, 1, 2));
    feed!(t, slot 2, wire::inline(0, b"next", 3));
    expect!(t, pulled 0, End::Cancelled(Reason(5)));
    expect!(t, pulled 4, End::Fin);

    // Later than the transfer that follows.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(16, 1));
    expect!(t, pulled 16, End::No);
    let mut next = wire::inline(0, b"next", 2);
    next.0[0] |= kind::AFTER_CANCEL;
    feed!(t, slot 1, next);
    expect!(t, pulled 0, End::No);
    feed!(t, control wire::cancel(1, 1, 6, 1));
    expect!(t, pulled 0, End::Cancelled(Reason(6)));
    expect!(t, pulled 4, End::Fin);

    // Of what cannot be cancelled: nothing, what has ended, what ends before what was consumed, what is far away.
    for (transfer, last) in [(0, 0), (1, BEFORE_FIRST), (1, 1), (3, 1), (2, 1000)] {
        let mut t = Victim::<F>::new();
        feed!(t, slot 0, wire::inline(0, b"", 1));
        expect!(t, pulled 0, End::Fin);
        feed!(t, slot 1, wire::inline(0, b"", 2));
        expect!(t, pulled 0, End::Fin);
        feed!(t, control wire::cancel(transfer, last, 0, 1));
        expect!(t, broken CancelUnknownTransfer);
    }

    let mut t = Victim::<F>::new();
    feed!(t, control wire::cancel(1, 1, 0, 1));
    feed!(t, control wire::cancel(1, 1, 0, 2));
    expect!(t, broken CancelPending);

    // Two in a row, before the application has asked how the first ended; not three.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(16, 1));
    expect!(t, pulled 16, End::No);
    feed!(t, control wire::cancel(1, 1, 5, 1));
    feed!(t, slot 1, wire::chunk(kind::RTS | kind::STREAM | kind::AFTER_CANCEL, 7, 0, 16, 2, 2));
    feed!(t, control wire::cancel(2, 2, 6, 2));
    expect!(t, pulled 0, End::Cancelled(Reason(5)));
    expect!(t, open);
    expect!(t, pulled 16, End::No);
    expect!(t, pulled 0, End::Cancelled(Reason(6)));
    feed!(t, slot 2, wire::inline(0, b"next", 3));
    expect!(t, pulled 4, End::Fin);
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cancel(1, 1, 0, 1));
    feed!(t, control wire::cancel(2, 2, 0, 2));
    expect!(t, open);
    feed!(t, control wire::cancel(3, 3, 0, 3));
    expect!(t, broken CancelPending);

    // It ends, although it was cancelled.
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cancel(1, 1, 0, 1));
    feed!(t, slot 0, wire::chunk(kind::RTS | kind::FIN, 0, 4, 4, 1, 1));
    t.end.pull(&mut t.fabric, &mut []);
    expect!(t, broken CancelUnknownTransfer);
}

fn reject<F: Rig>() {
    let mut t = Victim::<F>::new();
    feed!(t, control wire::reject(1, 8, 1));
    expect!(t, broken RejectUnknownTransfer);

    // Under way: the sender learns it from its next call, and answers with CANCEL.
    let mut t = Victim::<F>::new();
    let id = t.end.start(4, Length::Stream).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Ok(50));
    t.settle();
    feed!(t, control wire::reject(1, 8, 1));
    assert_eq!(t.end.poll_event(), Some(Event::Rejected { transfer: 1, reason: Reason(8) }));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Err(RefusedSend::Rejected(Reason(8))));
    t.settle();
    expect!(t, said 0, wire::cancel(1, 1, 8, 1));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Err(RefusedSend::NotOpen));

    // Sent whole already: an event, and nothing else.
    let mut t = Victim::<F>::new();
    t.end.try_send(&mut t.fabric, 9, &[b"tiny"]).unwrap();
    feed!(t, control wire::reject(1, 8, 1));
    assert_eq!(t.end.poll_event(), Some(Event::Rejected { transfer: 1, reason: Reason(8) }));
    assert_eq!(t.end.poll_event(), None);
    expect!(t, said 0, Line::default());
    expect!(t, open);

    // The other way: what is rejected is thrown away, and what follows comes.
    let mut t = Victim::<F>::new();
    assert!(!t.end.reject(&mut t.fabric, Reason(2)), "there is nothing");
    feed!(t, slot 0, stream(16, 1));
    assert!(t.end.reject(&mut t.fabric, Reason(2)));
    t.settle();
    expect!(t, said 0, wire::reject(1, 2, 1));
    assert_eq!(t.end.incoming(&mut t.fabric), None);
    feed!(t, control wire::cancel(1, 1, 2, 1));
    feed!(t, slot 1, wire::inline(0, b"next", 2));
    expect!(t, pulled 4, End::Fin);
}
