//! An event channel: where rdma_cm tells what became of its ids. Its descriptor never blocks.
//!
//! librdmacm writes into an id while it takes an event, so all calls that are about ids of one channel take turns. They
//! are part of connecting and closing only. A call that waits, as `rdma_connect` may on iWARP, holds up its own channel.

use super::answer::made;
use super::error::Error;
use super::library::{Verbs, rdmacm, verbs};
use super::sys::{Rdmacm, rdma_event_channel};
use super::wait::never_block;
use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An event channel, there for as long as this, or an id on it, lives.
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
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl EventChannel {
    /// Makes one.
    ///
    /// # Errors
    /// When a library is missing, the kernel has no RDMA, or there is no device.
    pub fn create() -> Result<Self, Error> {
        Self::of(rdmacm()?, verbs()?)
    }

    pub(super) fn of(cm: &'static Rdmacm, verbs: &'static Verbs) -> Result<Self, Error> {
        // SAFETY: the call takes nothing.
        let raw = unsafe { cm.rdma_create_event_channel() };
        let raw = made(raw, "rdma_create_event_channel", || "make an event channel")?;
        let channel = Self(Arc::new(Inner { cm, verbs, raw, turn: Mutex::new(()) }));
        never_block(channel.fd())?;
        Ok(channel)
    }

    /// Has librdmacm close the devices that are gone. It keeps each that an id was ever bound to open, and the kernel waits for that
    /// with the removal of a device whose driver cannot take it away from a process (rxe, siw). It looks for those that are gone when
    /// it is asked for all, which opens the others; where none is left it does not look.
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

    /// Makes another, of the same library.
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

    pub(super) fn cm(&self) -> &'static Rdmacm {
        self.0.cm
    }

    pub(super) fn verbs(&self) -> &'static Verbs {
        self.0.verbs
    }

    pub(super) fn raw(&self) -> *mut rdma_event_channel {
        self.0.raw.as_ptr()
    }

    fn fd(&self) -> i32 {
        // SAFETY: the channel lives, and its descriptor never changes.
        unsafe { (*self.raw()).fd }
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open for as long as the channel lives, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.fd()) }
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
