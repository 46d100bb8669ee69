//! The trait of a fabric on this operating system. Beyond core's `Fabric` it has addresses of blocks for `readv` and `writev`, sleeping,
//! and detection of a peer that has ended.

use core::ops::Range;
use core::ptr::NonNull;
use std::sync::Arc;

use superpipe_core::polling::Owner;
use superpipe_core::{Endpoint, Fabric, RecvMemory, SendMemory};

use super::{RegisteredMemory, TrustedMemory};
use crate::os::OsError;
use crate::os::poll::{PollFd, Polled, poll};

/// End of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepEnd {
    /// Something may have arrived, and is to be polled.
    Poll,
    /// The time is over, and the peer has not ended.
    TimedOut,
    /// The peer has ended. What it wrote before is still there.
    PeerGone,
}

/// Outcome of registering a buffer with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registered {
    /// Messages out of the buffer go without a copy through blocks: of 4 KiB and more over shared memory, of more than 64 KiB over RDMA.
    Ready,
    /// The budget of one of the two ends has no room, or its system refused. Messages go through blocks. A later call tries again.
    Refused,
}

/// Cause of the loss of a peer, other than the end of its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The peer broke this rule.
    Violation(String),
    /// The device of this host was removed or failed.
    Device(&'static str),
}

/// Direction of a message whose memory is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Out of the memory.
    Out,
    /// Into the memory.
    In,
}

