//! Messages: the peer misbehaves once the connection stands and is warm (wire.md 2 to 5).

use core::time::Duration;
use std::thread;
use std::time::Instant;

use superpipe::{ErrorKind, Options, Reason, RecvOperation, TryRecv};

use crate::case::{
    CASE, Call, Case, PATIENCE, SILENT, SOON, Seen as Answer, impatient, interruptible, unmapping,
};
use crate::peer::script::Flood::{
    Acks, Blocks, Chunks, Cts, Flags, Life, Lulls, Patience, Rejects, Takes, Wakes,
};
use crate::peer::script::Step::{
    Ack, Await, Bequeath, Close, CloseSocket, Control, Cue, Die, Flood, Flow, HearLife, Meet, MeetWith,
    Message, More, Mute, Notification, Part, Raw, Skip, Sleep, Slot, Take, TakeChunks, Tamper, TornAck,
    Unsteady, WarmUp,
};
use crate::peer::script::{
    BROKEN, CANCEL, CTS, Carry, DONE, FIN, GIVEN_UP, INLINE, LEFT, Of, Patch, REJECT, RTS, STREAM, Script,
    WANT_CTS,
};
use crate::us::{Us, flush, recv, recv_all, recv_three, send_long, send_short};

type Seen = Result<(), ErrorKind>;

const OK: &[Seen] = &[Ok(())];
const TIMEOUT: &[Seen] = &[Err(ErrorKind::Timeout)];
const LOST: &[Seen] = &[Err(ErrorKind::PeerLost)];
/// From Linux 6.16 on the kernel lets no descriptor in where none is expected: the packet never comes.
const LOST_OR_LATE: &[Seen] = &[Err(ErrorKind::PeerLost), Err(ErrorKind::Timeout)];
const PROTOCOL: &[Seen] = &[Err(ErrorKind::Protocol)];
const TOO_SMALL: &[Seen] = &[Err(ErrorKind::TooSmall)];
const INTERRUPTED: &[Seen] = &[Err(ErrorKind::Interrupted)];
const CLOSED: &[Seen] = &[Err(ErrorKind::Closed(Reason(0)))];
const GAVE_UP: &[Seen] = &[Err(ErrorKind::Closed(Reason(0xFFFF_FFFE)))];
const CANCELLED: &[Seen] = &[Err(ErrorKind::Cancelled(Reason(7)))];
const REJECTED: &[Seen] = &[Err(ErrorKind::Rejected(Reason(7)))];

/// The newest transfer that its sender began, and the one after.
const THIS: Of = Of::Newest(0);
const NEXT: Of = Of::Newest(1);

/// Wishes: 62 blocks of 1 MiB, nearly what is allowed; 8 blocks of 128 bytes; 65,536 of 128 bytes.
const VAST: &[Patch] = &[(16, &[0, 0, 16, 0]), (20, &[0, 0, 224, 3])];
const TINY: &[Patch] = &[(16, &[128, 0, 0, 0]), (20, &[0, 4, 0, 0])];
const LONG: &[Patch] = &[(16, &[128, 0, 0, 0]), (20, &[0, 0, 128, 0])];

const fn on(script: Script, call: fn(&mut Us) -> Answer, want: &'static [Seen]) -> Case {
    Case { script, call: Call::With(call), want, ..CASE }
}

/// Only the deadline ends it.
const fn busy(script: Script, call: fn(&mut Us) -> Answer) -> Case {
    Case { limit: SOON, ..on(script, call, TIMEOUT) }
}

/// The same, and the wait must sleep.
const fn late(script: Script, call: fn(&mut Us) -> Answer) -> Case {
    Case { is_idle: true, ..busy(script, call) }
}

/// The idle timeout of these options ends it, and the wait must sleep.
const fn silent(options: fn() -> Options, script: Script, call: fn(&mut Us) -> Answer) -> Case {
    Case { options, limit: SILENT, is_idle: true, text: "silent", ..on(script, call, TIMEOUT) }
}

