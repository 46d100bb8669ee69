//! Kinds of the events of rdma_cm, and the failures that some of them report (`rdma_get_cm_event(3)`).

use super::remedy::SOFTWARE_DEVICE;
use super::sys::rdma_cm_event_type as Type;
use crate::verb_error::VerbError;
use core::ffi::c_int;
use core::{error, fmt};

/// The kind of an event, by the header's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CmEventKind(pub u32);

/// Reason why no connection came about, or why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CmFailure {
    /// Kind of the event that reported it.
    pub kind: CmEventKind,
    /// As in [`CmEvent::status`](super::CmEvent::status).
    pub status: i32,
}

/// Names, by number.
const NAMES: [&str; 16] = [
    "ADDR_RESOLVED",
    "ADDR_ERROR",
    "ROUTE_RESOLVED",
    "ROUTE_ERROR",
    "CONNECT_REQUEST",
    "CONNECT_RESPONSE",
    "CONNECT_ERROR",
    "UNREACHABLE",
    "REJECTED",
    "ESTABLISHED",
    "DISCONNECTED",
    "DEVICE_REMOVAL",
    "MULTICAST_JOIN",
    "MULTICAST_ERROR",
    "ADDR_CHANGE",
    "TIMEWAIT_EXIT",
];

/// InfiniBand's reasons for a refusal (`enum ib_cm_rej_reason` of the kernel's `rdma/ib_cm.h`): no QP, no resources, timeout while
/// waiting for our answer, no listener, QP number of an old connection, and a program that refuses, or that ended while we were
/// waiting.
const REASON_NO_QP: i32 = 1;
const REASON_NO_RESOURCES: i32 = 3;
const REASON_TIMEOUT: i32 = 4;
const REASON_NOBODY: i32 = 8;
const REASON_STALE: i32 = 10;
const REASON_CONSUMER: i32 = 28;

impl CmEventKind {
    /// A device that reaches the peer was found.
    pub const ADDR_RESOLVED: Self = Self(Type::RDMA_CM_EVENT_ADDR_RESOLVED.0);
    /// The route is known.
    pub const ROUTE_RESOLVED: Self = Self(Type::RDMA_CM_EVENT_ROUTE_RESOLVED.0);
    /// A client wants to connect.
    pub const CONNECT_REQUEST: Self = Self(Type::RDMA_CM_EVENT_CONNECT_REQUEST.0);
    /// The peer accepts: make the QP ready and establish. iWARP has no such event.
    pub const CONNECT_RESPONSE: Self = Self(Type::RDMA_CM_EVENT_CONNECT_RESPONSE.0);
    /// The peer refuses.
    pub const REJECTED: Self = Self(Type::RDMA_CM_EVENT_REJECTED.0);
    /// The peer does not answer.
    pub const UNREACHABLE: Self = Self(Type::RDMA_CM_EVENT_UNREACHABLE.0);
    /// The connection is established.
    pub const ESTABLISHED: Self = Self(Type::RDMA_CM_EVENT_ESTABLISHED.0);
    /// The peer disconnected, or died.
    pub const DISCONNECTED: Self = Self(Type::RDMA_CM_EVENT_DISCONNECTED.0);
    /// The device is gone: destroy the id.
    pub const DEVICE_REMOVAL: Self = Self(Type::RDMA_CM_EVENT_DEVICE_REMOVAL.0);
    /// The QP's number is free again after a disconnect.
    pub const TIMEWAIT_EXIT: Self = Self(Type::RDMA_CM_EVENT_TIMEWAIT_EXIT.0);

    /// Returns true if there is no connection, or no longer.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(
            Type(self.0),
            Type::RDMA_CM_EVENT_ADDR_ERROR
                | Type::RDMA_CM_EVENT_ROUTE_ERROR
                | Type::RDMA_CM_EVENT_CONNECT_ERROR
                | Type::RDMA_CM_EVENT_UNREACHABLE
                | Type::RDMA_CM_EVENT_REJECTED
                | Type::RDMA_CM_EVENT_DISCONNECTED
                | Type::RDMA_CM_EVENT_DEVICE_REMOVAL
        )
    }
}

impl fmt::Display for CmEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(self.0 as usize) {
            Some(name) => write!(f, "RDMA_CM_EVENT_{name}"),
            None => write!(f, "event {}", self.0),
        }
    }
}

impl CmFailure {
    /// Returns true if the host answers, and nobody listens at the port.
    #[must_use]
    pub fn is_nobody_listening(&self) -> bool {
        self.kind == CmEventKind::REJECTED && matches!(self.status, REASON_NOBODY | REFUSED)
    }

    /// Returns true if another attempt may end otherwise: nobody answered in time, the peer had no room, or it went away.
    /// It does not consider the private data of a refusal.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match Type(self.kind.0) {
            Type::RDMA_CM_EVENT_DISCONNECTED | Type::RDMA_CM_EVENT_DEVICE_REMOVAL => true,
            Type::RDMA_CM_EVENT_ADDR_ERROR
            | Type::RDMA_CM_EVENT_ROUTE_ERROR
            | Type::RDMA_CM_EVENT_CONNECT_ERROR
            | Type::RDMA_CM_EVENT_UNREACHABLE => {
                matches!(self.status, TIMED_OUT | UNREACHABLE | RESET)
            }
            // A full backlog is a reset on iWARP, and silence elsewhere.
            Type::RDMA_CM_EVENT_REJECTED => matches!(
                self.status,
                RESET
                    | REFUSED
                    | TIMED_OUT
                    | REASON_NO_QP
                    | REASON_NO_RESOURCES
                    | REASON_TIMEOUT
                    | REASON_NOBODY
                    | REASON_STALE
                    | REASON_CONSUMER
            ),
            _ => false,
        }
    }
}

