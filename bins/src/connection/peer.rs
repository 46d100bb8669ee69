//! Conversion of the library's errors and the peer's reports to failures of this tool.

use crate::command_line::options::with_memory_flags;
use crate::exit::{Code, Failure};
use crate::protocol::{Report, Role, Violation};
use crate::signals::Signals;
use superpipe::{Error, ErrorKind, Reason};

/// Returns the failure for an error of the library. `peer` is the tool at the other end.
#[must_use]
pub fn failure(error: &Error, peer: Role, signals: &Signals) -> Failure {
    let code = match error.kind() {
        ErrorKind::Usage => Code::Usage,
        ErrorKind::Connect => Code::Connect,
        ErrorKind::Timeout => Code::Timeout,
        ErrorKind::PeerLost => Code::PeerLost,
        ErrorKind::TooSmall | ErrorKind::Protocol | ErrorKind::Version | ErrorKind::Auth => Code::Protocol,
        ErrorKind::Interrupted => return signals.failure().unwrap_or_else(|| interrupted(error)),
        ErrorKind::Closed(reason) | ErrorKind::Cancelled(reason) | ErrorKind::Rejected(reason) => {
            return failure_of_reason(reason, peer);
        }
        _ => Code::Device,
    };
    Failure::new(code, with_flags(error))
}

/// Returns the error's text, with this tool's flags for what the library names.
fn with_flags(error: &Error) -> String {
    let text = error.to_string();
    // Of other kinds, a text may have a path that contains the word.
    if error.kind() == ErrorKind::Auth || text.starts_with("over RDMA") {
        text.replace("peer_uid", "--peer-uid")
    } else {
        with_memory_flags(text)
    }
}

/// Returns the failure for a peer that closed, cancelled or rejected with this reason, and sent no report.
#[must_use]
pub fn failure_of_reason(reason: Reason, peer: Role) -> Failure {
    let peer_name = peer.tool();
    let work = peer.work();
    let text = match Code::from_number(reason.0) {
        Some(Code::Interrupted) => {
            format!("{peer_name} was interrupted (SIGINT) before the {work} was complete")
        }
        Some(Code::Terminated) => format!("{peer_name} was ended (SIGTERM) before the {work} was complete"),
        Some(Code::HungUp) => format!("{peer_name} was ended (SIGHUP) before the {work} was complete"),
        Some(Code::Done) => format!("{peer_name} closed the connection before the {work} was complete"),
        Some(code) => {
            format!("{peer_name} ended the connection: {} (code {})", code.meaning(), code.number())
        }
        None if reason == Reason::GIVEN_UP => format!("{peer_name} gave up the transfer"),
        None => format!("{peer_name} gave up for an unknown reason ({})", reason.0),
    };
    Failure::new(own_code(reason.0), text)
}

/// Returns the failure that the peer reports in its TRAILER or VERDICT.
#[must_use]
pub fn failure_of_report(report: &Report, peer: Role) -> Failure {
    if report.text.is_empty() {
        return failure_of_reason(Reason(report.code.into()), peer);
    }
    Failure::new(own_code(report.code.into()), format!("{}: {}", peer.part(), report.text))
}

/// Returns the failure for a message that violates the tools' own protocol.
#[must_use]
pub fn failure_of_violation(violation: Violation) -> Failure {
    Failure::new(Code::Protocol, format!("the peer {}", violation.0))
}

/// Returns our exit code for that of the peer.
fn own_code(peers: u32) -> Code {
    match Code::from_number(peers) {
        Some(code @ (Code::Timeout | Code::Integrity | Code::Protocol | Code::LocalIo | Code::Device)) => {
            code
        }
        _ => Code::PeerLost,
    }
}

fn interrupted(error: &Error) -> Failure {
    Failure::new(Code::Interrupted, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_code_maps_to_ours() {
        let codes =
            [0, 2, 3, 4, 5, 6, 7, 8, 9, 101, 129, 130, 143, 1 << 20].map(|code| own_code(code).number());
        assert_eq!(codes, [5, 5, 5, 4, 5, 6, 7, 8, 9, 5, 5, 5, 5, 5]);
        assert_eq!(
            failure_of_reason(Reason(130), Role::Sender).text,
            "rsend was interrupted (SIGINT) before the transfer was complete"
        );
        let report = Report {
            code: 8,
            bytes: 0,
            checksum: 0,
            text: "cannot write to x: no space left on device".into(),
        };
        let failure = failure_of_report(&report, Role::Receiver);
        assert_eq!(
            (failure.code, failure.text.as_str()),
            (Code::LocalIo, "receiver: cannot write to x: no space left on device")
        );
    }
}