/// Only the interrupt flag ends it.
const fn stopped(script: Script, call: fn(&mut Us) -> Answer) -> Case {
    Case { limit: SOON, ..on(script, call, INTERRUPTED) }
}

/// A slot line with these words 0 to 3.
const fn slot(words: [u64; 4], of: Of) -> crate::peer::script::Step {
    Slot([words[0], words[1], words[2], words[3], 0, 0, 0], of, 1)
}

const fn control(kind: u64, of: Of, reason: u64) -> crate::peer::script::Step {
    Control([kind, 0, 0, reason, 0, 0, 0], of)
}

/// A script on a warm connection.
macro_rules! warm {
    ($($step:expr),* $(,)?) => { &[Meet, WarmUp, $($step),*] };
}

/// This end receives, and the peer breaks a rule, which is named.
macro_rules! breach {
    ($text:literal, $($step:expr),+ $(,)?) => { Case { text: $text, ..on(warm![$($step,)+ Cue], recv_all, PROTOCOL) } };
}

/// This end sends, and the peer breaks a rule.
macro_rules! sending_breach {
    ($text:literal, $($step:expr),+ $(,)?) => { Case { text: $text, ..on(warm![$($step),+], send_long, PROTOCOL) } };
}

fn quiet() -> Options {
    Options { idle_timeout: Duration::from_millis(100), ..interruptible() }
}

/// Sixteen million slices of a byte each.
fn send_slices(us: &mut Us) -> Answer {
    let slices = vec![&[7_u8][..]; 16 << 20];
    us.timed(|connection, limit| Ok(connection.send(1, &slices, limit)?))
}

/// 16 GiB, which a peer that reads nothing takes as fast as they come.
fn send_without_end(us: &mut Us) -> Answer {
    let part = vec![7; 64 << 20];
    let slices = vec![&part[..]; 256];
    us.timed(|connection, limit| Ok(connection.send(1, &slices, limit)?))
}

/// Room for 8 GiB, which are 16 MiB that are mapped again and again.
const ROOM: usize = 8 << 30;
const WINDOW: usize = 16 << 20;

/// Maps the room, until `munmap`.
fn vast_room() -> &'static mut [u8] {
    let (access, null) = (libc::PROT_READ | libc::PROT_WRITE, core::ptr::null_mut());
    // SAFETY: a new mapping, parts of which are replaced by mappings of a file of the window's size. Its bytes are only ever
    // written, through the one slice that is made of it.
    unsafe {
        let fd = libc::memfd_create(c"room".as_ptr(), libc::MFD_CLOEXEC);
        assert_eq!(libc::ftruncate(fd, WINDOW.cast_signed() as i64), 0);
        let room = libc::mmap(null, ROOM, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        for at in (0..ROOM).step_by(WINDOW) {
            let window = room.add(at);
            assert_eq!(libc::mmap(window, WINDOW, access, libc::MAP_SHARED | libc::MAP_FIXED, fd, 0), window);
        }
        libc::close(fd);
        core::slice::from_raw_parts_mut(room.cast(), ROOM)
    }
}

/// A message that comes faster than it can be copied.
fn recv_blocks(us: &mut Us) -> Answer {
    let room = vast_room();
    let received = us.timed(|connection, limit| connection.recv_into(&mut [room], limit).map(|_| ()));
    // SAFETY: the slice is not used any more.
    unsafe { libc::munmap(room.as_mut_ptr().cast(), ROOM) };
    Ok(received?)
}

/// Room for a message that comes byte by byte.
fn recv_bytes(us: &mut Us) -> Answer {
    us.receive(64 << 20).map(|_| ())
}

/// A long message that is given up, and then one that comes through.
fn send_twice(us: &mut Us) -> Answer {
    let failed = send_long(us).unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Timeout);
    us.peer().tell();
    us.connection().send(2, &[b"tiny"], PATIENCE)?;
    Ok(us.connection().flush(PATIENCE)?)
}

