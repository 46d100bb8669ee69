//! Oracle of silence: a peer is reported silent once nothing of it has become visible for the idle timeout, once, and neither earlier nor much later.

use std::collections::VecDeque;

/// Looks within the idle timeout, and what rounds them: a look comes late by this, or this part of the time to it.
const LOOKS: u64 = 4;
const GRID_NS: u64 = 40_000_000;
const GRID_PART: u64 = 16;
/// Silence that a stop of all processes counts as at most, beside the time to the next look.
const STOPPED_NS: u64 = 250_000_000;
/// Work of the program between two looks, and its stalls.
const SLACK_NS: u64 = 60_000_000;

/// Returns by how much a look after this time may be late.
fn late_ns(after_ns: u64) -> u64 {
    GRID_NS.max(after_ns / GRID_PART)
}

/// Signs of life of a client: keepalives and acknowledgements.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Times at which those on their way become visible.
    coming: VecDeque<u64>,
    /// The last one that is visible, or the time from which on it is looked at.
    shown_ns: u64,
    /// Time since then in which all were stopped, and what of it may count as silence.
    stopped_ns: u64,
    counted_ns: u64,
    /// Silence since then was reported.
    is_told: bool,
}

impl Life {
    /// Notes that the client has stored something that shows that it lives.
    pub(super) fn note_shown(&mut self, visible_ns: u64) {
        self.coming.push_back(visible_ns);
    }

    /// Notes that it is looked at from now on.
    pub(super) fn note_taken_in(&mut self, now_ns: u64) {
        self.begin(now_ns);
    }

    /// Notes a report that it was silent for the idle timeout.
    pub(super) fn note_told(&mut self, now_ns: u64, idle_timeout_ns: u64) {
        self.show(now_ns);
        let silent_ns = (now_ns + self.counted_ns).saturating_sub(self.shown_ns + self.stopped_ns);
        assert!(silent_ns >= idle_timeout_ns, "reported silent after {} us", silent_ns / 1000);
        assert!(!core::mem::replace(&mut self.is_told, true), "reported silent twice");
    }

    /// Notes that all processes are stopped from `now_ns` on.
    pub(super) fn note_stopped(&mut self, now_ns: u64, stopped_ns: u64, idle_timeout_ns: u64) {
        self.show(now_ns);
        let part_ns = idle_timeout_ns / LOOKS;
        self.stopped_ns += stopped_ns;
        self.counted_ns += stopped_ns.min(part_ns + late_ns(part_ns) + STOPPED_NS.min(part_ns));
        for visible_ns in &mut self.coming {
            *visible_ns = (*visible_ns).max(now_ns + stopped_ns);
        }
    }

    /// Checks that silence was reported that is long over.
    pub(super) fn check(&mut self, now_ns: u64, idle_timeout_ns: u64) {
        self.show(now_ns);
        let part_ns = idle_timeout_ns / LOOKS;
        let late_ns = part_ns + 2 * late_ns(part_ns) + SLACK_NS;
        let silent_ns = now_ns.saturating_sub(self.shown_ns + self.stopped_ns);
        assert!(
            self.is_told || silent_ns <= idle_timeout_ns + late_ns,
            "silent for {} us, and not reported",
            silent_ns / 1000
        );
    }

    /// Shows what is visible.
    fn show(&mut self, now_ns: u64) {
        while let Some(visible_ns) = self.coming.pop_front_if(|visible_ns| *visible_ns <= now_ns) {
            if visible_ns > self.shown_ns {
                self.begin(visible_ns);
            }
        }
    }

    const fn begin(&mut self, shown_ns: u64) {
        (self.shown_ns, self.stopped_ns, self.counted_ns, self.is_told) = (shown_ns, 0, 0, false);
    }
}
