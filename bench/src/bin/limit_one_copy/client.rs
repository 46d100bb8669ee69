//! The measuring process, which checks, warms up and measures.

use core::mem;

use superpipe::os::monotonic_ns;
use superpipe_bench::channel::Channel;
use superpipe_bench::failure::Failure;
use superpipe_bench::probe::{self, Distance};
use superpipe_bench::slices::SlicePlan;
use superpipe_bench::spin::Timeout;
use superpipe_bench::stats::Summary;

use crate::config::Config;
use crate::end::{End, PROBE_AT, SharedState, Side};
use crate::server::PROBE;

/// Messages of a check: each source twice.
const CHECK_COUNT: u64 = 4;

pub(crate) struct Client<'a> {
    end: End<'a>,
    channel: Channel<'a>,
    flip_byte: bool,
    /// the last message's; the flags begin as 0
    number: u64,
    probe_number: u64,
}

impl<'a> Client<'a> {
    pub(crate) fn new(shared: &'a SharedState<'a>, timeout: &'a Timeout) -> Result<Self, Failure> {
        let flip_byte = shared.options.flip_byte;
        let end = End::new(shared, Side::Client, timeout)?;
        Ok(Self { end, channel: Channel::new(shared.map), flip_byte, number: 0, probe_number: 0 })
    }

    /// Probes the distance of the cores.
    pub(crate) fn probe(&mut self) -> Result<Distance, Failure> {
        self.channel.post([PROBE, 0, 0, 0, 0, 0]);
        let distance =
            probe::measure(self.end.shared.map, PROBE_AT, &mut self.probe_number, self.end.timeout)?;
        self.channel.wait_done(0, self.end.timeout)?;
        Ok(distance)
    }

    /// Visits the configuration at `index`.
    pub(crate) fn visit(&mut self, config: Config, index: usize, visit_ns: u64) -> Result<Summary, Failure> {
        self.check(config, index)?;
        let warm_up = SlicePlan::warm_up(config.bytes);
        let guess = Summary::new(&self.time(config, index, warm_up)?, warm_up.messages, 1);
        let plan = SlicePlan::new(guess.p50_us * 1000.0, visit_ns);
        Ok(Summary::new(&self.time(config, index, plan)?, plan.messages, 2))
    }

    /// Exchanges numbered messages and compares them byte for byte at both ends.
    fn check(&mut self, config: Config, index: usize) -> Result<(), Failure> {
        self.channel.post([index as u64, self.number, CHECK_COUNT, 1, 0, 0]);
        let mut wrong_at = None;
        for _ in 0..CHECK_COUNT {
            self.number += 1;
            self.end.prepare(config, self.number, true)?;
            if mem::take(&mut self.flip_byte) {
                self.end.flip_byte(config, self.number);
            }
            self.end.send(config, self.number)?;
            self.end.receive(config, self.number)?;
            let found = self.end.find_wrong_byte(config, self.number)?;
            wrong_at = wrong_at.or(found);
        }
        let server_found_wrong = self.channel.wait_done(1, self.end.timeout)? != [0];
        match wrong_at {
            Some(at) => Err(Failure::Integrity(format!("the client received it at byte {at}, {config:?}"))),
            None if server_found_wrong => {
                Err(Failure::Integrity(format!("the server received it, {config:?}")))
            }
            None => Ok(()),
        }
    }

    fn time(&mut self, config: Config, index: usize, plan: SlicePlan) -> Result<Vec<u64>, Failure> {
        self.channel.post([index as u64, self.number, plan.total(), 0, 0, 0]);
        let slices_ns = plan.sum(|| {
            self.number += 1;
            self.end.prepare(config, self.number, false)?;
            let start_ns = monotonic_ns();
            self.end.send(config, self.number)?;
            self.end.receive(config, self.number)?;
            Ok(monotonic_ns() - start_ns)
        })?;
        self.channel.wait_done(1, self.end.timeout)?;
        Ok(slices_ns)
    }
}
