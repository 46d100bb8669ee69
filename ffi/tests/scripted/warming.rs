//! Warm-up: the connection was agreed on, and its first messages do not come as they should (wire.md 6.7).

use core::time::Duration;

use superpipe::ErrorKind;

use crate::case::{CASE, Call, Case, SOON, brief};
use crate::peer::script::Step::{
    Ack, Close, CloseSocket, Control, Die, Flood, Meet, Message, Part, Slot, Stream, Take, Warm,
};
use crate::peer::script::{self, BROKEN, DONE, FIN, GIVEN_UP, Of, RTS, Role, Script};

type Seen = Result<(), ErrorKind>;

const TIMEOUT: &[Seen] = &[Err(ErrorKind::Timeout)];
const INTERRUPTED: &[Seen] = &[Err(ErrorKind::Interrupted)];
const LOST: &[Seen] = &[Err(ErrorKind::PeerLost)];
/// Lost, and then nobody listens.
const NOBODY: &[Seen] = &[Err(ErrorKind::Connect)];
const PROTOCOL: &[Seen] = &[Err(ErrorKind::Protocol)];

/// This end accepts, so the peer sends first.
const fn accept(script: Script, want: &'static [Seen]) -> Case {
    Case { script, want, ..CASE }
}

/// Only the handshake's time-out of 300 ms ends it.
const fn accept_busy(script: Script) -> Case {
    Case { options: brief, limit: Duration::from_millis(400), ..accept(script, TIMEOUT) }
}

/// The same, and the wait must sleep.
const fn accept_late(script: Script) -> Case {
    Case { is_idle: true, ..accept_busy(script) }
}

/// Only the interrupt flag ends it.
const fn accept_stopped(script: Script) -> Case {
    Case { call: Call::MeetInterrupted, limit: SOON, ..accept(script, INTERRUPTED) }
}

/// This end connects, and sends first.
const fn connect(script: Script, want: &'static [Seen]) -> Case {
    Case { role: Role::Listens, ..accept(script, want) }
}

/// Only the deadline ends it, since this end tries again. It leaves a peer that a busy host runs late the time to die.
const fn connect_again(script: Script) -> Case {
    Case { limit: Duration::from_secs(3), ..connect(script, NOBODY) }
}

/// Only the deadline ends it.
const fn connect_busy(script: Script) -> Case {
    Case { limit: Duration::from_millis(300), ..connect(script, TIMEOUT) }
}

/// The same, and the wait must sleep.
const fn connect_late(script: Script) -> Case {
    Case { is_idle: true, ..connect_busy(script) }
}

/// Bytes of the first messages.
const FIRST: usize = 128 << 10;

cases! {
    accept_silence: accept_late(&[Meet]);
    accept_silence_in_the_middle: accept_late(&[Meet, Warm(5)]);
    accept_half_a_message: accept_late(&[Meet, Warm(1), Part(0, FIRST as u64, 40_000)]);
    accept_no_acknowledgement: accept_busy(&[Meet, Message(0, FIRST), Message(0, FIRST)]);
    accept_death: accept(&[Meet, Die], LOST);
    accept_death_in_the_middle: accept(&[Meet, Warm(5), Die], LOST);
    accept_death_in_a_message: accept(&[Meet, Part(0, FIRST as u64, 40_000), Die], LOST);
    accept_end_of_the_socket: accept(&[Meet, Warm(5), CloseSocket], LOST);
    accept_another_tag: accept(&[Meet, Message(1, FIRST)], PROTOCOL);
    accept_a_short_message: accept(&[Meet, Message(0, 8)], PROTOCOL);
    accept_a_long_message: accept(&[Meet, Warm(2), Part(0, 1 << 40, 100)], PROTOCOL);
    accept_a_stream: accept(&[Meet, Stream(0, 1000)], PROTOCOL);
    accept_a_header_that_lies: accept(&[Meet, Warm(2), Slot([RTS | 1 << 20, 0, 8, 8, 1, 0, 0], Of::Newest(1), 1)], PROTOCOL);
    accept_an_acknowledgement_that_lies: accept(&[Meet, Warm(2), Ack(100, 0)], PROTOCOL);
    accept_close:
        Case { text: "(reason 0)", ..accept(&[Meet, Warm(2), Close(0, DONE)], PROTOCOL) };
    accept_close_with_a_reason: accept(&[Meet, Warm(2), Close(0, GIVEN_UP)], LOST);
    accept_close_for_a_broken_rule: accept(&[Meet, Warm(2), Close(0, BROKEN)], PROTOCOL);
    accept_rejects: accept_busy(&[Meet, Warm(2), Flood(script::Flood::Rejects)]);
    accept_cts: accept_busy(&[Meet, Warm(2), Flood(script::Flood::Cts)]);
    accept_life: accept_busy(&[Meet, Warm(2), Flood(script::Flood::Life)]);
    accept_acknowledgements: accept_busy(&[Meet, Warm(2), Flood(script::Flood::Acks)]);
    accept_wakes: accept_busy(&[Meet, Warm(2), Flood(script::Flood::Wakes)]);

    accept_interrupted: accept_stopped(&[Meet, Warm(2)]);
    accept_interrupted_under_rejects: accept_stopped(&[Meet, Warm(2), Flood(script::Flood::Rejects)]);
    accept_interrupted_under_cts: accept_stopped(&[Meet, Warm(2), Flood(script::Flood::Cts)]);
    connect_interrupted_under_rejects:
        Case { role: Role::Listens, ..accept_stopped(&[Meet, Warm(2), Flood(script::Flood::Rejects)]) };

    connect_silence: connect_late(&[Meet]);
    connect_silence_after_a_message: connect_late(&[Meet, Take]);
    connect_silence_in_the_middle: connect_late(&[Meet, Warm(5)]);
    connect_death: connect_again(&[Meet, Die]);
    connect_death_in_the_middle: connect_again(&[Meet, Warm(5), Die]);
    connect_another_tag: connect(&[Meet, Take, Message(1, FIRST)], PROTOCOL);
    connect_a_rejection: Case {
        text: "(reason 7)",
        ..connect(
            &[Meet, Warm(1), script::Step::Notification, Control([script::REJECT, 0, 0, 7, 0, 0, 0], Of::Newest(0))],
            PROTOCOL,
        )
    };
    connect_a_message_that_overlaps:
        connect(&[Meet, Take, Slot([RTS | FIN, 0, FIRST as u64, 8, 1, 0, 0], Of::Newest(1), 1)], PROTOCOL);
    connect_close:
        Case { text: "(reason 0)", ..connect(&[Meet, Warm(2), Close(0, DONE)], PROTOCOL) };
    connect_rejects: connect_busy(&[Meet, Warm(2), Flood(script::Flood::Rejects)]);
    connect_life: connect_busy(&[Meet, Warm(2), Flood(script::Flood::Life)]);
    connect_wakes: connect_busy(&[Meet, Warm(2), Flood(script::Flood::Wakes)]);
}
