//! CLOSE, in order and out of it. wire.md 5.

use superpipe_core::{Closed, End, Length, Reason, RefusedSend};
use superpipe_testkit::{Rig, wire};

use crate::{BEFORE_FIRST, Victim};

tables! {
    close_in_order close_out_of_order
}

fn close_in_order<F: Rig>() {
    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(BEFORE_FIRST, 0, 1));
    expect!(t, closed Closed::ByPeer(Reason::DONE));

    // What was sent before is taken out first.
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
    assert!(t.end.is_told());
    expect!(t, said 0, wire::cancel(1, 1, 3, 1));
    expect!(t, said 1, wire::close(1, 3, 2));
    expect!(t, closed Closed::Here(Reason(3)));
}

fn close_out_of_order<F: Rig>() {
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
