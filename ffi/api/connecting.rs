//! Connecting, by whichever way leads to the address.

use std::thread;

use super::address::Address;
use super::attempt::Attempt;
use super::by_shm;
#[cfg(feature = "verbs")]
use super::by_verbs;
use super::connection::Connection;
use super::deadline::Deadline;
use super::error::{Error, ErrorKind};
use super::options::Options;
use super::pauses::Pauses;
use super::way::Way;
use crate::os::monotonic_ns;

impl Connection {
    /// Connects to a listener; where nobody listens yet, again and again until the deadline.
    ///
    /// # Errors
    /// The last cause: `Connect`, `Auth`, `Version`, `Protocol`, `Usage` (wishes that contradict each other or the
    /// address), `Limit`, `Device`, `PeerLost`, `Closed` (the peer closed at once), `Timeout`, `Interrupted`.
    pub fn connect(
        address: &Address,
        options: Options,
        deadline: impl Into<Deadline>,
    ) -> Result<Self, Error> {
        let deadline_ns = deadline.into().at_ns();
        options.check()?;
        let way = Way::to(address, &options, deadline_ns)?;
        let mut pauses = Pauses::of(&way);
        let mut cause = None;
        loop {
            let Attempt { error, is_transient } = match Self::connect_once(&way, options, deadline_ns) {
                Ok(connection) => return Ok(connection),
                Err(attempt) => attempt,
            };
            if options.is_interrupted() {
                return Err(Error::interrupted());
            }
            if !is_transient || monotonic_ns() >= deadline_ns {
                // An attempt that the deadline cut short says less than the one before it.
                let is_cut = error.kind() == ErrorKind::Timeout;
                let error = cause.filter(|_| is_cut).unwrap_or(error);
                let is_nobody = error.kind() == ErrorKind::Connect;
                return Err(error.and(way.elsewhere().filter(|_| is_nobody)));
            }
            cause = Some(error);
            thread::sleep(pauses.next(deadline_ns));
        }
    }

    fn connect_once(way: &Way, options: Options, deadline_ns: u64) -> Result<Self, Attempt> {
        match way {
            Way::Shm { address, is_private } => by_shm::connect(address, *is_private, options, deadline_ns),
            #[cfg(feature = "verbs")]
            Way::Verbs { host, port } => by_verbs::connect(host, *port, options, deadline_ns),
            #[cfg(not(feature = "verbs"))]
            Way::Verbs { host, .. } => Err(Attempt { error: super::way::far(host), is_transient: false }),
        }
    }
}
