//! Split messages and trusted buffers: the peer misbehaves where memory is offered to it, and where it offers memory (wire.md 4.10, 5.6, 5.7).

use core::time::Duration;

use superpipe::{Connection, Error, ErrorKind, Options, PeerTrust, RegisteredBuf, TrustedBuf};

use crate::case::{CASE, Call, Case, SOON, Seen as Answer, interruptible};
use crate::peer::script::Step::{
    Control, Cue, Die, Hear, MeetWith, Message, Raw, Slot, Take, TakeChunks, WarmUp,
};
use crate::peer::script::{
    CANCEL, Carry, EXPOSE, EXPOSE_ANSWER, FIN, LEFT, OFFER, Of, Patch, REMOTE, RTS, Script, Step, WITHDRAWN,
    pattern,
};
use crate::us::{Us, recv, recv_all};

type Seen = Result<(), ErrorKind>;

const OK: &[Seen] = &[Ok(())];
const TIMEOUT: &[Seen] = &[Err(ErrorKind::Timeout)];
const LOST: &[Seen] = &[Err(ErrorKind::PeerLost)];
const PROTOCOL: &[Seen] = &[Err(ErrorKind::Protocol)];
const CANCELLED: &[Seen] = &[Err(ErrorKind::Cancelled(superpipe::Reason(9)))];

/// The protocol register-cached (wire.md 6.1).
const CACHED: &[Patch] = &[(13, &[7])];
/// Bytes of a buffer, and the packet that names it for place 0.
const BYTES: u64 = 128 << 10;
const PACKET: &[u8] = b"B\0\0\0\0\0\x02\0";
/// Bytes of a message, and the first ones, which the receiver copies.
const LENGTH: u64 = 100_000;
const HEAD: u64 = 49_984;
const LEN: usize = 100_000;
const HEAD_LEN: usize = 49_984;
const _: () = assert!(LEN as u64 == LENGTH && HEAD_LEN as u64 == HEAD);

/// Options of an end that trusts its peer.
fn trusting() -> Options {
    // SAFETY: no reference to a trusted buffer is made in these tests.
    Options { peer_trust: unsafe { PeerTrust::declare() }, ..interruptible() }
}

const fn on(script: Script, call: fn(&mut Us) -> Answer, want: &'static [Seen]) -> Case {
    Case { script, call: Call::With(call), want, options: trusting, ..CASE }
}

/// A control message about memory. Word 1 holds no number of a transfer.
const fn control(kind: u64, place: u64, two: u64, three: u64) -> Step {
    Control([kind, 0, two, three, 0, 0, 0], Of::Number(place))
}

const fn expose(place: u64, access: u64) -> Step {
    control(EXPOSE, place, BYTES, access)
}

/// This end's buffer in place 0 is mapped.
const MAPPED: Step = control(EXPOSE_ANSWER, 0, 0, 0);

/// An offer of memory for the transfer that is so many after the newest.
const fn offer(transfers: u64, place: u64, offset: u64) -> Step {
    Control([OFFER, 0, place, offset, 0, 0, 0], Of::Newest(transfers))
}

/// The first chunk of a split message of tag 1, in the peer's buffer.
const fn split(length: u64, head: u64, place: u64, offset: u64) -> Step {
    Slot([RTS | REMOTE, 1, length, head, 0, place, offset], Of::Newest(1), 1)
}

/// The last chunk of a split message.
const TAIL: Step = Slot([FIN | LEFT | REMOTE, 0, 0, 0, 0, 0, 0], Of::Newest(0), 1);

/// A script on a warm connection.
macro_rules! warm {
    ($($step:expr),* $(,)?) => { &[MeetWith(CACHED), WarmUp, $($step),*] };
}

/// The peer exposes its buffer, maps a trusted buffer of this end, and learns that this is offered.
macro_rules! offered {
    ($($step:expr),* $(,)?) => {
        warm![
            Raw(PACKET, Carry::Buffer), expose(0, 0), Cue, Hear(EXPOSE_ANSWER), Hear(EXPOSE), MAPPED, Hear(OFFER) $(, $step)*
        ]
    };
}

/// The peer breaks a rule of split messages after an offer.
macro_rules! breach {
    ($($step:expr),* $(,)?) => {
        Case { text: "a split message", ..on(offered![$($step),*], receive_all, PROTOCOL) }
    };
}

/// The peer maps a registered buffer of this end, and exposes memory that this end may write.
macro_rules! writable {
    ($($step:expr),* $(,)?) => {
        warm![
            Cue, Hear(EXPOSE), MAPPED, Raw(PACKET, Carry::OpenBuffer), expose(0, 1), Hear(EXPOSE_ANSWER) $(, $step)*
        ]
    };
}

/// The peer breaks a rule of offers.
macro_rules! lie {
    ($text:literal, $($step:expr),* $(,)?) => {
        Case { text: $text, ..on(writable![$($step),*], register_then_receive, PROTOCOL) }
    };
}

