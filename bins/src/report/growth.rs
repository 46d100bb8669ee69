//! Counts of the landing buffers that came and went in a run.

use core::fmt;
use serde::Serialize;
use superpipe::Counters;
use superpipe::os::Bytes;

/// Growth of a connection's landing buffers, as this end counts it at the end. All are 0 where they stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// bytes of this end's larger landing buffers at the end
    landing_bytes: u64,
    /// most of these bytes at a time
    landing_bytes_peak: u64,
    /// larger landing buffers that this end provisioned
    provisioned: u64,
    /// landing buffers that this end released
    released: u64,
    /// growths that this end refused: no room in its budget
    refused_by_budget: u64,
    /// growths that this end refused: its machine or device could not
    refused_by_machine: u64,
    /// growths that this end refused: the landing buffer was large enough
    refused_as_large_enough: u64,
    /// times that this end asked its peer to leave a landing buffer
    shrinks: u64,
    /// larger landing buffers of the peer that this end asked for
    asked: u64,
    /// of these, those that the peer refused, or this end could not use
    asked_in_vain: u64,
    /// landing buffers of the peer that this end moved to
    moves: u64,
    /// jobs that failed to provision memory
    jobs_failed: u64,
    /// time of all jobs, most of which passes beside the transfer
    jobs_ns: u64,
}

impl Growth {
    /// Takes the counts out of a connection's.
    #[must_use]
    pub fn new(counters: &Counters) -> Self {
        let [refused_by_budget, refused_by_machine, refused_as_large_enough] = counters.refusals;
        Self {
            landing_bytes: counters.landing_bytes.iter().sum(),
            landing_bytes_peak: counters.landing_bytes_peak,
            provisioned: counters.growths,
            released: counters.releases,
            refused_by_budget,
            refused_by_machine,
            refused_as_large_enough,
            shrinks: counters.shrinks,
            asked: counters.growths_asked,
            asked_in_vain: counters.growths_refused,
            moves: counters.moves,
            jobs_failed: counters.jobs_failed,
            jobs_ns: counters.jobs_ns,
        }
    }

    /// Returns true if this end provisioned a landing buffer, asked for one, or refused one.
    #[must_use]
    pub const fn has_any(&self) -> bool {
        let refused = self.refused_by_budget + self.refused_by_machine + self.refused_as_large_enough;
        self.landing_bytes_peak + self.asked + refused > 0
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provisioned, released, asked, asked_in_vain, .. } = self;
        let refused = self.refused_by_budget + self.refused_by_machine + self.refused_as_large_enough;
        write!(
            f,
            "landing buffers: {provisioned} provisioned, {released} released, {refused} refused; {} at most, {} at the \
             end; {asked} asked for, {asked_in_vain} of them in vain",
            Bytes(self.landing_bytes_peak),
            Bytes(self.landing_bytes),
        )
    }
}
