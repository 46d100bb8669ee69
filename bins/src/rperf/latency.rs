//! Ping-pong: the client times a message to the server and one of the same size back, and reports half of the round trip.

use super::end::{End, offer, receive, receive_into, send};
use super::link::{Link, MessageError};
use super::runs::{Pattern, Run};
use super::samples::{Samples, repeat};
use superpipe::os::monotonic_ns;

/// Runs the client's end with reused buffers. The loop holds nothing but messages and readings of the clock.
///
/// # Errors
/// A message that cannot be sent or received, or a signal.
pub fn ping(
    end: &mut End,
    link: &mut Link<'_>,
    run: &Run,
    samples: &mut Samples,
) -> Result<(), MessageError> {
    link.await_go()?;
    let signals = link.session.signals;
    let connection = link.data();
    let (from, to) = (&end.from.buffers()[0], &mut end.to.buffers()[0]);
    samples.take(run, &signals, || {
        offer(connection, to)?;
        send(connection, from)?;
        receive(connection, to)
    })
}

/// Runs the server's end of [`ping`].
///
/// # Errors
/// As [`ping`].
pub fn pong(end: &mut End, link: &mut Link<'_>, run: &Run) -> Result<(), MessageError> {
    let (from, to) = (&end.from.buffers()[0], &mut end.to.buffers()[0]);
    offer(link.data(), to)?;
    link.send_go()?;
    let signals = link.session.signals;
    let connection = link.data();
    repeat(run.warmup + run.timed(), &signals, || {
        receive(connection, to)?;
        offer(connection, to)?;
        send(connection, from)
    })
}

/// Runs the client's end if each message is prepared: its memory is new, or its contents are compared. Preparation is not timed:
/// the server sends GO when it is ready for the next message.
///
/// # Errors
/// As [`ping`].
pub fn ping_prepared(
    end: &mut End,
    link: &mut Link<'_>,
    run: &Run,
    samples: &mut Samples,
) -> Result<(), MessageError> {
    let signals = link.session.signals;
    for number in 0..run.warmup + run.samples {
        end.prepare(link.data(), &signals, 1)?;
        link.await_go()?;
        let connection = link.data();
        let (from, to) = (&end.from.buffers()[0], &mut end.to.buffers()[0]);
        offer(connection, to)?;
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

/// Runs the server's end of [`ping_prepared`].
///
/// # Errors
/// As [`ping`].
pub fn pong_prepared(end: &mut End, link: &mut Link<'_>, run: &Run) -> Result<(), MessageError> {
    let signals = link.session.signals;
    for _ in 0..run.warmup + run.samples {
        end.prepare(link.data(), &signals, 1)?;
        offer(link.data(), &mut end.to.buffers()[0])?;
        link.send_go()?;
        let connection = link.data();
        let (from, to) = (&end.from.buffers()[0], &mut end.to.buffers()[0]);
        receive_into(end.plan.memory, connection, to)?;
        send(connection, from)?;
        end.compare(0, run.pattern == Pattern::Check || end.plan.is_verified, &signals)?;
    }
    Ok(())
}
