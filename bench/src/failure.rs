//! Failures of a limit program: one line each, and the exit code that all of superpipe's tools use for its kind.

use core::fmt;
use std::io;
use std::process::ExitCode;

/// The cause that ended a measurement early.
#[derive(Debug)]
pub enum Failure {
    /// the command line asks for something that cannot be measured
    Usage(String),
    /// the other process made no progress for the seconds given
    Timeout(u64),
    /// the other process ended
    PeerLost,
    /// a message arrived with the wrong contents
    Integrity(String),
    /// the operating system refused: the attempt, and its error
    Os(&'static str, io::Error),
}

impl Failure {
    /// The exit code of this kind of failure.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Timeout(_) => 4,
            Self::PeerLost => 5,
            Self::Integrity(_) => 6,
            Self::Os(..) => 8,
        }
    }

    /// Prints the failure, if it is one, and returns the exit code of `main`.
    pub fn report(outcome: Result<(), Self>) -> ExitCode {
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("error: {failure}");
                ExitCode::from(failure.code())
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) => write!(f, "{why}"),
            Self::Timeout(seconds) => write!(f, "the other process made no progress for {seconds} s"),
            Self::PeerLost => write!(f, "the other process ended"),
            Self::Integrity(what) => write!(f, "wrong contents: {what}"),
            Self::Os(tried, error) => write!(f, "cannot {tried}: {error}"),
        }
    }
}
