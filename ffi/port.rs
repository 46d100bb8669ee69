//! What the std API needs of a fabric beyond the protocol: addresses of blocks for `readv` and `writev`, sleeping, and
//! whether the peer lives.

use superpipe_core::{Endpoint, Fabric};

use crate::os::poll::PollFd;

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
    /// Sleeps until the peer writes something, at most so long, and never long enough for a signal to be missed.
    fn sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Woken;
}
