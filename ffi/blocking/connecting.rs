//! Connecting by the route to an address, again and again until the deadline.

use std::thread;

use super::new_connection::ReadyConnection;
#[cfg(feature = "verbs")]
use super::rdma;
use super::retry::{Backoff, ConnectFailure};
use super::route::Route;
use super::shm;
use crate::address::Address;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::options::Options;
use crate::os::monotonic_ns;
use crate::trace;

/// Connects to a listener.
///
/// # Errors
/// The error of the last attempt, or of the one before it if the deadline cut the last one short.
pub(crate) fn connect(
    address: &Address,
    options: Options,
    deadline: Deadline,
) -> Result<ReadyConnection, Error> {
    trace::connecting(address);
    connect_until(address, options, deadline).inspect_err(|error| trace::refused(address, error))
}

fn connect_until(address: &Address, options: Options, deadline: Deadline) -> Result<ReadyConnection, Error> {
    let deadline_ns = deadline.at_ns();
    options.check()?;
    let route = Route::to(address, &options, deadline_ns)?;
    let mut backoff = Backoff::of(&route);
    let mut cause = None;
    loop {
        let ConnectFailure { error, is_transient } = match connect_once(&route, options, deadline_ns) {
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
        thread::sleep(backoff.next(deadline_ns));
    }
}

fn connect_once(
    route: &Route,
    options: Options,
    deadline_ns: u64,
) -> Result<ReadyConnection, ConnectFailure> {
    match route {
        Route::Shm { address, is_private } => shm::connect(address, *is_private, options, deadline_ns),
        #[cfg(feature = "verbs")]
        Route::Rdma { host, port } => rdma::connect(host, *port, options, deadline_ns),
        #[cfg(not(feature = "verbs"))]
        Route::Rdma { host, .. } => {
            Err(ConnectFailure { error: Route::other_host(host), is_transient: false })
        }
    }
}
