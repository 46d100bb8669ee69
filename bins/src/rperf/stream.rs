//! Streaming at the client: it sends message after message, and the server times their arrival. A sample is the time from one complete
//! message to the next. The first message only starts the clock.

use super::end::{End, send, send_end, write_anew};
use super::link::{Link, MessageError};
use super::runs::Run;
use super::samples::repeat;
use superpipe::os::monotonic_ns;

/// Limit on the bytes of a window, unless two messages have more: both ends keep the buffers of one.
const WINDOW_BYTES: u64 = 64 << 20;
/// Limit on the messages of a window.
const WINDOW_MESSAGES: u64 = 1024;
/// The same out of registered buffers: as many as a connection registers over shared memory.
const WINDOW_REGISTERED: u64 = 8;
/// Messages of a run by time, and their bytes, between two looks at the clock: so few that the end is at most some milliseconds late.
const TIME_CHECK_MESSAGES: u64 = 64;
const TIME_CHECK_BYTES: u64 = 4 << 20;

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
    let mut one = || {
        let from = &mut buffers[turn % count];
        turn += 1;
        write_anew(connection, from)?;
        send(connection, from)
    };
    repeat(run.warmup + run.timed(), &signals, &mut one)?;
    if !run.is_by_time() {
        return Ok(());
    }
    let until_ns = monotonic_ns().saturating_add(run.time_ns);
    let each = TIME_CHECK_BYTES.checked_div(run.bytes).unwrap_or(u64::MAX).clamp(1, TIME_CHECK_MESSAGES);
    while monotonic_ns() < until_ns {
        repeat(each, &signals, &mut one)?;
    }
    send_end(connection)
}

/// Runs the client's end if each message has a buffer of its own. The messages of a window are prepared and compared together,
/// which is not timed: the server sends GO when it is ready for the next window.
///
/// # Errors
/// As [`source`].
pub fn source_prepared(end: &mut End, link: &mut Link<'_>, run: &Run) -> Result<(), MessageError> {
    let signals = link.session.signals;
    let mut until_ns = None;
    for (messages, is_timed) in windows(run, end.is_registered) {
        let now = monotonic_ns();
        if is_timed && until_ns.is_none() {
            until_ns = Some(now.saturating_add(run.time_ns));
        }
        let is_over = run.is_by_time() && until_ns.is_some_and(|until_ns| now >= until_ns);
        if is_over {
            link.await_go()?;
            return send_end(link.data());
        }
        end.prepare(link.data(), &signals, messages)?;
        link.await_go()?;
        let connection = link.data();
        for from in &end.from.buffers()[..messages] {
            send(connection, from)?;
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
    let unlimited = core::iter::repeat_n((window, true), if run.is_by_time() { usize::MAX } else { 0 });
    part(run.warmup.saturating_sub(1), false).chain(part(run.samples, true)).chain(unlimited)
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
            time_ns: 0,
            connection: 0,
        };
        let all: Vec<_> = windows(&run, false).collect();
        assert_eq!(all, [(64, false), (2, false), (64, true), (64, true), (5, true)]);
        assert_eq!(windows(&Run { warmup: 1, samples: 63, ..run }, false).collect::<Vec<_>>(), [(64, true)]);
        assert_eq!(windows(&Run { warmup: 1, samples: 0, ..run }, false).count(), 0);
        let by_time = Run { warmup: 3, samples: 0, time_ns: 1, ..run };
        let first: Vec<_> = windows(&by_time, false).take(3).collect();
        assert_eq!(first, [(3, false), (64, true), (64, true)]);
    }
}
