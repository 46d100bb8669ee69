//! Resources that this process holds and has spent: descriptors, mapped segments, the budget, CPU time.

use core::mem::MaybeUninit;
use core::time::Duration;
use std::fs;
use std::thread;
use std::time::Instant;

use superpipe::Budget;

/// Resources that a case must give back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    descriptors: usize,
    /// shared segments that are mapped
    segments: usize,
    /// memory that RDMA devices may reach
    pinned_kib: u64,
    /// shares of the budget, of both kinds
    budget_bytes: u64,
}

impl Held {
    /// Counts what is held now.
    pub(crate) fn now() -> Self {
        // The directory that is read has a descriptor of its own, each time.
        let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let segments = maps.lines().filter(|line| line.contains("/memfd:")).count();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let pinned = status.lines().find_map(|line| line.strip_prefix("VmPin:")).unwrap();
        let pinned_kib = pinned.trim().strip_suffix(" kB").unwrap().parse().unwrap();
        let budget_bytes = Budget::registered_bytes() + Budget::shared_bytes();
        Self { descriptors, segments, pinned_kib, budget_bytes }
    }

    /// Waits until no more is held than this: descriptors that a peer sent are closed by threads of their own.
    pub(crate) fn await_again(&self, bound: Duration) {
        let begun = Instant::now();
        loop {
            let now = Self::now();
            if now.descriptors <= self.descriptors
                && now.segments <= self.segments
                && now.pinned_kib <= self.pinned_kib
                && now.budget_bytes <= self.budget_bytes
            {
                return;
            }
            assert!(begun.elapsed() < bound, "before the case {self:?}, after it {now:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// CPU time that this process has spent so far.
pub(crate) fn cpu_time() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to room for the answer.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) }, 0);
    // SAFETY: the call answered 0, so it has filled it.
    let usage = unsafe { usage.assume_init() };
    [usage.ru_utime, usage.ru_stime]
        .map(|time| Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_usec).unwrap() * 1000))
        .iter()
        .sum()
}
