//! What the std API needs of a fabric beyond the protocol: addresses of blocks for `readv` and `writev`, sleeping, and
//! whether the peer lives.

use superpipe_core::{Endpoint, Fabric};

use crate::os::OsError;
use crate::os::poll::{PollFd, Polled, poll};

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Something may have come: look.
    Look,
    /// The time went by, and the peer's end was there all the while.
    Nothing,
    /// The peer is gone; what it wrote before is still there.
    PeerGone,
}

/// Why a peer is gone that did not just end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It broke a rule: which.
    Wrong(String),
    /// The device of this host is gone.
    Device(&'static str),
}

/// A fabric of this operating system.
///
/// # Safety
/// 1. The addresses that [`source_of`](Self::source_of) and [`place_in`](Self::place_in) give are valid for so many bytes
///    until the link is dropped.
/// 2. No reference to these bytes is ever made.
/// 3. The descriptors that [`interests`](Self::interests) and [`sleep_interests`](Self::sleep_interests) give are open until the
///    link is dropped.
pub unsafe trait Port:
    Fabric<Link: Send, Region: Send, Remote: Send> + Send + Sized + 'static
{
    /// What reports call it.
    const NAME: &'static str;
    /// True if a child of fork may drop a link that it inherited: that closes descriptors, and does nothing to the parent's
    /// connection. Otherwise the child keeps it until it ends.
    const DROPS_IN_CHILD: bool;

    /// The address of bytes that have arrived.
    fn source_of(&self, link: &Self::Link, from: Self::Region, at: u32, bytes: u32) -> *const u8;
    /// The address of bytes that are to be sent.
    fn place_in(&self, link: &Self::Link, to: Self::Remote, at: u32, bytes: u32) -> *mut u8;
    /// Begins to record, with an empty recorder, or ends it and forgets what was recorded.
    #[cfg(feature = "recorder")]
    fn record(&mut self, on: bool);
    /// Whether the peer's end still exists. A system call.
    fn is_alive(&self, link: &Self::Link) -> bool;
    /// Why it does not, where more is known than that.
    fn why_gone(&self, _: &Self::Link) -> Option<Gone> {
        None
    }
    /// Descriptor that becomes ready when the peer goes away: then [`is_alive`](Self::is_alive) says so, or it is not ready any more.
    /// What the peer can do besides must not make it ready, since nobody takes that out.
    fn interests<'a>(&self, link: &'a Self::Link) -> [PollFd<'a>; 1];
    /// A link that is dropped later waits for what it sent to leave this end at most until `by_ns`, a time of the monotonic clock.
    fn end_by(&self, _: &mut Self::Link, _by_ns: u64) {}
    /// Tells the peer, or the device, that this end is to be woken, and looks once more. Returns for how long
    /// [`sleep_interests`](Self::sleep_interests) may be polled, never long enough for a signal to be missed;
    /// [`end_sleep`](Self::end_sleep) comes after that.
    ///
    /// Several threads may sleep at a time, each with a beginning and an end of its own: what wakes one wakes all.
    ///
    /// # Errors
    /// No sleep was begun: something has come, or another sleep is about to end.
    fn begin_sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Result<u64, Woken>;
    /// Descriptors that become ready when the peer writes something, or goes away.
    fn sleep_interests<'a>(&self, link: &'a Self::Link) -> [PollFd<'a>; 2];
    /// Ends a sleep, after a poll of its descriptors.
    fn end_sleep(
        &self,
        endpoint: &mut Endpoint<Self>,
        polled: Result<Polled, OsError>,
        fds: [PollFd<'_>; 2],
    ) -> Woken;
    /// Sleeps until the peer writes something, at most so long.
    fn sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Woken {
        let nap_ns = match self.begin_sleep(endpoint, timeout_ns) {
            Ok(nap_ns) => nap_ns,
            Err(woken) => return woken,
        };
        let mut fds = self.sleep_interests(endpoint.link());
        let polled = poll(&mut fds, nap_ns);
        // SAFETY: the link, which has the descriptors, is borrowed with the endpoint until the end of this function.
        let fds = fds.map(|fd| unsafe { fd.without_borrow() });
        self.end_sleep(endpoint, polled, fds)
    }
}