/// Receives a message into a buffer that the peer knows of by then.
fn receive_once(connection: &mut Connection, sink: &mut TrustedBuf, limit: Duration) -> Result<usize, Error> {
    let begun = std::time::Instant::now();
    while !connection.offer(sink)? && begun.elapsed() < limit {
        connection.progress();
    }
    Ok(connection.recv_trusted(sink, limit)?.bytes)
}

/// Receives a split message, whose tail the peer did not write.
fn receive(us: &mut Us) -> Answer {
    us.timed(|connection, limit| {
        let mut sink = TrustedBuf::new(200_000).unwrap();
        assert_eq!(receive_once(connection, &mut sink, limit)? as u64, LENGTH);
        let mut copy = vec![0; 200_000];
        sink.read(0, &mut copy)?;
        for (at, byte) in copy.into_iter().enumerate() {
            assert_eq!(byte, if at < HEAD_LEN { pattern(1, at) } else { 0 }, "{at}");
        }
        let counters = connection.counters();
        assert_eq!((counters.exposed_bytes_received, counters.split_bytes_received), (HEAD, LENGTH - HEAD));
        Ok(())
    })
}

/// Receives split messages until one fails.
fn receive_all(us: &mut Us) -> Answer {
    us.timed(|connection, limit| {
        let mut sink = TrustedBuf::new(200_000).unwrap();
        loop {
            receive_once(connection, &mut sink, limit)?;
        }
    })
}

/// Offers a buffer once, and receives what comes after that message into other memory.
fn receive_then_others(us: &mut Us) -> Answer {
    us.timed(|connection, limit| {
        let mut sink = TrustedBuf::new(200_000).unwrap();
        assert_eq!(receive_once(connection, &mut sink, limit)? as u64, LENGTH);
        let mut copy = vec![0; 200_000];
        loop {
            connection.recv_into(&mut [&mut copy], limit)?;
        }
    })
}

/// Drops the buffer that is offered, and receives the message into other memory.
fn receive_elsewhere(us: &mut Us) -> Answer {
    us.timed(|connection, limit| {
        let mut sink = TrustedBuf::new(200_000).unwrap();
        while !connection.offer(&mut sink)? {
            connection.progress();
        }
        drop(sink);
        let mut copy = vec![7; 200_000];
        let received = connection.recv_into(&mut [&mut copy], limit)?;
        assert_eq!(received.bytes as u64, LENGTH);
        assert!(copy[HEAD_LEN..LEN].iter().all(|byte| *byte == 0));
        Ok(())
    })
}

fn buffer() -> RegisteredBuf {
    let mut buffer = RegisteredBuf::new(200_000).unwrap();
    buffer.fill(7);
    buffer
}

/// Registers a buffer, and receives messages until one fails.
fn register_then_receive(us: &mut Us) -> Answer {
    let buffer = buffer();
    us.timed(|connection, limit| connection.register(&buffer, limit))?;
    recv_all(us)
}

/// Registers a buffer, receives a message that comes after an offer, and sends two messages out of the buffer.
fn send_two(us: &mut Us) -> Answer {
    let buffer = buffer();
    us.timed(|connection, limit| connection.register(&buffer, limit))?;
    recv(us)?;
    us.timed(|connection, limit| {
        for _ in 0..2 {
            connection.send_registered(1, &buffer, 0..LEN, limit)?;
        }
        let counters = connection.counters();
        assert_eq!(counters.split_bytes_sent, LENGTH - HEAD, "the first one only");
        assert_eq!(counters.exposed_bytes_sent, LENGTH + HEAD);
        Ok(connection.wait_unshared(&buffer, limit)?)
    })
}

/// Does the same, for offers that this end cannot use.
fn send_whole(us: &mut Us) -> Answer {
    let buffer = buffer();
    us.timed(|connection, limit| connection.register(&buffer, limit))?;
    recv(us)?;
    us.timed(|connection, limit| {
        connection.send_registered(1, &buffer, 0..LEN, limit)?;
        assert_eq!(connection.counters().split_bytes_sent, 0);
        Ok(connection.wait_unshared(&buffer, limit)?)
    })
}

