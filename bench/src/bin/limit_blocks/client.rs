//! The measuring process, which checks, warms up and measures.

use core::mem;

use superpipe_bench::channel::Channel;
use superpipe_bench::failure::Failure;
use superpipe_bench::pattern;
use superpipe_bench::probe::{self, Distance};
use superpipe_bench::slices::SlicePlan;
use superpipe_bench::spin::Timeout;
use superpipe_bench::stats::Summary;

use crate::config::Config;
use crate::end::{End, PROBE_AT, SharedState};
use crate::task::{Pattern, Task, answer_to};

/// The least that the check moves, in turns of the ring.
const CHECK_TURNS: usize = 2;

pub(crate) struct Client<'a> {
    end: End<'a>,
    channel: Channel<'a>,
    flip_byte: bool,
    probe_number: u64,
    /// by configuration: the contents were checked
    checked: Vec<bool>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(shared: &'a SharedState<'a>, timeout: &'a Timeout) -> Result<Self, Failure> {
        let flip_byte = shared.options.limit.flip_byte;
        let end = End::new(shared, timeout)?;
        let checked = vec![false; shared.configs.len()];
        Ok(Self { end, channel: Channel::new(shared.map), flip_byte, probe_number: 0, checked })
    }

    /// Probes the distance of the cores.
    pub(crate) fn probe(&mut self) -> Result<Distance, Failure> {
        self.channel.post(Task::Probe.to_words(0));
        let distance =
            probe::measure(self.end.shared.map, PROBE_AT, &mut self.probe_number, self.end.timeout)?;
        self.channel.wait_done(0, self.end.timeout)?;
        Ok(distance)
    }

    /// Visits a configuration. The first visit checks contents, which takes longer than a visit if the ring is large.
    pub(crate) fn visit(&mut self, config: Config, visit_ns: u64) -> Result<Summary, Failure> {
        let index = self.index(config);
        if let Some(false) = self.checked.get(index) {
            self.check(config)?;
            self.checked[index] = true;
        }
        let warm_up = SlicePlan::warm_up(config.bytes);
        let guess = Summary::new(&self.time(config, warm_up)?, warm_up.messages, 1);
        let plan = SlicePlan::new(guess.p50_us * 1000.0, visit_ns);
        Ok(Summary::new(&self.time(config, plan)?, plan.messages, config.pattern.legs()))
    }

    /// Moves numbered messages through every block, in the pattern that is measured next, and compares them byte for byte.
    fn check(&mut self, config: Config) -> Result<(), Failure> {
        let count = (CHECK_TURNS * config.ring / config.bytes.max(config.block)).max(2) as u64;
        let number = self.end.sent_count();
        self.post(config, Task::Check { count, number });
        let flip_byte = mem::take(&mut self.flip_byte);
        let wrong_at = self.end.with_rings(config, |exchange| {
            let mut wrong_at = None;
            for number in number..number + count {
                pattern::fill(number, exchange.from);
                if flip_byte && let Some(byte) = exchange.from.last_mut() {
                    *byte ^= 1;
                }
                exchange.forth.send(exchange.from, config.copy_in)?;
                if config.pattern == Pattern::Pingpong {
                    exchange.back.receive(exchange.to, config.copy_out)?;
                    exchange.forth.answered();
                    wrong_at = wrong_at.or(pattern::find_wrong_byte(answer_to(number), exchange.to));
                }
            }
            Ok(wrong_at)
        })?;
        let server_found_wrong = self.channel.wait_done(1, self.end.timeout)? != [0];
        match wrong_at {
            Some(at) => Err(Failure::Integrity(format!("the client received it at byte {at}, {config:?}"))),
            None if server_found_wrong => {
                Err(Failure::Integrity(format!("the server received it, {config:?}")))
            }
            None => Ok(()),
        }
    }

    fn time(&mut self, config: Config, plan: SlicePlan) -> Result<Vec<u64>, Failure> {
        self.post(config, Task::Time(plan));
        match config.pattern {
            Pattern::Pingpong => {
                let slices_ns = self.end.with_rings(config, |exchange| {
                    plan.time(|| {
                        exchange.forth.send(exchange.from, config.copy_in)?;
                        exchange.back.receive(exchange.to, config.copy_out)?;
                        exchange.forth.answered();
                        Ok(())
                    })
                })?;
                self.channel.wait_done(0, self.end.timeout)?;
                Ok(slices_ns)
            }
            Pattern::Stream => {
                self.end.with_rings(config, |exchange| {
                    (0..plan.total()).try_for_each(|_| exchange.forth.send(exchange.from, config.copy_in))
                })?;
                let count = usize::try_from(plan.slices).unwrap_or(usize::MAX);
                self.channel.wait_done(count, self.end.timeout)
            }
        }
    }

    fn post(&mut self, config: Config, task: Task) {
        self.channel.post(task.to_words(self.index(config)));
    }

    fn index(&self, config: Config) -> usize {
        self.end.shared.configs.iter().position(|&other| other == config).unwrap_or(usize::MAX)
    }
}
