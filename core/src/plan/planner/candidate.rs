//! A way that a message of a class can go, and what is known of it.

use super::terms::Way;

/// Most ways of one kind of memory: three through the landing buffer, and two out of mapped memory.
pub(super) const CANDIDATES_MAX: usize = 5;

pub(super) type Candidates = heapless::Vec<Candidate, CANDIDATES_MAX>;

/// A way that is possible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) way: Way,
    /// Nanoseconds by the model alone.
    pub(super) predicted_ns: f64,
    /// Nanoseconds that such a message is expected to take.
    pub(super) takes_ns: f64,
    /// The same, but for registering what may be kept: on the average of the messages that use the registration. The lowest is chosen.
    pub(super) score_ns: f64,
    /// Correction, observed over predicted, and its logarithm.
    pub(super) factor: f64,
    pub(super) log: i16,
    /// Observations of this way in this class.
    pub(super) count: u8,
    /// It was observed before, and none of that counts any more.
    pub(super) is_doubted: bool,
    /// Messages for which it is left out.
    pub(super) out_for: u16,
}

impl Candidate {
    pub(super) const fn is_out(&self) -> bool {
        self.out_for > 0
    }
}
