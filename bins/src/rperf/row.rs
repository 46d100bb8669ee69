//! Result of one size.

use super::messages::Memory;
use super::options::Test;
use super::runs::Figures;
use serde::Serialize;

/// Result of one size. The fields are the columns of `--csv` and the keys of `--json`, in this order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// always "result"
    pub event: &'static str,
    /// test that was run
    pub test: Test,
    /// size of a message
    pub bytes: u64,
    /// half the round trip of the first message of this size
    pub first_us: f64,
    /// minimum
    pub min_us: f64,
    /// median
    pub p50_us: f64,
    /// average
    pub avg_us: f64,
    /// 99th percentile
    pub p99_us: f64,
    /// 99.9th percentile
    pub p999_us: f64,
    /// maximum
    pub max_us: f64,
    /// throughput, in 10^9 bytes per second
    pub gb_per_s: f64,
    /// timed messages
    pub iterations: u64,
    /// messages per reading of the clock in a batch; 1: no batches
    pub batch: u32,
    /// memory: none (reused), superpipe, plain or advised
    pub fresh: &'static str,
    /// new connections for this size; 0: all sizes share one
    pub reconnect: u32,
    /// negotiated protocol
    pub protocol: &'static str,
    /// wait strategy of both ends
    pub wait: &'static str,
    /// CPU time of the client's thread, of the elapsed time
    pub cpu_percent: f64,
    /// CPU time of the server's thread, of the elapsed time
    pub peer_cpu_percent: f64,
    /// comparison of contents: "before" the timed messages, or "always"
    pub verified: &'static str,
    /// of the bytes that the client sent, those that were copied once: straight out of a registered buffer, in percent
    pub one_copy_percent: f64,
    /// of the bytes that the client sent, those that it copied into a buffer of the server itself, in percent
    pub split_copy_percent: f64,
    /// messages out of registered buffers that the server had mapped
    pub registrations_hit: u64,
    /// messages out of registered buffers that went through the ring: not mapped yet, or refused, or planned so
    pub registrations_missed: u64,
    /// way of the newest planned message of this size that the client sent and whose time counts; none: no message of this size was planned, or the end of none was seen in time
    pub planned_way: Option<&'static str>,
    /// reason for that way
    pub planned_reason: Option<&'static str>,
    /// what the client knew of its memory: unnamed, fresh, keepable, keepable-again, kept
    pub planned_memory: Option<&'static str>,
    /// time that was predicted for it, until it is acknowledged and its memory released
    pub predicted_us: Option<f64>,
    /// time that it took
    pub took_us: Option<f64>,
    /// kernel of the client's copies into the server's landing buffer, of messages of this size, at the end
    pub copy_in: &'static str,
    /// kernel of its copies out of its own
    pub copy_out: &'static str,
    /// bytes of the server's landing buffer that the client cycled through at the end
    pub window_bytes: u64,
    /// fabric: shm or verbs
    pub fabric: &'static str,
    /// RDMA device, if the fabric has one
    pub device: Option<String>,
    /// arrival mode
    pub arrival: &'static str,
    /// reason for the arrival mode
    pub arrival_reason: &'static str,
    /// when landing buffers are provisioned
    pub landing: &'static str,
    /// size of a block
    pub block_bytes: u32,
    /// blocks per landing buffer
    pub block_count: u32,
    /// size of the largest chunk; 0: chosen by the protocol
    pub chunk_bytes: u32,
    /// least number of chunks in a landing buffer
    pub folds: u8,
    /// size of the first chunk
    pub c0_bytes: u32,
    /// growth of chunks
    pub growth: f64,
    /// when the first chunk is sent
    pub first_chunk: &'static str,
    /// chunks are copied out block by block
    pub sub_blocks: bool,
    /// chunks wait for the acknowledgement of the last but one
    pub triple_buffer: bool,
    /// core that the client is pinned to
    pub core: Option<u32>,
    /// core that the server is pinned to
    pub peer_core: Option<u32>,
    /// cost of one reading of the clock
    pub clock_ns: u64,
    /// version of rperf
    pub version: &'static str,
}

impl Row {
    /// Sets the times, in microseconds, and the throughput that follows from them.
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
    /// Returns the name that `--fresh` has for it.
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

/// Returns the CPU time in percent of the elapsed time, rounded to a tenth.
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

/// Returns the throughput in GB/s, rounded to six decimals: the measurement is not more precise.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(bytes: u64, ps: u64) -> f64 {
    if ps == 0 { 0.0 } else { (bytes as f64 * 1e3 / ps as f64 * 1e6).round() / 1e6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_their_units() {
        assert_eq!((us(30_250), us(1_000_000)), (0.030_25, 1.0));
        assert_eq!((rate(8, 32_000), rate(1 << 20, 0), rate(0, 5)), (0.25, 0.0, 0.0));
        assert_eq!((percent((1, 8)), percent((9, 8)), percent((1, 0))), (12.5, 100.0, 0.0));
    }
}
