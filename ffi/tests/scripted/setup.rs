//! Set-up: the peer misbehaves before the connection stands (wire.md 6).

use core::time::Duration;

use superpipe::{ErrorKind, Options};

use crate::case::{CASE, Call, Case, SOON, brief};
use crate::peer::script::Step::{
    Accept, AcceptAndClose, CloseSocket, Connect, Cue, Die, Expect, Huge, Meet, Raw, Send, Wakes, WarmUp,
};
use crate::peer::script::{Carry, Kind, Patch, Role, Script};

use Carry::{
    DevNull, Holed, Large, Nothing, Pipe, ReadOnly, Segment, Small, Socket, Two, Unsealed, WriteSealed,
};
use Kind::{Grant, Hello, Ready, Refused, Welcome};

const TIMEOUT: &[Seen] = &[Err(ErrorKind::Timeout)];
const INTERRUPTED: &[Seen] = &[Err(ErrorKind::Interrupted)];
const LOST: &[Seen] = &[Err(ErrorKind::PeerLost)];
const PROTOCOL: &[Seen] = &[Err(ErrorKind::Protocol)];
const VERSION: &[Seen] = &[Err(ErrorKind::Version)];
const USAGE: &[Seen] = &[Err(ErrorKind::Usage)];
const LIMIT: &[Seen] = &[Err(ErrorKind::Limit)];
/// The peer went away, and nobody listens any more.
const NOBODY: &[Seen] = &[Err(ErrorKind::Connect)];
/// From Linux 6.16 on the kernel lets no descriptor in where none is expected: the packet never comes.
const NO_ENTRY: &[Seen] = &[Err(ErrorKind::Protocol), Err(ErrorKind::Timeout)];
const OK: &[Seen] = &[Ok(())];

type Seen = Result<(), ErrorKind>;

/// This end accepts.
const fn accept(script: Script, want: &'static [Seen]) -> Case {
    Case { script, want, ..CASE }
}

/// Only the handshake's time-out of 300 ms ends it, or the deadline, and the wait must sleep.
const fn accept_late(script: Script) -> Case {
    Case { options: brief, limit: Duration::from_millis(400), is_idle: true, ..accept(script, TIMEOUT) }
}

/// Only the interrupt flag ends it, and the wait must sleep.
const fn accept_stopped(script: Script) -> Case {
    Case { call: Call::MeetInterrupted, limit: SOON, is_idle: true, ..accept(script, INTERRUPTED) }
}

/// This end connects.
const fn connect(script: Script, want: &'static [Seen]) -> Case {
    Case { role: Role::Listens, ..accept(script, want) }
}

/// Only the deadline ends it, since this end tries again. It leaves a peer that a busy host runs late the time to end.
const fn connect_again(script: Script, want: &'static [Seen]) -> Case {
    Case { limit: Duration::from_secs(3), ..connect(script, want) }
}

/// Only the deadline ends it, and the wait must sleep.
const fn connect_late(script: Script) -> Case {
    Case { limit: Duration::from_millis(300), is_idle: true, ..connect(script, TIMEOUT) }
}

/// Only the interrupt flag ends it, and the wait must sleep.
const fn connect_stopped(script: Script) -> Case {
    Case { role: Role::Listens, ..accept_stopped(script) }
}

/// The peer connects, sends this instead of HELLO, and stalls.
macro_rules! instead_of_hello {
    ($want:expr, $($step:expr),+) => { accept(&[Connect, $($step),+], $want) };
}

/// The same instead of GRANT.
macro_rules! instead_of_grant {
    ($want:expr, $($step:expr),+) => {
        accept(&[Connect, Send(Hello, &[], Nothing), Expect(Welcome), $($step),+], $want)
    };
}

/// The peer listens, and sends this instead of WELCOME.
macro_rules! instead_of_welcome {
    ($want:expr, $($step:expr),+) => { connect(&[Accept, Expect(Hello), $($step),+], $want) };
}

/// The same instead of READY.
macro_rules! instead_of_ready {
    ($want:expr, $($step:expr),+) => {
        connect(&[Accept, Expect(Hello), Send(Welcome, &[], Segment), Expect(Grant), $($step),+], $want)
    };
}

const PACKET: usize = 192;
const GARBAGE: [u8; PACKET] = [7; PACKET];
const VERSION_9: &[Patch] = &[(8, &[9])];
/// Codes of REFUSED (wire.md 6.1).
const BY_VERSION: &[Patch] = &[(11, &[1])];
const BY_WISHES: &[Patch] = &[(11, &[2]), (64, b"\x1b[2Jno")];
const BY_LIMIT: &[Patch] = &[(11, &[3])];
/// `B` of 128 bytes, `B`·`N` of 512 MiB.
const ABSURD: &[Patch] = &[(16, &[128, 0, 0, 0]), (20, &[0, 0, 0, 32])];
/// `B`·`N` of 400 MiB, with `B` of 1 MiB.
pub(crate) const FAT: &[Patch] = &[(16, &[0, 0, 16, 0]), (20, &[0, 0, 0, 25])];