fn recv_interrupted(us: &mut Us) -> Answer {
    us.interrupted(|connection| {
        Ok(connection.recv_into(&mut [&mut [0; 8]], Duration::from_secs(60)).map(|_| ())?)
    })
}

fn send_interrupted(us: &mut Us) -> Answer {
    let message = vec![7; 2 << 20];
    us.interrupted(|connection| Ok(connection.send(1, &[&message], Duration::from_secs(60))?))
}

/// A room that is too small for what comes.
fn recv_small(us: &mut Us) -> Answer {
    us.receive(10).map(|_| ())
}

/// Rejects what is at the head, then receives the next message.
fn reject(us: &mut Us) -> Answer {
    us.connection().peek(Duration::from_secs(10))?;
    assert!(us.connection().reject(Reason(7)));
    recv(us)
}

/// Polls for a message of which the first half is there, then receives it.
fn poll_in_the_middle(us: &mut Us) -> Answer {
    let mut room = vec![0; 1 << 20];
    let polled = us.timed(|connection, _| connection.recv_into(&mut [&mut room], Duration::ZERO));
    assert_eq!(polled.unwrap_err().kind(), ErrorKind::Timeout);
    us.peer().tell();
    recv(us)
}

/// A loop that only calls `progress`, until the peer has seen this end's life.
fn progress_shows_life(us: &mut Us) -> Answer {
    let begun = Instant::now();
    let (mut rounds, bound) = (0_u64, us.limit * 10);
    while begun.elapsed() < bound {
        us.connection().progress();
        rounds += 1;
        thread::yield_now();
    }
    assert!(rounds > 0);
    us.peer().await_life();
    Ok(())
}

/// A loop that only calls `progress`, and then one look.
fn progress_finds_the_dead(us: &mut Us) -> Answer {
    us.peer().await_death();
    let begun = Instant::now();
    while begun.elapsed() < us.limit {
        us.connection().progress();
        thread::yield_now();
    }
    Ok(us.connection().recv_into(&mut [&mut [0; 8]], Duration::ZERO).map(|_| ())?)
}

/// A loop of receives that do not wait.
fn poll(us: &mut Us) -> Answer {
    us.timed(|connection, limit| {
        let begun = Instant::now();
        loop {
            match connection.recv_into(&mut [&mut [0; 8]], Duration::ZERO) {
                Err(error) if error.kind() == ErrorKind::Timeout && begun.elapsed() < limit => {
                    thread::yield_now()
                }
                result => return Ok(result.map(|_| ())?),
            }
        }
    })
}

