//! Ping-pong at the client: it times a message to the server and one of the same size back, and reports half of the round trip.

use super::end::{End, offer, receive, receive_into, send, send_end};
use super::link::{Link, MessageError};
use super::runs::{Pattern, Run};
use super::samples::Samples;
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
    })?;
    if run.is_by_time() { send_end(connection) } else { Ok(()) }
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
    let mut until_ns = u64::MAX;
    for number in 0.. {
        if number == run.warmup {
            until_ns = monotonic_ns().saturating_add(run.time_ns);
        }
        let is_over = match run.is_by_time() {
            true => number > run.warmup && monotonic_ns() >= until_ns,
            false => number >= run.warmup + run.samples,
        };
        if is_over && !run.is_by_time() {
            break;
        }
        if is_over {
            link.await_go()?;
            // the server has prepared one more
            end.theirs.skip();
            return send_end(link.data());
        }
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
