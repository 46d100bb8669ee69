//! Protection domains: MRs and QPs work together only in the same one. With one per connection no peer reaches the memory of
//! another.

use super::context::Context;
use super::error::Error;
use super::return_code::made;
use super::sys::ibv_pd;
use core::ptr::NonNull;
use std::sync::Arc;

/// A protection domain, which lives as long as this handle and everything made in it.
#[derive(Clone, Debug)]
pub struct Pd(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    raw: NonNull<ibv_pd>,
    context: Context,
}

// SAFETY: libibverbs' functions may be called from any thread (verbs(7)), and the fields never change.
unsafe impl Send for Inner {}
// SAFETY: libibverbs' functions may be called from several threads at a time (verbs(7)), and the fields never change.
unsafe impl Sync for Inner {}

impl Pd {
    /// Allocates a protection domain.
    ///
    /// # Errors
    /// The device has no more.
    pub fn alloc(context: &Context) -> Result<Self, Error> {
        // SAFETY: the context is open.
        let raw = unsafe { context.verbs().required.ibv_alloc_pd(context.raw()) };
        let raw = made(raw, "ibv_alloc_pd", || format!("make a protection domain on {}", context.name()))?;
        Ok(Self(Arc::new(Inner { raw, context: context.clone() })))
    }

    /// Returns its device.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    pub(super) fn raw(&self) -> *mut ibv_pd {
        self.0.raw.as_ptr()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: it was made here, and MRs and QPs in it held it, and are gone. A failure leaves it to the context.
        let _ = unsafe { self.context.verbs().required.ibv_dealloc_pd(self.raw.as_ptr()) };
    }
}
