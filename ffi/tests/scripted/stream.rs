//! Streams: the peer misbehaves while one is written or read.

use std::os::fd::OwnedFd;

use superpipe::io::{Digest, DigestKind, Sink, Source};
use superpipe::{ErrorKind, Reason};

use crate::case::{CASE, Call, Case, SILENT, SOON, Seen as Answer, impatient};
use crate::peer::script::Flood::{Chunks, Cts, Life, Patience, Rejects, Wakes};
use crate::peer::script::Step::{
    Ack, Close, CloseSocket, Control, Cue, Die, Flood, Flow, Meet, Message, More, Notification, Slot, Stream,
    TakeChunks, WarmUp,
};
use crate::peer::script::{CANCEL, CTS, DONE, FIN, GIVEN_UP, LEFT, Of, REJECT, RTS, Script};
use crate::us::{Us, read_all, write_on};

type Seen = Result<(), ErrorKind>;

const OK: &[Seen] = &[Ok(())];
const TIMEOUT: &[Seen] = &[Err(ErrorKind::Timeout)];
const LOST: &[Seen] = &[Err(ErrorKind::PeerLost)];
const PROTOCOL: &[Seen] = &[Err(ErrorKind::Protocol)];
const INTERRUPTED: &[Seen] = &[Err(ErrorKind::Interrupted)];
const CLOSED: &[Seen] = &[Err(ErrorKind::Closed(Reason(0)))];
const GAVE_UP: &[Seen] = &[Err(ErrorKind::Closed(Reason(0xFFFF_FFFE)))];
const CANCELLED: &[Seen] = &[Err(ErrorKind::Cancelled(Reason(7)))];
const REJECTED: &[Seen] = &[Err(ErrorKind::Rejected(Reason(7)))];

const THIS: Of = Of::Newest(0);
const NEXT: Of = Of::Newest(1);

const fn on(script: Script, call: fn(&mut Us) -> Answer, want: &'static [Seen]) -> Case {
    Case { script, call: Call::With(call), want, ..CASE }
}

/// Only the deadline ends it.
const fn busy(script: Script, call: fn(&mut Us) -> Answer) -> Case {
    Case { limit: SOON, ..on(script, call, TIMEOUT) }
}

/// Only the interrupt flag ends it.
const fn stopped(script: Script, call: fn(&mut Us) -> Answer) -> Case {
    Case { limit: SOON, ..on(script, call, INTERRUPTED) }
}

/// The idle timeout of 300 ms ends it, long before the deadline or the interrupt flag, and the wait must sleep.
const fn silent(script: Script, call: fn(&mut Us) -> Answer) -> Case {
    Case { options: impatient, limit: SILENT, is_idle: true, text: "silent", ..on(script, call, TIMEOUT) }
}

macro_rules! warm {
    ($($step:expr),* $(,)?) => { &[Meet, WarmUp, $($step),*] };
}

fn read(us: &mut Us) -> Answer {
    us.read()
}

/// Reads until the interrupt flag is set.
fn read_interrupted(us: &mut Us) -> Answer {
    us.interrupted(|connection| {
        let mut stream = connection.accept_stream(core::time::Duration::from_secs(60))?;
        read_all(&mut stream)
    })
}

/// Writes until that fails.
pub(crate) fn write(us: &mut Us) -> Answer {
    us.timed(|connection, _| {
        Err(write_on(&mut connection.open_stream(1, core::time::Duration::from_secs(60))?))
    })
}

fn write_interrupted(us: &mut Us) -> Answer {
    us.interrupted(|connection| {
        Err(write_on(&mut connection.open_stream(1, core::time::Duration::from_secs(60))?))
    })
}

/// Drops a stream in its middle, then the connection.
fn write_and_drop(us: &mut Us) -> Answer {
    us.timed(|connection, _| {
        let mut stream = connection.open_stream(1, core::time::Duration::from_secs(60))?;
        std::io::Write::write_all(&mut stream, &[7; 50_000])?;
        drop(stream);
        Ok(())
    })
}

/// Reads a part, and drops the stream, then receives the message that comes next.
fn read_and_drop(us: &mut Us) -> Answer {
    us.timed(|connection, limit| {
        let mut stream = connection.accept_stream(limit)?;
        std::io::Read::read_exact(&mut stream, &mut [0; 100])?;
        drop(stream);
        Ok::<(), crate::case::Failed>(())
    })?;
    us.receive(100).map(|_| ())
}

/// Ends a stream whose last block nobody gives back.
fn finish(us: &mut Us) -> Answer {
    us.timed(|connection, limit| {
        let all = connection.description();
        // All blocks but one.
        let room = (all.landing_bytes - all.block_bytes) as usize;
        let mut stream = connection.open_stream(1, core::time::Duration::from_secs(60))?;
        std::io::Write::write_all(&mut stream, &vec![7; room])?;
        stream.finish(limit)?;
        connection.send(2, &[b"tiny"], limit)?;
        Ok(())
    })
}

/// Reads from a pipe that has nothing.
fn read_from_nothing(us: &mut Us) -> Answer {
    let (pipe, _writer) = std::io::pipe().unwrap();
    let mut source = Source::new(OwnedFd::from(pipe)).unwrap();
    us.interrupted(|connection| {
        let mut stream = connection.open_stream(1, core::time::Duration::from_secs(60))?;
        loop {
            stream.read_from(&mut source, 1000, &mut Digest::new(DigestKind::None))?;
        }
    })
}

