//! Jobs, copies and writes of a simulated machine, each alone, as Frey and Alonso measure them. Core takes no part. All virtual time.

use superpipe_core::plan::{Machine, Pages};
use superpipe_core::{
    Config, CopyKernel, Fabric, FlagPlace, Job, JobOutcome, Layout, Protocol, Registration, Ticket,
};
use superpipe_testkit::{EndLink, Memory};

use super::connection::{Buffers, Connection, Terms};
use super::machine::simulated;
use crate::fabric::SimFabric;
use crate::faults::Faults;
use crate::nic::{Op, Paging, PostRefused, Profile, Rights, Work, World, Wr};

/// Landing buffer that is copied into, again and again.
const LANDING: Layout = Layout { block_bytes: 4096, block_count: 256, flags: FlagPlace::Inside };

/// Most regions that are registered.
const REGIONS_MAX: usize = 4;

/// A benchmark of buffers of one length on a machine.
#[derive(Clone, Copy)]
pub(crate) struct System {
    pub(crate) machine: Machine,
    /// Pages of the buffers.
    pub(crate) pages: Pages,
    /// Cores that register at a time.
    pub(crate) cores: usize,
}

/// Time of a benchmark, and the CPU time in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Took {
    pub(crate) ns: f64,
    pub(crate) cpu_ns: f64,
}

impl Took {
    /// Returns the load of one CPU.
    pub(crate) fn cpu_percent(&self) -> f64 {
        100.0 * self.cpu_ns / self.ns
    }
}

impl System {
    pub(crate) const fn of(machine: &Machine, pages: Pages) -> Self {
        Self { machine: *machine, pages, cores: 1 }
    }

    fn profile(&self, bytes: u64) -> Profile {
        let profile = simulated(&self.machine, bytes, self.pages);
        let cold_buffers = if self.pages.are_resident { 0 } else { 2 };
        Profile { paging: Paging { job_cores: self.cores, cold_buffers, ..profile.paging }, ..profile }
    }

    fn start(&self, bytes: u64) -> Result<Bench, String> {
        let mut world = Box::new(World::new(2, self.profile(bytes), Faults::default(), 1));
        let config = Config { protocol: Protocol::Register, ..Config::default() };
        let terms = Terms { config, layout: LANDING, buffers: Buffers::Lent, bytes: 1, planner: None };
        let mut connection = Connection::new(&mut world, [0, 1], terms)?;
        connection.swap_world(&mut world);
        Ok(Bench { fabric: connection.fabric, last: 0 })
    }

    /// Registers regions of `bytes` bytes.
    ///
    /// # Errors
    /// A job that fails.
    pub(crate) fn register(&self, bytes: u64, regions: usize) -> Result<Took, String> {
        let mut bench = self.start(bytes)?;
        let jobs = bench.registrations(bytes, regions)?;
        bench.took(|bench| bench.run(jobs).map(|_| ()))
    }

    /// Registers a buffer, which is not measured, and deregisters it.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub(crate) fn deregister(&self, bytes: u64) -> Result<Took, String> {
        let mut bench = self.start(bytes)?;
        let registration = bench.registered(bytes)?;
        bench.took(|bench| bench.run(vec![Job::Deregister(registration)]).map(|_| ()))
    }

    /// Deregisters a buffer, and registers it again.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub(crate) fn reregister(&self, bytes: u64) -> Result<Took, String> {
        let mut bench = self.start(bytes)?;
        let registration = bench.registered(bytes)?;
        let jobs = bench.registrations(bytes, 1)?;
        bench.took(|bench| {
            bench.run(vec![Job::Deregister(registration)])?;
            bench.run(jobs).map(|_| ())
        })
    }

    /// Copies a buffer into another one.
    ///
    /// # Errors
    /// A machine that is not possible.
    pub(crate) fn copy(&self, bytes: u64) -> Result<Took, String> {
        let mut bench = self.start(bytes)?;
        let part = vec![1; LANDING.bytes() as usize / 2];
        bench.took(|bench| {
            let mut left = usize::try_from(bytes).map_err(|error| error.to_string())?;
            while left > 0 {
                let some = &part[..left.min(part.len())];
                bench.fabric.copy_in(&mut EndLink(0), Memory::landing(1), 0, some, CopyKernel::Plain);
                left -= some.len();
            }
            Ok(())
        })
    }

    /// Sends `count` writes of `bytes` bytes out of registered memory, as many at a time as the send queue holds. Its CPU sleeps until a completion where that is full.
    ///
    /// # Errors
    /// A write that fails.
    pub(crate) fn write(&self, bytes: u32, count: u64) -> Result<Took, String> {
        let mut world = World::new(2, self.profile(u64::from(bytes)), Faults::default(), 1);
        let [qp, _] = world.connect([0, 1]);
        let rights = Rights { remote_write: true };
        let from = world.register_aside(0, bytes, rights);
        let to = world.register_aside(1, bytes, rights);
        let (mut posted, mut completed) = (0, 0);
        let begin_ns = world.clock_ns(0);
        while completed < count {
            if posted < count {
                let op = Op::Write { to, at: 0 };
                let inline = bytes <= world.profile.inline_bytes;
                let wr = Wr { id: Some(posted), op, from, at: 0, bytes, inline, delay_ns: 0 };
                match world.post(qp, wr) {
                    Ok(_) => posted += 1,
                    Err(PostRefused::SqFull) => {}
                    Err(error) => return Err(error.to_string()),
                }
                world.ring_doorbell(qp);
            }
            if posted == count || world.room(qp) == 0 {
                while !world.has_completion(qp) {
                    let next_ns = world.next_event_ns().ok_or("writes do not complete")?;
                    world.wait(0, next_ns.saturating_sub(world.clock_ns(0)));
                    world.run_events(world.clock_ns(0).max(next_ns));
                }
                match world.poll_cq(qp) {
                    Some(wc) if wc.status == crate::nic::status::SUCCESS => completed += 1,
                    other => return Err(format!("{other:?}")),
                }
            }
        }
        let ns = world.clock_ns(0) - begin_ns;
        Ok(Took { ns: ns as f64, cpu_ns: world.worked_ns(0, Work::Other) as f64 })
    }
}

