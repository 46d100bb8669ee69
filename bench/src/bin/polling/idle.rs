//! What many idle connections cost.

use core::time::Duration;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use superpipe::{PollEvents, Poller};
use superpipe_bench::connection::fail;
use superpipe_bench::failure::Failure;

/// Polls, while nothing happens. Returns the processor time, in percent of a core, after a tenth of the time, in which all fall asleep.
pub(crate) fn percent_of_core(
    poller: &mut Poller,
    events: &mut PollEvents,
    seconds: u64,
) -> Result<f64, Failure> {
    let all = Duration::from_secs(seconds);
    let begin = Instant::now();
    poll_until(poller, events, begin + all / 10)?;
    let (before, measured) = (cpu(), Instant::now());
    poll_until(poller, events, begin + all)?;
    let wall = measured.elapsed().as_secs_f64();
    Ok(if wall > 0.0 { 100.0 * (cpu() - before) / wall } else { 0.0 })
}

fn poll_until(poller: &mut Poller, events: &mut PollEvents, until: Instant) -> Result<(), Failure> {
    while Instant::now() < until {
        poller.poll(events, until).map_err(fail)?;
    }
    Ok(())
}

/// Returns the processor time of this process, in seconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
