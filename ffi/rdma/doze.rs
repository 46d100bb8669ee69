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

use super::fabric::Rdma;
use super::wire::End;
use crate::os::poll::{PollFd, Polled, poll};
use crate::port::Woken;
use std::os::fd::AsFd;
use superpipe_core::Endpoint;

/// How long is slept while SLEEP is not answered.
const UNANSWERED_NS: u64 = 100_000;

/// Sleeps at most so long.
pub(super) fn sleep(port: &Rdma, endpoint: &mut Endpoint<Rdma>, timeout_ns: u64) -> Woken {
    let link = endpoint.link_mut();
    let is_notified = link.is_notified;
    if !is_notified {
        link.wire.sleep.ask();
        link.wire.say_due();
    }
    // What comes from here on wakes; what came before is looked at once more.
    match link.wire.arm() {
        Ok(false) => {}
        Ok(true) => return Woken::Look,
        Err(_) => return Woken::PeerGone,
    }
    let will_wake = is_notified || link.wire.sleep.is_granted();
    if endpoint.has_arrivals(port) {
        return Woken::Look;
    }
    let wire = &endpoint.link().wire;
    let mut fds = [PollFd::new(wire.events.as_fd(), libc::POLLIN), wire.interest()];
    // A signal, or no memory for the poll: look, and come back.
    let polled = poll(&mut fds, if will_wake { timeout_ns } else { timeout_ns.min(UNANSWERED_NS) });
    let [told, peer] = fds.map(|fd| fd.is_ready());
    let wire = &mut endpoint.link_mut().wire;
    if told {
        // One that cannot be taken is there again next time.
        let _ = wire.take_events();
    }
    match polled {
        _ if peer && !wire.is_alive() => Woken::PeerGone,
        Ok(Polled::TimedOut) if wire.end == End::Not => Woken::Nothing,
        _ => Woken::Look,
    }
}
