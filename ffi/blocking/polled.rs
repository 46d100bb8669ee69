//! Looks at a connection that one thread drives beside many others: what a poller's round needs of it, without a wait.

use core::sync::atomic::AtomicBool;

use superpipe_core::driver::{Interest, Look, Seen, Tended};
use superpipe_core::polling::Owner;
use superpipe_core::{Counters, Nanos};

use super::host_driver::HostDriver;
use super::{Blocking, Exclusive};
use crate::fabric::HostFabric;
use crate::os::poll::{PollFd, Polled, poll, poll_now};

/// Time from the request for a wake-up to the first look, which finds one that was lost (wire/shm.md 7.2).
const LOOK_AGAIN_NS: u64 = 100_000_000;

impl<F: HostFabric> Blocking<Exclusive<F>> {
    /// Returns the number of the connection, which no other one of this process has.
    pub(crate) fn number(&mut self) -> u64 {
        self.access().id
    }

    /// Sets the flag that its waits check.
    pub(crate) fn set_interrupt(&mut self, interrupt: Option<&'static AtomicBool>) {
        self.access().options.interrupt = interrupt;
    }

    /// Returns the flag that its waits check.
    #[cfg(test)]
    pub(crate) fn interrupt(&mut self) -> Option<&'static AtomicBool> {
        self.access().options.interrupt
    }

    /// Returns true while a job of the fabric goes on.
    pub(crate) fn has_jobs(&mut self) -> bool {
        self.access().driver.has_jobs()
    }

    /// Returns who polls it.
    #[inline]
    pub(crate) fn polled_by(&mut self) -> Option<Owner> {
        self.access().polled_by
    }

    /// Sets who polls it from now on.
    pub(crate) fn set_polled_by(&mut self, polled_by: Option<Owner>) {
        let HostDriver { driver, fabric, polled_by: noted, .. } = &mut **self.access();
        fabric.set_polled_by(driver.endpoint_mut().link_mut(), polled_by);
        *noted = polled_by;
    }

    /// Returns false if only a wake-up may bring what arrives while it is armed.
    pub(crate) fn looks_while_armed(&mut self) -> bool {
        self.access().looks_while_armed
    }

    /// Sets that.
    #[cfg(feature = "internals")]
    pub(crate) fn set_looks_while_armed(&mut self, looks: bool) {
        self.access().looks_while_armed = looks;
    }

    /// Looks for what is wanted.
    #[inline]
    pub(crate) fn look(&mut self, wanted: Interest, seen: &mut Seen) -> Look {
        let host = &mut **self.access();
        let look = host.driver.look(&mut host.fabric, wanted, seen);
        if look.has_ended {
            host.copy_end();
        }
        look
    }

    /// Asks the peer or the device for a wake-up, by the descriptors of [`watched`](Self::watched), and looks once more. Returns the time after which to look again at the latest. `None`:
    /// there is work.
    pub(crate) fn arm(&mut self, wanted: Interest) -> Option<u64> {
        let host = &mut **self.access();
        let HostDriver { driver, fabric, settled_at, .. } = host;
        if !driver.prepare_sleep(fabric) {
            return None;
        }
        // What was sent since has woken the peer.
        if settled_at.take().is_some_and(|chunks| chunks == driver.counters().chunks_sent) {
            driver.endpoint_mut().send_keepalive(fabric);
        }
        match fabric.begin_polled_sleep(driver.endpoint_mut(), LOOK_AGAIN_NS) {
            Ok(sleep_ns) => {
                let has_work = driver.has_work(fabric, wanted);
                // What is ready now has been reported, and is not reported again.
                let mut fds = fabric.sleep_interests(driver.endpoint().link());
                if has_work || poll_now(&mut fds) {
                    self.disarm();
                    return None;
                }
                Some(sleep_ns)
            }
            Err(end) => {
                host.note_sleep_end(end);
                None
            }
        }
    }

    /// Takes the request for a wake-up back, and the wake-ups that came.
    pub(crate) fn disarm(&mut self) {
        let host = &mut **self.access();
        let HostDriver { driver, fabric, .. } = host;
        let mut fds = fabric.sleep_interests(driver.endpoint().link());
        let polled = poll(&mut fds, 0);
        let is_ready = polled == Ok(Polled::Ready);
        let polled = match polled {
            // Nothing says that the peer lives, which a sleep to its end would.
            Ok(Polled::TimedOut) => Ok(Polled::Interrupted),
            polled => polled,
        };
        // SAFETY: the descriptors are open until the link is dropped (`HostFabric`), which the host has; it is borrowed until the end of this function.
        let fds = fds.map(|fd| unsafe { fd.without_borrow() });
        let end = fabric.end_sleep(driver.endpoint_mut(), polled, fds);
        host.note_sleep_end(end);
        // The end of a sleep reports a wake-up, though the peer may have ended after it.
        if is_ready {
            self.check_peer();
        }
    }

    /// Checks that the peer's end exists.
    pub(crate) fn check_peer(&mut self) {
        let HostDriver { driver, fabric, .. } = &mut **self.access();
        if !driver.is_peer_gone() && !fabric.is_alive(driver.endpoint().link()) {
            driver.note_peer_gone();
        }
    }

    /// Sends a keepalive if one is due, reads those of the peer, and checks that it exists where no descriptor tells each end.
    pub(crate) fn tend(&mut self, now: Nanos) -> Tended {
        if !F::DIRECT {
            self.check_peer();
        }
        let host = &mut **self.access();
        let HostDriver { driver, fabric, .. } = &mut *host;
        driver.tick(fabric, now);
        fabric.tend(driver.endpoint_mut());
        let tended = driver.tended(fabric);
        host.copy_counters(now);
        tended
    }

    /// Returns true if something may come while it waits for a wake-up that neither wakes it, nor is there soon after it asked for one.
    pub(crate) fn needs_regular_looks(&mut self) -> bool {
        let HostDriver { driver, fabric, .. } = &mut **self.access();
        fabric.needs_regular_looks(driver.endpoint().link())
    }

    /// Acknowledges what was taken, unless more is there. Wakes nobody yet: an answer would wake the peer a second time.
    pub(crate) fn settle(&mut self) {
        let HostDriver { driver, fabric, settled_at, .. } = &mut **self.access();
        if !driver.endpoint().is_readable(fabric) {
            let endpoint = driver.endpoint_mut();
            let before = endpoint.counters().acks_sent;
            fabric.set_quiet(endpoint.link_mut(), true);
            endpoint.acknowledge(fabric);
            fabric.set_quiet(endpoint.link_mut(), false);
            let Counters { acks_sent, chunks_sent, .. } = endpoint.counters();
            if acks_sent != before {
                *settled_at = Some(chunks_sent);
            }
        }
    }

    /// Returns the count of the peer's activity.
    pub(crate) fn activity(&mut self) -> u64 {
        self.access().driver.endpoint().activity()
    }

    /// Returns for how long the peer may be silent.
    pub(crate) fn idle_timeout_ns(&mut self) -> u64 {
        self.access().options.idle_timeout_ns()
    }

    /// Returns the descriptors that become ready when the peer or the device wakes this end, and when the peer ends.
    pub(crate) fn watched(&mut self) -> [PollFd<'_>; 2] {
        let HostDriver { driver, fabric, .. } = &mut **self.access();
        fabric.sleep_interests(driver.endpoint().link())
    }
}
