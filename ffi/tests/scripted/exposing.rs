//! Registered buffers: the peer misbehaves where buffers are exposed, named and withdrawn (wire.md 4.9, 5.6, 6.4, 7.2).

use superpipe::{ErrorKind, Registered, RegisteredBuf};

use crate::case::{CASE, Call, Case, SOON, Seen as Answer, unmapping};
use crate::peer::script::Step::{
    Control, Cue, Die, Hear, Meet, MeetWith, Message, Raw, Slot, Take, Tamper, WarmUp,
};
use crate::peer::script::{
    Carry, EXPOSE, EXPOSE_ANSWER, FIN, Of, Patch, REMOTE, RTS, Script, Step, WITHDRAWN,
};
use crate::us::{Us, recv, recv_all, recv_three};

type Seen = Result<(), ErrorKind>;

const OK: &[Seen] = &[Ok(())];
const TIMEOUT: &[Seen] = &[Err(ErrorKind::Timeout)];
const LOST: &[Seen] = &[Err(ErrorKind::PeerLost)];
const PROTOCOL: &[Seen] = &[Err(ErrorKind::Protocol)];
/// From Linux 6.16 on the kernel lets no descriptor in where none is expected: the packet never comes.
const LOST_OR_LATE: &[Seen] = &[Err(ErrorKind::PeerLost), Err(ErrorKind::Timeout)];

/// The protocol register-cached (wire.md 6.1).
const CACHED: &[Patch] = &[(13, &[7])];
/// The sequence of the fourth chunk after the warm-up, which takes 140.
const FOURTH: u64 = 144;
/// Bytes of a buffer, and the packet that names it for place 0.
const BYTES: u64 = 128 << 10;
const PACKET: &[u8] = b"B\0\0\0\0\0\x02\0";
/// The cause of a refusal in word 3 of an answer: no room in the budget.
const NO_ROOM: u64 = 1;

const fn on(script: Script, call: fn(&mut Us) -> Answer, want: &'static [Seen]) -> Case {
    Case { script, call: Call::With(call), want, ..CASE }
}

/// A control message about memory. Word 1 holds no number of a transfer.
const fn control(kind: u64, place: u64, two: u64, three: u64) -> Step {
    Control([kind, 0, two, three, 0, 0, 0], Of::Number(place))
}

const fn expose(place: u64, bytes: u64) -> Step {
    control(EXPOSE, place, bytes, 0)
}

/// A message of tag 1 in a buffer.
const fn named(bytes: u64, place: u64, offset: u64) -> Step {
    Slot([RTS | FIN | REMOTE, 1, bytes, 0, 0, place, offset], Of::Newest(1), 1)
}

/// A script on a warm connection.
macro_rules! warm {
    ($($step:expr),* $(,)?) => { &[MeetWith(CACHED), WarmUp, $($step),*] };
}

/// The peer exposes a buffer, which this end refuses, and goes on.
macro_rules! refused {
    ($($step:expr),+ $(,)?) => { on(warm![$($step,)+ Cue, Hear(EXPOSE_ANSWER), Message(1, 100)], recv, OK) };
}

/// The peer exposes a buffer in good faith, and then breaks a rule.
macro_rules! breach {
    ($text:literal, $($step:expr),* $(,)?) => {
        Case {
            text: $text,
            ..on(
                warm![Raw(PACKET, Carry::Buffer), expose(0, BYTES), Cue, Hear(EXPOSE_ANSWER) $(, $step)*],
                recv_all, PROTOCOL
            )
        }
    };
}

/// The peer sends packets that it may not, to an end that waits for a message.
macro_rules! wrong_packets {
    ($text:literal, $($step:expr),+ $(,)?) => { Case { text: $text, ..on(warm![$($step,)+ Cue], recv_all, PROTOCOL) } };
}

/// This end registers a buffer, and the peer answers so.
macro_rules! answered {
    ($call:ident, $want:expr, $($step:expr),* $(,)?) => { on(warm![Cue, Hear(EXPOSE) $(, $step)*], $call, $want) };
}

fn buffer() -> RegisteredBuf {
    let mut buffer = RegisteredBuf::new(200_000).unwrap();
    buffer.fill(7);
    buffer
}