/// A fabric of this operating system.
///
/// # Safety
/// 1. The addresses that [`source_of`](Self::source_of) and [`place_in`](Self::place_in) return are valid for the bytes
///    asked for until the link is dropped.
/// 2. No reference to these bytes is ever made, but by callers of `loan_slices` and `reserved_slices`, who promise that nobody else uses them meanwhile.
/// 3. The descriptors that [`interests`](Self::interests) and [`sleep_interests`](Self::sleep_interests) return are open until the
///    link is dropped.
pub unsafe trait HostFabric:
    Fabric<Link: Send, Region: Send, Remote: Send> + Send + Sized + 'static
{
    /// Name in reports.
    const NAME: &'static str;
    /// True if a child of fork may drop a link that it inherited: that closes descriptors, and does nothing to the parent's
    /// connection. Otherwise the child keeps it until it ends.
    const DROPS_IN_CHILD: bool;
    /// True if messages may go out of memory that a caller has borrowed, or into it.
    const LENDS: bool = false;

    /// Returns the address of bytes that have arrived.
    fn source_of(&self, link: &Self::Link, from: Self::Region, at: u32, bytes: u32) -> *const u8;
    /// Returns the address of bytes to be sent.
    fn place_in(&self, link: &Self::Link, to: Self::Remote, at: u32, bytes: u32) -> *mut u8;
    /// Begins to record, with an empty recorder, or ends it and forgets what was recorded.
    #[cfg(feature = "recorder")]
    fn record(&mut self, on: bool);
    /// Begins to plan the messages of an endpoint, with a planner that has observed nothing; `is_later`: when the first one comes that can be planned.
    /// A fabric may have no planner.
    fn plan(&mut self, _: &Endpoint<Self>, _is_later: bool) {}
    /// Returns true while the peer's end exists. Makes a system call.
    fn is_alive(&self, link: &Self::Link) -> bool;
    /// Returns the reason for the loss of the peer, if one is known.
    fn why_gone(&self, _: &Self::Link) -> Option<LossCause> {
        None
    }
    /// Returns a descriptor that becomes ready when the peer ends: then [`is_alive`](Self::is_alive) returns false, or the descriptor is not
    /// ready any more. Nothing else that the peer does may make it ready, since it is never drained.
    fn interests<'a>(&self, link: &'a Self::Link) -> [PollFd<'a>; 1];
    /// Bounds the wait of a later drop for what was sent to leave this end: until `by_ns`, a time of the monotonic clock.
    fn end_by(&self, _: &mut Self::Link, _by_ns: u64) {}
    /// Returns the messages out of registered buffers that core does not count: those whose buffer was registered, and the others. Short ones
    /// are in neither.
    fn registrations(&self, _: &Self::Link) -> [u64; 2] {
        [0; 2]
    }
    /// Returns core's name of memory that the caller of a blocking call has borrowed, for a message out of it. `None`: the message goes in
    /// blocks.
    ///
    /// # Safety
    /// The caller has borrowed `len` bytes from `start` on until [`take_back`](Self::take_back) has returned.
    unsafe fn lend_source(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        start: NonNull<u8>,
        len: usize,
    ) -> Option<SendMemory> {
        let _ = (endpoint, start, len);
        None
    }
    /// Returns core's name of memory that the caller of a blocking call has borrowed mutably, for a message into it. `None`: the message comes
    /// in blocks.
    ///
    /// # Safety
    /// The caller has borrowed `len` bytes from `start` on until [`take_back`](Self::take_back) has returned, and uses them no other way.
    unsafe fn lend_destination(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        start: NonNull<u8>,
        len: usize,
    ) -> Option<RecvMemory> {
        let _ = (endpoint, start, len);
        None
    }
    /// Takes the memory back that was lent for a message of this direction: once it has returned, no device and no peer uses it. Without
    /// `is_released`, core may still use it, and the link is ended first. It may wait for the device.
    fn take_back(&mut self, endpoint: &mut Endpoint<Self>, way: Way, is_released: bool) {
        let _ = (endpoint, way, is_released);
    }
    /// Returns core's name of a part of a registered buffer, for a message out of it. `None`: the message goes in blocks. It is lent until
    /// [`take_back`](Self::take_back).
    fn source_memory(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        part: Range<usize>,
    ) -> Option<SendMemory> {
        let _ = (endpoint, memory, part);
        None
    }
    /// Counts a message of `bytes` bytes that was sent out of a registered buffer, if core does not. If it `is_exposed`, the peer copies it
    /// out of the buffer.
    fn count_sent(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        bytes: usize,
        is_exposed: bool,
    ) {
        let _ = (endpoint, memory, bytes, is_exposed);
    }
    /// Counts a try of a message of `bytes` bytes out of a registered buffer that has sent nothing, since the peer has not mapped the buffer and
    /// the message is too long to go at once in another way.
    fn count_unsent(&mut self, endpoint: &mut Endpoint<Self>, memory: &Arc<RegisteredMemory>, bytes: usize) {
        let _ = (endpoint, memory, bytes);
    }
    /// Returns core's name of a registered buffer, for a message into it. `None`: the message comes in blocks.
    ///
    /// # Safety
    /// The caller has borrowed the buffer mutably until [`take_back`](Self::take_back) has returned.
    unsafe fn destination_memory(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
    ) -> Option<RecvMemory> {
        let _ = (endpoint, memory);
        None
    }
    /// Registers a buffer with a connection, ahead of the first message out of it. Called again until it returns the outcome; `is_new` is
    /// true in the first call.
    fn register(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        is_new: bool,
    ) -> Option<Registered> {
        let _ = (endpoint, memory, is_new);
        Some(Registered::Refused)
    }
    /// Returns true while the peer may read a registered buffer for a message that was sent.
    fn is_shared(&mut self, endpoint: &mut Endpoint<Self>, memory: &Arc<RegisteredMemory>) -> bool {
        let _ = (endpoint, memory);
        false
    }
    /// Offers a trusted buffer to the peer, which may then write a part of the next message into it. Begins to expose a buffer that the peer
    /// has not mapped, so that it can be offered later. Called again until it returns true, or a message arrives: nothing more is to be
    /// done.
    fn offer(&mut self, endpoint: &mut Endpoint<Self>, memory: &Arc<TrustedMemory>) -> bool {
        let _ = (endpoint, memory);
        true
    }
    /// Returns true while the peer may write a part of a message into a trusted buffer.
    fn is_offered(&mut self, endpoint: &mut Endpoint<Self>, memory: &Arc<TrustedMemory>) -> bool {
        let _ = (endpoint, memory);
        false
    }
    /// Ends registrations of buffers that their owners have dropped, and those that others wait for. Called at each tick.
    fn tend(&mut self, endpoint: &mut Endpoint<Self>) {
        let _ = endpoint;
    }
    /// Requests a wake-up from the peer or the device, and polls once more. Returns the time for which
    /// [`sleep_interests`](Self::sleep_interests) may be polled, never so long that a signal is missed. The caller then calls
    /// [`end_sleep`](Self::end_sleep).
    ///
    /// Several threads may sleep at a time, each with its own begin and end: what wakes one wakes all.
    ///
    /// # Errors
    /// No sleep was begun: something has arrived, or another sleep is about to end.
    fn begin_sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Result<u64, SleepEnd>;
    /// As [`begin_sleep`](Self::begin_sleep), of a connection that a poller watches: a fabric may have the poller wake it, without descriptors of its own.
    ///
    /// # Errors
    /// As [`begin_sleep`](Self::begin_sleep).
    fn begin_polled_sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Result<u64, SleepEnd> {
        self.begin_sleep(endpoint, timeout_ns)
    }
    /// Notes who polls the connection from now on, before [`sleep_interests`](Self::sleep_interests) are watched.
    fn set_polled_by(&self, link: &mut Self::Link, by: Option<Owner>) {
        let _ = (link, by);
    }
    /// Returns true if [`tend`](Self::tend) is to be called regularly in a sleep: something may come that does not end it, such as an acknowledgement that is repeated, or a buffer that is dropped.
    fn needs_regular_looks(&self, link: &Self::Link) -> bool {
        let _ = link;
        true
    }
    /// Returns descriptors that become ready when the peer writes something, or ends.
    fn sleep_interests<'a>(&self, link: &'a Self::Link) -> [PollFd<'a>; 2];
    /// Ends a sleep, after a poll of its descriptors.
    fn end_sleep(
        &self,
        endpoint: &mut Endpoint<Self>,
        polled: Result<Polled, OsError>,
        fds: [PollFd<'_>; 2],
    ) -> SleepEnd;
    /// Sleeps until the peer writes something, for at most `timeout_ns`.
    fn sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> SleepEnd {
        let sleep_ns = match self.begin_sleep(endpoint, timeout_ns) {
            Ok(sleep_ns) => sleep_ns,
            Err(end) => return end,
        };
        let mut fds = self.sleep_interests(endpoint.link());
        let polled = poll(&mut fds, sleep_ns);
        // SAFETY: the link, which has the descriptors, is borrowed with the endpoint until the end of this function.
        let fds = fds.map(|fd| unsafe { fd.without_borrow() });
        self.end_sleep(endpoint, polled, fds)
    }
}