cases! {
    a_split_message_in_good_faith: on(offered![split(LENGTH, HEAD, 0, 0), TAIL], receive, OK);
    a_split_message_whose_buffer_was_dropped:
        on(offered![Step::Sleep(20), split(LENGTH, HEAD, 0, 0), TAIL], receive_elsewhere, OK);
    a_split_message_without_its_tail: Case {
        limit: SOON,
        is_idle: true,
        ..on(offered![split(LENGTH, HEAD, 0, 0)], receive, TIMEOUT)
    };
    a_peer_that_dies_before_the_tail: on(offered![split(LENGTH, HEAD, 0, 0), Die], receive_all, LOST);
    a_split_message_that_is_cancelled: on(
        offered![split(LENGTH, HEAD, 0, 0), Slot([CANCEL, 9, 0, 0, 0, 0, 0], Of::Newest(0), 1)],
        receive_all, CANCELLED
    );
    a_split_message_without_an_offer: Case {
        text: "a split message",
        ..on(
            warm![Raw(PACKET, Carry::Buffer), expose(0, 0), Cue, Hear(EXPOSE_ANSWER), split(LENGTH, HEAD, 0, 0)],
            recv_all, PROTOCOL
        )
    };
    a_second_split_message_for_an_offer: Case {
        text: "a split message",
        ..on(
            offered![split(LENGTH, HEAD, 0, 0), TAIL, Message(2, 8), split(LENGTH, HEAD, 0, 0)],
            receive_then_others, PROTOCOL
        )
    };
    a_split_message_without_a_head: breach!(split(LENGTH, 0, 0, 0));
    a_split_message_without_a_tail: breach!(split(LENGTH, LENGTH, 0, 0));
    a_head_longer_than_its_message: breach!(split(LENGTH, LENGTH + 1, 0, 0));
    a_split_message_longer_than_the_offer: breach!(split(1 << 20, HEAD, 0, 0));
    a_split_message_of_nearly_2_64_bytes: breach!(split(u64::MAX, HEAD, 0, 0));
    a_head_beyond_its_buffer: Case {
        text: "not mapped",
        ..on(offered![split(LENGTH, HEAD, 0, BYTES - HEAD + 1)], receive_all, PROTOCOL)
    };
    a_head_in_a_place_that_is_free: Case {
        text: "not mapped",
        ..on(offered![split(LENGTH, HEAD, 3, 0)], receive_all, PROTOCOL)
    };
    a_tail_of_no_split_message:
        Case { text: "wire.md", ..on(offered![TAIL], receive_all, PROTOCOL) };
    a_block_between_head_and_tail: breach!(split(LENGTH, HEAD, 0, 0), Slot([LEFT, 0, 0, 8, 0, 0, 0], Of::Newest(0), 1));
    an_answer_that_this_end_waits_for_in_vain: Case {
        limit: SOON,
        ..on(
            warm![Raw(PACKET, Carry::Buffer), expose(0, 0), Cue, Hear(EXPOSE_ANSWER), Hear(EXPOSE)],
            receive, TIMEOUT
        )
    };

    offers_in_good_faith: on(
        writable![offer(1, 0, 0), Message(1, 8), TakeChunks(2), Take], send_two, OK
    );
    an_offer_with_too_little_room: on(
        writable![offer(1, 0, BYTES - LENGTH + 1), Message(1, 8), Take], send_whole, OK
    );
    an_offer_of_a_transfer_that_was_sent: on(
        writable![offer(0, 0, 0), Message(1, 8), Take], send_whole, OK
    );
    an_offer_of_a_place_that_is_free: lie!("OFFER of memory", offer(1, 1, 0));
    an_offer_of_a_place_that_does_not_exist: lie!("OFFER of memory", offer(1, 255, 0));
    an_offer_at_the_end_of_its_memory: lie!("OFFER of memory", offer(1, 0, BYTES));
    an_offer_of_a_later_transfer: lie!("OFFER of memory", offer(2, 0, 0));
    two_offers_of_a_transfer: lie!("OFFER of memory", offer(1, 0, 0), offer(1, 0, 64));
    an_offer_of_memory_to_be_read: Case {
        text: "OFFER of memory",
        ..on(
            warm![Raw(PACKET, Carry::Buffer), expose(0, 0), Cue, Hear(EXPOSE_ANSWER), offer(1, 0, 0)],
            recv_all, PROTOCOL
        )
    };
    an_offer_where_it_was_not_agreed: Case {
        text: "not agreed",
        ..on(&[Step::Meet, WarmUp, offer(1, 0, 0), Cue], recv_all, PROTOCOL)
    };
    memory_that_is_withdrawn_while_it_is_offered:
        lie!("WITHDRAWN of memory that a transfer", offer(1, 0, 0), control(WITHDRAWN, 0, 0, 0));
    a_message_in_memory_to_be_written:
        lie!("not mapped", Slot([RTS | FIN | REMOTE, 1, LENGTH, 0, 0, 0, 0], Of::Newest(1), 1));
    memory_that_cannot_be_written: on(
        warm![Raw(PACKET, Carry::Buffer), expose(0, 1), Cue, Hear(EXPOSE_ANSWER), Message(1, 100)], recv, OK
    );
    memory_to_be_written_that_is_small: on(
        warm![Raw(PACKET, Carry::SmallOpenBuffer), expose(0, 1), Cue, Hear(EXPOSE_ANSWER), Message(1, 100)], recv, OK
    );
    memory_to_be_written_that_is_a_device: on(
        warm![Raw(PACKET, Carry::DevNull), expose(0, 1), Cue, Hear(EXPOSE_ANSWER), Message(1, 100)], recv, OK
    );
    expose_with_an_unknown_access: Case {
        text: "reserved",
        ..on(warm![Raw(PACKET, Carry::Buffer), expose(0, 2), Cue], recv_all, PROTOCOL)
    };
}
