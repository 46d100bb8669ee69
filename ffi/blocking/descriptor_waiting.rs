//! Waiting for a descriptor of the caller, the source or sink of a stream, while the connection makes progress.

use superpipe_core::driver::{DescriptorWait, DescriptorWaitNext, Driver, SLEEP_MAX_NS};

use super::access::DriverAccess;
use super::host_driver::now;
use crate::deadline::ArmedDeadline;
use crate::error::Error;
use crate::fabric::HostFabric;
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::os::poll::{PollFd, poll};

/// Longest pause while a job is under way: nobody wakes this end when it has ended, and rounds may have to make its steps.
const JOB_PAUSE_NS: u64 = 50_000;

/// Calls that wait for a descriptor, for every kind of access.
pub(super) trait DescriptorWaiting: DriverAccess {
    /// Waits until a descriptor is ready, or its stream was rejected, and makes progress meanwhile.
    fn wait_for_fd(
        &mut self,
        fd: PollFd<'_>,
        mut wait: DescriptorWait,
        armed: &mut ArmedDeadline,
    ) -> Result<(), Error> {
        let mut sleep_ns = until(armed.at_ns(monotonic_ns())).min(longest_pause_ns(&self.hold().driver));
        loop {
            if self.is_interrupted() {
                return Err(Error::interrupted());
            }
            let (is_gone, peer) = {
                let host = &*self.hold();
                let [peer] = host.fabric.interests(host.driver.endpoint().link());
                // SAFETY: as in `Waiting::sleep`: the link is there as long as this access, and its descriptors are open.
                (host.driver.is_peer_gone(), unsafe { peer.without_borrow() })
            };
            let mut fds = [fd, if is_gone { PollFd::none() } else { peer }];
            poll(&mut fds, sleep_ns)?;
            let (is_ready, is_peer_ready) = (fds[0].is_ready(), fds[1].is_ready());
            let host = &mut *self.hold();
            let link = host.driver.endpoint().link();
            if !is_gone && (is_peer_ready || !is_ready) && !host.fabric.is_alive(link) {
                host.driver.note_peer_gone();
            }
            let now = now();
            let next = host.driver.descriptor_round(&mut host.fabric, &mut wait, is_ready, now);
            let longest_ns = match next {
                DescriptorWaitNext::Ready => return Ok(()),
                DescriptorWaitNext::Ended(ended) => return Err(host.ended(ended)),
                DescriptorWaitNext::Poll => 0,
                DescriptorWaitNext::Wait => longest_pause_ns(&host.driver),
            };
            // A peer can move something for ever, also one that is gone: its memory is still there.
            let left_ns = armed.at_ns(now.0).saturating_sub(now.0);
            if left_ns == 0 {
                return Err(Error::deadline());
            }
            sleep_ns = left_ns.min(longest_ns);
        }
    }
}

impl<A: DriverAccess> DescriptorWaiting for A {}

fn longest_pause_ns<F: HostFabric>(driver: &Driver<F>) -> u64 {
    if driver.has_jobs() { JOB_PAUSE_NS } else { SLEEP_MAX_NS }
}
