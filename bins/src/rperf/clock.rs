//! Cost of reading the clock, and CPU time of this thread.

use rustix::time::{ClockId, clock_gettime};
use superpipe::os::monotonic_ns;

/// Returns the cost of one reading of the clock, in nanoseconds: the median of nine averages.
#[must_use]
pub fn reading_ns() -> u64 {
    const READINGS: u64 = 4096;
    let mut tries = [0; 9];
    for cost in &mut tries {
        let begin = monotonic_ns();
        let mut last = begin;
        for _ in 0..READINGS {
            last = monotonic_ns();
        }
        *cost = (last - begin) / READINGS;
    }
    tries.sort_unstable();
    tries[tries.len() / 2]
}

/// CPU time of this thread since [`CpuUsage::begin`].
#[derive(Debug, Clone, Copy)]
pub struct CpuUsage {
    cpu_ns: u64,
    wall_ns: u64,
}

impl CpuUsage {
    /// Starts to count.
    #[must_use]
    pub fn begin() -> Self {
        Self { cpu_ns: cpu_ns(), wall_ns: monotonic_ns() }
    }

    /// Returns CPU time and elapsed time since the start, in nanoseconds.
    #[must_use]
    pub fn since(&self) -> (u64, u64) {
        (cpu_ns() - self.cpu_ns, monotonic_ns() - self.wall_ns)
    }
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use std::thread;

    #[test]
    fn a_thread_that_sleeps_does_not_run() {
        let usage = CpuUsage::begin();
        thread::sleep(Duration::from_millis(50));
        let (cpu, wall) = usage.since();
        assert!(wall >= 50_000_000 && cpu < wall);
        assert!(reading_ns() < 1_000_000);
    }
}
