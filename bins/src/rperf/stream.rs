//! Streaming: the client sends message after message, and the server times their arrival. A sample is the time from one complete
//! message to the next. The first message only starts the clock.

use super::end::{End, receive, receive_into, send, write_anew};
use super::link::{Link, MessageError};
use super::runs::Run;
use super::samples::{Samples, repeat};
use superpipe::os::monotonic_ns;

/// Limit on the bytes of a window, unless two messages have more: both ends keep the buffers of one.
const WINDOW_BYTES: u64 = 64 << 20;
/// Limit on the messages of a window.
const WINDOW_MESSAGES: u64 = 1024;
/// The same out of registered buffers: as many as a connection registers over shared memory.
const WINDOW_REGISTERED: u64 = 8;

/// Runs the client's end with a reused buffer, or with registered ones in turn, each of which is written before it is sent.
///
/// # Errors
/// A message that cannot be sent or received, or a signal.
pub fn source(end: &mut End, link: &mut Link<'_>, run: &Run) -> Result<(), MessageError> {
    link.await_go()?;
    let signals = link.session.signals;
    let connection = link.data();
    let buffers = end.from.buffers();
    let (count, mut turn) = (buffers.len(), 0);
    repeat(run.warmup + run.timed(), &signals, || {
        let from = &mut buffers[turn % count];
        turn += 1;
        write_anew(connection, from)?;
        send(connection, from)
    })
}

/// Runs the server's end of [`source`]. The loop holds nothing but messages and readings of the clock.
///
/// # Errors
/// As [`source`].
pub fn sink(
    end: &mut End,
    link: &mut Link<'_>,
    run: &Run,
    samples: &mut Samples,
) -> Result<(), MessageError> {
    link.send_go()?;
    let signals = link.session.signals;
    let connection = link.data();
    let to = &mut end.to.buffers()[0];
    samples.take(run, &signals, || receive(connection, to))
}

/// Runs the client's end if each message has a buffer of its own. The messages of a window are prepared and compared together,
/// which is not timed: the server sends GO when it is ready for the next window.
///
/// # Errors
/// As [`source`].
pub fn source_prepared(end: &mut End, link: &mut Link<'_>, run: &Run) -> Result<(), MessageError> {
    let signals = link.session.signals;
    for (messages, _) in windows(run, end.is_registered) {
        end.prepare(link.data(), &signals, messages)?;
        link.await_go()?;
        let connection = link.data();
        for from in &end.from.buffers()[..messages] {
            send(connection, from)?;
        }
    }
    Ok(())
}

/// Runs the server's end of [`source_prepared`].
///
/// # Errors
/// As [`source`].
pub fn sink_prepared(
    end: &mut End,
    link: &mut Link<'_>,
    run: &Run,
    samples: &mut Samples,
) -> Result<(), MessageError> {
    let signals = link.session.signals;
    for (messages, is_timed) in windows(run, end.is_registered) {
        end.prepare(link.data(), &signals, messages)?;
        link.send_go()?;
        let connection = link.data();
        let mut last = None;
        for to in &mut end.to.buffers()[..messages] {
            receive_into(end.plan.memory, connection, to)?;
            let now = monotonic_ns();
            if let Some(last) = last.replace(now).filter(|_| is_timed) {
                samples.push(now - last);
            }
        }
        for index in 0..messages {
            end.compare(index, end.plan.is_verified, &signals)?;
        }
    }
    Ok(())
}

/// Returns the number of messages in a window, of which the first only starts the clock.
#[must_use]
pub fn window(bytes: u64, is_registered: bool) -> usize {
    let most = if is_registered { WINDOW_REGISTERED } else { WINDOW_MESSAGES };
    let messages = (WINDOW_BYTES / bytes.max(1)).clamp(2, most);
    usize::try_from(messages).unwrap_or(usize::MAX)
}

/// Returns the windows of a run: the messages of each, and true if it is timed.
pub fn windows(run: &Run, is_registered: bool) -> impl Iterator<Item = (usize, bool)> + use<> {
    let window = window(run.bytes, is_registered);
    let part = move |intervals: u64, is_timed| {
        let full = intervals / (window as u64 - 1);
        let rest = usize::try_from(intervals % (window as u64 - 1)).unwrap_or(0);
        let full = (0..full).map(move |_| (window, is_timed));
        full.chain((rest > 0).then_some((rest + 1, is_timed)))
    };
    part(run.warmup.saturating_sub(1), false).chain(part(run.samples, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rperf::runs::Pattern;

    #[test]
    fn windows_hold_few_bytes_and_two_messages_at_least() {
        let sizes = [0, 8, 64 << 10, 1 << 20, 64 << 20, 1 << 30];
        assert_eq!(sizes.map(|bytes| window(bytes, false)), [1024, 1024, 1024, 64, 2, 2]);
        assert_eq!(sizes.map(|bytes| window(bytes, true)), [8, 8, 8, 8, 2, 2]);
    }

    #[test]
    fn every_sample_is_in_one_window() {
        let run = Run {
            pattern: Pattern::Stream,
            is_reconnected: false,
            is_recorded: false,
            batch: 1,
            bytes: 1 << 20,
            warmup: 65,
            samples: 130,
        };
        let all: Vec<_> = windows(&run, false).collect();
        assert_eq!(all, [(64, false), (2, false), (64, true), (64, true), (5, true)]);
        assert_eq!(windows(&Run { warmup: 1, samples: 63, ..run }, false).collect::<Vec<_>>(), [(64, true)]);
        assert_eq!(windows(&Run { warmup: 1, samples: 0, ..run }, false).count(), 0);
    }
}
