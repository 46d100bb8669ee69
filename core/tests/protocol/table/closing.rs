//! CLOSE, in order and out of it. wire.md 5.

use superpipe_core::{Closed, End, Length, Line, Readable, Reason, RefusedSend, TryRecv};
use superpipe_testkit::{TestFabric, wire};

use crate::table::{BEFORE_FIRST, Victim, stream};

tables! {
    close_in_order close_out_of_order a_closed_connection_delivers_nothing
}

fn close_in_order<F: TestFabric>() {
    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(BEFORE_FIRST, 0, 1));
    expect!(t, closed Closed::ByPeer(Reason::DONE));

    // Transfers that were sent before are taken out first.
    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(1, 0, 1));
    expect!(t, open);
    feed!(t, slot 0, wire::inline(0, b"last", 1));
    expect!(t, open);
    expect!(t, pulled 4, End::Fin);
    expect!(t, closed Closed::ByPeer(Reason::DONE));
    assert_eq!(t.end.try_send(&mut t.fabric, 0, &[]), Err(RefusedSend::Closed));

    // Any other reason does not wait.
    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(1, 77, 1));
    expect!(t, closed Closed::ByPeer(Reason(77)));

    // An open transfer is cancelled, and everything is refused afterwards.
    let mut t = Victim::<F>::new();
    let id = t.end.start(4, Length::Stream).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Ok(50));
    t.end.close(&mut t.fabric, Reason(3));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Err(RefusedSend::Closed));
    assert_eq!(t.end.start(0, Length::Stream), Err(RefusedSend::Closed));
    t.settle();
    assert!(t.end.is_flushed());
    expect!(t, sent 1, wire::cancel(1, 3, 2));
    expect!(t, said 0, wire::close(2, 3, 1));
    expect!(t, closed Closed::Here(Reason(3)));
}

fn close_out_of_order<F: TestFabric>() {
    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(5, 0, 1));
    feed!(t, control wire::close(5, 0, 2));
    expect!(t, broken CloseTwice);

    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(BEFORE_FIRST, 0, 1));
    feed!(t, slot 0, wire::inline(0, b"more", 1));
    expect!(t, broken ChunkAfterClose);

    // Chunks that were consumed already lie behind the last one.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::inline(0, b"", 1));
    expect!(t, pulled 0, End::Fin);
    feed!(t, control wire::close(BEFORE_FIRST, 0, 1));
    expect!(t, broken ChunkAfterClose);
}

/// wire.md 5.3: a connection that has failed, or that either end closed with a reason, delivers nothing that was sent
/// before; not of a transfer that is open, either.
fn a_closed_connection_delivers_nothing<F: TestFabric>() {
    type Closer<F> = fn(&mut Victim<F>);
    let closers: [(&str, Closer<F>); 3] = [
        ("failed", |t| feed!(t, control Line([9, 0, 0, 0, 0, 0, 0, 1]))),
        ("closed by the peer", |t| feed!(t, control wire::close(9, 77, 1))),
        ("closed here", |t| t.end.close(&mut t.fabric, Reason(77))),
    ];
    for (what, close) in closers {
        let nothing = |t: &mut Victim<F>| {
            assert!(t.end.closed().is_some(), "{what}");
            let mut place = [0; 300];
            let found = t.end.try_recv(&mut t.fabric, &mut [&mut place], 2);
            assert!(matches!(found, TryRecv::Nothing | TryRecv::Other), "{what}: {found:?}");
            assert_eq!(t.end.incoming(&mut t.fabric), None, "{what}");
            assert_eq!(t.pull(), (0, End::No), "{what}");
            assert!(matches!(t.end.readable(&mut t.fabric, 9), Readable::Nothing), "{what}");
            assert!(!t.end.reject(&mut t.fabric, Reason(1)), "{what}");
        };
        for line in [wire::inline(3, b"tiny", 1), stream(16, 1)] {
            let mut t = Victim::<F>::new();
            t.fabric.forge(superpipe_testkit::Memory::landing(0), crate::table::LAYOUT.line_at(0), &line);
            close(&mut t);
            nothing(&mut t);
        }
        // Under way: the caller holds a part that it reads in place.
        let mut t = Victim::<F>::new();
        feed!(t, slot 0, stream(16, 1));
        let Readable::Run(run) = t.end.readable(&mut t.fabric, 9) else { panic!("16 bytes are there") };
        close(&mut t);
        assert_eq!(t.end.consume(&mut t.fabric, run.bytes), End::No);
        nothing(&mut t);
    }
}
