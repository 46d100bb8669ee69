//! Writes of the sending half.

use superpipe_core::{
    Closed, End, Failure, Length, Line, Protocol, Reason, RefusedSend, WcError, control_page,
};
use superpipe_testkit::{
    Direct, Memory, Posted, TestFabric,
    wire::{self, kind},
};

use crate::table::{BEFORE_FIRST, LAYOUT, Victim};

tables! {
    what_goes_out
}

fn what_goes_out<F: TestFabric>() {
    let mut t = Victim::<F>::new();
    t.end.try_send(&mut t.fabric, 9, &[b"in a ", b"line"]).unwrap();
    t.settle();
    expect!(t, sent 0, wire::inline(9, b"in a line", 1));
    t.end.try_send(&mut t.fabric, 10, &[&[3; 41]]).unwrap();
    t.settle();
    expect!(t, sent 1, wire::chunk(kind::RTS | kind::FIN, 10, 41, 41, 2, 2));
    t.end.set_protocol(Protocol::Copy);
    let id = t.end.start(11, Length::Exact(1000)).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[3; 1000]]), Ok(0));
    t.settle();
    expect!(t, sent 2, wire::chunk(kind::RTS | kind::WANT_CTS | kind::WHOLE, 11, 1000, 0, 3, 3));
    t.end.cancel(&mut t.fabric, id, Reason(6)).unwrap();
    t.settle();
    expect!(t, sent 3, wire::cancel(3, 6, 4));
    t.end.try_send(&mut t.fabric, 12, &[]).unwrap();
    t.settle();
    expect!(t, sent 4, wire::inline(12, b"", 5));
    expect!(t, said 0, Line::default());

    // A CTS answers the first pull of a transfer that wants one, once.
    let mut t = Victim::<F>::new();
    feed!(t, slot 0, wire::chunk(kind::RTS | kind::STREAM | kind::WANT_CTS, 1, 0, 8, 1, 1));
    expect!(t, said 0, Line::default());
    expect!(t, pulled 8, End::No);
    expect!(t, said 0, wire::cts(1, 1));
    expect!(t, pulled 0, End::No);
    expect!(t, said 1, Line::default());
    // The block and no control message was consumed.
    let ack = t.fabric.memories().line(Memory::control_page(1), control_page::ACK);
    assert_eq!(ack, wire::ack(1, BEFORE_FIRST, 0));
}

/// A full ring stays as it is until something is acknowledged.
#[test]
fn nothing_is_written_without_credit() {
    let mut t = Victim::<Direct>::new();
    for tag in 0..8 {
        t.end.try_send(&mut t.fabric, tag, &[b"tiny"]).unwrap();
    }
    let before = t.fabric.memories().bytes(Memory::landing(1), 0, LAYOUT.bytes()).to_vec();
    assert_eq!(t.end.try_send(&mut t.fabric, 9, &[b"tiny"]), Err(RefusedSend::NoCredit));
    assert_eq!(t.end.try_send(&mut t.fabric, 9, &[&[0; 60]]), Err(RefusedSend::NoCredit));
    let id = t.end.start(9, Length::Stream).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[0; 60]]), Ok(0));
    assert!(matches!(t.end.reserve(&mut t.fabric, id, 60), Err(RefusedSend::NoCredit)));
    assert_eq!(t.end.finish(&mut t.fabric, id), Err(RefusedSend::NoCredit));
    assert_eq!(t.fabric.memories().bytes(Memory::landing(1), 0, LAYOUT.bytes()), before);
    // One block is kept for what ends the stream.
    feed!(t, ack wire::ack(1, BEFORE_FIRST, 0));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[0; 60]]), Ok(0));
    assert!(matches!(t.end.reserve(&mut t.fabric, id, 60), Err(RefusedSend::NoCredit)));
    feed!(t, ack wire::ack(2, BEFORE_FIRST, 0));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[0; 60]]), Ok(60));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[0; 60]]), Ok(0));
    assert_eq!(t.end.finish(&mut t.fabric, id), Ok(()));
    expect!(t, sent 1, wire::chunk(kind::FIN | kind::LEFT, 0, 0, 0, 9, 10));
}

/// The last chunk of a message may take the block that is kept, since nothing is left to cancel; a reservation may not,
/// since less may be committed.
#[test]
fn the_kept_block_is_for_what_ends_a_transfer() {
    let mut t = Victim::<Direct>::new();
    for tag in 0..6 {
        t.end.try_send(&mut t.fabric, tag, &[b"tiny"]).unwrap();
    }
    let id = t.end.start(9, Length::Exact(90)).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 30]]), Ok(30));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 30]]), Ok(0));
    assert!(matches!(t.end.reserve(&mut t.fabric, id, 60), Err(RefusedSend::NoCredit)));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 60]]), Ok(60));
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[]]), Err(RefusedSend::NotOpen));
}

/// A reservation ends with its transfer: the next one has none, whatever ended the first.
#[test]
fn what_another_transfer_reserved_cannot_be_committed() {
    let mut t = Victim::<Direct>::new();
    let id = t.end.start(1, Length::Stream).unwrap();
    assert_eq!(t.end.push(&mut t.fabric, id, &[&[1; 50]]), Ok(50));
    assert_eq!(t.end.reserve(&mut t.fabric, id, 60).unwrap().bytes(), 50);
    feed!(t, control wire::reject(1, 8, 1));
    assert_eq!(t.end.commit(&mut t.fabric, id, 9), Err(RefusedSend::Rejected(Reason(8))));
    t.settle();
    let id = t.end.start(2, Length::Stream).unwrap();
    assert_eq!(t.end.commit(&mut t.fabric, id, 9), Err(RefusedSend::WrongLength));
}

/// wire.md 4.3: a message ends by its length, however long it is.
#[test]
fn a_message_of_any_length_is_no_stream() {
    for length in [1, 1 << 40, u64::MAX - 1, u64::MAX] {
        let mut t = Victim::<Direct>::new();
        let id = t.end.start(9, Length::Exact(length)).unwrap();
        assert_eq!(t.end.finish(&mut t.fabric, id), Err(RefusedSend::WrongLength), "{length}");
        assert_eq!(t.sent(0), Line::default());
    }
}

/// A work request that fails ends the connection, and is named.
#[test]
fn a_failed_work_request() {
    let mut t = Victim::<Posted>::new();
    let error = WcError { status: 12, vendor_err: 0x81 };
    t.fabric.fail_next(0, error);
    t.end.try_send(&mut t.fabric, 1, &[&[0; 60]]).unwrap();
    t.settle();
    expect!(t, closed Closed::Failed(Failure::Device(error)));
    assert_eq!(t.end.try_send(&mut t.fabric, 1, &[]), Err(RefusedSend::Closed));
}