cases! {
    recv_nothing: late(warm![], recv);
    recv_silence: silent(quiet, warm![], recv);
    recv_half: late(warm![Part(1, 100_000, 40_000), Cue], recv);
    recv_half_a_chunk: late(warm![Slot([RTS | FIN | LEFT, 1, 40_000, 40_000, 0, 0, 0], NEXT, 3), Cue], recv);
    recv_half_a_chunk_of_the_dead: on(warm![Slot([RTS | FIN | LEFT, 1, 40_000, 40_000, 0, 0, 0], NEXT, 3), Die], recv, LOST);
    recv_a_chunk_of_a_later_sequence: late(warm![Skip(1), Message(1, 100), Cue], recv);
    recv_a_line_of_a_later_sequence: late(warm![Skip(1 << 32), Message(1, 10), Cue], recv);
    recv_without_a_wake: on(warm![Cue, Sleep(50), Mute(1, 5000)], recv, OK);
    recv_lulled: busy(warm![Cue, Flood(Lulls)], recv);
    recv_from_memory_that_is_tampered_with: on(warm![Tamper, Message(1, 100_000)], recv, OK);
    recv_death_of_a_process_whose_socket_lives: on(warm![Bequeath, Die], recv, LOST);
    recv_first_chunk_empty: late(warm![slot([RTS | WANT_CTS | LEFT, 1, 100, 0], NEXT), Cue], recv);
    recv_death: on(warm![Die], recv, LOST);
    recv_death_in_the_middle: on(warm![Part(1, 100_000, 40_000), Die], recv, LOST);
    recv_what_came_before_death: on(warm![Message(1, 8), Message(2, 5000), Message(3, 100_000), Die], recv_three, LOST);
    recv_end_of_the_socket: on(warm![Part(1, 100_000, 40_000), CloseSocket], recv, LOST);
    recv_talk_out_of_turn: on(warm![Raw(b"hello", Carry::Nothing)], recv, PROTOCOL);
    recv_talk_to_one_who_maps_nothing: Case { options: unmapping, ..on(warm![Raw(b"hello", Carry::Nothing)], recv, LOST) };
    recv_memory_out_of_turn: on(warm![Raw(b"hello", Carry::Pipe)], recv, PROTOCOL);
    recv_memory_to_one_who_maps_nothing: Case { options: unmapping, limit: Duration::from_millis(500), ..on(warm![Raw(b"hello", Carry::Pipe)], recv, LOST_OR_LATE) };
    recv_a_cancel: on(warm![Part(1, 100_000, 40_000), slot([CANCEL, 7, 0, 0], THIS)], recv, CANCELLED);
    recv_close: on(warm![Message(1, 100), Close(0, DONE)], recv_all, CLOSED);
    recv_close_in_the_middle: on(warm![Part(1, 100_000, 40_000), Close(0, GIVEN_UP)], recv, GAVE_UP);
    recv_too_small: on(warm![Message(1, 5000)], recv_small, TOO_SMALL);
    recv_a_length_without_bound: on(warm![slot([RTS | LEFT, 1, u64::MAX, 8], NEXT)], recv, TOO_SMALL);
    recv_a_stream: on(warm![Flow(1, 100)], recv, TOO_SMALL);
    recv_after_a_rejection: on(warm![Part(1, 1 << 20, 40_000), slot([CANCEL, 7, 0, 0], THIS), Message(2, 9)], reject, OK);
    recv_behind_chunks_without_end: busy(warm![Flow(1, 100), Cue, Flood(Chunks)], reject);
    recv_polled_in_the_middle: on(warm![Part(1, 100_000, 40_000), Cue, Await, More(60_000, true)], poll_in_the_middle, OK);
    recv_polled_finds_the_dead: on(warm![Sleep(20), Die], poll, LOST);

    recv_under_rejects: busy(warm![Cue, Flood(Rejects)], recv);
    recv_under_cts: busy(warm![Cue, Flood(Cts)], recv);
    recv_under_wakes: busy(warm![Cue, Flood(Wakes)], recv);
    recv_under_life: busy(warm![Cue, Flood(Life)], recv);
    recv_under_acknowledgements: busy(warm![Cue, Flood(Acks)], recv);
    recv_in_the_middle_under_rejects: busy(warm![Part(1, 100_000, 40_000), Cue, Flood(Rejects)], recv);
    recv_of_a_patient_peer: Case { options: quiet, ..late(warm![Flood(Patience)], recv) };
    interrupt_under_rejects: stopped(warm![Cue, Flood(Rejects)], recv_interrupted);
    interrupt_under_cts: stopped(warm![Cue, Flood(Cts)], recv_interrupted);
    interrupt_of_a_send_under_rejects: stopped(warm![Cue, Flood(Rejects)], send_interrupted);

    recv_bits_that_contradict: breach!("kind bits", slot([RTS | FIN | INLINE | STREAM | 8 << 8, 1, 0, 0], NEXT));
    recv_a_stream_that_goes_on: breach!("kind bits", Part(1, 100, 10), slot([STREAM | LEFT, 0, 0, 8], THIS));
    recv_a_cancel_with_more: breach!("kind bits", Part(1, 100, 10), slot([CANCEL | FIN, 7, 0, 0], THIS));
    recv_an_inline_message_that_is_long: breach!("longer than its line", slot([RTS | FIN | INLINE | 105 << 8, 1, 0, 0], NEXT));
    recv_reserved_bits: breach!("not zero", slot([RTS | FIN | LEFT | 1 << 20, 1, 8, 8], NEXT));
    recv_reserved_words: breach!("not zero", Slot([RTS | FIN | LEFT, 1, 8, 8, 0, 1, 0], NEXT, 1));
    recv_a_stream_with_a_length: breach!("not zero", slot([RTS | STREAM | LEFT, 1, 8, 8], NEXT));
    recv_a_chunk_beyond_the_ring: breach!("runs over the end", slot([RTS | LEFT, 1, 1 << 40, 1 << 20], NEXT));
    recv_a_chunk_of_4_gib: breach!("runs over the end", slot([RTS | LEFT, 1, 1 << 40, 1 << 32], NEXT));
    recv_a_chunk_from_the_right: breach!("right-aligned", slot([RTS | FIN, 1, 8, 8], NEXT));
    recv_an_empty_chunk: breach!("empty chunk", Part(1, 100, 10), slot([LEFT, 0, 0, 0], THIS));
    recv_a_transfer_inside_another: breach!("inside another", Part(1, 100, 10), slot([RTS | FIN | LEFT, 1, 8, 8], NEXT));
    recv_more_of_nothing: breach!("continues or cancels no transfer", slot([LEFT, 0, 0, 8], THIS));
    recv_a_cancel_of_nothing: breach!("continues or cancels no transfer", slot([CANCEL, 7, 0, 0], THIS));
    recv_a_transfer_out_of_turn: breach!("another transfer", slot([RTS | FIN | LEFT, 1, 8, 8], Of::Newest(2)));
    recv_more_of_another: breach!("another transfer", Part(1, 100, 10), slot([LEFT, 0, 0, 8], NEXT));
    recv_more_than_announced: breach!("longer than announced", Part(1, 100, 10), slot([LEFT, 0, 0, 91], THIS));
    recv_an_early_end: breach!("does not end where", Part(1, 100, 10), slot([FIN | LEFT, 0, 0, 8], THIS));
    recv_no_end: breach!("does not end where", Part(1, 100, 10), slot([LEFT, 0, 0, 90], THIS));
    recv_an_unknown_control_message: breach!("unknown control", control(99, Of::Number(1), 0));
    recv_a_control_message_with_reserved_words: breach!("not zero", Control([CTS, 0, 0, 0, 1, 0, 0], Of::Number(1)));
    recv_cts_of_nothing: breach!("CTS for a transfer that was not started", control(CTS, NEXT, 0));
    recv_a_rejection_of_nothing: breach!("REJECT of a transfer that was not started", control(REJECT, NEXT, 7));
    recv_an_acknowledgement_of_nothing: breach!("blocks that were never sent", Ack(1, 0));
    recv_a_good_message_then_a_breach: breach!("continues or cancels", Message(1, 30), Message(2, 50_000), slot([LEFT, 0, 0, 8], THIS));
    recv_news_of_a_breach: Case { text: "this end broke", ..on(warm![Close(0, BROKEN)], recv, PROTOCOL) };
    recv_a_torn_acknowledgement: late(warm![TornAck, Cue], recv);
    recv_a_header_that_changes: on(
        warm![Unsteady([RTS | FIN | LEFT, 0, 64, 64, 0, 0, 0], [RTS | FIN | LEFT, 0, 1 << 31, 1 << 31, 0, 0, 0])],
        recv_header,
        &[Ok(()), Err(ErrorKind::Protocol), Err(ErrorKind::TooSmall)],
    );

    send_short_to_nobody: late(warm![], send_short);
    send_long_to_nobody: late(warm![], send_long);
    send_long_to_a_patient_peer: late(warm![Flood(Patience)], send_long);
    send_without_acknowledgement_of_the_cts: late(warm![Notification, control(CTS, THIS, 0)], send_long);
    send_of_which_a_part_is_taken: late(warm![TakeChunks(3)], send_long);
    send_then_another: Case { limit: SOON, ..on(warm![TakeChunks(2), Await, Take, Take], send_twice, OK) };
    send_to_the_dead: on(warm![Cue, Die], send_long, LOST);
    send_to_one_who_dies: on(warm![TakeChunks(2), Die], send_long, LOST);
    send_to_a_closed_socket: on(warm![TakeChunks(2), CloseSocket], send_long, LOST);
    send_to_one_who_closes: on(warm![TakeChunks(2), Close(0, DONE)], send_long, CLOSED);
    send_to_one_who_closes_with_a_reason: on(warm![TakeChunks(2), Close(0, GIVEN_UP)], send_long, GAVE_UP);
    send_what_is_rejected: on(warm![Notification, control(REJECT, THIS, 7)], send_long, REJECTED);
    send_what_is_rejected_twice: on(
        warm![Notification, control(REJECT, THIS, 7), control(REJECT, THIS, 7)],
        send_long,
        // The second may come once the transfer is over, which is legal.
        &[Err(ErrorKind::Protocol), Err(ErrorKind::Rejected(Reason(7)))],
    );
    send_cts_twice: sending_breach!("CTS twice", Notification, control(CTS, THIS, 0), control(CTS, THIS, 0));
    send_cts_of_the_next: sending_breach!("CTS for a transfer", Notification, control(CTS, NEXT, 0));
    send_a_rejection_of_the_next: sending_breach!("REJECT of a transfer", Notification, control(REJECT, NEXT, 7));
    send_acknowledged_too_much: sending_breach!("blocks that were never sent", Notification, Ack(100, 0));
    send_acknowledged_a_control: sending_breach!("control messages that were never sent", Notification, Ack(0, 1));
    send_acknowledged_less: late(warm![TakeChunks(2), Ack(u64::MAX, 0)], send_long);
    send_acknowledged_torn: late(warm![Notification, TornAck], send_long);
    send_under_rejects: busy(warm![Cue, Flood(Rejects)], send_long);
    send_under_cts: busy(warm![Cue, Flood(Cts)], send_long);
    send_under_life: busy(warm![Cue, Flood(Life)], send_long);
    send_under_wakes: busy(warm![Cue, Flood(Wakes)], send_long);
    send_short_under_rejects: busy(warm![Cue, Flood(Rejects)], send_short);
    send_sixteen_million_slices: Case {
        limit: Duration::from_millis(50),
        ..on(warm![Take], send_slices, &[Ok(()), Err(ErrorKind::Timeout)])
    };

    send_to_one_who_takes_without_end: Case {
        limit: Duration::from_millis(50),
        ..busy(&[MeetWith(VAST), WarmUp, Flood(Takes)], send_without_end)
    };
    try_of_a_chunk_that_is_longer_than_a_call: on(&[MeetWith(LONG), WarmUp, Message(1, WHOLE), Cue], try_in_two_slices, OK);
    recv_blocks_without_end: Case {
        // Time is looked at after 64 MiB, which this program's mappings of one file take for tens of milliseconds.
        limit: Duration::from_millis(100),
        ..busy(&[MeetWith(VAST), WarmUp, Part(1, ROOM as u64, 1 << 20), Cue, Flood(Blocks)], recv_blocks)
    };
    recv_bytes_without_end: Case {
        limit: Duration::from_millis(50),
        ..busy(warm![Part(1, 64 << 20, 1), Cue, Flood(Flags)], recv_bytes)
    };
    recv_bytes_without_end_in_a_tiny_ring: Case {
        limit: Duration::from_millis(50),
        ..busy(&[MeetWith(TINY), WarmUp, Part(1, 64 << 20, 1), Cue, Flood(Flags)], recv_bytes)
    };
    recv_bytes_without_end_in_a_long_ring: Case {
        limit: Duration::from_millis(50),
        ..busy(&[MeetWith(LONG), WarmUp, Part(1, 64 << 20, 1), Cue, Flood(Flags)], recv_bytes)
    };
    recv_behind_chunks_without_end_in_a_long_ring: Case {
        limit: Duration::from_millis(50),
        ..busy(&[MeetWith(LONG), WarmUp, Flow(1, 100), Cue, Flood(Flags)], reject)
    };

    flush_of_nobody: late(warm![], flush);
    flush_of_the_dead: on(warm![Cue, Die], flush, LOST);
    flush_under_rejects: busy(warm![Cue, Flood(Rejects)], flush);
    flush_acknowledged_too_much: on(warm![Notification, Ack(2, 0)], flush, PROTOCOL);
    flush_of_a_silent_peer: silent(impatient, warm![], flush);

    progress_is_heard: Case { limit: SOON, ..on(warm![Cue, HearLife], progress_shows_life, OK) };
    progress_finds_death: Case { limit: SOON, ..on(warm![Die], progress_finds_the_dead, LOST) };
    try_of_one_who_died_in_a_message: on(warm![Part(1, 100_000, 40_000), Die], try_the_dead, LOST);
    drive_of_one_who_died_in_a_message: on(warm![Part(1, 100_000, 40_000), Die], drive_the_dead, LOST);
    poll_of_one_who_died_in_a_message: on(warm![Part(1, 100_000, 40_000), Die], poll_the_dead, LOST);
}

