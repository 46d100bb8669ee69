//! Readiness: an end of superpipe as a source of the runtime's events.

use core::task::{Context, Poll, ready};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use superpipe::{Arming, Connecting, Error, ErrorKind, WaitableConnection, WaitableListener};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::coop;

/// An end with a descriptor to wait for.
///
/// # Safety
/// The descriptor stays open, and the same, as long as the value lives.
pub(crate) unsafe trait Waitable: AsFd {}

// SAFETY: it owns a set of descriptors, and returns that of the set.
unsafe impl Waitable for WaitableConnection {}
// SAFETY: the same.
unsafe impl Waitable for WaitableListener {}
// SAFETY: the same.
unsafe impl Waitable for Connecting {}

/// An end that the runtime waits for.
#[derive(Debug)]
pub(crate) struct Source<T: Waitable>(AsyncFd<Raw<T>>);

/// Gives what has a descriptor a raw one, which `AsyncFd` asks for.
#[derive(Debug)]
struct Raw<T>(T);

impl<T: Waitable> AsRawFd for Raw<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl<T: Waitable> Source<T> {
    /// Registers an end with the current runtime.
    ///
    /// # Errors
    /// `Usage`: there is no runtime. `Os`: the system can watch no more. The end is in the error.
    pub(crate) fn new(end: T) -> Result<Self, (T, Error)> {
        if tokio::runtime::Handle::try_current().is_err() {
            let text = "no tokio runtime is here: call it in one, with its I/O enabled";
            return Err((end, Error::new(ErrorKind::Usage, text)));
        }
        // SAFETY: 1. the descriptor is open and the same as long as the end lives (`Waitable`), which the result owns. 2. Nothing here puts another end in its place.
        let registered = unsafe { AsyncFd::register_with_interest(Raw(end), Interest::READABLE) };
        registered.map(Self).map_err(|error| {
            let (Raw(end), cause) = error.into_parts();
            (end, Error::new(ErrorKind::Os, format!("the runtime cannot wait for it: {cause}")))
        })
    }

    pub(crate) fn get_ref(&self) -> &T {
        &self.0.get_ref().0
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        &mut self.0.get_mut().0
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().0
    }

    /// Waits until the descriptor became ready since this was last so.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match ready!(self.0.poll_read_ready_mut(cx)) {
            Ok(mut guard) => {
                guard.clear_ready();
                Poll::Ready(Ok(()))
            }
            Err(cause) => {
                Poll::Ready(Err(Error::new(ErrorKind::Os, format!("the runtime has ended: {cause}"))))
            }
        }
    }

    /// Tries until there is a result. `arm` asks for a wake-up.
    pub(crate) fn poll_until<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&mut T) -> Result<Option<R>, Error>,
        arm: impl Fn(&mut T) -> Arming,
    ) -> Poll<Result<R, Error>> {
        let progress = ready!(coop::poll_proceed(cx));
        for _ in 0..BUSY_MAX {
            if let Some(result) = attempt(self.get_mut()).transpose() {
                progress.made_progress();
                return Poll::Ready(result);
            }
            if arm(self.get_mut()) != Arming::Busy {
                ready!(self.poll_ready(cx))?;
            }
        }
        // Others have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Attempts in one poll of a future. One moves up to about 1 MiB.
pub(crate) const BUSY_MAX: u32 = 16;