const REFUSED: c_int = -libc::ECONNREFUSED;
const RESET: c_int = -libc::ECONNRESET;
const NO_DEVICE: c_int = -libc::ENODEV;
const TIMED_OUT: c_int = -libc::ETIMEDOUT;
const UNREACHABLE: c_int = -libc::EHOSTUNREACH;

impl fmt::Display for CmFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match Type(self.kind.0) {
            Type::RDMA_CM_EVENT_ADDR_ERROR if matches!(self.status, TIMED_OUT | UNREACHABLE) => {
                "no host answers at the address"
            }
            Type::RDMA_CM_EVENT_ADDR_ERROR => "no RDMA device has a way to the address",
            Type::RDMA_CM_EVENT_ROUTE_ERROR => "there is no route to the peer",
            Type::RDMA_CM_EVENT_UNREACHABLE => "the peer does not answer",
            Type::RDMA_CM_EVENT_REJECTED if self.is_nobody_listening() => {
                return f.write_str("nobody listens there; start the receiver first");
            }
            Type::RDMA_CM_EVENT_REJECTED if self.status == RESET => {
                "the peer refused the connection, as one does that has no room for more"
            }
            Type::RDMA_CM_EVENT_REJECTED => "the peer refused the connection",
            Type::RDMA_CM_EVENT_DISCONNECTED => return f.write_str("the peer disconnected"),
            Type::RDMA_CM_EVENT_DEVICE_REMOVAL => return f.write_str("the RDMA device is gone"),
            _ => "the connection could not be made",
        };
        match self.status {
            0 => f.write_str(text)?,
            ..0 => VerbError::new(self.status.saturating_abs(), text).fmt(f)?,
            reason => write!(f, "{text} (reason {reason})")?,
        }
        match (Type(self.kind.0), self.status) {
            (Type::RDMA_CM_EVENT_ADDR_ERROR, NO_DEVICE) => write!(f, "; {SOFTWARE_DEVICE}"),
            _ => Ok(()),
        }
    }
}

impl error::Error for CmFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_headers_names() {
        assert_eq!(CmEventKind::ADDR_RESOLVED.to_string(), "RDMA_CM_EVENT_ADDR_RESOLVED");
        assert_eq!(CmEventKind::CONNECT_RESPONSE.to_string(), "RDMA_CM_EVENT_CONNECT_RESPONSE");
        assert_eq!(CmEventKind::TIMEWAIT_EXIT.to_string(), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
        assert_eq!(CmEventKind(16).to_string(), "event 16");
    }

    #[test]
    fn failures_have_texts() {
        let told = |kind: Type, status| CmFailure { kind: CmEventKind(kind.0), status }.to_string();
        assert_eq!(told(Type::RDMA_CM_EVENT_REJECTED, 8), "nobody listens there; start the receiver first");
        assert_eq!(
            told(Type::RDMA_CM_EVENT_REJECTED, -111),
            "nobody listens there; start the receiver first"
        );
        assert_eq!(told(Type::RDMA_CM_EVENT_REJECTED, 28), "the peer refused the connection (reason 28)");
        assert_eq!(
            told(Type::RDMA_CM_EVENT_UNREACHABLE, -110),
            "the peer does not answer: connection timed out"
        );
        assert_eq!(
            told(Type::RDMA_CM_EVENT_ADDR_ERROR, -110),
            "no host answers at the address: connection timed out"
        );
        let text = told(Type::RDMA_CM_EVENT_ADDR_ERROR, -19);
        assert!(
            text.starts_with("no RDMA device has a way to the address: no such device; Linux makes"),
            "{text}"
        );
        assert_eq!(told(Type::RDMA_CM_EVENT_DISCONNECTED, 0), "the peer disconnected");
    }

    #[test]
    fn only_what_time_may_mend_is_transient() {
        const ERRNOS: [i32; 5] =
            [-libc::ETIMEDOUT, -libc::EHOSTUNREACH, -libc::ECONNRESET, -libc::ECONNREFUSED, -libc::ENODEV];
        let transient = |kind: Type| -> Vec<i32> {
            let all = (0..=33).chain(ERRNOS).chain([-libc::EINVAL, -libc::ENETUNREACH, -1]);
            all.filter(|status| CmFailure { kind: CmEventKind(kind.0), status: *status }.is_transient())
                .collect()
        };
        for silent in [
            Type::RDMA_CM_EVENT_ADDR_ERROR,
            Type::RDMA_CM_EVENT_ROUTE_ERROR,
            Type::RDMA_CM_EVENT_CONNECT_ERROR,
            Type::RDMA_CM_EVENT_UNREACHABLE,
        ] {
            assert_eq!(transient(silent), ERRNOS[..3], "{}", CmEventKind(silent.0));
        }
        let refusals = [1, 3, 4, 8, 10, 28, -libc::ETIMEDOUT, -libc::ECONNRESET, -libc::ECONNREFUSED];
        assert_eq!(transient(Type::RDMA_CM_EVENT_REJECTED), refusals);
        for gone in [Type::RDMA_CM_EVENT_DISCONNECTED, Type::RDMA_CM_EVENT_DEVICE_REMOVAL] {
            assert_eq!(transient(gone).len(), 34 + ERRNOS.len() + 3);
        }
        assert_eq!(transient(Type::RDMA_CM_EVENT_ESTABLISHED), [0; 0]);
    }

    #[test]
    fn only_failures_fail() {
        assert!(CmEventKind::REJECTED.is_failure() && CmEventKind::DISCONNECTED.is_failure());
        assert!(!CmEventKind::ESTABLISHED.is_failure() && !CmEventKind::TIMEWAIT_EXIT.is_failure());
    }
}
