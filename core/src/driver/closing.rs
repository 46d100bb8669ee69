//! Close of a connection, and the wait for it.

use super::{Drive, Driver, Ended, Next, Wait};
use crate::error::Reason;
use crate::fabric::Fabric;

impl<F: Fabric> Driver<F> {
    /// Closes this end, with [`Endpoint::close`](crate::Endpoint::close). [`drive_close`](Self::drive_close) reports when CLOSE
    /// was written and the device is done, which does not need the peer's application.
    pub fn close(&mut self, fabric: &mut F, reason: Reason) {
        self.is_closing = true;
        planted!(ClosingForgotten => self.is_closing = false);
        self.endpoint.close(fabric, reason);
    }

    /// Returns true once [`close`](Self::close) was called.
    #[must_use]
    pub const fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns [`Drive::Done`] once CLOSE is written, and the device owns no memory of this end; with an error if the peer is gone
    /// before.
    pub fn drive_close(&mut self, fabric: &mut F) -> Drive<Result<(), Ended>> {
        if self.is_closed() {
            return Drive::Done(Ok(()));
        }
        if self.progress(fabric) {
            return Drive::Moved;
        }
        if self.peer_is_gone { Drive::Done(Err(Ended::Lost)) } else { Drive::Idle }
    }

    /// Makes one round of a wait for a close, as [`round`](Self::round) does for open connections.
    pub fn close_round(&mut self, wait: &mut Wait, has_moved: bool) -> Next {
        if has_moved { wait.count_busy(&self.pace) } else { self.rest(wait) }
    }

    fn is_closed(&self) -> bool {
        self.endpoint.is_flushed() && self.endpoint.is_quiescent()
    }
}