/// Registers a buffer.
fn register(us: &mut Us) -> Answer {
    let buffer = buffer();
    us.timed(|connection, limit| connection.register(&buffer, limit))?;
    Ok(())
}

/// Registers a buffer, which the peer refuses, and sends it through the ring.
fn register_in_vain(us: &mut Us) -> Answer {
    let buffer = buffer();
    us.timed(|connection, limit| {
        assert_eq!(connection.register(&buffer, limit)?, Registered::Refused);
        connection.send_registered(1, &buffer, 0..200_000, limit)?;
        assert_eq!(connection.counters().exposed_bytes_sent, 0);
        Ok(())
    })
}

/// Sends a message out of a registered buffer, and waits until it is not shared.
fn share(us: &mut Us) -> Answer {
    let buffer = buffer();
    us.timed(|connection, limit| {
        assert_eq!(connection.register(&buffer, limit)?, Registered::Ready);
        connection.send_registered(1, &buffer, 0..200_000, limit)?;
        assert!(connection.is_shared(&buffer));
        let waited = connection.wait_unshared(&buffer, limit);
        assert_eq!(connection.is_shared(&buffer), waited.is_err());
        Ok(waited?)
    })
}

cases! {
    a_buffer_in_good_faith: on(
        warm![
            Raw(PACKET, Carry::Buffer), expose(0, BYTES), Cue, Hear(EXPOSE_ANSWER), named(BYTES, 0, 0), Message(2, 8),
            Message(3, 8), control(WITHDRAWN, 0, FOURTH, 0), Step::Sleep(20), named(70_000, 0, 0)
        ],
        recv_three, OK
    );
    a_buffer_that_its_owner_cannot_punch:
        on(warm![Raw(PACKET, Carry::Buffer), expose(0, BYTES), Cue, Hear(EXPOSE_ANSWER), Tamper, named(BYTES, 0, 0)], recv, OK);
    a_peer_that_dies_after_its_message: on(
        warm![Raw(PACKET, Carry::Buffer), expose(0, BYTES), Cue, Hear(EXPOSE_ANSWER), named(BYTES, 0, 0), Die],
        recv_all, LOST
    );
    a_peer_that_dies_before_it_is_mapped: on(warm![Raw(PACKET, Carry::Buffer), expose(0, BYTES), Cue, Die], recv_all, LOST);

    expose_without_a_descriptor: refused!(expose(0, BYTES));
    expose_of_another_place_than_was_sent: refused!(Raw(PACKET, Carry::Buffer), expose(1, BYTES));
    expose_of_other_bytes_than_were_sent: refused!(Raw(PACKET, Carry::Buffer), expose(0, BYTES - 4096));
    a_buffer_that_can_be_written: refused!(Raw(PACKET, Carry::OpenBuffer), expose(0, BYTES));
    a_buffer_that_is_small: refused!(Raw(PACKET, Carry::SmallBuffer), expose(0, BYTES));
    a_buffer_that_is_large: refused!(Raw(PACKET, Carry::LargeBuffer), expose(0, BYTES));
    a_buffer_that_is_a_device: refused!(Raw(PACKET, Carry::DevNull), expose(0, BYTES));
    a_buffer_that_is_a_pipe: refused!(Raw(PACKET, Carry::Pipe), expose(0, BYTES));
    a_buffer_that_is_a_socket: refused!(Raw(PACKET, Carry::Socket), expose(0, BYTES));
    a_buffer_of_nearly_4_gib: refused!(Raw(b"B\0\0\0\0\xf0\xff\xff", Carry::Buffer), expose(0, 0xFFFF_F000));

    a_descriptor_without_expose: Case {
        is_idle: true,
        limit: SOON,
        ..on(warm![Raw(PACKET, Carry::Buffer), Cue], recv, TIMEOUT)
    };
    descriptors_for_all_places_without_expose: Case {
        is_idle: true,
        limit: SOON,
        ..on(
            warm![
                Raw(PACKET, Carry::Buffer), Raw(b"B\x01\0\0\0\0\x02\0", Carry::Pipe), Raw(b"B\x02\0\0\0\0\x02\0", Carry::Socket),
                Raw(b"B\x03\0\0\0\0\x02\0", Carry::Buffer), Raw(b"B\x04\0\0\0\0\x02\0", Carry::Buffer),
                Raw(b"B\x05\0\0\0\0\x02\0", Carry::Buffer), Raw(b"B\x06\0\0\0\0\x02\0", Carry::Buffer),
                Raw(b"B\x07\0\0\0\0\x02\0", Carry::Buffer), Cue
            ],
            recv, TIMEOUT
        )
    };
    a_second_descriptor_for_a_place: wrong_packets!("was not mapped yet (wire.md 7.2)", Raw(PACKET, Carry::Buffer), Raw(PACKET, Carry::Buffer));
    a_descriptor_for_a_ninth_place: wrong_packets!("does not exist", Raw(b"B\x08\0\0\0\0\x02\0", Carry::Buffer));
    a_buffer_without_its_descriptor: wrong_packets!("without its descriptor", Raw(PACKET, Carry::Nothing));
    a_buffer_with_two_descriptors: wrong_packets!("more descriptors", Raw(PACKET, Carry::Two));
    a_wake_byte_with_a_descriptor: wrong_packets!("more descriptors", Raw(b"W", Carry::Buffer));
    a_packet_of_another_kind: wrong_packets!("neither a wake byte nor a buffer", Raw(b"C\0\0\0\0\0\x02\0", Carry::Buffer));
    a_packet_that_is_too_long: wrong_packets!("neither a wake byte nor a buffer", Raw(b"B\0\0\0\0\0\x02\0\0", Carry::Buffer));

    a_message_in_a_place_that_is_free: breach!("not mapped", named(BYTES, 1, 0));
    a_message_in_a_place_that_does_not_exist: breach!("not mapped", named(BYTES, u64::MAX, 0));
    a_message_longer_than_its_buffer: breach!("not mapped", named(BYTES + 1, 0, 0));
    a_message_beyond_its_buffer: breach!("not mapped", named(70_000, 0, BYTES - 69_999));
    a_message_at_an_offset_that_wraps: breach!("not mapped", named(70_000, 0, u64::MAX - 69_999));
    expose_of_a_place_that_is_taken: breach!("EXPOSE of a place", expose(0, BYTES));
    withdrawn_of_what_was_never_exposed: breach!("WITHDRAWN of memory", control(WITHDRAWN, 3, 0, 0));
    withdrawn_twice: breach!("WITHDRAWN of memory", control(WITHDRAWN, 0, u64::MAX / 2, 0), control(WITHDRAWN, 0, u64::MAX / 2, 0));
    an_answer_to_nothing: breach!("an answer to no EXPOSE", control(EXPOSE_ANSWER, 0, 0, 0));
    expose_where_it_was_not_agreed: Case {
        options: unmapping,
        text: "not agreed",
        ..on(&[Meet, WarmUp, expose(0, BYTES), Cue], recv_all, PROTOCOL)
    };
    a_descriptor_where_it_was_not_agreed:
        Case { options: unmapping, limit: SOON, ..on(&[Meet, WarmUp, Raw(PACKET, Carry::Buffer), Cue], recv_all, LOST_OR_LATE) };
    expose_of_memory_to_write_by_auto: Case {
        text: "not agreed",
        ..on(&[Meet, WarmUp, control(EXPOSE, 0, BYTES, 1), Cue], recv_all, PROTOCOL)
    };

    an_expose_without_an_answer: Case { is_idle: true, limit: SOON, ..answered!(register, TIMEOUT,) };
    an_expose_that_is_refused: answered!(register_in_vain, OK, control(EXPOSE_ANSWER, 0, 0, NO_ROOM), Take);
    an_answer_for_another_place: answered!(register, PROTOCOL, control(EXPOSE_ANSWER, 1, 0, 0));
    an_answer_with_an_unknown_cause: answered!(register, PROTOCOL, control(EXPOSE_ANSWER, 0, 0, 99));
    a_peer_that_dies_instead_of_an_answer: answered!(register, LOST, Die);
    a_message_that_is_never_taken:
        Case { is_idle: true, limit: SOON, ..answered!(share, TIMEOUT, control(EXPOSE_ANSWER, 0, 0, 0)) };
}
