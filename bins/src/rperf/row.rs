//! The result of one size.

use super::messages::Memory;
use super::options::Test;
use super::runs::Figures;
use serde::Serialize;

/// One result. The fields are the columns of `--csv` and the keys of `--json`, in this order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// always "result"
    pub event: &'static str,
    /// which test
    pub test: Test,
    /// of a message
    pub bytes: u64,
    /// half the round trip of the first message of this size
    pub first_us: f64,
    /// the least
    pub min_us: f64,
    /// the median
    pub p50_us: f64,
    /// the average
    pub avg_us: f64,
    /// 99 of 100 are no more
    pub p99_us: f64,
    /// 999 of 1000 are no more
    pub p999_us: f64,
    /// the most
    pub max_us: f64,
    /// 10^9 bytes a second
    pub gb_per_s: f64,
    /// messages that were timed
    pub iterations: u64,
    /// messages of a batch, which share a reading of the clock; 1: each has its own
    pub batch: u32,
    /// which memory: none (reused), superpipe, plain or advised
    pub fresh: &'static str,
    /// new connections that this size had; 0: the one of all sizes
    pub reconnect: u32,
    /// the protocol by which data crossed
    pub protocol: &'static str,
    /// the way in which both ends waited
    pub wait: &'static str,
    /// of a core, by the client's thread
    pub cpu_percent: f64,
    /// of a core, by the server's
    pub peer_cpu_percent: f64,
    /// which contents were compared: "before" what is timed, or "always"
    pub verified: &'static str,
    /// the fabric: shm or verbs
    pub fabric: &'static str,
    /// the RDMA device, where it is one
    pub device: Option<String>,
    /// the arrival mode
    pub arrival: &'static str,
    /// reason for that mode
    pub arrival_reason: &'static str,
    /// of a block
    pub block_bytes: u32,
    /// blocks of a landing buffer
    pub block_count: u32,
    /// of the largest chunk; 0: as the protocol sees fit
    pub chunk_bytes: u32,
    /// chunks in a landing buffer, at least
    pub folds: u8,
    /// core that the client is pinned to
    pub core: Option<u32>,
    /// core that the server is pinned to
    pub peer_core: Option<u32>,
    /// one reading of the clock
    pub clock_ns: u64,
    /// of rperf
    pub version: &'static str,
}

impl Row {
    /// The figures in microseconds, and what they mean for the rate.
    pub fn set_figures(&mut self, first: &Figures, figures: &Figures) {
        self.first_us = us(first.p50_ps);
        self.min_us = us(figures.min_ps);
        self.p50_us = us(figures.p50_ps);
        self.avg_us = us(figures.avg_ps);
        self.p99_us = us(figures.p99_ps);
        self.p999_us = us(figures.p999_ps);
        self.max_us = us(figures.max_ps);
        let ps = match self.test {
            Test::Latency => figures.p50_ps,
            Test::Stream => figures.avg_ps,
        };
        self.gb_per_s = rate(self.bytes, ps);
    }
}

impl Memory {
    /// As `--fresh` calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reused => "none",
            Self::Plain => "plain",
            Self::Superpipe => "superpipe",
            Self::Advised => "advised",
        }
    }
}

/// Returns the share of the time that went by, in percent, to a tenth.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
pub fn percent((cpu_ns, wall_ns): (u64, u64)) -> f64 {
    let share = if wall_ns > 0 { cpu_ns as f64 / wall_ns as f64 } else { 0.0 };
    (share.min(1.0) * 1000.0).round() / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "a time for people: 2^53 ps are hours")]
fn us(ps: u64) -> f64 {
    ps as f64 / 1e6
}

/// Six digits are more than was measured.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(bytes: u64, ps: u64) -> f64 {
    if ps == 0 { 0.0 } else { (bytes as f64 * 1e3 / ps as f64 * 1e6).round() / 1e6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!((us(30_250), us(1_000_000)), (0.030_25, 1.0));
        assert_eq!((rate(8, 32_000), rate(1 << 20, 0), rate(0, 5)), (0.25, 0.0, 0.0));
        assert_eq!((percent((1, 8)), percent((9, 8)), percent((1, 0))), (12.5, 100.0, 0.0));
    }
}
