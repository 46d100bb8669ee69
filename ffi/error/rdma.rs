//! Kinds of the errors of RDMA.

use super::{Error, ErrorKind};
use crate::fabric::rdma::ConnectError;
use superpipe_verbs as verbs;

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::Interrupted => return Self::interrupted(),
            ConnectError::Verbs(error) => kind_of(error),
            ConnectError::Os(error) => kind_of_errno(error.errno()),
            ConnectError::NotFound(_) | ConnectError::Nobody | ConnectError::Refused(_) => ErrorKind::Connect,
            ConnectError::Lost(_) => ErrorKind::PeerLost,
            ConnectError::Violation(_) => ErrorKind::Protocol,
            ConnectError::TimedOut => ErrorKind::Timeout,
            ConnectError::Packet(packet) => return Self::of_packet(packet, error.to_string()),
            ConnectError::Budget(_) => ErrorKind::Limit,
        };
        Self::new(kind, error.to_string())
    }
}

fn kind_of(error: &verbs::Error) -> ErrorKind {
    use verbs::Error as Verbs;
    match error {
        Verbs::Verb(error) => kind_of_errno(error.errno()),
        Verbs::Limit(_) => ErrorKind::Limit,
        Verbs::Connection(_) | Verbs::Unexpected { .. } => ErrorKind::Connect,
        Verbs::TimedOut => ErrorKind::Timeout,
        Verbs::Interrupted => ErrorKind::Interrupted,
        // No library, no such device or GID, a port that is down, objects that do not fit.
        _ => ErrorKind::Device,
    }
}

/// Kind of an error by its number: the address or the way, a limit, or else the device.
fn kind_of_errno(errno: i32) -> ErrorKind {
    match errno {
        libc::EADDRINUSE
        | libc::EADDRNOTAVAIL
        | libc::ECONNREFUSED
        | libc::ECONNRESET
        | libc::EHOSTUNREACH
        | libc::ENETUNREACH
        | libc::ETIMEDOUT => ErrorKind::Connect,
        libc::ENOMEM | libc::EAGAIN | libc::EMFILE | libc::ENFILE => ErrorKind::Limit,
        _ => ErrorKind::Device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use superpipe_core::driver::setup::PacketError;
    use superpipe_verbs::VerbError;

    #[test]
    fn each_failure_has_its_kind_and_keeps_its_line() {
        let verb = |errno| verbs::Error::Verb(VerbError::new(errno, "ibv_reg_mr"));
        for (error, kind) in [
            (verbs::Error::NoDevice, ErrorKind::Device),
            (verbs::Error::BadGid("no GID 7".into()), ErrorKind::Device),
            (
                verbs::Error::NoSuchDevice { name: "x".into(), present: vec!["rxe0".into()] },
                ErrorKind::Device,
            ),
            (verb(libc::ENOMEM), ErrorKind::Limit),
            (verb(libc::ENODEV), ErrorKind::Device),
            (verb(libc::EPERM), ErrorKind::Device),
            (verbs::Error::Limit(VerbError::new(libc::EPERM, "ibv_reg_mr")), ErrorKind::Limit),
            (verb(libc::EADDRINUSE), ErrorKind::Connect),
            (verb(libc::EIO), ErrorKind::Device),
        ] {
            let text = error.to_string();
            let error = Error::from(ConnectError::Verbs(error));
            assert_eq!((error.kind(), error.to_string()), (kind, text));
        }
        for (error, kind) in [
            (ConnectError::Nobody, ErrorKind::Connect),
            (ConnectError::NotFound("no such name".into()), ErrorKind::Connect),
            (ConnectError::Lost("while connecting"), ErrorKind::PeerLost),
            (ConnectError::TimedOut, ErrorKind::Timeout),
            (ConnectError::Interrupted, ErrorKind::Interrupted),
            (ConnectError::Packet(PacketError::Version { theirs: 9 }), ErrorKind::Version),
        ] {
            assert_eq!(Error::from(error.clone()).kind(), kind, "{error}");
        }
    }
}
