//! The end of a connection: closed here, by the peer, or by nobody (wire.md 5.3).

use superpipe::{ErrorKind, Reason};

use crate::case::{CASE, Call, Case, SOON, Seen as Answer};
use crate::peer::script::Flood::{Chunks, Cts, Life, Rejects, Wakes};
use crate::peer::script::Step::{
    Ack, Close, CloseSocket, Control, Cue, Die, Flood, Flow, Meet, Message, Notification, Part, Slot,
    TakeChunks, WarmUp,
};
use crate::peer::script::{CLOSE, CTS, DONE, FIN, GIVEN_UP, LEFT, Of, REJECT, RTS, Script};
use crate::us::{Us, close, flush, leave, recv, recv_all, recv_three, send_long};

type Seen = Result<(), ErrorKind>;

const OK: &[Seen] = &[Ok(())];
/// The dead cannot be told, and whether they were is not always known.
const OK_OR_LOST: &[Seen] = &[Ok(()), Err(ErrorKind::PeerLost)];
const TIMEOUT: &[Seen] = &[Err(ErrorKind::Timeout)];
const LOST: &[Seen] = &[Err(ErrorKind::PeerLost)];
const PROTOCOL: &[Seen] = &[Err(ErrorKind::Protocol)];
const CLOSED: &[Seen] = &[Err(ErrorKind::Closed(Reason(0)))];
const GAVE_UP: &[Seen] = &[Err(ErrorKind::Closed(Reason(0xFFFF_FFFE)))];

const NEXT: Of = Of::Newest(1);

const fn on(script: Script, call: fn(&mut Us) -> Answer, want: &'static [Seen]) -> Case {
    Case { script, call: Call::With(call), want, ..CASE }
}

/// Only the deadline ends it.
const fn busy(script: Script, call: fn(&mut Us) -> Answer) -> Case {
    Case { limit: SOON, ..on(script, call, TIMEOUT) }
}

/// A call that ends by its deadline comes before the one that is looked at.
const fn after_a_deadline(script: Script, call: fn(&mut Us) -> Answer) -> Case {
    Case { limit: SOON, ..on(script, call, OK) }
}

macro_rules! warm {
    ($($step:expr),* $(,)?) => { &[Meet, WarmUp, $($step),*] };
}

/// This end receives, and the peer breaks a rule, which is named.
macro_rules! breach {
    ($text:literal, $($step:expr),+ $(,)?) => { Case { text: $text, ..on(warm![$($step,)+ Cue], recv_all, PROTOCOL) } };
}

/// Gives a long message up, which nobody takes, and closes.
fn send_and_close(us: &mut Us) -> Answer {
    assert_eq!(send_long(us).unwrap_err().kind, ErrorKind::Timeout);
    us.close(Reason::DONE)
}

/// Closes with a reason.
fn close_for_a_reason(us: &mut Us) -> Answer {
    us.close(Reason(9))
}

/// Rejects what is at the head, and closes.
fn reject_and_close(us: &mut Us) -> Answer {
    us.connection().peek(core::time::Duration::from_secs(10))?;
    assert!(us.connection().reject(Reason(7)));
    us.close(Reason::DONE)
}

/// Rejects what is at the head, and drops the connection.
fn reject_and_leave(us: &mut Us) -> Answer {
    us.connection().peek(core::time::Duration::from_secs(10))?;
    assert!(us.connection().reject(Reason(7)));
    leave(us)
}

/// Closes once the peer is dead.
fn close_the_dead(us: &mut Us) -> Answer {
    us.peer().await_death();
    close(us)
}

fn leave_the_dead(us: &mut Us) -> Answer {
    us.peer().await_death();
    leave(us)
}

/// Finds the connection closed, and closes it.
fn recv_and_close(us: &mut Us) -> Answer {
    let failed = recv_all(us).unwrap_err();
    us.close(Reason::DONE)?;
    Err(failed)
}

/// The same, once three messages came.
fn recv_three_and_close(us: &mut Us) -> Answer {
    let failed = recv_three(us).unwrap_err();
    us.close(Reason::DONE)?;
    Err(failed)
}

/// Goes on to send where the peer closed.
fn recv_and_send(us: &mut Us) -> Answer {
    let _ = recv_all(us);
    send_long(us)
}

