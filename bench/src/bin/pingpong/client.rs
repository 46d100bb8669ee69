//! The measuring process: checks, warms up, times.

use core::mem;

use superpipe::Connection;
use superpipe_bench::failure::Failure;
use superpipe_bench::mailbox::Mailbox;
use superpipe_bench::meeting::DEADLINE;
use superpipe_bench::pattern;
use superpipe_bench::slices::SlicePlan;
use superpipe_bench::spin::Patience;
use superpipe_bench::stats::Summary;
use superpipe_bench::task::{Pattern, Task, answer_to};

use crate::config::Config;
use crate::end::{End, Work, World, word_of};

/// What the check moves at least: more than a landing buffer, several times where it is small.
const CHECK_BYTES: usize = 4 << 20;
/// And in messages: more than a ring of small blocks has.
const CHECK_MESSAGES_MAX: usize = 3000;

pub(crate) struct Client<'a> {
    end: End<'a>,
    patience: &'a Patience,
    mailbox: Mailbox<'a>,
    number: u64,
    flip_byte: bool,
}

impl<'a> Client<'a> {
    pub(crate) fn new(world: &'a World<'a>, patience: &'a Patience) -> Result<Self, Failure> {
        let end = End::new(world, |options| Connection::connect(&world.address, options, DEADLINE))?;
        let flip_byte = world.options.common.flip_byte;
        let mut client = Self { end, patience, mailbox: Mailbox::new(world.map), number: 1, flip_byte };
        // The server has taken every connection, and left the place.
        client.mailbox.post([0; 6]);
        client.mailbox.wait_done(0, patience)?;
        Ok(client)
    }

    /// One visit to a configuration.
    pub(crate) fn visit(&mut self, config: Config, budget_ns: f64) -> Result<Summary, Failure> {
        self.check(config)?;
        let warm_up = SlicePlan::warm_up(config.bytes);
        let guess = Summary::new(&self.time(config, warm_up)?, warm_up.messages, 1);
        let plan = SlicePlan::new(guess.p50_us * 1000.0, budget_ns);
        Ok(Summary::new(&self.time(config, plan)?, plan.messages, config.pattern.legs()))
    }

    /// Numbered messages in the pattern that is timed next, compared byte for byte.
    fn check(&mut self, config: Config) -> Result<(), Failure> {
        let count = (CHECK_BYTES / config.bytes.max(1)).clamp(2, CHECK_MESSAGES_MAX) as u64;
        let number = self.number;
        self.number += count;
        self.post(config, Task::Check { count, number });
        let flip_byte = mem::take(&mut self.flip_byte);
        let mut work = self.end.work(config);
        let mut wrong_at = None;
        for number in number..number + count {
            pattern::fill(number, work.from);
            if flip_byte && let Some(byte) = work.from.last_mut() {
                *byte ^= 1;
            }
            work.send()?;
            if config.pattern == Pattern::Pingpong {
                work.receive()?;
                wrong_at = wrong_at.or(pattern::find_wrong_byte(answer_to(number), work.to));
            }
        }
        let server_found_wrong = self.mailbox.wait_done(1, self.patience)? != [0];
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
        let work = self.end.work(config);
        match config.pattern {
            Pattern::Pingpong => {
                let slices_ns = if config.bytes == 8 { ping_words(work, plan)? } else { ping(work, plan)? };
                self.mailbox.wait_done(0, self.patience)?;
                Ok(slices_ns)
            }
            Pattern::Stream => {
                stream(work, plan)?;
                let count = usize::try_from(plan.slices).unwrap_or(usize::MAX);
                self.mailbox.wait_done(count, self.patience)
            }
        }
    }

    fn post(&mut self, config: Config, task: Task) {
        let index = self.end.world.configs.iter().position(|&other| other == config);
        self.mailbox.post(task.to_words(index.unwrap_or(usize::MAX)));
    }
}

#[inline(never)]
fn ping(mut work: Work<'_>, plan: SlicePlan) -> Result<Vec<u64>, Failure> {
    plan.time(|| {
        work.send()?;
        work.receive()
    })
}

/// As `limit_lines` does it: every message is another, and the answers are compared.
#[inline(never)]
fn ping_words(mut work: Work<'_>, plan: SlicePlan) -> Result<Vec<u64>, Failure> {
    let (mut number, mut wrong_bits) = (0, 0);
    let slices_ns = plan.time(|| {
        let word = pattern::word(number, 0);
        number += 1;
        *word_of(work.from)? = word.to_le_bytes();
        work.send()?;
        work.receive()?;
        wrong_bits |= u64::from_le_bytes(*word_of(work.to)?) ^ answer_word(word);
        Ok(())
    })?;
    if wrong_bits == 0 {
        Ok(slices_ns)
    } else {
        Err(Failure::Integrity(format!("a timed message of 8 bytes, bits {wrong_bits:#x}")))
    }
}

#[inline(never)]
fn stream(mut work: Work<'_>, plan: SlicePlan) -> Result<(), Failure> {
    (0..plan.total()).try_for_each(|_| work.send())
}

/// What the server answers to a timed word: it must have read it to know.
pub(crate) const fn answer_word(word: u64) -> u64 {
    word.wrapping_add(1)
}
