//! Sleeping until the peer has written something. wire.md 10.4.
//!
//! ```text
//! notify mode: every write comes with a completion, which wakes.
//!
//! the others:  sleeper                               the other
//!                SLEEP                          --->
//!                polls ten thousand times
//!                a second
//!                                               <---   SLEEP-OK
//!                polls once more; sleeps
//!                                               <---   a write, then WAKE
//! ```
//!
//! All writes before SLEEP-OK are visible when it has arrived, so one poll after it finds them. WAKE comes once for each SLEEP. If the
//! peer answers late, only this end pays, since it cannot sleep until then. So a keepalive comes without WAKE, and a sleeper polls for
//! it now and then: sending SLEEP again five times a second, to a peer that is blocked elsewhere and answers late, would cost more.
//!
//! Two threads may sleep at a time, the halves of one connection. One SLEEP stands for both. The event of WAKE stays in the channel and
//! wakes both, until the last of them takes it out. Until then the channel is not armed again.

use super::connection::State;
use super::fabric::Rdma;
use crate::fabric::SleepEnd;
use crate::os::OsError;
use crate::os::poll::{PollFd, Polled};
use superpipe_core::Endpoint;

/// Longest sleep while SLEEP is not answered: the delay of a message that the peer writes before it answers. Shorter sleeps would cost this
/// end more than the 10,000 polls per second of now. Not measured.
const UNANSWERED_NS: u64 = 100_000;

/// Begins a sleep and returns its longest time. A sleep `by_poller` is ended by the poller that watches the shard of the connection, if there is one.
pub(super) fn begin(
    fabric: &Rdma,
    endpoint: &mut Endpoint<Rdma>,
    timeout_ns: u64,
    by_poller: bool,
) -> Result<u64, SleepEnd> {
    let link = endpoint.link_mut();
    if link.sleepers.is_ending() {
        return Err(SleepEnd::Poll);
    }
    // Nothing wakes an end whose own job ends, which takes no longer than a sleep is worth.
    if link.memory.growth.as_ref().is_some_and(|growth| growth.has_jobs()) {
        return Err(SleepEnd::Poll);
    }
    let is_notified = link.is_notified;
    if !is_notified {
        link.connection.sleep.request();
        link.connection.send_due();
    }
    // What arrives from here on wakes; what arrived before is polled for once more.
    let armed = link.connection.arm(by_poller);
    let will_wake = link.connection.is_woken() && (is_notified || link.connection.sleep.is_granted());
    let end = match armed {
        Ok(false) if !endpoint.has_arrivals(fabric) => None,
        Ok(_) => Some(SleepEnd::Poll),
        Err(_) => Some(SleepEnd::PeerGone),
    };
    let link = endpoint.link_mut();
    if let Some(end) = end {
        if link.sleepers.is_empty() {
            // What cannot be taken is there next time.
            let _ = link.connection.disarm(false);
        }
        return Err(end);
    }
    link.sleepers.begin();
    Ok(if will_wake { timeout_ns } else { timeout_ns.min(UNANSWERED_NS) })
}

/// Ends a sleep.
pub(super) fn end(
    endpoint: &mut Endpoint<Rdma>,
    polled: Result<Polled, OsError>,
    fds: [PollFd<'_>; 2],
) -> SleepEnd {
    let [has_event, peer] = fds.map(|fd| fd.is_ready());
    let link = endpoint.link_mut();
    let is_woken = link.sleepers.end(has_event);
    if link.sleepers.is_empty() {
        // An event that cannot be taken is there next time.
        let _ = link.connection.disarm(is_woken);
    }
    // After a signal, or without memory for the poll, the caller polls and comes back.
    match polled {
        _ if peer && !link.connection.is_alive() => SleepEnd::PeerGone,
        Ok(Polled::TimedOut) if link.connection.state == State::Open => SleepEnd::TimedOut,
        _ => SleepEnd::Poll,
    }
}
