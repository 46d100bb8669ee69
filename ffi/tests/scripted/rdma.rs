//! Cases over RDMA: those of the other phases that mean the same there, and those that only RDMA has (wire.md 10).
//!
//! SUPERPIPE_RDMA names addresses of this host that have an RDMA device, separated by spaces. Where it is not set, nothing is
//! played.

use core::time::Duration;
use std::env;
use std::sync::Once;
use std::thread;

use superpipe::{Address, Connection, ErrorKind, Listener, Options, Reason};

use crate::PHASES;
use crate::case::{CASE, Call, Case, Ground, PATIENCE, SOON, Seen as Answer, brief, impatient, play_on};
use crate::peer::script::Step::{
    Accept, AcceptAndClose, Connect, Control, Cue, Expect, FailQp, Hear, Huge, Lie, Meet, MeetWith, Message,
    Part, Raw, Send, Sleep, Stray, Take, TakeChunks, Warm, WarmUp,
};
use crate::peer::script::{Carry, GROW, GROW_REFUSED, Kind, Of, Patch, Role, Script};
use crate::setup::{FAT, narrow};
use crate::stream::write;
use crate::us::{Us, close, flush, leave, recv, recv_three, send_long, send_parts};

use Carry::{Nothing, Segment};
use Kind::{Grant, Hello, Ready, Welcome};

type Seen = Result<(), ErrorKind>;

const OK: &[Seen] = &[Ok(())];
/// A peer that is dead cannot be told, and this end does not always know that it is.
const OK_OR_LOST: &[Seen] = &[Ok(()), Err(ErrorKind::PeerLost)];
const TIMEOUT: &[Seen] = &[Err(ErrorKind::Timeout)];
const LOST_OR_LATE: &[Seen] = &[Err(ErrorKind::PeerLost), Err(ErrorKind::Timeout)];
/// Lost, refused or silent.
const GONE: &[Seen] = &[Err(ErrorKind::PeerLost), Err(ErrorKind::Connect), Err(ErrorKind::Timeout)];
const USAGE: &[Seen] = &[Err(ErrorKind::Usage)];
const PROTOCOL: &[Seen] = &[Err(ErrorKind::Protocol)];
/// Closed by the peer, whose good-bye may be lost with it.
const CLOSED_OR_LOST: &[Seen] = &[Err(ErrorKind::Closed(Reason(0))), Err(ErrorKind::PeerLost)];

const fn on(script: Script, call: fn(&mut Us) -> Answer, want: &'static [Seen]) -> Case {
    Case { script, call: Call::With(call), want, ..CASE }
}

/// This end accepts.
const fn accept(script: Script, want: &'static [Seen]) -> Case {
    Case { script, want, ..CASE }
}

/// A handshake that only its timeout of 300 ms ends. The wait must sleep.
const fn accept_late(script: Script) -> Case {
    Case { is_idle: true, ..goes_on(accept(script, TIMEOUT)) }
}

/// This end connects.
const fn connect(script: Script, want: &'static [Seen]) -> Case {
    Case { role: Role::Listens, ..accept(script, want) }
}

/// A connect that only the deadline ends, since this end tries again.
const fn connect_again(script: Script, want: &'static [Seen]) -> Case {
    Case { limit: Duration::from_millis(500), ..connect(script, want) }
}

/// rxe tells nobody that a queue pair has failed, and sends for ever: then the idle timeout of 300 ms ends it.
const fn gone(script: Script, call: fn(&mut Us) -> Answer) -> Case {
    Case { options: impatient, ..on(script, call, LOST_OR_LATE) }
}

macro_rules! warm {
    ($($step:expr),* $(,)?) => { &[Meet, WarmUp, $($step),*] };
}

/// This end receives, and the peer breaks a rule, which is named.
macro_rules! breach {
    ($text:literal, $($step:expr),+ $(,)?) => { Case { text: $text, ..on(warm![$($step,)+ Cue], recv, PROTOCOL) } };
}