cases! {
    close_of_a_peer_that_stalls: on(warm![], close, OK);
    close_with_a_reason: on(warm![], close_for_a_reason, OK);
    close_of_the_dead: on(warm![Die], close_the_dead, OK_OR_LOST);
    close_of_a_closed_socket: on(warm![CloseSocket, Cue], close, OK_OR_LOST);
    close_behind_a_message_that_was_given_up: after_a_deadline(warm![], send_and_close);
    close_in_the_middle_of_what_comes: on(warm![Part(1, 100_000, 40_000), Cue], close, OK);
    close_of_what_was_rejected: on(warm![Flow(1, 1000)], reject_and_close, OK);
    close_of_what_was_rejected_and_never_ends: on(warm![Flow(1, 1000), Cue, Flood(Chunks)], reject_and_close, OK);
    close_under_rejects: on(warm![Cue, Flood(Rejects)], close, OK);
    close_under_cts: on(warm![Cue, Flood(Cts)], close, OK);
    close_under_wakes: on(warm![Cue, Flood(Wakes)], close, OK);
    close_under_life: on(warm![Cue, Flood(Life)], close, OK);
    close_behind_what_was_given_up_under_rejects: after_a_deadline(warm![Cue, Flood(Rejects)], send_and_close);
    drop_of_a_peer_that_stalls: on(warm![], leave, OK);
    drop_of_the_dead: on(warm![Die], leave_the_dead, OK);
    drop_under_rejects: on(warm![Cue, Flood(Rejects)], leave, OK);
    drop_under_cts: on(warm![Cue, Flood(Cts)], leave, OK);
    drop_of_what_was_rejected_and_never_ends: on(warm![Flow(1, 1000), Cue, Flood(Chunks)], reject_and_leave, OK);

    closed_by_the_peer: on(warm![Message(1, 100), Message(2, 8), Message(3, 100_000), Close(0, DONE)], recv_three_and_close, CLOSED);
    closed_by_the_peer_with_a_reason: on(warm![Close(0, GIVEN_UP)], recv_and_close, GAVE_UP);
    closed_by_the_peer_who_dies: on(warm![Message(1, 100), Close(0, DONE), Die], recv_all, CLOSED);
    closed_by_the_peer_who_ends_the_socket: on(warm![Message(1, 100), Close(0, DONE), CloseSocket], recv_all, CLOSED);
    closed_by_the_peer_while_this_end_sends: on(warm![TakeChunks(1), Close(0, DONE)], send_long, CLOSED);
    closed_by_the_peer_then_sent_to: on(warm![Close(0, DONE)], recv_and_send, CLOSED);
    closed_by_the_peer_while_this_end_flushes: on(warm![Notification, Close(0, DONE)], flush, CLOSED);
    closed_after_what_never_comes: busy(warm![Close(3, DONE), Cue], recv);
    closed_after_what_never_comes_by_one_who_dies: on(warm![Close(3, DONE), Die], recv, LOST);
    closed_under_rejects: busy(warm![Close(3, DONE), Cue, Flood(Rejects)], recv);

    closed_twice: breach!("CLOSE twice", Close(1, DONE), Close(1, DONE));
    closed_before_what_was_sent: breach!("after the last one that CLOSE named", Message(1, 100), Close(-1, DONE));
    closed_then_another: breach!("after the last one that CLOSE named", Close(1, DONE), Message(1, 100), Message(2, 100));
    closed_in_a_transfer: breach!("leaves a transfer open", Part(1, 100_000, 40_000), Close(0, DONE));
    closed_with_a_transfer_named: breach!("not zero", Control([CLOSE, 0, 0, 0, 0, 0, 0], Of::Number(1)));
    closed_with_a_reason_too_large: breach!("not zero", Control([CLOSE, 0, 0, 1 << 32, 0, 0, 0], Of::Number(0)));
    closed_with_a_breach_behind: breach!(
        "another transfer", Close(1, DONE), Slot([RTS | FIN | LEFT, 1, 8, 8, 0, 0, 0], Of::Newest(5), 1)
    );
    closed_with_a_rejection_of_nothing: breach!("REJECT of a transfer", Close(1, DONE), Control([REJECT, 0, 0, 7, 0, 0, 0], NEXT));
    closed_with_cts_of_nothing: breach!("CTS for a transfer", Close(1, DONE), Control([CTS, 0, 0, 0, 0, 0, 0], NEXT));
    closed_with_an_acknowledgement_of_nothing: breach!("never sent", Close(1, DONE), Ack(5, 0));
}
