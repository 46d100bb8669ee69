//! Checks of the memory of all connections: the library's budget, and what the kernel counts.

use core::fmt;
use std::fs;

use superpipe::Budget;

/// Shared memory of this process that belongs to no connection.
const OTHER_BYTES: u64 = 1 << 20;

/// The largest figures so far.
pub(crate) struct Memory {
    budget_bytes: u64,
    peak_bytes: u64,
    resident_bytes: u64,
}

impl Memory {
    pub(crate) const fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, peak_bytes: 0, resident_bytes: 0 }
    }

    /// Fails if the library has exceeded its budget.
    pub(crate) fn check_budget(&mut self) -> Result<(), String> {
        let bytes = Budget::shared_bytes();
        self.peak_bytes = self.peak_bytes.max(bytes);
        if bytes <= self.budget_bytes {
            Ok(())
        } else {
            Err(format!("{bytes} bytes of shared memory, and the budget is {}", self.budget_bytes))
        }
    }

    /// Fails if more shared memory is resident in this process than the budget allows.
    pub(crate) fn check_kernel(&mut self) -> Result<(), String> {
        let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        let bytes = kib.ok_or("the kernel does not report RssShmem")? << 10;
        self.resident_bytes = self.resident_bytes.max(bytes);
        if bytes <= self.budget_bytes + OTHER_BYTES {
            Ok(())
        } else {
            Err(format!("{bytes} bytes of shared memory are resident, the budget is {}", self.budget_bytes))
        }
    }

    /// Fails if memory is left after all connections were closed.
    #[expect(clippy::unused_self, reason = "a check of the same memory as the others")]
    pub(crate) fn check_end(&self) -> Result<(), String> {
        match Budget::shared_bytes() {
            0 => Ok(()),
            bytes => Err(format!("{bytes} bytes of the budget are left after all connections were closed")),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(f, "at most {:.1} MiB of the budget, ", mib(self.peak_bytes))?;
        write!(f, "{:.1} MiB resident", mib(self.resident_bytes))
    }
}
