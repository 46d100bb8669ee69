//! Many idle connections: what they cost, and the descriptors that they need.

use core::time::Duration;
use std::io;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use superpipe::{PollEvents, Poller};
use superpipe_bench::connection::fail;
use superpipe_bench::failure::Failure;

/// Raises the limit of open files.
pub(crate) fn allow_descriptors(count: u64) -> Result<(), Failure> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = count + 1024;
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
        .map_err(|errno| Failure::Os("raise the limit of open files", io::Error::from(errno)))
}

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
