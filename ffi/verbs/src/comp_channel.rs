//! Completion channels: descriptors that become readable when a CQ that requested an event has a completion.

use super::context::Context;
use super::error::Error;
use super::return_code::{errno_of, failed, made};
use super::sys::{ibv_comp_channel, ibv_cq};
use super::wait::{never_block, wait_readable};
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// A completion channel, which lives as long as this handle and every CQ that uses it.
///
/// Its descriptor is for waiting only. An event that is read from a duplicate of it is never acknowledged, and to destroy the CQ
/// waits for that for ever (ibv_get_cq_event(3)).
#[derive(Clone, Debug)]
pub struct CompChannel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    raw: NonNull<ibv_comp_channel>,
    context: Context,
}

// SAFETY: the library's functions on it may be called from any thread (verbs(7)), and the descriptor never changes.
unsafe impl Send for Inner {}
// SAFETY: libibverbs' functions on it may be called from several threads at a time (verbs(7)), and the descriptor never changes.
unsafe impl Sync for Inner {}

/// Event of a CQ that has a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompEvent(usize);

impl CompEvent {
    fn new(cookie: *mut c_void) -> Self {
        Self(cookie.addr())
    }

    /// Number of the queue.
    pub(super) const fn number(self) -> usize {
        self.0
    }
}

impl CompChannel {
    /// Makes a completion channel.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn create(context: &Context) -> Result<Self, Error> {
        // SAFETY: the context is open.
        let raw = unsafe { context.verbs().required.ibv_create_comp_channel(context.raw()) };
        let raw = made(raw, "ibv_create_comp_channel", || "make a completion channel")?;
        let channel = Self(Arc::new(Inner { raw, context: context.clone() }));
        never_block(channel.as_fd())?;
        Ok(channel)
    }

    /// Takes an event, if there is one, and acknowledges it, so that no CQ waits for that when it is
    /// destroyed.
    ///
    /// # Errors
    /// The device is gone.
    pub fn try_event(&self) -> Result<Option<CompEvent>, Error> {
        let (mut cq, mut cookie): (*mut ibv_cq, *mut c_void) = (ptr::null_mut(), ptr::null_mut());
        let required = &self.0.context.verbs().required;
        // SAFETY: the channel lives, and both pointers are to locals.
        let answer = unsafe { required.ibv_get_cq_event(self.raw(), &raw mut cq, &raw mut cookie) };
        match errno_of(answer) {
            Ok(()) => {}
            Err(libc::EAGAIN | libc::EINTR) => return Ok(None),
            Err(errno) => return Err(failed(errno, "ibv_get_cq_event", "take a completion event")),
        }
        // SAFETY: a CQ is not destroyed before the events that it gave out are acknowledged (ibv_get_cq_event(3)), and this
        // one was given out just now.
        unsafe { required.ibv_ack_cq_events(cq, 1) };
        Ok(Some(CompEvent::new(cookie)))
    }

    /// Waits for an event until `deadline`.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Interrupted`], or as for [`try_event`](Self::try_event).
    pub fn next_event(&self, deadline: Instant) -> Result<CompEvent, Error> {
        loop {
            match self.try_event()? {
                Some(event) => return Ok(event),
                None => wait_readable(self.as_fd(), deadline)?,
            }
        }
    }

    pub(super) fn context(&self) -> &Context {
        &self.0.context
    }

    pub(super) fn raw(&self) -> *mut ibv_comp_channel {
        self.0.raw.as_ptr()
    }
}

impl AsFd for CompChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is borrowed, and while it lives its descriptor is open and never changes.
        unsafe { BorrowedFd::borrow_raw((*self.raw()).fd) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: it was made here, and CQs on it held it, and are gone. A failure leaves it to the context.
        let _ = unsafe { self.context.verbs().required.ibv_destroy_comp_channel(self.raw.as_ptr()) };
    }
}
