//! A descriptor by which a thread wakes another one that waits for descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use super::OsError;

/// Wakes its owner, from any thread that has a clone.
#[derive(Clone, Debug)]
pub struct Wakeup(Arc<OwnedFd>);

impl Wakeup {
    /// Makes one.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn new() -> Result<Self, OsError> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| OsError::of(errno, "cannot make a descriptor to wake a thread (eventfd)"))?;
        Ok(Self(Arc::new(fd)))
    }

    /// Makes the descriptor ready.
    pub fn wake(&self) {
        // A full counter is ready already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes the descriptor ready no more, until the next [`wake`](Self::wake).
    #[cfg(feature = "verbs")]
    pub(crate) fn quiet(&self) {
        // An empty counter is not ready.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
