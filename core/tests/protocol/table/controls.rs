//! Control lines that none can be, CTS and REJECT, and the CANCEL that answers it. wire.md 4.4, 5.

use superpipe_core::{End, Event, Length, Line, Readable, Reason, RefusedSend};
use superpipe_testkit::{
    TestFabric,
    wire::{self, kind},
};

use crate::table::{Victim, stream};

tables! {
    controls_that_are_none cts cancel reject
}

fn controls_that_are_none<F: TestFabric>() {
    for number in [0, 13, u64::MAX] {
        let mut t = Victim::<F>::new();
        feed!(t, control Line([number, 0, 0, 0, 0, 0, 0, 1]));
        expect!(t, broken UnknownControl);
    }
    for word in 4..7 {
        let mut t = Victim::<F>::new();
        let mut line = wire::reject(1, 0, 1);
        line.0[word] = 1;
        feed!(t, control line);
        expect!(t, broken ReservedNotZero);
    }
    let mut t = Victim::<F>::new();
    feed!(t, control Line([1, 1, 0, 1, 0, 0, 0, 1])); // a CTS with a key of no bytes
    expect!(t, broken ReservedNotZero);
    let mut t = Victim::<F>::new();
    feed!(t, control wire::cts(1, 2)); // not yet the one awaited
    expect!(t, open);
}

fn cts<F: TestFabric>() {
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

fn cancel<F: TestFabric>() {
    // Under way.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(16, 1));
    assert!(t.end.incoming(&mut t.fabric).is_some());
    feed!(t, slot 1, wire::cancel(1, 5, 2));
    assert_eq!(
        t.end.incoming(&mut t.fabric).map(|incoming| incoming.transfer),
        Some(1),
        "it is still to be ended"
    );
    expect!(t, pulled 16, End::Cancelled(Reason(5)));
    feed!(t, slot 2, wire::inline(0, b"next", 3));
    expect!(t, pulled 4, End::Fin);
    expect!(t, open);

    // Before anything of the transfer was asked for, and again and again.
    let mut t = Victim::<F>::new();
    for number in 1..=4 {
        let at = u32::try_from(2 * (number - 1)).unwrap();
        let flag = 2 * number - 1;
        feed!(t, slot at, wire::chunk(kind::RTS | kind::STREAM, 7, 0, 16, number, flag));
        feed!(t, slot at + 1, wire::cancel(number, u64::from(u32::MAX), flag + 1));
    }
    for _ in 1..=4 {
        assert!(t.end.incoming(&mut t.fabric).is_some());
        expect!(t, pulled 16, End::Cancelled(Reason(u32::MAX)));
    }
    expect!(t, pulled 0, End::No);
    expect!(t, open);

    // Read in place.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(16, 1));
    feed!(t, slot 1, wire::cancel(1, 5, 2));
    let Readable::Run(run) = t.end.readable(&mut t.fabric, 100) else { panic!("16 bytes are there") };
    assert_eq!(t.end.consume(&mut t.fabric, run.bytes), End::No);
    let ended = t.end.readable(&mut t.fabric, 100);
    assert!(matches!(ended, Readable::Ended(End::Cancelled(Reason(5)))), "{ended:?}");

    // For no transfer: after a transfer that has ended, inline messages too, or before any.
    for lines in [&[][..], &[wire::inline(0, b"", 1)], &[wire::chunk(kind::RTS | kind::FIN, 0, 4, 4, 1, 1)]] {
        let mut t = Victim::<F>::new();
        let mut flag = 1;
        for line in lines {
            feed!(t, slot 0, *line);
            t.pull();
            flag += 1;
        }
        let at = u32::try_from(flag - 1).unwrap();
        feed!(t, slot at, wire::cancel(1, 5, flag));
        expect!(t, broken NoTransferOpen);
    }

    // For another transfer.
    for number in [0, 2, u64::MAX] {
        let mut t = Victim::<F>::new();
        feed!(t, slot 0, stream(16, 1));
        expect!(t, pulled 16, End::No);
        feed!(t, slot 1, wire::cancel(number, 5, 2));
        expect!(t, broken WrongTransfer);
    }

    // With payload, or with another bit.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(16, 1));
    expect!(t, pulled 16, End::No);
    feed!(t, slot 1, wire::chunk(kind::CANCEL, 5, 0, 8, 1, 2));
    expect!(t, broken ReservedNotZero);
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::chunk(kind::RTS | kind::STREAM | kind::CANCEL, 7, 0, 16, 1, 1));
    expect!(t, broken HeaderKinds);
}

fn reject<F: TestFabric>() {
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
    expect!(t, sent 1, wire::cancel(1, 8, 2));
    expect!(t, said 0, Line::default());
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
    feed!(t, slot 1, wire::cancel(1, 2, 2));
    feed!(t, slot 2, wire::inline(0, b"next", 3));
    expect!(t, pulled 4, End::Fin);
}