/// A message that the peer sends in one chunk, as the layout allows: more than a call takes, less than a fold of the ring.
const WHOLE: usize = 2_500_000;

/// Tries to receive into two slices, and takes what is said to be for an operation with a blocking call.
fn try_in_two_slices(us: &mut Us) -> Answer {
    us.connection().peek(Duration::from_secs(10))?;
    let mut room = vec![0; WHOLE];
    let (front, back) = room.split_at_mut(1000);
    match us.connection().try_recv(&mut [front, back])? {
        TryRecv::Received(_) => {}
        TryRecv::Incomplete(_) => _ = us.receive(WHOLE)?,
        tried => panic!("{tried:?} of a message that is there"),
    }
    Ok(())
}

/// Makes progress and tries for a second: "the next try then says so".
fn try_the_dead(us: &mut Us) -> Answer {
    us.peer().await_death();
    let (begun, mut room) = (Instant::now(), vec![0; 100_000]);
    while begun.elapsed() < Duration::from_secs(1) {
        us.connection().progress();
        us.connection().try_recv(&mut [&mut room])?;
    }
    Ok(())
}

/// Drives an operation for a second: its documentation asks for nothing else.
fn drive_the_dead(us: &mut Us) -> Answer {
    us.peer().await_death();
    let (begun, mut room) = (Instant::now(), vec![0; 100_000]);
    let mut receive = RecvOperation::new();
    while begun.elapsed() < Duration::from_secs(1) {
        let _ = us.connection().drive_recv(&mut receive, &mut [&mut room])?;
    }
    Ok(())
}

/// The same for one who only ever receives with a deadline of zero.
fn poll_the_dead(us: &mut Us) -> Answer {
    us.peer().await_death();
    let (begun, mut room) = (Instant::now(), vec![0; 100_000]);
    while begun.elapsed() < Duration::from_secs(1) {
        match us.connection().recv_into(&mut [&mut room], Duration::ZERO) {
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            received => return Ok(received.map(|_| ())?),
        }
    }
    Ok(())
}

/// A header that changes announces one of two transfers; the contents mean nothing.
fn recv_header(us: &mut Us) -> Answer {
    let mut room = vec![0; 1 << 20];
    let received = us.timed(|connection, limit| connection.recv_into(&mut [&mut room], limit))?;
    assert_eq!((received.tag, received.bytes), (0, 64));
    Ok(())
}
