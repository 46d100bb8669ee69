//! Connecting by the route to an address, again and again until the deadline.

use core::time::Duration;
use std::thread;

use super::new_connection::ReadyConnection;
#[cfg(feature = "verbs")]
use super::rdma;
use super::retry::{Backoff, ConnectFailure, FLAG_NS};
use super::route::Route;
use super::shm;
use crate::address::Address;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::Shards;
use crate::options::Options;
use crate::os::monotonic_ns;
use crate::trace;

/// Connects to a listener. The connection shares what those of a poller share, if it is for one.
///
/// # Errors
/// The error of the last attempt, or of the one before it if the deadline cut the last one short.
pub(crate) fn connect(
    address: &Address,
    options: Options,
    shards: Option<&Shards>,
    deadline: Deadline,
) -> Result<ReadyConnection, Error> {
    trace::connecting(address);
    connect_until(address, options, shards, deadline).inspect_err(|error| trace::refused(address, error))
}

fn connect_until(
    address: &Address,
    options: Options,
    shards: Option<&Shards>,
    deadline: Deadline,
) -> Result<ReadyConnection, Error> {
    let deadline_ns = deadline.at_ns();
    options.check()?;
    let route = Route::to(address, &options, deadline_ns)?;
    let mut backoff = Backoff::of(&route);
    let mut cause = None;
    loop {
        let ConnectFailure { error, is_transient } = match connect_once(&route, options, shards, deadline_ns)
        {
            Ok(connection) => return Ok(connection),
            Err(failure) => failure,
        };
        if options.is_interrupted() {
            return Err(Error::interrupted());
        }
        if !is_transient || monotonic_ns() >= deadline_ns {
            // An attempt that the deadline cut short says less than the one before it.
            let is_cut = error.kind() == ErrorKind::Timeout;
            let error = cause.filter(|_| is_cut).unwrap_or(error);
            let is_nobody = error.kind() == ErrorKind::Connect;
            return Err(error.and(route.elsewhere().filter(|_| is_nobody)));
        }
        cause = Some(error);
        if !paused(backoff.next(deadline_ns), &options) {
            return Err(Error::interrupted());
        }
    }
}

/// Sleeps for a pause. Returns false as soon as the interrupt flag is set.
fn paused(pause: Duration, options: &Options) -> bool {
    let mut left = pause;
    while !left.is_zero() {
        let part = if options.interrupt.is_some() { left.min(Duration::from_nanos(FLAG_NS)) } else { left };
        thread::sleep(part);
        left -= part;
        if options.is_interrupted() {
            return false;
        }
    }
    true
}

fn connect_once(
    route: &Route,
    options: Options,
    shards: Option<&Shards>,
    deadline_ns: u64,
) -> Result<ReadyConnection, ConnectFailure> {
    #[cfg(not(feature = "verbs"))]
    let _ = shards;
    match route {
        Route::Shm { address, is_private } => shm::connect(address, *is_private, options, deadline_ns),
        #[cfg(feature = "verbs")]
        Route::Rdma { host, port } => rdma::connect(host, *port, options, shards, deadline_ns),
        #[cfg(not(feature = "verbs"))]
        Route::Rdma { host, .. } => {
            Err(ConnectFailure { error: Route::other_host(host), is_transient: false })
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_pause_ends_when_the_flag_is_set() {
        static INTERRUPT: AtomicBool = AtomicBool::new(false);
        let options = Options { interrupt: Some(&INTERRUPT), ..Options::default() };
        assert!(paused(Duration::from_millis(1), &options));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                INTERRUPT.store(true, Ordering::Relaxed);
            });
            let begun = monotonic_ns();
            assert!(!paused(Duration::from_secs(60), &options));
            assert!(monotonic_ns() - begun < 10_000_000_000);
        });
    }
}
