//! The measuring process: one connection per visit.

use core::time::Duration;
use std::thread;

use memmap2::MmapMut;
use superpipe::os::monotonic_ns;
use superpipe::{Address, Connection, LandingMode, Options as ConnectionOptions, Protocol, Reason, Tuning};
use superpipe_bench::channel::Channel;
use superpipe_bench::connection::{DEADLINE, fail, polling};
use superpipe_bench::failure::Failure;
use superpipe_bench::map;
use superpipe_bench::pattern;
use superpipe_bench::spin::Timeout;
use superpipe_bench::stats::median;

use crate::server::{PROBE, RESULTS, VISIT};

/// Kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// landing buffers are granted while connecting
    Today,
    /// they grow beside the message
    Hidden,
    /// they are provisioned, then the message is sent
    Plain,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Today, Self::Hidden, Self::Plain];

    fn tuning(self) -> Tuning {
        let (landing, protocol) = match self {
            Self::Today => (LandingMode::AtConnect, Protocol::Superpipeline),
            Self::Hidden => (LandingMode::OnDemand, Protocol::Superpipeline),
            Self::Plain => (LandingMode::OnDemand, Protocol::Provision),
        };
        Tuning { landing: Some(landing), protocol: Some(protocol), ..Tuning::default() }
    }
}

/// Times of one visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) first_ns: u64,
    pub(crate) second_ns: u64,
    /// jobs of both ends until the first answer
    pub(crate) jobs_ns: u64,
}

/// Returns the median of a time of some visits, in microseconds.
pub(crate) fn median_us(visits: &[Visit], time_ns: impl Fn(&Visit) -> u64) -> f64 {
    median(&visits.iter().map(|visit| time_ns(visit) as f64 / 1000.0).collect::<Vec<_>>())
}

pub(crate) struct Visitor<'a> {
    channel: Channel<'a>,
    address: &'a Address,
    timeout: &'a Timeout,
    idle: Duration,
    message: MmapMut,
    /// of the last message
    number: u64,
}

impl<'a> Visitor<'a> {
    pub(crate) fn new(
        channel: Channel<'a>,
        address: &'a Address,
        bytes_max: usize,
        idle: Duration,
        timeout: &'a Timeout,
    ) -> Result<Self, Failure> {
        Ok(Self { channel, address, timeout, idle, message: map::resident(bytes_max, false)?, number: 0 })
    }

    /// Has the other process answer a probe.
    pub(crate) fn ask_probe(&mut self) {
        self.channel.post([PROBE, 0, 0, 0, 0, 0]);
    }

    pub(crate) fn end_probe(&self) -> Result<(), Failure> {
        self.channel.wait_done(0, self.timeout).map(drop)
    }

    /// Connects, waits, and sends two messages.
    pub(crate) fn visit(&mut self, kind: Kind, bytes: usize) -> Result<Visit, Failure> {
        self.channel.post([VISIT, self.number + 1, 0, 0, 0, 0]);
        let with = ConnectionOptions { tuning: kind.tuning(), ..polling() };
        let mut connection = Connection::connect(self.address, with, DEADLINE).map_err(fail)?;
        self.fill(bytes);
        thread::sleep(self.idle);
        let first_ns = self.exchange(&mut connection, bytes)?;
        let own_jobs_ns = connection.counters().jobs_ns;
        self.fill(bytes);
        let second_ns = self.exchange(&mut connection, bytes)?;
        connection.close(Reason::DONE, DEADLINE).map_err(fail)?;
        let results = self.channel.wait_done(RESULTS, self.timeout)?;
        match results[..] {
            [jobs_ns, 0] => Ok(Visit { first_ns, second_ns, jobs_ns: jobs_ns + own_jobs_ns }),
            _ => Err(Failure::Integrity(format!("a message of {bytes} bytes, {kind:?}"))),
        }
    }

    /// Writes the next message.
    fn fill(&mut self, bytes: usize) {
        self.number += 1;
        pattern::fill(self.number, &mut self.message[..bytes]);
    }

    /// Returns the time from the message to its answer.
    fn exchange(&self, connection: &mut Connection, bytes: usize) -> Result<u64, Failure> {
        let mut answer = [0; 8];
        let begin_ns = monotonic_ns();
        connection.send(0, &[&self.message[..bytes]], DEADLINE).map_err(fail)?;
        connection.recv_into(&mut [&mut answer], DEADLINE).map_err(fail)?;
        Ok(monotonic_ns() - begin_ns)
    }
}