/// Writes to a pipe that takes no more.
fn write_to_the_full(us: &mut Us) -> Answer {
    let (_reader, pipe) = std::io::pipe().unwrap();
    let mut sink = Sink::new(OwnedFd::from(pipe)).unwrap();
    us.interrupted(|connection| {
        let mut stream = connection.accept_stream(core::time::Duration::from_secs(60))?;
        loop {
            if stream.write_to(&mut sink, &mut Digest::new(DigestKind::None))? == 0 {
                return Ok(());
            }
        }
    })
}

const fn control(kind: u64, of: Of, reason: u64) -> crate::peer::script::Step {
    Control([kind, 0, 0, reason, 0, 0, 0], of)
}

cases! {
    read_whole: on(warm![Stream(1, 300_000)], read, OK);
    read_silence: silent(warm![Flow(1, 40_000), Cue], read);
    read_nothing: silent(warm![], read_interrupted);
    read_death: on(warm![Flow(1, 40_000), Die], read, LOST);
    read_end_of_the_socket: on(warm![Flow(1, 40_000), CloseSocket], read, LOST);
    read_a_cancel: on(warm![Flow(1, 40_000), Slot([CANCEL, 7, 0, 0, 0, 0, 0], THIS, 1)], read, CANCELLED);
    read_close: on(warm![Flow(1, 40_000), Close(0, DONE)], read, PROTOCOL);
    read_close_with_a_reason: on(warm![Flow(1, 40_000), Close(0, GIVEN_UP)], read, GAVE_UP);
    read_an_empty_end: on(warm![Flow(1, 40_000), More(0, true)], read, OK);
    read_an_empty_chunk: on(warm![Flow(1, 40_000), Slot([LEFT, 0, 0, 0, 0, 0, 0], THIS, 1)], read, PROTOCOL);
    read_a_chunk_of_another: on(warm![Flow(1, 40_000), Slot([LEFT, 0, 0, 9, 0, 0, 0], NEXT, 1)], read, PROTOCOL);
    read_another_inside: on(warm![Flow(1, 40_000), Slot([RTS | FIN | LEFT, 1, 9, 9, 0, 0, 0], NEXT, 1)], read, PROTOCOL);
    read_of_a_patient_peer: stopped(warm![Flow(1, 40_000), Cue, Flood(Patience)], read_interrupted);
    read_under_rejects: stopped(warm![Flow(1, 40_000), Cue, Flood(Rejects)], read_interrupted);
    read_under_cts: stopped(warm![Flow(1, 40_000), Cue, Flood(Cts)], read_interrupted);
    read_under_wakes: stopped(warm![Flow(1, 40_000), Cue, Flood(Wakes)], read_interrupted);
    read_under_life: stopped(warm![Flow(1, 40_000), Cue, Flood(Life)], read_interrupted);
    read_of_chunks_without_end: stopped(warm![Flow(1, 40_000), Cue, Flood(Chunks)], read_interrupted);
    read_dropped_before_chunks_without_end: busy(warm![Flow(1, 40_000), Cue, Flood(Chunks)], read_and_drop);
    read_dropped_and_ended: on(warm![Flow(1, 40_000), More(1000, true), Message(2, 64)], read_and_drop, OK);

    write_to_nobody: silent(warm![], write);
    write_to_the_dead: on(warm![Cue, Die], write, LOST);
    write_to_one_who_dies: on(warm![TakeChunks(2), Die], write, LOST);
    write_to_a_closed_socket: on(warm![TakeChunks(2), CloseSocket], write, LOST);
    write_to_one_who_closes: on(warm![TakeChunks(2), Close(0, DONE)], write, CLOSED);
    write_what_is_rejected: on(warm![Notification, control(REJECT, THIS, 7)], write, REJECTED);
    write_with_cts_twice: on(warm![Notification, control(CTS, THIS, 0), control(CTS, THIS, 0)], write, PROTOCOL);
    write_acknowledged_too_much: on(warm![Notification, Ack(100, 0)], write, PROTOCOL);
    write_to_a_patient_peer: stopped(warm![Flood(Patience)], write_interrupted);
    write_under_rejects: stopped(warm![Cue, Flood(Rejects)], write_interrupted);
    write_under_cts: stopped(warm![Cue, Flood(Cts)], write_interrupted);
    write_under_wakes: stopped(warm![Cue, Flood(Wakes)], write_interrupted);
    write_under_life: stopped(warm![Cue, Flood(Life)], write_interrupted);
    write_dropped: on(warm![], write_and_drop, OK);
    write_dropped_under_rejects: on(warm![Cue, Flood(Rejects)], write_and_drop, OK);
    finish_without_room: busy(warm![Notification, control(CTS, THIS, 0)], finish);

    source_without_data: stopped(warm![], read_from_nothing);
    source_without_data_under_rejects: stopped(warm![Cue, Flood(Rejects)], read_from_nothing);
    source_without_data_for_the_dead: on(warm![Die], read_from_nothing, LOST);
    source_without_data_for_one_who_closes: on(warm![Close(0, GIVEN_UP)], read_from_nothing, GAVE_UP);
    sink_without_room: stopped(warm![Stream(1, 4 << 20)], write_to_the_full);
    sink_without_room_under_chunks: stopped(warm![Flow(1, 1000), Cue, Flood(Chunks)], write_to_the_full);
}
