//! Failure of a stream between a connection and a file.

use core::fmt;
use std::io;

use super::error::Error;

/// Failure of the connection, or of the source or sink at this end.
#[derive(Debug)]
pub enum StreamError {
    /// The connection, or the other end.
    Connection(Error),
    /// The source or sink on this side.
    Local(io::Error),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::Local(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StreamError {}

impl From<Error> for StreamError {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}
