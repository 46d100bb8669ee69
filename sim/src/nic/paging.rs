//! Pages of the applications' memory, and the system that makes them resident, registers them and takes them back.

use super::World;
use super::rate::time_ns;

/// Bytes of a huge page.
const HUGE_BYTES: u64 = 2 << 20;

/// Pages of the applications' memory, and limits and costs of the system beside those that a [`Profile`](super::Profile) has always had. [`PLAIN`](Self::PLAIN) changes
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// Memory that a job registers is resident: that which is sent from, and that which is received in.
    pub are_resident: [bool; 2],
    /// Buffers of a copy, 0 to 2, that are not resident. Each of their pages faults.
    pub cold_buffers: u64,
    /// Time of registering, copying and faults in buffers of 2 MiB and more, in percent of that in pages of 4 KiB. Below 100 for huge pages.
    pub huge_percent: u64,
    /// Most faults of a host's jobs that are handled at once.
    pub faults_at_once: usize,
    /// Cores of an end for its jobs: as many are under way at a time.
    pub job_cores: usize,
    /// Part of a job in percent during which its core waits for the device.
    pub device_percent: u64,
    /// Bytes up to which deregistering takes no longer than [`Profile::deregister_ns`](super::Profile::deregister_ns).
    pub deregister_short_bytes: u64,
    /// Bytes above them that are deregistered per microsecond.
    pub deregister_bytes_per_us: u64,
}

impl Paging {
    /// An application has just written what it sends, and has not touched what it receives in. No limit of faults, no huge pages, and deregistering takes the same
    /// time for all sizes. Two jobs at a time are fewer than core has, so that it meets a busy fabric.
    pub const PLAIN: Self = Self {
        are_resident: [true, false],
        cold_buffers: 0,
        huge_percent: 100,
        faults_at_once: usize::MAX,
        job_cores: 2,
        device_percent: 0,
        deregister_short_bytes: u64::MAX,
        deregister_bytes_per_us: 1,
    };

    /// Returns the percent of the time in pages of 4 KiB that a buffer of `bytes` bytes takes.
    pub(super) const fn percent(&self, bytes: u64) -> u64 {
        if bytes >= HUGE_BYTES { self.huge_percent } else { 100 }
    }

    /// Returns the time by which deregistering `bytes` bytes takes longer than a page.
    pub(super) const fn more_to_deregister_ns(&self, bytes: u64) -> u64 {
        time_ns(bytes.saturating_sub(self.deregister_short_bytes), self.deregister_bytes_per_us)
    }
}

/// Kind of work of a host's cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Copies, with the faults in them.
    Copy,
    /// Jobs, without the time in which they wait for the device.
    Job,
    /// All else: posts, doorbells, polls, checksums.
    Other,
}

impl World {
    /// Returns the end of faults of a job of this host that take `ns` and begin now. No more than [`Paging::faults_at_once`] are handled at a time; those of a job come one
    /// after another.
    pub(crate) fn faulted_ns(&mut self, host: usize, ns: u64) -> u64 {
        let (now_ns, at_once) = (self.clock_ns(host), self.profile.paging.faults_at_once);
        if ns == 0 || at_once == usize::MAX {
            return now_ns + ns;
        }
        let handlers = &mut self.nodes[host].fault_handlers;
        handlers.resize(at_once.max(1), 0);
        let Some(free) = handlers.iter_mut().min() else { return now_ns + ns };
        *free = now_ns.max(*free) + ns;
        *free
    }

    /// Counts the CPU time of a job that takes `ns` in all.
    pub(crate) fn count_job(&self, host: usize, ns: u64) {
        self.count_work(host, ns * (100 - self.profile.paging.device_percent.min(100)) / 100, Work::Job);
    }

    /// Advances the clock of this host's CPU by its work.
    pub(crate) fn work(&self, host: usize, ns: u64, kind: Work) {
        self.count_work(host, ns, kind);
        self.wait(host, ns);
    }

    fn count_work(&self, host: usize, ns: u64, kind: Work) {
        let worked = &self.nodes[host].worked_ns[kind as usize];
        worked.set(worked.get() + ns);
    }

    /// Returns the CPU time of a kind of work of this host so far.
    pub(crate) fn worked_ns(&self, host: usize, kind: Work) -> u64 {
        self.nodes[host].worked_ns[kind as usize].get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Faults;
    use crate::nic::Profile;

    const T3: Paging = Paging {
        huge_percent: 60,
        faults_at_once: 1,
        device_percent: 40,
        deregister_short_bytes: 1000,
        deregister_bytes_per_us: 1000,
        ..Paging::PLAIN
    };

    fn world(paging: Paging) -> World {
        let profile = Profile { paging, ..Profile::roce_100g() };
        World::new(1, profile, Faults::default(), 1)
    }

    #[test]
    fn faults_of_jobs_wait_where_their_rate_is_limited() {
        let ends = |paging| {
            let mut world = world(paging);
            [100, 0, 100].map(|ns| world.faulted_ns(0, ns))
        };
        assert_eq!(ends(Paging::PLAIN), [100, 0, 100]);
        assert_eq!(ends(T3), [100, 0, 200]);
        assert_eq!(ends(Paging { faults_at_once: 2, ..T3 }), [100, 0, 100]);
    }

    #[test]
    fn a_job_waits_for_the_device_and_idle_cores_do_not_work() {
        let world = world(T3);
        world.count_job(0, 1000);
        world.work(0, 10, Work::Copy);
        world.spend(0, 3);
        world.wait(0, 5);
        assert_eq!([Work::Copy, Work::Job, Work::Other].map(|kind| world.worked_ns(0, kind)), [10, 600, 3]);
        assert_eq!(world.clock_ns(0), 18);
    }

    #[test]
    fn deregistering_takes_longer_above_a_size() {
        assert_eq!([0, 1000, 1001, 3000].map(|bytes| T3.more_to_deregister_ns(bytes)), [0, 0, 1, 2000]);
        assert_eq!(Paging::PLAIN.more_to_deregister_ns(1 << 40), 0);
    }
}
