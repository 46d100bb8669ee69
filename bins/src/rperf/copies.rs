//! Counts of the copies that the messages of a run took.

use core::fmt;
use superpipe::{Connection, CopyKernel, SIZE_CLASSES, size_class_bytes};

/// Counts of a connection at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copies {
    /// bytes sent in chunks or out of registered buffers
    bytes: u64,
    /// bytes among them that were copied once: by the peer straight out of a registered buffer, or into a buffer of the peer
    bytes_once: u64,
    /// of these, bytes that this end copied into a buffer of the peer
    bytes_split: u64,
    /// messages out of registered buffers that were registered
    pub hit: u64,
    /// messages out of registered buffers that were not
    pub missed: u64,
    /// kernels of copies into the peer's landing buffer and out of the own one, of each class of messages, at the end
    kernels: [[CopyKernel; SIZE_CLASSES]; 2],
    /// bytes of the peer's landing buffer that were cycled through at the end
    pub window_bytes: u64,
}

impl Copies {
    /// Returns the counts of a connection so far.
    #[must_use]
    pub fn of(connection: &mut Connection) -> Self {
        let counters = connection.counters();
        Self {
            bytes: counters.bytes_sent,
            bytes_once: counters.exposed_bytes_sent + counters.split_bytes_sent,
            bytes_split: counters.split_bytes_sent,
            hit: counters.registrations_hit,
            missed: counters.registrations_missed,
            kernels: [counters.copy_in, counters.copy_out],
            window_bytes: counters.window_bytes,
        }
    }

    /// Returns the kernels of messages of `bytes` bytes: of copies in, and out. Messages shorter than those of the first class are copied plainly.
    #[must_use]
    pub fn kernels_of(&self, bytes: u64) -> [&'static str; 2] {
        let class = size_class_bytes().iter().rposition(|least| bytes >= *least);
        self.kernels.map(|kernels| class.map_or(CopyKernel::Plain, |class| kernels[class]).name())
    }

    /// Returns the counts since earlier ones of the same connection.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            kernels: self.kernels,
            window_bytes: self.window_bytes,
            bytes: self.bytes - before.bytes,
            bytes_once: self.bytes_once - before.bytes_once,
            bytes_split: self.bytes_split - before.bytes_split,
            hit: self.hit - before.hit,
            missed: self.missed - before.missed,
        }
    }

    /// Returns the share of the bytes that were copied once, in percent, rounded to a tenth.
    #[must_use]
    pub fn percent(&self) -> f64 {
        self.share(self.bytes_once)
    }

    /// Returns the share of the bytes that this end copied into a buffer of the peer, in percent, rounded to a tenth.
    #[must_use]
    pub fn split_percent(&self) -> f64 {
        self.share(self.bytes_split)
    }

    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    fn share(&self, part: u64) -> f64 {
        let share = if self.bytes > 0 { part as f64 / self.bytes as f64 } else { 0.0 };
        (share * 1000.0).round() / 10.0
    }
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hit, missed, .. } = self;
        write!(
            f,
            "{} % of the bytes sent were copied once{}; of the messages of 4 KiB and more {hit} went out of a registered buffer, and {missed} \
             through the ring",
            self.percent(),
            Split(self.split_percent())
        )
    }
}

/// Share that this end copied into a buffer of the peer, unless it is 0.
struct Split(f64);

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0.0 { write!(f, ", {} % by this end", self.0) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_run() {
        let before =
            Copies { bytes: 100, bytes_once: 50, bytes_split: 10, hit: 1, missed: 2, ..Copies::default() };
        let after =
            Copies { bytes: 400, bytes_once: 150, bytes_split: 40, hit: 4, missed: 2, ..Copies::default() };
        let run = after.since(&before);
        assert_eq!((run.hit, run.missed, run.percent(), run.split_percent()), (3, 0, 33.3, 10.0));
        assert!(
            run.to_string().starts_with("33.3 % of the bytes sent were copied once, 10 % by this end; "),
            "{run}"
        );
        assert!(Copies::default().to_string().starts_with("0 % of the bytes sent were copied once; "));
        assert_eq!(Copies::default().percent(), 0.0);
    }
}
