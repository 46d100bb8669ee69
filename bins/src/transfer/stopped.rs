//! Causes for which a stream ends early, and the reaction of this end.

use crate::exit::{Code, Failure};
use crate::transfer::run::Run;
use superpipe::io::Digest;
use superpipe::{Connection, Error, ErrorKind, Reason, StreamError};

/// Cause for which a stream ended early.
#[derive(Debug)]
pub enum Stopped {
    /// Reading or writing failed at this end, and the peer does not know yet.
    Here(Failure),
    /// The peer cancelled, rejected or closed, and may send a report.
    ByPeer(Reason),
    /// The connection failed, or a signal arrived: there is no peer, or no time, for a report.
    Lost(Failure),
}

impl Stopped {
    /// Returns the code for the peer; `None` if the peer itself ended the stream.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Here(failure) | Self::Lost(failure) => Some(failure.code),
            Self::ByPeer(_) => None,
        }
    }
}

impl Run<'_> {
    /// Returns the cause for an error of the library.
    #[must_use]
    pub fn stopped(&self, error: &Error) -> Stopped {
        match error.kind() {
            ErrorKind::Rejected(reason) | ErrorKind::Cancelled(reason) | ErrorKind::Closed(reason) => {
                Stopped::ByPeer(reason)
            }
            _ => Stopped::Lost(self.session.failure(error)),
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
    ) -> Result<usize, Stopped> {
        if let Some(failure) = self.session.signals.failure() {
            return Err(Stopped::Lost(failure));
        }
        let bytes = step().map_err(|error| match error {
            StreamError::Local(error) => Stopped::Here(Failure::local_io(doing(), &error)),
            StreamError::Connection(error) => self.stopped(&error),
        })?;
        self.meter.add(bytes);
        Ok(bytes)
    }

    /// Ends the stream's part of the run: reports a failure of this end to the peer, or receives the peer's report.
    ///
    /// # Errors
    /// The stream ended early.
    pub fn settle(
        &self,
        streamed: Result<(), Stopped>,
        connection: &mut Connection,
        digest: &Digest,
    ) -> Result<(), Failure> {
        streamed.map_err(|stopped| match stopped {
            Stopped::Here(failure) => self.session.give_up(connection, failure, digest),
            Stopped::ByPeer(reason) => self.session.peer_gave_up(connection, reason),
            Stopped::Lost(failure) => failure,
        })
    }
}
