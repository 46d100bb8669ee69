//! Why a stream did not end as it should, and what both of its ends do about that.

use crate::exit::{Code, Failure};
use crate::tool::Run;
use superpipe::io::Digest;
use superpipe::{Connection, Error, ErrorKind, Reason, StreamError};

/// Why a stream did not end as it should.
#[derive(Debug)]
pub enum Stopped {
    /// What is read or written failed here, and the peer does not know yet.
    Here(Failure),
    /// The peer gave it up or does not want it, and has more to say.
    ByPeer(Reason),
    /// The connection failed, or a signal came: there is nobody, or no time, to tell.
    Lost(Failure),
}

impl Stopped {
    /// What the other end of the stream is to be told, where it did not say it itself.
    #[must_use]
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Here(failure) | Self::Lost(failure) => Some(failure.code),
            Self::ByPeer(_) => None,
        }
    }
}

impl Run<'_> {
    /// Why the library went on no further.
    #[must_use]
    pub fn stopped(&self, error: &Error) -> Stopped {
        match error.kind() {
            ErrorKind::Rejected(reason) | ErrorKind::Cancelled(reason) | ErrorKind::Closed(reason) => {
                Stopped::ByPeer(reason)
            }
            _ => Stopped::Lost(self.session.failure(error)),
        }
    }

    /// One step of a stream, unless a signal came: a file that is always ready never waits, where the library would look.
    ///
    /// # Errors
    /// When the stream is to go on no further; what failed here did so while `doing` ("cannot read x").
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

    /// What a stream's end makes of the run: tells or hears the rest where it was none.
    ///
    /// # Errors
    /// When the stream did not end as it should.
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
