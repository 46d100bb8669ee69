//! Sleeping until the peer has written something. wire.md 10.4.
//!
//! ```text
//! notify mode: every write comes with a completion, which wakes.
//!
//! the others:  sleeper                               the other
//!                SLEEP                          --->
//!                looks as before, ten thousand
//!                times a second
//!                                               <---   SLEEP-OK
//!                looks once more; sleeps
//!                                               <---   a write, then WAKE
//! ```
//!
//! What was written before SLEEP-OK is there when that has come, so the one look after it finds it. WAKE comes once: whoever
//! wants to sleep again says so again. A peer that answers late costs this end its sleep, and itself nothing. So a sign of life
//! comes without WAKE, and whoever sleeps looks for it now and then: to ask again five times a second, of a peer that is blocked
//! elsewhere and answers late, would cost more than all the rest.
//!
//! Two threads may sleep at a time, the halves of one connection. One SLEEP stands for both: WAKE comes with an event, which stays in
//! the channel, where it wakes both, until the last of them takes it out. Until then the channel is not armed again.

use super::fabric::Rdma;
use super::wire::End;
use crate::os::OsError;
use crate::os::poll::{PollFd, Polled};
use crate::port::Woken;
use superpipe_core::Endpoint;

/// How long is slept while SLEEP is not answered.
const UNANSWERED_NS: u64 = 100_000;

/// Begins a sleep: returns how long it may last.
pub(super) fn begin(port: &Rdma, endpoint: &mut Endpoint<Rdma>, timeout_ns: u64) -> Result<u64, Woken> {
    let link = endpoint.link_mut();
    if link.sleepers.is_ending() {
        return Err(Woken::Look);
    }
    let is_notified = link.is_notified;
    if !is_notified {
        link.wire.sleep.ask();
        link.wire.say_due();
    }
    // What comes from here on wakes; what came before is looked at once more.
    match link.wire.arm() {
        Ok(false) => {}
        Ok(true) => return Err(Woken::Look),
        Err(_) => return Err(Woken::PeerGone),
    }
    let will_wake = is_notified || link.wire.sleep.is_granted();
    if endpoint.has_arrivals(port) {
        return Err(Woken::Look);
    }
    endpoint.link_mut().sleepers.begin();
    Ok(if will_wake { timeout_ns } else { timeout_ns.min(UNANSWERED_NS) })
}

/// Ends a sleep.
pub(super) fn end(
    endpoint: &mut Endpoint<Rdma>,
    polled: Result<Polled, OsError>,
    fds: [PollFd<'_>; 2],
) -> Woken {
    let [told, peer] = fds.map(|fd| fd.is_ready());
    let link = endpoint.link_mut();
    if link.sleepers.end(told) {
        // One that cannot be taken is there again next time.
        let _ = link.wire.take_events();
    }
    // A signal, or no memory for the poll: look, and come back.
    match polled {
        _ if peer && !link.wire.is_alive() => Woken::PeerGone,
        Ok(Polled::TimedOut) if link.wire.end == End::Not => Woken::Nothing,
        _ => Woken::Look,
    }
}
