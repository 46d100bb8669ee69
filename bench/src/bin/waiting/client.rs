//! The measuring process.

use core::hint;
use core::num::NonZeroU64;
use core::time::Duration;
use std::thread;

use memmap2::MmapMut;
use rustix::thread::set_current_timer_slack;
use superpipe::os::monotonic_ns;
use superpipe::{Connection, Reason};
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;
use superpipe_bench::map;
use superpipe_bench::pattern;
use superpipe_bench::stats::Summary;

use crate::options::Placement;
use crate::server::{Stamp, TAG_ECHO, TAG_STAMP, thread_cpu_ns};

/// The shortest time of a slice of round trips: far more than reading the clock (22 ns).
const SLICE_NS: u64 = 50_000;
/// The most round trips of a slice.
const MESSAGES_MAX: u64 = 1 << 20;
/// The fewest samples of which a median means something.
const SAMPLES_MIN: usize = 5;
/// The most samples, which bounds the memory.
const SAMPLES_MAX: usize = 100_000;

/// One measurement.
pub(crate) struct Measured {
    pub(crate) summary: Summary,
    pub(crate) client_cpu_percent: f64,
    pub(crate) server_cpu_percent: f64,
}

pub(crate) struct Client {
    connection: Connection,
    from: MmapMut,
    to: MmapMut,
    placement: Placement,
    number: u64,
}

impl Client {
    pub(crate) fn new(
        connection: Connection,
        placement: Placement,
        bytes_max: usize,
    ) -> Result<Self, Failure> {
        // With the default slack a pause lasts 50 us longer than asked for.
        set_current_timer_slack(NonZeroU64::new(1))
            .map_err(|e| Failure::Os("set the timer slack", e.into()))?;
        let buffer = || map::resident(bytes_max, false);
        Ok(Self { connection, from: buffer()?, to: buffer()?, placement, number: 0 })
    }

    /// Measures half of a round trip, back to back.
    pub(crate) fn latency(&mut self, bytes: usize, visit_ns: u64) -> Result<Measured, Failure> {
        self.check(bytes)?;
        let mut messages = 1;
        while messages < MESSAGES_MAX && self.slice(bytes, messages)? < SLICE_NS {
            messages *= 2;
        }
        let (samples_ns, cpu) = self.with_cpu(|client| sample(visit_ns, || client.slice(bytes, messages)))?;
        Ok(cpu.of(Summary::new(&samples_ns, messages, 2)))
    }

    /// Measures one way, after the receiver has waited for `pause_us`.
    pub(crate) fn wake_up(&mut self, pause_us: u32, visit_ns: u64) -> Result<Measured, Failure> {
        let pause_ns = u64::from(pause_us) * 1000;
        let (samples_ns, cpu) = self.with_cpu(|client| {
            sample(visit_ns, || {
                client.pause(pause_ns);
                let sent_ns = monotonic_ns();
                Ok(client.stamp()?.received_ns.saturating_sub(sent_ns))
            })
        })?;
        Ok(cpu.of(Summary::new(&samples_ns, 1, 1)))
    }

    pub(crate) fn close(self) -> Result<(), Failure> {
        self.connection.close(Reason::DONE, DEADLINE).map_err(fail)
    }

    /// Exchanges a few numbered messages, and compares them byte for byte.
    fn check(&mut self, bytes: usize) -> Result<(), Failure> {
        for _ in 0..3 {
            self.number += 1;
            pattern::fill(self.number, &mut self.from[..bytes]);
            self.to[..bytes].fill(0);
            self.echo(bytes)?;
            if let Some(at) = pattern::find_wrong_byte(self.number, &self.to[..bytes]) {
                return Err(Failure::Integrity(format!("an echo of {bytes} bytes at byte {at}")));
            }
        }
        Ok(())
    }

    /// Returns the nanoseconds of some round trips.
    fn slice(&mut self, bytes: usize, messages: u64) -> Result<u64, Failure> {
        let start_ns = monotonic_ns();
        for _ in 0..messages {
            self.echo(bytes)?;
        }
        Ok(monotonic_ns() - start_ns)
    }

    #[inline]
    fn echo(&mut self, bytes: usize) -> Result<(), Failure> {
        self.connection.send(TAG_ECHO, &[&self.from[..bytes]], DEADLINE).map_err(fail)?;
        let to = &mut self.to[..bytes];
        let received = self.connection.recv_into(&mut [to], DEADLINE).map_err(fail)?;
        if received.bytes == bytes { Ok(()) } else { Err(wrong_answer()) }
    }

    /// Asks the server when it received this message, and for its CPU time.
    fn stamp(&mut self) -> Result<Stamp, Failure> {
        self.connection.send(TAG_STAMP, &[], DEADLINE).map_err(fail)?;
        let mut words = [[0; 8]; 2];
        let [first, second] = &mut words;
        let received = self.connection.recv_into(&mut [first, second], DEADLINE).map_err(fail)?;
        if received.tag == TAG_STAMP { Ok(Stamp::from_words(words)) } else { Err(wrong_answer()) }
    }

    /// Lets the server wait. Where both ends share a core, the client must sleep for that.
    fn pause(&self, pause_ns: u64) {
        match self.placement {
            Placement::OneCore => thread::sleep(Duration::from_nanos(pause_ns)),
            Placement::TwoCores => {
                let end_ns = monotonic_ns() + pause_ns;
                while monotonic_ns() < end_ns {
                    hint::spin_loop();
                }
            }
        }
    }

    /// Runs `work`, and measures the CPU time of both processes meanwhile.
    fn with_cpu<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<(T, Cpu), Failure> {
        let (server, client) = (self.stamp()?, (monotonic_ns(), thread_cpu_ns()));
        let result = work(self)?;
        let client_cpu_percent = percent(thread_cpu_ns() - client.1, monotonic_ns() - client.0);
        let end = self.stamp()?;
        let server_cpu_percent =
            percent(end.cpu_ns - server.cpu_ns, end.received_ns.saturating_sub(server.received_ns));
        Ok((result, Cpu { client_cpu_percent, server_cpu_percent }))
    }
}

struct Cpu {
    client_cpu_percent: f64,
    server_cpu_percent: f64,
}

impl Cpu {
    const fn of(self, summary: Summary) -> Measured {
        let Self { client_cpu_percent, server_cpu_percent } = self;
        Measured { summary, client_cpu_percent, server_cpu_percent }
    }
}

/// Takes samples until the time is over, and a few in any case.
fn sample(visit_ns: u64, mut take: impl FnMut() -> Result<u64, Failure>) -> Result<Vec<u64>, Failure> {
    let end_ns = monotonic_ns() + visit_ns;
    let mut samples_ns = Vec::with_capacity(SAMPLES_MAX);
    while samples_ns.len() < SAMPLES_MIN || monotonic_ns() < end_ns && samples_ns.len() < SAMPLES_MAX {
        samples_ns.push(take()?);
    }
    Ok(samples_ns)
}

fn percent(part_ns: u64, whole_ns: u64) -> f64 {
    100.0 * part_ns as f64 / whole_ns.max(1) as f64
}

#[cold]
fn wrong_answer() -> Failure {
    Failure::Integrity("an answer of another kind or length".into())
}
