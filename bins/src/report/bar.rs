//! Progress bar of a transfer: bytes moved, rate and remaining time. It is plain ASCII, which every locale can show.

use core::time::Duration;
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;

/// Interval between two frames. The first frame comes after one interval: before that, the rate would be a guess.
pub const BAR_INTERVAL: Duration = Duration::from_millis(100);
/// Window of the average rate: with a shorter one the rate flickers, with a longer one it lags.
const RATE_SPAN: Duration = Duration::from_secs(3);
/// Characters between the brackets.
const WIDTH: u64 = 32;

/// Progress bar on standard error.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    expected: Option<u64>,
    /// frames of the last [`RATE_SPAN`] and the one before them: time, and bytes moved by then
    frames: VecDeque<(Duration, u64)>,
}

impl Bar {
    /// Creates a bar at 0 bytes, and draws nothing yet.
    #[must_use]
    pub fn new(expected: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let bar = match ProgressStyle::with_template("{msg}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        Self { bar, expected, frames: VecDeque::from([(Duration::ZERO, 0)]) }
    }

    /// Draws the next frame, unless the first [`BAR_INTERVAL`] is still running.
    pub fn draw(&mut self, elapsed: Duration, bytes: u64) {
        if elapsed >= BAR_INTERVAL {
            let text = self.frame(elapsed, bytes);
            self.bar.set_message(text);
        }
    }

    /// Removes the bar from the terminal.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn frame(&mut self, elapsed: Duration, bytes: u64) -> String {
        let rate = self.rate(elapsed, bytes);
        let (moved, per_second) = (HumanBytes(bytes), HumanBytes(rate));
        match self.expected {
            Some(expected) if bytes <= expected => {
                let percent = percent(bytes, expected);
                let filled = usize::try_from(percent * WIDTH / 100).unwrap_or(0);
                let graph = "#".repeat(filled);
                let left = left(expected - bytes, rate);
                let (width, total) = (usize::try_from(WIDTH).unwrap_or(0), HumanBytes(expected));
                format!("[{graph:<width$}] {percent:>3}% {moved} of {total}, {per_second}/s, {left} left")
            }
            // the file has grown: its new length is unknown
            Some(expected) => {
                let (total, elapsed) = (HumanBytes(expected), HumanDuration(elapsed));
                format!("{moved}, more than the {total} expected, {per_second}/s, {elapsed:#}")
            }
            None => format!("{moved}, {per_second}/s, {:#}", HumanDuration(elapsed)),
        }
    }

    /// Returns the average bytes per second in the last [`RATE_SPAN`].
    fn rate(&mut self, elapsed: Duration, bytes: u64) -> u64 {
        let begin = elapsed.saturating_sub(RATE_SPAN);
        while self.frames.get(1).is_some_and(|&(time, _)| time <= begin) {
            self.frames.pop_front();
        }
        let (time, before) = self.frames.front().copied().unwrap_or_default();
        self.frames.push_back((elapsed, bytes));
        per_second(bytes.saturating_sub(before), elapsed.saturating_sub(time))
    }
}

/// Formats a rate in the unit that fits it: "20.00 MiB/s".
#[must_use]
pub fn format_rate(bytes: u64, elapsed: Duration) -> String {
    format!("{}/s", HumanBytes(per_second(bytes, elapsed)))
}

/// Returns bytes per second. A shorter time than a microsecond counts as one.
fn per_second(bytes: u64, elapsed: Duration) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000 / elapsed.as_micros().max(1)).unwrap_or(u64::MAX)
}

fn percent(bytes: u64, expected: u64) -> u64 {
    let percent = u128::from(bytes) * 100 / u128::from(expected.max(1));
    if expected == 0 { 100 } else { u64::try_from(percent).unwrap_or(100) }
}

/// Formats the remaining time; "?" while nothing moves.
fn left(bytes: u64, rate: u64) -> String {
    match bytes.checked_div(rate) {
        Some(seconds) => format!("{:#}", HumanDuration(Duration::from_secs(seconds))),
        None => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn frames(expected: Option<u64>, frames: &[(u64, u64)]) -> Vec<String> {
        let mut bar = Bar::new(expected);
        frames.iter().map(|&(ms, bytes)| bar.frame(Duration::from_millis(ms), bytes)).collect()
    }

    #[test]
    fn the_first_frame_shows_the_rate_since_the_start() {
        let all = frames(Some(200 * MIB), &[(100, 20 * MIB), (200, 20 * MIB), (1000, 100 * MIB)]);
        assert_eq!(
            all[0],
            "[###                             ]  10% 20.00 MiB of 200.00 MiB, 200.00 MiB/s, 0s left"
        );
        assert!(all[1].contains("100.00 MiB/s, 1s left"), "{}", all[1]);
        assert!(all[2].contains("[################                ]  50% 100.00 MiB"), "{}", all[2]);
    }

    #[test]
    fn more_bytes_than_expected_show_no_percentage() {
        let all = frames(Some(20 * MIB), &[(1000, 20 * MIB), (2000, 220 * MIB), (3000, 220 * MIB)]);
        assert!(
            all[0].starts_with("[################################] 100% 20.00 MiB of 20.00 MiB"),
            "{}",
            all[0]
        );
        assert_eq!(all[1], "220.00 MiB, more than the 20.00 MiB expected, 110.00 MiB/s, 2s");
        assert!(all.iter().all(|frame| !frame.contains("220.00 MiB of")));
        assert!(frames(Some(0), &[(100, 0)])[0].contains("100% 0 B of 0 B, 0 B/s, ? left"));
        assert!(frames(None, &[(60_000, u64::MAX)])[0].contains("/s, 60s"));
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut bar = Bar::new(None);
        let mut bytes = 0;
        for second in 1..=10_u64 {
            bytes += if second <= 5 { 1000 } else { 0 };
            let rate = bar.rate(Duration::from_secs(second), bytes);
            let expected =
                [1000, 1000, 1000, 1000, 1000, 666, 333, 0, 0, 0][usize::try_from(second).unwrap() - 1];
            assert_eq!(rate, expected, "after {second} s");
        }
        assert!(bar.frames.len() < 6);
    }

    #[test]
    fn a_rate_has_the_unit_that_fits_it() {
        for (bytes, ms, shown) in [
            (3, 2000, "1 B/s"),
            (40 * MIB, 2000, "20.00 MiB/s"),
            (1 << 34, 500, "32.00 GiB/s"),
            (0, 0, "0 B/s"),
        ] {
            assert_eq!(format_rate(bytes, Duration::from_millis(ms)), shown);
        }
    }

    #[test]
    fn every_letter_is_ascii() {
        let both = [frames(Some(9), &[(500, 3), (900, 12)]), frames(None, &[(500, 3)])];
        assert!(both.concat().iter().all(|frame| frame.is_ascii()));
    }
}
