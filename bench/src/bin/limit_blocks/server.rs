//! The other process, which executes the client's commands until the kernel kills it with its parent.

use superpipe_bench::channel::Channel;
use superpipe_bench::failure::Failure;
use superpipe_bench::slices::SlicePlan;
use superpipe_bench::spin::Timeout;
use superpipe_bench::{pattern, probe};

use crate::config::Config;
use crate::end::{End, PROBE_AT, SharedState};
use crate::task::{Pattern, Task, answer_to};

/// Serves commands until the timeout or the end of the process.
pub(crate) fn serve(shared: &SharedState, timeout: &Timeout) -> Result<(), Failure> {
    let mut channel = Channel::new(shared.map);
    let mut end = End::new(shared, timeout)?;
    let mut probe_number = 0;
    loop {
        let (task, index) = Task::from_words(channel.take(timeout)?);
        let results = match task {
            Task::Check { count, number } => {
                vec![u64::from(!check(&mut end, shared.configs[index], number..number + count)?)]
            }
            Task::Time(plan) => time(&mut end, shared.configs[index], plan)?,
            Task::Probe => {
                probe::answer(shared.map, PROBE_AT, &mut probe_number, timeout)?;
                Vec::new()
            }
        };
        channel.answer(&results);
    }
}

/// Returns whether every message was as expected. Answers all of them in any case, since the client waits.
fn check(end: &mut End, config: Config, numbers: core::ops::Range<u64>) -> Result<bool, Failure> {
    end.with_rings(config, |exchange| {
        let mut all_right = true;
        for number in numbers {
            exchange.forth.receive(exchange.to, config.copy_out)?;
            all_right &= pattern::find_wrong_byte(number, exchange.to).is_none();
            if config.pattern == Pattern::Pingpong {
                exchange.back.answered();
                pattern::fill(answer_to(number), exchange.from);
                exchange.back.send(exchange.from, config.copy_in)?;
            }
        }
        Ok(all_right)
    })
}

fn time(end: &mut End, config: Config, plan: SlicePlan) -> Result<Vec<u64>, Failure> {
    end.with_rings(config, |exchange| match config.pattern {
        Pattern::Pingpong => {
            for _ in 0..plan.total() {
                exchange.forth.receive(exchange.to, config.copy_out)?;
                exchange.back.answered();
                exchange.back.send(exchange.from, config.copy_in)?;
            }
            Ok(Vec::new())
        }
        Pattern::Stream => plan.time(|| exchange.forth.receive(exchange.to, config.copy_out)),
    })
}