/// Allows a landing buffer of 1 MiB.
pub(crate) fn narrow() -> Options {
    Options { landing_bytes_max: 1 << 20, ..Options::default() }
}

/// A handshake that may take long, so that those that wait in a row take longer still.
fn slow() -> Options {
    Options { handshake_timeout: Duration::from_secs(2), ..Options::default() }
}

/// Honest once it is there, whatever was before.
const HONEST_AT_LAST: Script = &[
    Connect, Connect, Connect, Connect, Connect, Connect, Connect, Connect, Connect, Connect, Connect,
    Connect, Connect, Connect, Connect, Connect, Cue, Meet, WarmUp,
];

cases! {
    accept_silence: accept_late(&[Connect]);
    accept_silence_of_fifteen: accept_late(&[
        Connect, Connect, Connect, Connect, Connect, Connect, Connect, Connect, Connect, Connect, Connect, Connect,
        Connect, Connect, Connect,
    ]);
    accept_silence_after_hello: accept_late(&[Connect, Send(Hello, &[], Nothing), Expect(Welcome)]);
    accept_nobody: accept_late(&[]);
    accept_death_before_hello: accept_late(&[Connect, Die]);
    accept_death_after_hello: accept(&[Connect, Send(Hello, &[], Nothing), Die], LOST);
    accept_death_after_welcome: accept(&[Connect, Send(Hello, &[], Nothing), Expect(Welcome), Die], LOST);
    accept_end_of_the_socket_after_hello:
        accept(&[Connect, Send(Hello, &[], Nothing), Expect(Welcome), CloseSocket], LOST);
    accept_text: instead_of_hello!(PROTOCOL, Raw(b"GET / HTTP/1.1\r\n\r\n", Nothing));
    accept_garbage: instead_of_hello!(PROTOCOL, Raw(&GARBAGE, Nothing));
    accept_a_packet_that_is_long: instead_of_hello!(PROTOCOL, Huge(100_000));
    accept_an_empty_packet: instead_of_hello!(PROTOCOL, Raw(&[], Nothing), Cue);
    accept_another_version: instead_of_hello!(VERSION, Send(Hello, VERSION_9, Nothing));
    accept_grant_out_of_turn: instead_of_hello!(PROTOCOL, Send(Grant, &[], Nothing));
    accept_ready_out_of_turn: instead_of_hello!(PROTOCOL, Send(Ready, &[], Nothing));
    accept_reserved_bytes: instead_of_hello!(PROTOCOL, Send(Hello, &[(40, &[1])], Nothing));
    accept_an_unknown_protocol: instead_of_hello!(PROTOCOL, Send(Hello, &[(13, &[99])], Nothing));
    accept_notify_mode: instead_of_hello!(USAGE, Send(Hello, &[(14, &[3])], Nothing));
    accept_an_absurd_ring: instead_of_hello!(USAGE, Send(Hello, ABSURD, Nothing));
    accept_a_ring_that_is_not_allowed:
        Case { options: narrow, ..instead_of_hello!(USAGE, Send(Hello, FAT, Nothing)) };
    accept_hello_with_memory: Case {
        options: brief,
        limit: Duration::from_millis(400),
        ..instead_of_hello!(NO_ENTRY, Send(Hello, &[], Pipe))
    };
    accept_wakes_before_hello: instead_of_hello!(PROTOCOL, Wakes(100, 0));
    accept_wakes_that_trickle: accept_late(&[Connect, Wakes(64, 10)]);
    accept_hello_twice: instead_of_grant!(PROTOCOL, Send(Hello, &[], Nothing));
    accept_a_refusal: instead_of_grant!(PROTOCOL, Send(Refused, &[], Nothing));
    accept_a_refusal_of_wishes: Case {
        text: "?[2Jno",
        ..instead_of_grant!(USAGE, Send(Refused, BY_WISHES, Nothing))
    };
    accept_a_refusal_by_a_limit: instead_of_grant!(LIMIT, Send(Refused, BY_LIMIT, Nothing));
    accept_no_memory: instead_of_grant!(PROTOCOL, Send(Grant, &[], Nothing));
    accept_two_memories: instead_of_grant!(PROTOCOL, Send(Grant, &[], Two));
    accept_memory_without_seals: instead_of_grant!(PROTOCOL, Send(Grant, &[], Unsealed));
    accept_small_memory: instead_of_grant!(PROTOCOL, Send(Grant, &[], Small));
    accept_large_memory: instead_of_grant!(PROTOCOL, Send(Grant, &[], Large));
    accept_memory_that_is_read_only: instead_of_grant!(PROTOCOL, Send(Grant, &[], ReadOnly));
    accept_memory_sealed_against_writing: instead_of_grant!(PROTOCOL, Send(Grant, &[], WriteSealed));
    accept_a_device_for_memory: instead_of_grant!(PROTOCOL, Send(Grant, &[], DevNull));
    accept_a_pipe_for_memory: instead_of_grant!(PROTOCOL, Send(Grant, &[], Pipe));
    accept_a_socket_for_memory: instead_of_grant!(PROTOCOL, Send(Grant, &[], Socket));
    accept_memory_with_a_hole:
        accept(&[Connect, Send(Hello, &[], Nothing), Expect(Welcome), Send(Grant, &[], Holed), Expect(Ready), WarmUp], OK);
    accept_wakes_before_grant: instead_of_grant!(PROTOCOL, Wakes(100, 0));
    accept_packets_that_nobody_reads: instead_of_grant!(
        PROTOCOL, Send(Grant, &[], Nothing), Send(Grant, &[], Pipe), Send(Grant, &[], Pipe), Send(Grant, &[], Socket)
    );

    accept_interrupted_before_hello: accept_stopped(&[Connect]);
    accept_interrupted_before_grant: accept_stopped(&[Connect, Send(Hello, &[], Nothing), Expect(Welcome)]);
    accept_interrupted_under_wakes: accept_stopped(&[Connect, Wakes(64, 10)]);

    accept_meets_its_own_deadline:
        Case { options: slow, limit: Duration::from_millis(100), ..accept(&[Connect, Cue], TIMEOUT) };

    accept_an_honest_client_behind_sixteen_silent: Case {
        options: slow,
        limit: Duration::from_millis(500),
        call: Call::MeetAtLast,
        ..accept(HONEST_AT_LAST, OK)
    };

    connect_to_nobody_who_accepts: connect_late(&[]);
    connect_silence: connect_late(&[Accept, Expect(Hello)]);
    connect_silence_after_welcome: connect_late(&[Accept, Expect(Hello), Send(Welcome, &[], Segment), Expect(Grant)]);
    connect_death_after_hello: connect_again(&[Accept, Expect(Hello), Die], NOBODY);
    connect_death_after_welcome: connect_again(&[Accept, Expect(Hello), Send(Welcome, &[], Segment), Die], NOBODY);
    connect_death_after_grant:
        connect_again(&[Accept, Expect(Hello), Send(Welcome, &[], Segment), Expect(Grant), Die], NOBODY);
    connect_sockets_that_end: connect_again(&[AcceptAndClose], LOST);
    connect_garbage: instead_of_welcome!(PROTOCOL, Raw(&GARBAGE, Nothing));
    connect_a_packet_that_is_long: instead_of_welcome!(PROTOCOL, Huge(100_000));
    connect_another_version: instead_of_welcome!(VERSION, Send(Welcome, VERSION_9, Segment));
    connect_hello_back: instead_of_welcome!(PROTOCOL, Send(Hello, &[], Nothing));
    connect_reserved_bytes: instead_of_welcome!(PROTOCOL, Send(Welcome, &[(40, &[1])], Segment));
    connect_nothing_settled: instead_of_welcome!(PROTOCOL, Send(Welcome, &[(13, &[0])], Nothing));
    connect_a_refusal: instead_of_welcome!(PROTOCOL, Send(Refused, &[], Nothing));
    connect_a_refusal_by_version: instead_of_welcome!(VERSION, Send(Refused, BY_VERSION, Nothing));
    connect_a_refusal_of_wishes: Case {
        text: "?[2Jno",
        ..instead_of_welcome!(USAGE, Send(Refused, BY_WISHES, Nothing))
    };
    connect_a_refusal_by_a_limit: instead_of_welcome!(LIMIT, Send(Refused, BY_LIMIT, Nothing));
    connect_a_ring_that_is_not_allowed:
        Case { options: narrow, ..instead_of_welcome!(USAGE, Send(Welcome, FAT, Segment)) };
    connect_no_memory: instead_of_welcome!(PROTOCOL, Send(Welcome, &[], Nothing));
    connect_two_memories: instead_of_welcome!(PROTOCOL, Send(Welcome, &[], Two));
    connect_memory_without_seals: instead_of_welcome!(PROTOCOL, Send(Welcome, &[], Unsealed));
    connect_small_memory: instead_of_welcome!(PROTOCOL, Send(Welcome, &[], Small));
    connect_a_pipe_for_memory: instead_of_welcome!(PROTOCOL, Send(Welcome, &[], Pipe));
    connect_wakes_before_welcome: instead_of_welcome!(PROTOCOL, Wakes(100, 0));
    connect_wakes_that_trickle: connect_late(&[Accept, Expect(Hello), Wakes(64, 10)]);
    connect_interrupted_before_welcome: connect_stopped(&[Accept, Expect(Hello)]);
    connect_interrupted_before_ready:
        connect_stopped(&[Accept, Expect(Hello), Send(Welcome, &[], Segment), Expect(Grant)]);
    connect_interrupted_while_sockets_end: connect_stopped(&[AcceptAndClose]);
    connect_ready_with_memory: Case {
        limit: Duration::from_millis(500),
        ..instead_of_ready!(NO_ENTRY, Send(Ready, &[], Pipe))
    };
    connect_welcome_twice: instead_of_ready!(PROTOCOL, Send(Welcome, &[], Nothing));
    connect_wakes_before_ready: instead_of_ready!(PROTOCOL, Wakes(100, 0));
    connect_a_refusal_late: instead_of_ready!(LIMIT, Send(Refused, BY_LIMIT, Nothing));
}
