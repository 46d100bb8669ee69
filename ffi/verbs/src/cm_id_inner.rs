//! An id of rdma_cm itself, which a [`Context`](super::Context) that it found keeps alive.

use super::event_channel::EventChannel;
use super::sys::rdma_cm_id;
use core::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// An id, destroyed when nothing needs it any more.
#[derive(Debug)]
pub(super) struct IdInner {
    pub(super) raw: NonNull<rdma_cm_id>,
    pub(super) number: usize,
    pub(super) channel: Mutex<EventChannel>,
}

// SAFETY: what reads or writes the id does so while it has the turn.
unsafe impl Send for IdInner {}
// SAFETY: every access to the id happens while its thread has the turn of the channel.
unsafe impl Sync for IdInner {}

impl Drop for IdInner {
    fn drop(&mut self) {
        let channel = self.channel.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _turn = channel.take_turn();
        // SAFETY: it is ours, and what was made from it held it, and is gone. Every event is acknowledged as it is taken, so
        // that the call does not wait. A failure leaves it to the process's end.
        let _ = unsafe { channel.cm().rdma_destroy_id(self.raw.as_ptr()) };
    }
}
