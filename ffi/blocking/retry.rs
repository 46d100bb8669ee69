//! Retries of connecting: the failures that are worth another attempt, and the pauses between attempts.

use core::time::Duration;

use super::route::Route;
use crate::error::{Error, ErrorKind};
use crate::fabric::shm::ConnectError as SocketConnectError;
use crate::os::clock::until;
use crate::os::random::random_below;

/// Error of an attempt to connect. A later attempt may succeed if it `is_transient`.
pub(super) struct ConnectFailure {
    pub(super) error: Error,
    pub(super) is_transient: bool,
}

impl ConnectFailure {
    /// The socket of a listener cannot be connected to. Nobody may listen yet, or too many may connect.
    pub(super) fn of_socket(error: SocketConnectError) -> Self {
        use SocketConnectError::{Busy, NotFound, Refused};
        let is_transient = matches!(error, NotFound(_) | Refused(_) | Busy(_));
        Self { error: error.into(), is_transient }
    }
}

/// Returns true if the next attempt may succeed after a connection that ended with this error before the application had it: the listener
/// ended, or had no room.
pub(super) fn may_pass(error: &Error) -> bool {
    error.kind() == ErrorKind::PeerLost
}

/// Time between two looks at the interrupt flag of a connect, which wakes nobody.
pub(super) const FLAG_NS: u64 = 100_000_000;

/// First pause.
const FIRST_NS: u64 = 20_000_000;
/// Longest pause over RDMA, where each attempt makes a queue pair and costs the listener's host: of a hundred clients that are refused
/// together, one asks again every few milliseconds.
const LONGEST_NS: u64 = 640_000_000;

/// The pauses of one client. Over RDMA each is twice the one before it, and all are random: clients that were refused at the same
/// time do not come back at the same time.
#[derive(Debug)]
pub(super) struct Backoff {
    next_ns: u64,
    longest_ns: u64,
}

impl Backoff {
    pub(super) const fn of(route: &Route) -> Self {
        let longest_ns = match route {
            Route::Shm { .. } => FIRST_NS,
            Route::Rdma { .. } => LONGEST_NS,
        };
        Self { next_ns: FIRST_NS, longest_ns }
    }

    /// Returns the next pause: 0.5 to 1.5 times its average, and not beyond the deadline.
    pub(super) fn next(&mut self, deadline_ns: u64) -> Duration {
        let average_ns = self.next_ns;
        self.next_ns = (average_ns * 2).min(self.longest_ns);
        let pause_ns = average_ns / 2 + random_below(average_ns);
        Duration::from_nanos(pause_ns.min(until(deadline_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_over_rdma_and_are_never_in_step() {
        let far = || Backoff::of(&Route::Rdma { host: String::new(), port: 1 });
        let (mut one, mut other) = (far(), far());
        let averages = [20, 40, 80, 160, 320, 640, 640].map(|ms| ms * 1_000_000);
        let pairs = averages.map(|average| {
            let pair = [&mut one, &mut other].map(|pauses| pauses.next(u64::MAX).as_nanos());
            assert!(pair.iter().all(|ns| (average / 2..average * 3 / 2).contains(ns)), "{pair:?}");
            pair
        });
        assert!(pairs.iter().any(|[one, other]| one != other), "{pairs:?}");
        assert_eq!(one.next(0), Duration::ZERO, "the deadline has passed");
        let mut near = Backoff::of(&Route::private(1));
        assert!((0..5).all(|_| near.next(u64::MAX) < Duration::from_millis(30)));
    }
}
