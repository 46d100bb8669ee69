//! Closing, and how long that is waited for.

use super::{Drive, Driver, Ended, Next, Wait};
use crate::error::Reason;
use crate::fabric::Fabric;
use crate::planted::{Bug, is_planted};

impl<F: Fabric> Driver<F> {
    /// Closes this end, with [`Endpoint::close`](crate::Endpoint::close). [`drive_close`](Self::drive_close) tells when the peer
    /// was told, as far as that goes without waiting for its application.
    pub fn close(&mut self, fabric: &mut F, reason: Reason) {
        self.is_closing = !is_planted(Bug::ClosingForgotten);
        self.endpoint.close(fabric, reason);
    }

    /// Returns true once [`close`](Self::close) was called.
    #[must_use]
    pub const fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns [`Drive::Done`] once the peer was told of the close, and the device owns nothing of ours; with an error if the
    /// peer is gone before.
    pub fn drive_close(&mut self, fabric: &mut F) -> Drive<Result<(), Ended>> {
        if self.is_closed() {
            return Drive::Done(Ok(()));
        }
        if self.progress(fabric) {
            return Drive::Moved;
        }
        if self.peer_is_gone { Drive::Done(Err(Ended::Lost)) } else { Drive::Idle }
    }

    /// One round of waiting for a close: as [`round`](Self::round), of a connection that is closed.
    pub fn close_round(&mut self, wait: &mut Wait, has_moved: bool) -> Next {
        if has_moved { wait.count_busy(&self.pace) } else { self.rest(wait) }
    }

    fn is_closed(&self) -> bool {
        self.endpoint.is_told() && self.endpoint.is_quiescent()
    }
}
