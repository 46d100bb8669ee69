//! Counts of the memory that came and went in a run: landing buffers, registrations, and the jobs that make and release both.

use core::fmt;
use core::time::Duration;
use serde::Serialize;
use superpipe::Counters;
use superpipe::os::Bytes;

/// Memory of a connection that came and went, as this end counts it at the end. All are 0 where landing buffers stay as they are and nothing is
/// registered for messages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Growth {
    /// bytes of this end's larger landing buffers at the end
    landing_bytes: u64,
    /// of these, the bytes of the epoch that is in use, of one that is granted, and of those that were left
    landing_bytes_by_epoch: [u64; 3],
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
    /// of these, times that the memory was needed elsewhere
    reclaims: u64,
    /// larger landing buffers of the peer that this end asked for
    asked: u64,
    /// of these, those that the peer refused, or this end could not use
    asked_in_vain: u64,
    /// landing buffers of the peer that this end moved to
    moves: u64,
    /// messages for which memory of this end was registered before
    registrations_hit: u64,
    /// messages for which memory of this end was not registered yet
    registrations_missed: u64,
    /// jobs that ended: memory was provisioned, registered, deregistered or released
    jobs: u64,
    /// of these, those that failed
    jobs_failed: u64,
    /// time of all jobs
    jobs_ns: u64,
    /// of this, the time that transfers of this end had to wait for
    jobs_visible_ns: u64,
    /// share of the jobs' time that was hidden, from 0 to 1; none without jobs
    jobs_hidden_share: Option<f64>,
}

impl Growth {
    /// Takes the counts out of a connection's.
    #[must_use]
    pub fn new(counters: &Counters) -> Self {
        let [refused_by_budget, refused_by_machine, refused_as_large_enough] = counters.refusals;
        Self {
            landing_bytes: counters.landing_bytes.iter().sum(),
            landing_bytes_by_epoch: counters.landing_bytes,
            landing_bytes_peak: counters.landing_bytes_peak,
            provisioned: counters.growths,
            released: counters.releases,
            refused_by_budget,
            refused_by_machine,
            refused_as_large_enough,
            shrinks: counters.shrinks,
            reclaims: counters.reclaims,
            asked: counters.growths_asked,
            asked_in_vain: counters.growths_refused,
            moves: counters.moves,
            registrations_hit: counters.registrations_hit,
            registrations_missed: counters.registrations_missed,
            jobs: counters.jobs,
            jobs_failed: counters.jobs_failed,
            jobs_ns: counters.jobs_ns,
            jobs_visible_ns: counters.jobs_visible_ns,
            jobs_hidden_share: hidden_share(counters),
        }
    }

    /// Returns true if this end provisioned a landing buffer, asked for one, or refused one, or if messages used registered memory.
    #[must_use]
    pub const fn has_any(&self) -> bool {
        self.has_grown() || self.registrations() > 0
    }

    const fn has_grown(&self) -> bool {
        self.landing_bytes_peak + self.asked + self.refused() > 0
    }

    const fn refused(&self) -> u64 {
        self.refused_by_budget + self.refused_by_machine + self.refused_as_large_enough
    }

    const fn registrations(&self) -> u64 {
        self.registrations_hit + self.registrations_missed
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.has_grown() {
            parts.push(self.landing_buffers());
        }
        if self.registrations() > 0 {
            let Self { registrations_hit, registrations_missed, .. } = self;
            parts.push(format!("registered memory: {registrations_hit} hit, {registrations_missed} missed"));
        }
        if let Some(share) = self.jobs_hidden_share {
            let Self { jobs, jobs_failed, jobs_ns, .. } = *self;
            let failed = if jobs_failed > 0 { format!(", {jobs_failed} failed") } else { String::new() };
            let time = Duration::from_nanos(jobs_ns);
            parts.push(format!("jobs: {jobs}{failed}, {time:.1?}, {:.0} % of it hidden", share * 100.0));
        }
        f.write_str(&parts.join("; "))
    }
}

impl Growth {
    fn landing_buffers(&self) -> String {
        let Self { provisioned, released, asked, asked_in_vain, reclaims, .. } = self;
        format!(
            "landing buffers: {provisioned} provisioned, {released} released, {} refused, {reclaims} reclaimed; {} at \
             most, {} at the end; {asked} asked for, {asked_in_vain} of them in vain",
            self.refused(),
            Bytes(self.landing_bytes_peak),
            Bytes(self.landing_bytes),
        )
    }
}

/// Returns the share of the jobs' time that was hidden, in thousandths.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn hidden_share(counters: &Counters) -> Option<f64> {
    let hidden_ns = counters.jobs_ns.saturating_sub(counters.jobs_visible_ns);
    (counters.jobs_ns > 0).then(|| (hidden_ns as f64 / counters.jobs_ns as f64 * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_told_where_there_is_one() {
        let mut counters = Counters::default();
        let growth = Growth::new(&counters);
        assert_eq!(
            (growth.has_any(), growth.jobs_hidden_share, growth.to_string()),
            (false, None, String::new())
        );
        (counters.registrations_hit, counters.registrations_missed) = (9, 1);
        (counters.jobs, counters.jobs_ns, counters.jobs_visible_ns) = (2, 1_250_000, 312_500);
        let growth = Growth::new(&counters);
        assert!(growth.has_any());
        assert_eq!(
            growth.to_string(),
            "registered memory: 9 hit, 1 missed; jobs: 2, 1.2ms, 75 % of it hidden"
        );
        (counters.growths, counters.landing_bytes, counters.landing_bytes_peak) =
            (1, [65536, 0, 1024], 70_000);
        (counters.shrinks, counters.reclaims, counters.jobs_failed) = (3, 2, 1);
        let text = Growth::new(&counters).to_string();
        assert!(
            text.starts_with("landing buffers: 1 provisioned, 0 released, 0 refused, 2 reclaimed; "),
            "{text}"
        );
        assert!(text.contains("; jobs: 2, 1 failed, 1.2ms"), "{text}");
        let json = serde_json::to_value(Growth::new(&counters)).unwrap();
        assert_eq!(json["landing_bytes"], 66_560);
        assert_eq!(json["landing_bytes_by_epoch"][2], 1024);
        assert_eq!(json["jobs_hidden_share"], 0.75);
    }
}
