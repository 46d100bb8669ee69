//! The RDMA fabric on this operating system: memory for system calls, liveness, sleep.

use super::fabric::{Rdma, RdmaLink};
use super::image::Image;
use super::sleep;
use crate::fabric::{HostFabric, LossCause, SleepEnd, Span};
use crate::os::OsError;
use crate::os::poll::{PollFd, Polled};
use superpipe_core::Endpoint;

// SAFETY: spans point into the two registered halves, which are mapped and populated until the link is dropped, or into what was grown, whose
// addresses are mapped as long; `at` checks that the named bytes are inside them, and no region gives out references.
unsafe impl HostFabric for Rdma {
    const NAME: &'static str = "verbs";
    // Objects that rdma-core destroys in a child, it destroys for the parent.
    const DROPS_IN_CHILD: bool = false;

    fn source_of(&self, _: &RdmaLink, from: Span, at: u32, bytes: u32) -> *const u8 {
        from.at(at, bytes as usize)
    }

    fn place_in(&self, _: &RdmaLink, to: Image, at: u32, bytes: u32) -> *mut u8 {
        to.span.at(at, bytes as usize)
    }

    #[cfg(feature = "recorder")]
    fn record(&mut self, on: bool) {
        self.recorder = on.then(Box::default);
    }

    fn is_alive(&self, link: &RdmaLink) -> bool {
        link.connection.is_alive()
    }

    fn why_gone(&self, link: &RdmaLink) -> Option<LossCause> {
        link.connection.why_gone()
    }

    fn interests<'a>(&self, link: &'a RdmaLink) -> [PollFd<'a>; 1] {
        [link.connection.interest()]
    }

    fn end_by(&self, link: &mut RdmaLink, by_ns: u64) {
        link.connection.end_by(by_ns);
    }

    fn begin_sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Result<u64, SleepEnd> {
        sleep::begin(self, endpoint, timeout_ns)
    }

    fn sleep_interests<'a>(&self, link: &'a RdmaLink) -> [PollFd<'a>; 2] {
        link.connection.sleep_interests()
    }

    fn end_sleep(
        &self,
        endpoint: &mut Endpoint<Self>,
        polled: Result<Polled, OsError>,
        fds: [PollFd<'_>; 2],
    ) -> SleepEnd {
        sleep::end(endpoint, polled, fds)
    }
}
