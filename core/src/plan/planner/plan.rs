//! Answers of the planner: a plan, and its explanation.

use core::fmt;

use super::candidate::{CANDIDATES_MAX, Candidate};
use super::terms::{Memory, Way};

/// Reason for a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// One chunk whatever is chosen: up to C0, or too short to be copied out of mapped memory.
    ShortMessage,
    /// No other way is possible.
    OnlyOne,
    /// Cheapest by the model; nothing of it was observed in this class yet.
    Predicted,
    /// Cheapest by observations.
    Measured,
    /// Tried, to observe what it takes.
    Trial,
    /// Another way is cheaper by less than noise, or 5 %.
    HeldByHysteresis,
    /// Dearer for this message, cheaper for the later ones out of the same buffer that are expected.
    Invested,
    /// A cheaper way was declined, and is left out for a time.
    OtherDeclined,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::ShortMessage,
        Self::OnlyOne,
        Self::Predicted,
        Self::Measured,
        Self::Trial,
        Self::HeldByHysteresis,
        Self::Invested,
        Self::OtherDeclined,
    ];

    /// Returns the name that tools use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShortMessage => "short",
            Self::OnlyOne => "only",
            Self::Predicted => "predicted",
            Self::Measured => "measured",
            Self::Trial => "trial",
            Self::HeldByHysteresis => "held",
            Self::Invested => "invested",
            Self::OtherDeclined => "other-declined",
        }
    }
}

/// Plan of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Way that it goes.
    pub way: Way,
    /// Reason for it.
    pub reason: Reason,
    /// Nanoseconds that it is expected to take, from the begin until the peer has acknowledged its end and its memory is released.
    pub predicted_ns: f64,
    /// First chunk of the superpipeline in bytes: at most C0 of the connection, which goes before the CTS.
    pub c0_bytes: u32,
    /// q of the superpipeline in 1/256: 256 to 1,024.
    pub growth_q8: u32,
    /// Largest chunk of the superpipeline in bytes, C_opt (Denis, equation 3) where the way is the pipeline: at most a fold. 0 where nothing is copied into the landing buffer: a remote write is then
    /// as large as it may be ([`Config::chunk_bytes`](crate::Config::chunk_bytes)).
    pub chunk_bytes: u32,
}

/// What is known of one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WayEstimate {
    /// The way.
    pub way: Way,
    /// Nanoseconds by the cost model.
    pub predicted_ns: f64,
    /// Factor learnt: observed over predicted. Of another class, if this way was not observed in this one.
    pub correction: f64,
    /// Observations in this class since the last change, up to 255.
    pub observations: u8,
    /// Nanoseconds that the choice compares: predicted times correction. Of registering what may be kept, the average of the messages that use the registration.
    pub expected_ns: f64,
    /// Messages of the class for which it is left out, since it was declined.
    pub left_out: u16,
}

/// Explains a choice. [`Display`](fmt::Display) is one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explanation {
    /// Bytes of the message.
    pub bytes: u64,
    /// Its memory.
    pub memory: Memory,
    /// Way of the next message that is no trial.
    pub chosen: Way,
    /// Reason for it.
    pub reason: Reason,
    /// Share of messages of this class out of buffers that were sent before, 0 to 1: for memory that may be kept.
    pub reuse: f64,
    ways: [Option<WayEstimate>; CANDIDATES_MAX],
}

impl Explanation {
    /// Returns an explanation without ways.
    pub(super) const fn new(bytes: u64, memory: Memory, chosen: Way, reason: Reason, reuse: f64) -> Self {
        Self { bytes, memory, chosen, reason, reuse, ways: [None; CANDIDATES_MAX] }
    }

    /// Adds a way.
    pub(super) fn push(&mut self, candidate: &Candidate) {
        let free = self.ways.iter_mut().find(|place| place.is_none());
        if let Some(place) = free {
            *place = Some(WayEstimate {
                way: candidate.way,
                predicted_ns: candidate.predicted_ns,
                correction: candidate.factor,
                observations: candidate.count,
                expected_ns: candidate.score_ns,
                left_out: candidate.out_for,
            });
        }
    }

    /// Returns every way that is possible, at most five. One only for a short message.
    pub fn ways(&self) -> impl Iterator<Item = &WayEstimate> {
        self.ways.iter().flatten()
    }
}

impl fmt::Display for Explanation {
    /// Writes the choice, and for each way the microseconds expected, the correction and the observations:
    ///
    /// ```text
    /// 1048576 fresh: superpipeline (measured), superpipeline 95.2 us x1.10 n=9, register 190.4 us x0.98 n=3 out 16
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, memory, chosen, reason, reuse, .. } = *self;
        write!(f, "{bytes} {}: {} ({})", memory.name(), chosen.name(), reason.name())?;
        if matches!(memory, Memory::Keepable | Memory::KeepableAgain) {
            write!(f, ", reuse {:.0} %", reuse * 100.0)?;
        }
        for one in self.ways() {
            let WayEstimate { way, correction, observations, expected_ns, left_out, .. } = *one;
            write!(f, ", {} {:.1} us x{correction:.2} n={observations}", way.name(), expected_ns / 1000.0)?;
            if left_out > 0 {
                write!(f, " out {left_out}")?;
            }
        }
        Ok(())
    }
}
