//! A completion queue. Polling it allocates nothing and makes no system call.

use super::comp_channel::{CompChannel, CompEvent};
use super::context::Context;
use super::error::Error;
use super::return_code::{done, failed, made};
use super::sys::{ibv_cq, ibv_wc};
use super::wc::Wc;
use core::ffi::c_int;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

type Poll = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
type RequestNotify = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;

/// A completion queue, which lives as long as this handle and every QP that uses it.
#[derive(Clone, Debug)]
pub struct Cq(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    raw: NonNull<ibv_cq>,
    poll: Poll,
    request_notify: RequestNotify,
    number: usize,
    depth: u32,
    channel: Option<CompChannel>,
    context: Context,
}

// SAFETY: the library's functions on it may be called from any thread at the same time (verbs(7)), and the fields never
// change.
unsafe impl Send for Inner {}
// SAFETY: libibverbs' functions on it may be called from several threads at a time (verbs(7)), and the fields never change.
unsafe impl Sync for Inner {}

impl Cq {
    /// Makes a queue for at least `depth` completions, whose events go to `channel`.
    ///
    /// # Errors
    /// The device has no more, has none so deep, or the channel is of another device.
    pub fn create(context: &Context, depth: u32, channel: Option<&CompChannel>) -> Result<Self, Error> {
        if let Some(channel) = channel {
            context
                .check_same(channel.context(), "a CQ and its completion channel are of different devices")?;
        }
        let number = next_number();
        let events_to = channel.map_or(ptr::null_mut(), CompChannel::raw);
        let count = c_int::try_from(depth).unwrap_or(c_int::MAX);
        let cookie = ptr::without_provenance_mut(number);
        // SAFETY: the context is open, the channel lives and is of this context, and the cookie is only given back.
        let raw =
            unsafe { context.verbs().required.ibv_create_cq(context.raw(), count, cookie, events_to, 0) };
        let raw = made(raw, "ibv_create_cq", || format!("make a completion queue of {depth}"))?;
        // SAFETY: an open context's operations were filled in by its driver, and are not changed.
        let ops = unsafe { &(*context.raw()).ops };
        let (Some(poll), Some(request_notify)) = (ops.poll_cq, ops.req_notify_cq) else {
            // SAFETY: ibv_create_cq has just made the queue, and nobody else has it.
            let _ = unsafe { context.verbs().required.ibv_destroy_cq(raw.as_ptr()) };
            return Err(Error::Mismatch("this device's driver cannot poll completion queues"));
        };
        // SAFETY: the library has just made it; its depth does not change.
        let depth = u32::try_from(unsafe { (*raw.as_ptr()).cqe }).unwrap_or(depth);
        let (channel, context) = (channel.cloned(), context.clone());
        Ok(Self(Arc::new(Inner { raw, poll, request_notify, number, depth, channel, context })))
    }

    /// Polls for completions and returns their number, at most the length of `into`.
    ///
    /// # Errors
    /// The device reports that the queue is broken or has overflowed.
    #[inline]
    pub fn poll(&self, into: &mut [Wc]) -> Result<usize, Error> {
        let room = c_int::try_from(into.len()).unwrap_or(c_int::MAX);
        // SAFETY: the queue lives, and `Wc` is a transparent ibv_wc, of which there is this much room.
        let count = unsafe { (self.0.poll)(self.raw(), room, into.as_mut_ptr().cast()) };
        usize::try_from(count).map_err(|_| broken(count))
    }

    /// Requests an event for the next completion. Poll once more after this and before sleeping: completions that came before
    /// make no event.
    ///
    /// # Errors
    /// The device refuses.
    pub fn request_notify(&self) -> Result<(), Error> {
        // SAFETY: the queue lives.
        let answer = unsafe { (self.0.request_notify)(self.raw(), 0) };
        done(answer, "ibv_req_notify_cq", || "ask for a completion event")
    }

    /// Returns true if `event` is of this queue.
    #[must_use]
    pub fn is_source_of(&self, event: CompEvent) -> bool {
        event.number() == self.0.number
    }

    /// Returns the number of completions that it has room for.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.0.depth
    }

    /// Returns the channel of its events.
    #[must_use]
    pub fn channel(&self) -> Option<&CompChannel> {
        self.0.channel.as_ref()
    }

    pub(super) fn context(&self) -> &Context {
        &self.0.context
    }

    pub(super) fn raw(&self) -> *mut ibv_cq {
        self.0.raw.as_ptr()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: it was made here, and QPs on it held it, and are gone. A failure leaves it to the context.
        let _ = unsafe { self.context.verbs().required.ibv_destroy_cq(self.raw.as_ptr()) };
    }
}

/// Returns a number that no other queue has or had.
fn next_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cold]
fn broken(answer: c_int) -> Error {
    failed(answer.saturating_abs(), "ibv_poll_cq", "poll a completion queue")
}
