//! The other process, which executes the client's commands until the kernel kills it with its parent.

use superpipe_bench::channel::Channel;
use superpipe_bench::failure::Failure;
use superpipe_bench::probe;
use superpipe_bench::spin::Timeout;

use crate::end::{End, PROBE_AT, SharedState, Side};

/// The command of a probe, in place of the index of a configuration.
pub(crate) const PROBE: u64 = u64::MAX;

/// Serves commands until the timeout or the end of the process. Answers with 1 if a message of a check was wrong, else with 0.
pub(crate) fn serve(shared: &SharedState, timeout: &Timeout) -> Result<(), Failure> {
    let mut channel = Channel::new(shared.map);
    let mut end = End::new(shared, Side::Server, timeout)?;
    let mut probe_number = 0;
    loop {
        let [index, number, count, check, ..] = channel.take(timeout)?;
        if index == PROBE {
            probe::answer(shared.map, PROBE_AT, &mut probe_number, timeout)?;
            channel.answer(&[]);
            continue;
        }
        let config = shared.configs[usize::try_from(index).unwrap_or(usize::MAX)];
        let is_check = check == 1;
        let mut all_right = true;
        for number in number + 1..=number + count {
            end.prepare(config, number, is_check)?;
            end.receive(config, number)?;
            // Compared before the answer, since the client's next message may come any time after it.
            all_right &= !is_check || end.find_wrong_byte(config, number)?.is_none();
            end.send(config, number)?;
        }
        channel.answer(&[u64::from(!all_right)]);
    }
}
