//! The other process: does what the client asks until it is killed with its parent's last breath.

use core::ops::Range;

use superpipe::{Listener, Options as ConnectionOptions};
use superpipe_bench::failure::Failure;
use superpipe_bench::mailbox::Mailbox;
use superpipe_bench::meeting::{DEADLINE, fail};
use superpipe_bench::pattern;
use superpipe_bench::slices::SlicePlan;
use superpipe_bench::spin::Patience;
use superpipe_bench::task::{Pattern, Task, answer_to};

use crate::client::answer_word;
use crate::config::Config;
use crate::end::{End, Work, World, word_of};

/// Serves commands until the patience ends or the process is killed.
pub(crate) fn serve(world: &World<'_>, patience: &Patience) -> Result<(), Failure> {
    let mut mailbox = Mailbox::new(world.map);
    let mut end = accept_all(world)?;
    mailbox.take(patience)?;
    mailbox.answer(&[]);
    loop {
        let (task, index) = Task::from_words(mailbox.take(patience)?);
        let config = world.configs[index];
        let work = end.work(config);
        let results = match task {
            Task::Check { count, number } => vec![u64::from(!check(work, config, number..number + count)?)],
            Task::Time(plan) => time(work, config, plan)?,
        };
        mailbox.answer(&results);
    }
}

/// The client's connections come in the order of the ways of tuning; wishes of one side are enough.
fn accept_all<'a>(world: &'a World<'a>) -> Result<End<'a>, Failure> {
    let listening = ConnectionOptions {
        wait: world.options.wait,
        idle_timeout: DEADLINE,
        landing_bytes_max: u32::MAX,
        ..ConnectionOptions::default()
    };
    let mut listener = Listener::bind(&world.address, listening).map_err(fail)?;
    End::new(world, |_| listener.accept(DEADLINE))
}

/// Whether every message was the one expected; answers all of them in any case, since the client waits.
fn check(mut work: Work<'_>, config: Config, numbers: Range<u64>) -> Result<bool, Failure> {
    let mut all_right = true;
    for number in numbers {
        work.receive()?;
        all_right &= pattern::find_wrong_byte(number, work.to).is_none();
        if config.pattern == Pattern::Pingpong {
            pattern::fill(answer_to(number), work.from);
            work.send()?;
        }
    }
    Ok(all_right)
}

fn time(work: Work<'_>, config: Config, plan: SlicePlan) -> Result<Vec<u64>, Failure> {
    match config.pattern {
        Pattern::Pingpong if config.bytes == 8 => pong_words(work, plan).map(|()| Vec::new()),
        Pattern::Pingpong => pong(work, plan).map(|()| Vec::new()),
        Pattern::Stream => sink(work, plan),
    }
}

#[inline(never)]
fn pong(mut work: Work<'_>, plan: SlicePlan) -> Result<(), Failure> {
    (0..plan.total()).try_for_each(|_| {
        work.receive()?;
        work.send()
    })
}

#[inline(never)]
fn pong_words(mut work: Work<'_>, plan: SlicePlan) -> Result<(), Failure> {
    (0..plan.total()).try_for_each(|_| {
        work.receive()?;
        let word = u64::from_le_bytes(*word_of(work.to)?);
        *word_of(work.from)? = answer_word(word).to_le_bytes();
        work.send()
    })
}

#[inline(never)]
fn sink(mut work: Work<'_>, plan: SlicePlan) -> Result<Vec<u64>, Failure> {
    plan.time(|| work.receive())
}
