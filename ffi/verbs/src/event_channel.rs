//! Event channels, on which rdma_cm reports the events of ids. Their descriptors never block.
//!
//! librdmacm writes into an id while it takes an event, so all calls with ids of one channel take turns. Only connecting and
//! closing makes such calls. A call that waits, as `rdma_connect` may on iWARP, holds up its own channel.

use super::error::Error;
use super::library::{Verbs, rdmacm, verbs};
use super::return_code::made;
use super::sys::{Rdmacm, rdma_event_channel};
use super::wait::never_block;
use core::cmp::Ordering;
use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An event channel, which lives as long as this handle and every id on it.
#[derive(Clone, Debug)]
pub struct EventChannel(Arc<Inner>);

struct Inner {
    cm: &'static Rdmacm,
    verbs: &'static Verbs,
    raw: NonNull<rdma_event_channel>,
    turn: Mutex<()>,
}

// SAFETY: calls on it take turns, and its descriptor never changes.
unsafe impl Send for Inner {}
// SAFETY: calls on it take turns by the mutex, and its descriptor never changes.
unsafe impl Sync for Inner {}

impl EventChannel {
    /// Makes an event channel.
    ///
    /// # Errors
    /// A library is missing, the kernel has no RDMA, or there is no device.
    pub fn create() -> Result<Self, Error> {
        Self::of(rdmacm()?, verbs()?)
    }

    pub(super) fn of(cm: &'static Rdmacm, verbs: &'static Verbs) -> Result<Self, Error> {
        // SAFETY: the call takes nothing.
        let raw = unsafe { cm.rdma_create_event_channel() };
        let raw = made(raw, "rdma_create_event_channel", || "make an event channel")?;
        let channel = Self(Arc::new(Inner { cm, verbs, raw, turn: Mutex::new(()) }));
        never_block(channel.as_fd())?;
        Ok(channel)
    }

    /// Makes librdmacm close devices that were removed. It keeps every device open that an id was ever bound to, and the kernel delays
    /// the removal of a device whose driver cannot take it away from a process (rxe, siw). librdmacm notices removed devices only when
    /// it lists all of them, which opens the others; if none is left it does not notice.
    pub fn close_lost_devices(&self) {
        let _turn = self.take_turn();
        let mut count = 0;
        // SAFETY: the pointer is to a local.
        let devices = unsafe { self.cm().rdma_get_devices(&raw mut count) };
        if !devices.is_null() {
            // SAFETY: the library has just made the list.
            unsafe { self.cm().rdma_free_devices(devices) };
        }
    }

    /// Makes another channel of the same library.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn another(&self) -> Result<Self, Error> {
        Self::of(self.cm(), self.verbs())
    }

    /// Held during every call into librdmacm that takes an id or an event of this channel.
    pub(super) fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.0.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the turns of two channels, in the order of their addresses, so that no two threads wait for each other.
    pub(super) fn take_turns<'a>(
        &'a self,
        other: &'a Self,
    ) -> (MutexGuard<'a, ()>, Option<MutexGuard<'a, ()>>) {
        match self.raw().cmp(&other.raw()) {
            Ordering::Less => (self.take_turn(), Some(other.take_turn())),
            Ordering::Equal => (self.take_turn(), None),
            Ordering::Greater => (other.take_turn(), Some(self.take_turn())),
        }
    }

    pub(super) fn cm(&self) -> &'static Rdmacm {
        self.0.cm
    }

    pub(super) fn verbs(&self) -> &'static Verbs {
        self.0.verbs
    }

    pub(super) fn raw(&self) -> *mut rdma_event_channel {
        self.0.raw.as_ptr()
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is borrowed, and while it lives its descriptor is open and never changes.
        unsafe { BorrowedFd::borrow_raw((*self.raw()).fd) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: it was made here, and ids on it held it, and are gone.
        unsafe { self.cm.rdma_destroy_event_channel(self.raw.as_ptr()) };
    }
}

impl core::fmt::Debug for Inner {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:p}", self.raw)
    }
}
