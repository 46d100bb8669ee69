//! Ping-pong. What the client times is a message there and one of the same size back; half of that is told.

use super::end::{End, receive, receive_into, send};
use super::link::{Link, Mishap};
use super::runs::{Pattern, Run};
use super::samples::{Samples, repeat};
use superpipe::os::monotonic_ns;

/// The client's end, of buffers that are used again and again: nothing happens but messages and readings of the clock.
///
/// # Errors
/// When the messages do not come or go, or a signal came.
pub fn ping(end: &mut End, link: &mut Link<'_>, run: &Run, samples: &mut Samples) -> Result<(), Mishap> {
    link.await_go()?;
    let signals = link.session.signals;
    let connection = link.data();
    let (from, to) = (&end.from.buffers()[0], &mut end.to.buffers()[0]);
    let (from, to) = (&from[..], &mut to[..]);
    samples.take(run, &signals, || {
        send(connection, from)?;
        receive(connection, to)
    })
}

/// The server's.
///
/// # Errors
/// As [`ping`].
pub fn pong(end: &mut End, link: &mut Link<'_>, run: &Run) -> Result<(), Mishap> {
    link.go()?;
    let signals = link.session.signals;
    let connection = link.data();
    let (from, to) = (&end.from.buffers()[0], &mut end.to.buffers()[0]);
    let (from, to) = (&from[..], &mut to[..]);
    repeat(run.warmup + run.timed(), &signals, || {
        receive(connection, to)?;
        send(connection, from)
    })
}

/// The client's end, where each message takes preparing: memory that is new, or contents that are compared. That is done
/// while the clock does not count, and the server says each time when it is ready.
///
/// # Errors
/// As [`ping`].
pub fn ping_with_care(
    end: &mut End,
    link: &mut Link<'_>,
    run: &Run,
    samples: &mut Samples,
) -> Result<(), Mishap> {
    let signals = link.session.signals;
    for number in 0..run.warmup + run.samples {
        end.prepare(1, &signals)?;
        link.await_go()?;
        let connection = link.data();
        let (from, to) = (&end.from.buffers()[0], &mut end.to.buffers()[0]);
        let begin = monotonic_ns();
        send(connection, from)?;
        receive_into(end.plan.memory, connection, to)?;
        let ns = monotonic_ns() - begin;
        if number >= run.warmup {
            samples.push(ns);
        }
        end.compare(0, run.pattern == Pattern::Check || end.plan.is_verified, &signals)?;
    }
    Ok(())
}

/// The server's.
///
/// # Errors
/// As [`ping`].
pub fn pong_with_care(end: &mut End, link: &mut Link<'_>, run: &Run) -> Result<(), Mishap> {
    let signals = link.session.signals;
    for _ in 0..run.warmup + run.samples {
        end.prepare(1, &signals)?;
        link.go()?;
        let connection = link.data();
        let (from, to) = (&end.from.buffers()[0], &mut end.to.buffers()[0]);
        receive_into(end.plan.memory, connection, to)?;
        send(connection, from)?;
        end.compare(0, run.pattern == Pattern::Check || end.plan.is_verified, &signals)?;
    }
    Ok(())
}
