//! Messages that [`Endpoint::try_recv`](superpipe_core::Endpoint::try_recv) takes, and those that it leaves to the slow path.

use superpipe_core::{End, Line, ProtocolError, TryRecv, control_page};
use superpipe_testkit::{
    Memory, TestFabric,
    wire::{self, kind},
};

use crate::table::{BEFORE_FIRST, Victim, broken};

tables! {
    the_short_way
}

/// Messages that [`Endpoint::try_recv`] takes, and those that it leaves to the slow path.
fn the_short_way<F: TestFabric>() {
    let message = |bytes, transfer, flag| wire::chunk(kind::RTS | kind::FIN, 7, bytes, bytes, transfer, flag);
    let mut t = Victim::<F>::new();
    let taken = |bytes| TryRecv::Taken { tag: 7, bytes };
    assert_eq!(t.try_recv(0, message(100, 1, 1)), taken(100));
    assert_eq!(t.try_recv(1, message(0, 2, 2)), taken(0));
    // The later block is late.
    assert_eq!(t.try_recv(2, message(300, 3, 3)), TryRecv::Begun { tag: 7, bytes: 52 });
    expect!(t, pulled 0, End::No);
    assert_eq!(t.try_recv(3, message(300, 3, 3)), TryRecv::Other);
    expect!(t, pulled 248, End::Fin);
    // The line of acknowledgements is whole, however little of it was written.
    let ack = |t: &Victim<F>| t.fabric.memories().line(Memory::control_page(1), control_page::ACK);
    assert_eq!(ack(&t), wire::ack(4, BEFORE_FIRST, 0));
    t.end.try_send(&mut t.fabric, 9, &[b"out"]).unwrap();
    feed!(t, control wire::reject(1, 1, 1));
    feed!(t, control wire::cts(1, 2));
    assert_eq!(ack(&t), wire::ack(4, 2, 0));
    t.end.send_keepalive(&mut t.fabric);
    t.settle();
    assert_eq!(ack(&t), wire::ack(4, 2, 1));
    // One that does not fit stays.
    assert_eq!(t.try_recv(4, message(301, 4, 4)), TryRecv::Other);
    expect!(t, open);

    let judged = |line: Line| {
        let mut t = Victim::<F>::new();
        assert_eq!(t.try_recv(0, line), TryRecv::Other);
        expect!(t, open);
        t.end.incoming(&mut t.fabric);
        t.end.closed()
    };
    let with = |word: usize, value| {
        let mut line = message(100, 1, 1);
        line.0[word] = value;
        line
    };
    assert_eq!(judged(message(100, 2, 1)), broken(ProtocolError::WrongTransfer));
    assert_eq!(judged(with(2, 101)), broken(ProtocolError::WrongEnd));
    assert_eq!(judged(with(5, 1)), broken(ProtocolError::ReservedNotZero));
    assert_eq!(judged(with(6, 1)), broken(ProtocolError::ReservedNotZero));
    assert_eq!(judged(message(1 << 20, 1, 1)), broken(ProtocolError::ChunkTooLong));
    assert_eq!(judged(message(1 << 40, 1, 1)), broken(ProtocolError::ChunkTooLong));

    let mut t = Victim::<F>::new();
    feed!(t, control wire::close(0, 0, 1));
    assert_eq!(t.try_recv(0, message(100, 1, 1)), TryRecv::Other);
}
