//! Streams by calls that never wait.

use superpipe_core::driver::{Drive, IncomingStream, OutgoingStream, RecvFailed, RecvOperation, StreamRead};
use superpipe_core::{Arrival, Length, Reason, RefusedSend};
use superpipe_testkit::{Setup, TestFabric};

use crate::driver::{GIVEN_UP, LAYOUT, One, Two, payload};

tables! {
    a_stream_arrives_as_it_was_written
    a_message_is_read_as_a_stream
    a_rejected_stream_is_over_at_both_ends
    a_cancelled_stream_says_so_after_what_was_sent
    a_stream_of_another_connection_is_refused
    nothing_else_takes_what_a_stream_takes
    a_stream_that_was_rejected_reads_nothing_of_the_next
}

fn open<F: TestFabric>(t: &mut Two<F>) -> OutgoingStream {
    t.ends[0].open_stream(9).unwrap()
}

fn take<F: TestFabric>(t: &mut Two<F>) -> IncomingStream {
    t.settle();
    match t.ends[1].take_stream(&mut t.fabric) {
        Drive::Done(Some(stream)) => stream,
        other => panic!("{other:?}"),
    }
}

fn write<F: TestFabric>(
    t: &mut Two<F>,
    stream: &mut OutgoingStream,
    bytes: &[u8],
) -> Result<usize, RefusedSend> {
    let (middle, end) = (bytes.len() / 3, bytes.len());
    t.ends[0].write_stream(&mut t.fabric, stream, &[&bytes[..middle], &[], &bytes[middle..end]])
}

fn read<F: TestFabric>(t: &mut Two<F>, stream: &mut IncomingStream, room: &mut [u8]) -> Option<StreamRead> {
    t.ends[1].read_stream(&mut t.fabric, stream, &mut [room])
}

/// Far more than the landing buffer holds.
fn a_stream_arrives_as_it_was_written<F: TestFabric>() {
    let (mut t, bytes) = (Two::<F>::new(), payload(20_000));
    let mut out = open(&mut t);
    assert_eq!(t.ends[0].open_stream(1).map(drop), Err(RefusedSend::Busy));
    assert_eq!(write(&mut t, &mut out, &[]), Ok(0));
    let mut sent = write(&mut t, &mut out, &bytes).unwrap();
    assert!(sent > 0);
    let mut incoming = take(&mut t);
    assert_eq!((incoming.tag(), incoming.length()), (9, Length::Stream));
    let (mut got, mut room, mut is_finished) = (Vec::new(), [0; 700], false);
    for _ in 0..10_000 {
        if sent < bytes.len() {
            sent += write(&mut t, &mut out, &bytes[sent..]).unwrap();
        } else if !is_finished {
            is_finished = t.ends[0].finish_stream(&mut t.fabric, &mut out).unwrap();
        }
        t.settle();
        match read(&mut t, &mut incoming, &mut room).unwrap() {
            StreamRead::Bytes(count) => got.extend_from_slice(&room[..count]),
            StreamRead::Nothing => {}
            StreamRead::End => break,
            other @ StreamRead::Cancelled(_) => panic!("{other:?}"),
        }
    }
    assert!(is_finished && got == bytes);
    assert_eq!(read(&mut t, &mut incoming, &mut room), Some(StreamRead::End), "each time");
    assert_eq!(write(&mut t, &mut out, b"more"), Err(RefusedSend::NotOpen));
    // What has ended is unchanged.
    t.ends[0].abandon_stream(&mut t.fabric, &out, GIVEN_UP);
    t.ends[1].reject_stream(&mut t.fabric, &mut incoming, GIVEN_UP);
    t.settle();
    assert!(t.ends[0].open_stream(2).is_ok());
}

fn a_message_is_read_as_a_stream<F: TestFabric>() {
    let mut t = Two::<F>::new();
    t.send(0, 7, b"a message");
    let mut incoming = take(&mut t);
    assert_eq!((incoming.tag(), incoming.length()), (7, Length::Exact(9)));
    let mut room = [0; 4];
    assert_eq!(read(&mut t, &mut incoming, &mut room), Some(StreamRead::Bytes(4)));
    assert_eq!(read(&mut t, &mut incoming, &mut room), Some(StreamRead::Bytes(4)));
    assert_eq!(read(&mut t, &mut incoming, &mut room), Some(StreamRead::Bytes(1)));
    assert_eq!((room[0], read(&mut t, &mut incoming, &mut room)), (b'e', Some(StreamRead::End)));
}

