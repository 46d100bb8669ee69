//! Counts of what happened, each of which must be more than 0 in the end (but for what is wrong): else it was not tested.

use core::fmt;
use core::ops::AddAssign;

use crate::message::Class;

/// Counts of events in one round, or in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Received Ok, by size.
    pub(crate) ok: [u64; 5],
    /// Streams read up to their end, and of these by `write_to`.
    pub(crate) streams: u64,
    pub(crate) written: u64,
    /// Received Ok into several slices, and into cold memory.
    pub(crate) scattered: u64,
    pub(crate) cold: u64,
    /// Calls that timed out: all, and those before which bytes had come.
    pub(crate) timeouts: u64,
    pub(crate) begun: u64,
    /// Too long for the buffer.
    pub(crate) too_small: u64,
    /// Rejected on purpose: as a whole, and in the middle.
    pub(crate) rejected: u64,
    pub(crate) cut: u64,
    /// Given up by the sender, as the receiver saw.
    pub(crate) cancelled: u64,
    /// Of the sender: all, and those that timed out, were rejected, and given up on purpose.
    pub(crate) sent: u64,
    pub(crate) sends_timed_out: u64,
    pub(crate) sends_rejected: u64,
    pub(crate) sends_given_up: u64,
    /// Times that the sender was stopped.
    pub(crate) stops: u64,
    /// Messages that were wrong.
    pub(crate) wrong: u64,
}

impl Tally {
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

    /// Events that must happen and have not yet.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.counts().into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
    }
}

impl AddAssign<&Self> for Tally {
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
        self.wrong += other.wrong;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in self.counts() {
            writeln!(f, "{name:<24} {count:>9}")?;
        }
        Ok(())
    }
}