struct Bench {
    fabric: SimFabric<false>,
    last: u32,
}

impl Bench {
    fn registrations(&mut self, bytes: u64, regions: usize) -> Result<Vec<Job<Memory, Memory>>, String> {
        let length = usize::try_from(bytes).map_err(|error| error.to_string())?;
        let mut one = || Job::RegisterDestination { buffer: self.fabric.lend(0, vec![0; length]), bytes };
        Ok((0..regions.min(REGIONS_MAX)).map(|_| one()).collect())
    }

    fn registered(&mut self, bytes: u64) -> Result<Registration, String> {
        let jobs = self.registrations(bytes, 1)?;
        match self.run(jobs)?.as_slice() {
            [JobOutcome::Registered(registration, _)] => Ok(*registration),
            other => Err(format!("{other:?}")),
        }
    }

    /// Runs jobs of end 0, as many at a time as there are cores.
    fn run(&mut self, jobs: Vec<Job<Memory, Memory>>) -> Result<Vec<JobOutcome<Memory, Memory>>, String> {
        let (mut jobs, mut outcomes, mut under_way) = (jobs.into_iter().peekable(), Vec::new(), 0);
        while under_way > 0 || jobs.peek().is_some() {
            let ticket = Ticket::new(0, self.last + 1);
            if let Some(job) = jobs.peek()
                && self.fabric.begin(&mut EndLink(0), ticket, *job).is_ok()
            {
                jobs.next();
                (self.last, under_way) = (self.last + 1, under_way + 1);
                continue;
            }
            let world = &self.fabric.world;
            let due_ns = self.fabric.next_job_ns().ok_or("no job is under way")?;
            world.wait(0, due_ns.saturating_sub(world.clock_ns(0)));
            match self.fabric.finished(&mut EndLink(0)) {
                Some((_, Ok(outcome))) => {
                    outcomes.push(outcome);
                    under_way -= 1;
                }
                // The simulator reports one now and then that was over before.
                Some((_, Err(_))) => {}
                None => return Err("a job is late".to_owned()),
            }
        }
        Ok(outcomes)
    }

    fn took(&mut self, run: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<Took, String> {
        let now = |bench: &Self| {
            let world = &bench.fabric.world;
            let worked = [Work::Copy, Work::Job].map(|kind| world.worked_ns(0, kind));
            (world.clock_ns(0), worked.iter().sum::<u64>())
        };
        let (begin_ns, begin_cpu_ns) = now(self);
        run(self)?;
        let (end_ns, end_cpu_ns) = now(self);
        Ok(Took { ns: (end_ns - begin_ns) as f64, cpu_ns: (end_cpu_ns - begin_cpu_ns) as f64 })
    }
}

#[cfg(test)]
mod tests {
    use superpipe_core::plan::PageSize;

    use super::*;

    const T3: Machine = Machine::CHELSIO_T3;

    fn is_near(took: Result<Took, String>, expected: f64) {
        let ns = took.unwrap().ns;
        assert!((ns / expected - 1.0).abs() < 0.001, "{ns} {expected}");
    }

    #[test]
    fn jobs_and_copies_take_what_the_model_says() {
        let model = T3.profile;
        for size in [PageSize::Base, PageSize::Huge] {
            for are_resident in [true, false] {
                let pages = Pages { size, are_resident };
                let system = System::of(&T3, pages);
                for bytes in [4096, 256 << 10, 4 << 20] {
                    is_near(system.register(bytes, 1), model.registration.ns(bytes, pages));
                    is_near(system.deregister(bytes), model.registration.deregistration_ns(bytes));
                    is_near(system.copy(bytes), model.refill_ns(bytes, pages));
                    for cores in [1, 4] {
                        let expected = model.registration.parallel_ns(4, bytes, pages, cores);
                        let system = System { cores: cores as usize, ..system };
                        is_near(system.register(bytes, 4), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn a_copy_takes_a_core_and_a_registration_a_device() {
        let system = System::of(&T3, Pages::RESIDENT);
        assert!((system.copy(1 << 20).unwrap().cpu_percent() - 100.0).abs() < 1e-9);
        let load = system.reregister(1 << 20).unwrap().cpu_percent();
        assert!((load - 67.0).abs() < 1.0, "{load}");
    }

    #[test]
    fn long_writes_fill_the_wire() {
        let system = System::of(&T3, Pages::RESIDENT);
        let long = system.write(1 << 20, 100).unwrap();
        let rate = f64::from(100 << 20) / long.ns;
        assert!((rate / T3.profile.net_bytes_per_ns - 1.0).abs() < 0.01, "{rate}");
        assert!(long.cpu_percent() < 1.0);
    }
}