fn a_rejected_stream_is_over_at_both_ends<F: TestFabric>() {
    let mut t = Two::<F>::new();
    let mut out = open(&mut t);
    assert_eq!(write(&mut t, &mut out, b"unwanted"), Ok(8));
    let mut incoming = take(&mut t);
    t.ends[1].reject_stream(&mut t.fabric, &mut incoming, Reason(5));
    t.settle();
    for _ in 0..2 {
        assert_eq!(write(&mut t, &mut out, b"more"), Err(RefusedSend::Rejected(Reason(5))));
        assert_eq!(t.ends[0].finish_stream(&mut t.fabric, &mut out), Err(RefusedSend::Rejected(Reason(5))));
    }
    assert_eq!(read(&mut t, &mut incoming, &mut [0; 9]), None);
    t.settle();
    assert!(t.ends[0].open_stream(2).is_ok(), "the direction is free");
}

fn a_cancelled_stream_says_so_after_what_was_sent<F: TestFabric>() {
    let mut t = Two::<F>::new();
    let mut out = open(&mut t);
    assert_eq!(write(&mut t, &mut out, b"a part"), Ok(6));
    t.ends[0].abandon_stream(&mut t.fabric, &out, Reason(6));
    let mut incoming = take(&mut t);
    let mut room = [0; 9];
    assert_eq!(read(&mut t, &mut incoming, &mut room), Some(StreamRead::Bytes(6)));
    assert_eq!(&room[..6], b"a part");
    t.settle();
    for _ in 0..2 {
        assert_eq!(read(&mut t, &mut incoming, &mut room), Some(StreamRead::Cancelled(Reason(6))));
    }
}

/// Both connections have a stream of the same number.
fn a_stream_of_another_connection_is_refused<F: TestFabric>() {
    let [mut one, mut other] = [1, 2].map(|id| {
        let fabric = F::new(&Setup::new(LAYOUT, 1));
        let driver = crate::driver::numbered(&fabric, 0, Arrival::Flag, id);
        One { fabric, driver, controls_fed: 0 }
    });
    let (mut ours, mut theirs) = (one.driver.open_stream(1).unwrap(), other.driver.open_stream(1).unwrap());
    let refused = one.driver.write_stream(&mut one.fabric, &mut theirs, &[b"x"]);
    assert_eq!(refused, Err(RefusedSend::NotOpen));
    assert_eq!(one.driver.finish_stream(&mut one.fabric, &mut theirs), Err(RefusedSend::NotOpen));
    one.driver.abandon_stream(&mut one.fabric, &theirs, GIVEN_UP);
    assert_eq!(one.driver.write_stream(&mut one.fabric, &mut ours, &[b"x"]), Ok(1), "it goes on");
}

/// But for a try, which takes a whole message or nothing.
fn nothing_else_takes_what_a_stream_takes<F: TestFabric>() {
    let mut t = Two::<F>::new();
    t.send(0, 7, b"whole");
    let mut incoming = take(&mut t);
    let mut room = [0; 9];
    assert!(matches!(t.ends[1].take_stream(&mut t.fabric), Drive::Done(None)));
    assert_eq!(read(&mut t, &mut incoming, &mut room[..2]), Some(StreamRead::Bytes(2)));
    assert!(t.ends[1].try_recv(&mut t.fabric, &mut [&mut room]).is_err());
    let mut receive = RecvOperation::new();
    let driven = t.ends[1].drive_recv(&mut t.fabric, &mut receive, &mut [&mut room]);
    assert_eq!(driven, Drive::Done(Err(RecvFailed::Busy)));
    assert_eq!(read(&mut t, &mut incoming, &mut room), Some(StreamRead::Bytes(3)));
    assert_eq!(&room[..3], b"ole");
    t.send(0, 8, b"again");
    let mut incoming = take(&mut t);
    let received = t.ends[1].try_recv(&mut t.fabric, &mut [&mut room]).unwrap().unwrap();
    assert_eq!((received.tag, &room[..5]), (8, &b"again"[..]));
    assert_eq!(read(&mut t, &mut incoming, &mut room), None);
}

fn a_stream_that_was_rejected_reads_nothing_of_the_next<F: TestFabric>() {
    let mut t = Two::<F>::new();
    let mut out = open(&mut t);
    assert_eq!(write(&mut t, &mut out, b"first"), Ok(5));
    assert_eq!(t.ends[0].finish_stream(&mut t.fabric, &mut out), Ok(true));
    t.settle();
    t.send(0, 2, b"second");
    let mut incoming = take(&mut t);
    assert!(t.ends[1].reject(&mut t.fabric, Reason(3)), "the program does that itself");
    t.settle();
    let mut room = [0; 9];
    assert_eq!(read(&mut t, &mut incoming, &mut room), None);
    t.ends[1].reject_stream(&mut t.fabric, &mut incoming, Reason(4));
    t.settle();
    let received = t.ends[1].try_recv(&mut t.fabric, &mut [&mut room]).unwrap().unwrap();
    assert_eq!((received.tag, &room[..received.bytes]), (2, &b"second"[..]));
}
