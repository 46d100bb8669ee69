//! Slot lines: their headers, and which may follow which. wire.md 3, 4.

use superpipe_core::{Closed, End, Failure, Line, ProtocolError};
use superpipe_testkit::{
    TestFabric,
    wire::{self, kind},
};

use crate::table::{LAYOUT, Victim, broken, stream};

tables! {
    headers chunk_shapes chunk_order message_ends
}

fn headers<F: TestFabric>() {
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::inline(5, b"payload", 1));
    expect!(t, pulled 7, End::Fin);
    feed!(t, slot 1, wire::inline(5, b"", 3)); // not yet the one awaited
    expect!(t, pulled 0, End::No);
    feed!(t, slot 1, wire::inline(5, b"", 2));
    expect!(t, pulled 0, End::Fin);
    expect!(t, open);

    let broken = |word: usize, value: u64, line: Line| {
        let mut t = Victim::<F>::new();
        let mut line = line;
        line.0[word] ^= value;
        feed!(t, slot 0, line);
        match t.end.closed() {
            Some(Closed::Failed(Failure::Protocol(rule))) => rule,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(broken(0, 1 << 15, wire::inline(0, b"x", 1)), ProtocolError::InlineTooLong);
    assert_eq!(broken(0, kind::FIN, wire::inline(0, b"x", 1)), ProtocolError::HeaderKinds);
    assert_eq!(broken(0, kind::RTS, stream(0, 1)), ProtocolError::ReservedNotZero); // a tag without RTS
    assert_eq!(
        broken(0, kind::RTS, wire::chunk(kind::RTS | kind::STREAM, 0, 0, 1, 1, 1)),
        ProtocolError::HeaderKinds
    );
    for word in [2, 5, 6] {
        assert_eq!(broken(word, 1, stream(0, 1)), ProtocolError::ReservedNotZero);
    }
    assert_eq!(broken(0, 1 << 8, stream(0, 1)), ProtocolError::ReservedNotZero);
    assert_eq!(broken(3, 1 << 40, stream(0, 1)), ProtocolError::ChunkTooLong);
}

fn chunk_shapes<F: TestFabric>() {
    let whole = u64::from(LAYOUT.capacity(8));
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(whole, 1));
    expect!(t, open);
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(whole + 1, 1));
    expect!(t, broken ChunkTooLong);
    // Too long for one block, and too short to be right-aligned in two.
    let between = u64::from(LAYOUT.capacity(1)) + 1;
    assert!(!LAYOUT.can_right_align(LAYOUT.capacity(1) + 1));
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, stream(between, 1));
    expect!(t, broken ChunkShape);
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::chunk(kind::RTS | kind::STREAM | kind::LEFT, 7, 0, between, 1, 1));
    expect!(t, open);
}

fn chunk_order<F: TestFabric>() {
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::chunk(0, 0, 0, 10, 1, 1));
    expect!(t, broken NoTransferOpen);

    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::chunk(kind::RTS | kind::STREAM, 7, 0, 0, 2, 1));
    expect!(t, broken WrongTransfer);

    for (bits, transfer, bytes, rule) in [
        (0, 1, 10, None),
        (kind::FIN, 1, 0, None),
        (0, 2, 10, Some(ProtocolError::WrongTransfer)),
        (0, 1, 0, Some(ProtocolError::ChunkEmpty)),
        (kind::RTS, 2, 0, Some(ProtocolError::TransferOpen)),
        (kind::RTS | kind::FIN, 2, 0, Some(ProtocolError::TransferOpen)),
        (kind::CANCEL, 1, 0, None),
    ] {
        let mut t = Victim::<F>::new();
        feed!(t, slot 0, stream(16, 1));
        expect!(t, pulled 16, End::No);
        feed!(t, slot 1, wire::chunk(bits, 0, 0, bytes, transfer, 2));
        assert_eq!(t.end.closed(), rule.and_then(broken), "{bits} {transfer}");
    }
}

fn message_ends<F: TestFabric>() {
    for (bits, length, bytes, rule) in [
        (kind::FIN, 10, 10, None),
        (0, 10, 9, None),
        (0, 10, 11, Some(ProtocolError::LengthExceeded)),
        (0, 10, 10, Some(ProtocolError::WrongEnd)),
        (kind::FIN, 10, 9, Some(ProtocolError::WrongEnd)),
        (kind::FIN, 0, 0, None),
        (0, 0, 0, Some(ProtocolError::WrongEnd)),
    ] {
        let mut t = Victim::<F>::new();
        feed!(t, slot 0, wire::chunk(kind::RTS | bits, 3, length, bytes, 1, 1));
        assert_eq!(t.end.closed(), rule.and_then(broken), "{bits} {length} {bytes}");
    }
    // Over several chunks.
    for (bits, bytes, rule) in [
        (kind::FIN, 5, None),
        (0, 4, None),
        (0, 6, Some(ProtocolError::LengthExceeded)),
        (kind::FIN, 4, Some(ProtocolError::WrongEnd)),
    ] {
        let mut t = Victim::<F>::new();
        feed!(t, slot 0, wire::chunk(kind::RTS, 3, 10, 5, 1, 1));
        expect!(t, pulled 5, End::No);
        feed!(t, slot 1, wire::chunk(bits, 0, 0, bytes, 1, 2));
        assert_eq!(t.end.closed(), rule.and_then(broken), "{bits} {bytes}");
    }
}
