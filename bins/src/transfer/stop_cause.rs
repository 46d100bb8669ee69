//! Causes for which a stream ends early, and the reaction of this end.

use crate::exit::{Code, Failure};
use crate::transfer::run::Run;
use superpipe::io::Digest;
use superpipe::{Connection, Error, ErrorKind, Reason, StreamError};

/// Cause for which a stream ended early.
#[derive(Debug)]
pub enum StopCause {
    /// Reading or writing failed at this end, and the peer does not know yet.
    Local(Failure),
    /// The peer cancelled, rejected or closed, and may send a report.
    ByPeer(Reason),
    /// The connection failed, or a signal arrived: there is no peer, or no time, for a report.
    ConnectionFailed(Failure),
}

impl StopCause {
    /// Returns the code for the peer; `None` if the peer itself ended the stream.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Local(failure) | Self::ConnectionFailed(failure) => Some(failure.code),
            Self::ByPeer(_) => None,
        }
    }
}

impl Run<'_> {
    /// Returns the cause for an error of the library.
    #[must_use]
    pub fn stop_cause(&self, error: &Error) -> StopCause {
        match error.kind() {
            ErrorKind::Rejected(reason) | ErrorKind::Cancelled(reason) | ErrorKind::Closed(reason) => {
                StopCause::ByPeer(reason)
            }
            _ => StopCause::ConnectionFailed(self.session.failure(error)),
        }
    }

    /// Performs one step of a stream, unless a signal arrived. This check is needed because the library checks for signals only
    /// in waits, and a file that is always ready causes none.
    ///
    /// # Errors
    /// The stream cannot go on. `doing` begins the text of a local failure: "cannot read x".
    pub fn step(
        &self,
        doing: impl FnOnce() -> String,
        step: impl FnOnce() -> Result<usize, StreamError>,
    ) -> Result<usize, StopCause> {
        if let Some(failure) = self.session.signals.failure() {
            return Err(StopCause::ConnectionFailed(failure));
        }
        let bytes = step().map_err(|error| match error {
            StreamError::Local(error) => StopCause::Local(Failure::local_io(doing(), &error)),
            StreamError::Connection(error) => self.stop_cause(&error),
        })?;
        self.meter.add(bytes);
        Ok(bytes)
    }

    /// Ends the stream's part of the run: reports a failure of this end to the peer, or receives the peer's report.
    ///
    /// # Errors
    /// The stream ended early.
    pub fn end_stream(
        &self,
        streamed: Result<(), StopCause>,
        connection: &mut Connection,
        digest: &Digest,
    ) -> Result<(), Failure> {
        streamed.map_err(|stopped| match stopped {
            StopCause::Local(failure) => self.session.report_failure(connection, failure, digest),
            StopCause::ByPeer(reason) => self.session.receive_failure(connection, reason),
            StopCause::ConnectionFailed(failure) => failure,
        })
    }
}
