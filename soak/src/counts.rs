//! Counts of events. Every event but a mismatch must occur, or it was not tested.

use core::fmt;
use core::ops::AddAssign;

use crate::message::Class;

/// Counts of events in one round or in all rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventCounts {
    /// Messages received without an error, by size class.
    pub(crate) ok: [u64; 5],
    /// Streams read to their end, and how many of them by `write_to`.
    pub(crate) streams: u64,
    pub(crate) written: u64,
    /// Messages received into several slices, and into cold memory.
    pub(crate) scattered: u64,
    pub(crate) cold: u64,
    /// Calls that timed out, and how many of them after bytes had arrived.
    pub(crate) timeouts: u64,
    pub(crate) begun: u64,
    /// Messages too long for the buffer.
    pub(crate) too_small: u64,
    /// Messages rejected before their first byte, and in the middle.
    pub(crate) rejected: u64,
    pub(crate) cut: u64,
    /// Messages that the sender cancelled, as the receiver saw it.
    pub(crate) cancelled: u64,
    /// Messages of the sender: all, timed out, rejected, and given up on purpose.
    pub(crate) sent: u64,
    pub(crate) sends_timed_out: u64,
    pub(crate) sends_rejected: u64,
    pub(crate) sends_given_up: u64,
    /// Times the sender was stopped.
    pub(crate) stops: u64,
    /// Messages that differ from what was sent.
    pub(crate) mismatches: u64,
}

impl EventCounts {
    pub(crate) fn all_ok(&self) -> u64 {
        self.ok.iter().sum()
    }

    fn counts(&self) -> Vec<(String, u64)> {
        let ok = Class::NAMES.iter().zip(self.ok).map(|(name, count)| (format!("Ok, {name}"), count));
        let others = [
            ("Ok, streams", self.streams),
            ("Ok, by write_to", self.written),
            ("Ok, into several slices", self.scattered),
            ("Ok, into cold memory", self.cold),
            ("timed out", self.timeouts),
            ("timed out once begun", self.begun),
            ("too long for the buffer", self.too_small),
            ("rejected whole", self.rejected),
            ("rejected in the middle", self.cut),
            ("cancelled", self.cancelled),
            ("sent", self.sent),
            ("sends timed out", self.sends_timed_out),
            ("sends rejected", self.sends_rejected),
            ("sends given up", self.sends_given_up),
            ("stops", self.stops),
        ];
        ok.chain(others.map(|(name, count)| (name.to_owned(), count))).collect()
    }

    /// Returns the events that must occur and have not yet.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.counts().into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
    }
}

impl AddAssign<&Self> for EventCounts {
    fn add_assign(&mut self, other: &Self) {
        for (all, more) in self.ok.iter_mut().zip(other.ok) {
            *all += more;
        }
        self.streams += other.streams;
        self.written += other.written;
        self.scattered += other.scattered;
        self.cold += other.cold;
        self.timeouts += other.timeouts;
        self.begun += other.begun;
        self.too_small += other.too_small;
        self.rejected += other.rejected;
        self.cut += other.cut;
        self.cancelled += other.cancelled;
        self.sent += other.sent;
        self.sends_timed_out += other.sends_timed_out;
        self.sends_rejected += other.sends_rejected;
        self.sends_given_up += other.sends_given_up;
        self.stops += other.stops;
        self.mismatches += other.mismatches;
    }
}

impl fmt::Display for EventCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in self.counts() {
            writeln!(f, "{name:<24} {count:>9}")?;
        }
        Ok(())
    }
}