/// A notification that comes with its write, which goes far behind all memory: the word, the place, a byte.
const OUTSIDE: &[u8] = &[1, 0, 0, 0x10, 0, 0, 0, 0x40, 7];
/// The same, behind a small buffer of 1,024 bytes (wire.md 10.3).
const BEHIND: &[u8] = &[1, 0, 0, 0x10, 0, 4, 0, 0x40, 7];
/// The provision protocol, with the receives that this peer has.
const PROVISION: &[Patch] = &[(13, &[5]), (44, &[2]), (45, &[144])];
/// A word that has no meaning, and mail that is no word.
const NONSENSE: &[u8] = &[1, 0, 0, 0x40];
const CRUMBS: &[u8] = &[7; 3];
/// More than a receive takes.
const LONG: usize = 300;

/// Makes a test of each case that only RDMA has, and the table that the peer finds its script in.
macro_rules! own_cases {
    ($($name:ident: $case:expr;)*) => {
        /// The cases that only RDMA has.
        pub(crate) const CASES: crate::case::Table = &[$((stringify!($name), &$case)),*];

        mod own {
            $(#[test] fn $name() { super::play("rdma", stringify!($name), |case| case); })*
        }
    };
}

own_cases! {
    accept_a_queue_pair_that_fails: accept_late(&[Connect, Send(Hello, &[], Nothing), Expect(Welcome), FailQp]);
    accept_a_queue_pair_that_fails_after_grant:
        lost_or_late(goes_on(accept(&[Connect, Send(Hello, &[], Nothing), Expect(Welcome), Send(Grant, &[], Segment), FailQp], TIMEOUT)));
    accept_long_mail: accept(&[Connect, Send(Hello, &[], Nothing), Expect(Welcome), Huge(LONG)], PROTOCOL);
    accept_crumbs: accept(&[Connect, Send(Hello, &[], Nothing), Expect(Welcome), Raw(CRUMBS, Nothing)], PROTOCOL);
    accept_half_a_message: accept_late(&[Meet, Warm(1), Part(0, 64 << 10, 40_000)]);
    connect_a_queue_pair_that_fails: connect_again(&[Accept, Expect(Hello), FailQp, AcceptAndClose], GONE);
    connect_a_ring_that_is_not_allowed:
        Case { options: narrow, ..connect(&[Accept, Expect(Hello), Send(Welcome, FAT, Nothing)], USAGE) };
    connect_a_welcome_that_is_late: connect(
        &[Accept, Expect(Hello), Sleep(1000), Send(Welcome, &[], Segment), Expect(Grant), Send(Ready, &[], Nothing), WarmUp], OK);
    connect_long_mail: connect(&[Accept, Expect(Hello), Huge(LONG)], PROTOCOL);
    connect_crumbs: connect(&[Accept, Expect(Hello), Raw(CRUMBS, Nothing)], PROTOCOL);
    connect_a_laxer_mode: connect(&[Accept, Expect(Hello), Send(Welcome, &[(14, &[1]), (30, &[1])], Segment)], USAGE);

    accept_a_small_buffer: on(
        &[MeetWith(PROVISION), WarmUp, Cue, Message(1, 500), Message(2, 8), Message(3, 800), Message(4, 40)], recv_three, OK);
    connect_to_a_small_buffer:
        Case { role: Role::Listens, ..on(&[MeetWith(PROVISION), WarmUp, Cue, Message(1, 60), Message(2, 8), Message(3, 800), Message(4, 40)], recv_three, OK) };
    accept_a_small_buffer_that_cannot_be: accept(
        &[Connect, Send(Hello, PROVISION, Nothing), Expect(Welcome), Send(Grant, &[(52, &[1])], Nothing)], PROTOCOL);
    accept_a_small_buffer_that_was_not_agreed: accept(
        &[Connect, Send(Hello, &[], Nothing), Expect(Welcome), Send(Grant, &[(52, &[64])], Segment)], PROTOCOL);
    recv_a_write_behind_the_small_buffer: Case {
        text: "an enclosed write out of bounds",
        ..on(&[MeetWith(PROVISION), WarmUp, Raw(BEHIND, Nothing), Cue], recv, PROTOCOL)
    };
    send_through_a_small_buffer:
        on(&[MeetWith(PROVISION), WarmUp, Hear(GROW), Control([GROW_REFUSED, 0, 0, 1, 0, 0, 0], Of::Number(1)), Take], send_parts, OK);

    recv_of_a_queue_pair_that_fails: gone(warm![FailQp], recv);
    recv_long_mail: breach!("a message that its receive cannot take", Huge(LONG));
    recv_crumbs: breach!("an unknown message", Raw(CRUMBS, Nothing));
    recv_a_word_without_meaning: breach!("an unknown message", Raw(NONSENSE, Nothing));
    recv_a_packet_out_of_turn: breach!("an unknown message", Send(Hello, &[], Nothing));
    recv_a_write_to_outside: breach!("an enclosed write out of bounds", Raw(OUTSIDE, Nothing));
    recv_a_write_beyond_the_region: gone(warm![Stray], recv);
    recv_a_notice_of_nothing: breach!("what does not come next", Lie(0, 0));
    recv_a_notice_of_a_chunk_out_of_turn: breach!("what does not come next", Lie(1, 1));
    recv_a_notice_of_a_chunk_that_is_not_there: breach!("whose flag is not there", Lie(1, 0));
    recv_a_notice_of_a_control_message_out_of_turn: breach!("what does not come next", Lie(2, -1));
    recv_a_notice_of_a_control_message_that_is_not_there: breach!("whose flag is not there", Lie(2, 0));
    recv_credits_for_what_was_never_sent: breach!("notifications", Lie(3, 1000));
    send_to_a_queue_pair_that_fails: gone(warm![TakeChunks(1), FailQp], send_long);
    flush_to_a_queue_pair_that_fails: gone(warm![FailQp], flush);
    write_to_a_queue_pair_that_fails: gone(warm![TakeChunks(1), FailQp], write);
    close_of_a_queue_pair_that_fails: soon(on(warm![FailQp, Cue], close, OK_OR_LOST));
    drop_of_a_queue_pair_that_fails: on(warm![FailQp, Cue], leave, OK);
}

/// Makes a test of each case of another phase that is played here, with what is other about it here.
macro_rules! over_rdma {
    ($($phase:ident { $($name:ident $(=> $change:ident)?),* $(,)? })*) => {
        $(mod $phase {
            $(#[test] fn $name() { super::play(stringify!($phase), stringify!($name), over_rdma!(@ $($change)?)); })*
        })*
    };
    (@) => { |case| case };
    (@ $change:ident) => { super::$change };
}

/// A handshake whose peer goes away is no error: others may come (wire.md 10.2).
const fn goes_on(case: Case) -> Case {
    Case { options: brief, limit: Duration::from_millis(400), want: TIMEOUT, ..case }
}

/// A QP that is gone is seen as a lost peer or as silence, whichever comes first.
const fn lost_or_late(case: Case) -> Case {
    Case { want: LOST_OR_LATE, ..case }
}

/// The peer does not agree, and is not waited for any longer than this.
const fn soon(case: Case) -> Case {
    Case { limit: SOON, ..case }
}

/// A case of which the script goes on for ten times the call's deadline.
const fn very_soon(case: Case) -> Case {
    Case { limit: Duration::from_millis(30), ..case }
}

/// A notified chunk whose later blocks are not there breaks a rule.
const fn not_all_there(case: Case) -> Case {
    Case { want: PROTOCOL, is_idle: false, ..case }
}

/// A CLOSE that the peer sent before it went may be lost with it.
const fn closed_or_lost(case: Case) -> Case {
    Case { want: CLOSED_OR_LOST, ..case }
}

over_rdma! {
    setup {
        accept_silence, accept_silence_after_hello, accept_death_before_hello, accept_death_after_hello => goes_on,
        accept_death_after_welcome => goes_on, accept_end_of_the_socket_after_hello => goes_on, accept_another_version,
        accept_grant_out_of_turn, accept_reserved_bytes, accept_an_absurd_ring,
        accept_interrupted_before_hello, accept_interrupted_before_grant, accept_meets_its_own_deadline,
        accept_an_honest_client_behind_sixteen_silent,
        connect_to_nobody_who_accepts => soon, connect_silence, connect_silence_after_welcome, connect_death_after_hello,
        connect_death_after_welcome, connect_hello_back, connect_a_refusal_of_wishes,
        connect_interrupted_before_ready, connect_welcome_twice, connect_a_refusal_late,
    }
    warming {
        accept_silence, accept_silence_in_the_middle, accept_death, accept_death_in_the_middle, accept_end_of_the_socket,
        accept_a_short_message, accept_close, accept_rejects, accept_interrupted_under_rejects,
        connect_silence, connect_silence_in_the_middle, connect_death_in_the_middle, connect_close, connect_rejects,
    }
    message {
        recv_silence, recv_half, recv_half_a_chunk => not_all_there, recv_death, recv_death_in_the_middle,
        recv_what_came_before_death, recv_end_of_the_socket, recv_close_in_the_middle, recv_under_rejects,
        recv_under_acknowledgements, recv_under_wakes => lost_or_late, recv_behind_chunks_without_end,
        interrupt_under_rejects, recv_reserved_bits, recv_a_chunk_beyond_the_ring, recv_an_unknown_control_message,
        recv_an_acknowledgement_of_nothing, recv_news_of_a_breach, send_short_to_nobody, send_long_to_nobody,
        send_to_one_who_dies, send_to_one_who_closes, send_what_is_rejected, send_cts_twice,
        send_acknowledged_too_much, send_under_rejects, flush_of_nobody, flush_of_the_dead, flush_of_a_silent_peer,
        progress_is_heard => very_soon, progress_finds_death,
    }
    stream {
        read_silence, read_death, read_a_cancel, read_close_with_a_reason, read_under_rejects, read_of_chunks_without_end,
        read_dropped_before_chunks_without_end, write_to_nobody, write_to_one_who_dies, write_under_life, write_dropped,
    }
    closing {
        close_of_a_peer_that_stalls => soon, close_of_the_dead => soon, close_in_the_middle_of_what_comes => soon,
        close_under_rejects => soon, drop_of_a_peer_that_stalls, drop_of_the_dead, closed_by_the_peer => soon,
        closed_by_the_peer_who_dies => closed_or_lost,
        closed_by_the_peer_while_this_end_sends, closed_after_what_never_comes,
        closed_after_what_never_comes_by_one_who_dies, closed_under_rejects, closed_twice, closed_in_a_transfer,
    }
}

/// Plays a case at each address.
fn play(phase: &str, name: &str, change: fn(Case) -> Case) {
    static LOADED: Once = Once::new();
    let named = env::var("SUPERPIPE_RDMA").unwrap_or_default();
    if named.is_empty() {
        eprintln!("NOT CHECKED: SUPERPIPE_RDMA names no address of an RDMA device");
    }
    let (_, table) = PHASES.iter().find(|(it, _)| *it == phase).unwrap();
    let (_, case) = table.iter().find(|(it, _)| *it == name).unwrap();
    for address in named.split_whitespace() {
        LOADED.call_once(|| meet_once(address));
        let ground = Ground::Rdma(address.parse().unwrap());
        play_on(ground, &format!("{phase}::over_rdma::{name}"), &change(**case));
    }
}

/// The libraries keep what they have loaded and opened.
fn meet_once(host: &str) {
    let at = Address::Rdma { host: host.into(), port: 0 };
    let mut listener = Listener::bind(&at, Options::default()).unwrap();
    let port = listener.rdma_addr().unwrap().port();
    let address = Address::Rdma { host: host.into(), port };
    thread::scope(|scope| {
        scope.spawn(|| drop(listener.accept(PATIENCE).unwrap()));
        drop(Connection::connect(&address, Options::default(), PATIENCE).unwrap());
    });
}
