//! Reasons for the end of a client.

use crate::connection::peer;
use crate::connection::session::Session;
use crate::exit::Failure;
use crate::protocol::{Role, Violation};
use crate::rperf::link::MessageError;
use superpipe::{Error, ErrorKind, Reason};

/// Cause for which a client ends.
pub(super) enum Stop {
    /// A failure that it is told of.
    Tell(Failure),
    /// It has ended, or failed by itself, and may have sent a report.
    Ask(Failure),
    /// Nothing can be said.
    Lost(Failure),
}

pub(super) fn stop(session: &Session<'_>, error: MessageError) -> Stop {
    match error {
        MessageError::Local(failure) => Stop::Tell(failure),
        MessageError::Library(error) => of_error(session, &error),
        MessageError::Unexpected => Stop::Ask(unexpected()),
    }
}

pub(super) fn of_error(session: &Session<'_>, error: &Error) -> Stop {
    match error.kind() {
        ErrorKind::Closed(reason) | ErrorKind::Rejected(reason) | ErrorKind::Cancelled(reason) => {
            Stop::Ask(peer::failure_of_reason(reason, Role::Client))
        }
        ErrorKind::TooSmall => Stop::Ask(unexpected()),
        _ => Stop::Lost(session.failure(error)),
    }
}

/// Returns the failure that the reason of a close tells, if that is more than that it closed.
pub(super) fn told_by(error: &Error) -> Option<Failure> {
    match error.kind() {
        ErrorKind::Closed(reason) if ![Reason::DONE, Reason::GIVEN_UP].contains(&reason) => {
            Some(peer::failure_of_reason(reason, Role::Client))
        }
        _ => None,
    }
}

pub(super) fn unexpected() -> Failure {
    peer::failure_of_violation(Violation("sent another message than the expected one"))
}

pub(super) fn broken(violation: Violation) -> Stop {
    Stop::Tell(peer::failure_of_violation(violation))
}
