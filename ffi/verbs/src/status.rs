//! Statuses of completions (`ibv_poll_cq(3)`).

use core::fmt;

/// Status of a completion. A device may report one that no header names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WcStatus(pub u32);

/// Name and meaning, by number.
const NAMES: [(&str, &str); 24] = [
    ("SUCCESS", "success"),
    ("LOC_LEN_ERR", "local length error: a message longer than its receive, or than the device sends"),
    ("LOC_QP_OP_ERR", "local QP operation error"),
    ("LOC_EEC_OP_ERR", "local EE context operation error"),
    ("LOC_PROT_ERR", "local protection error: the memory is not registered for this"),
    ("WR_FLUSH_ERR", "flushed: the QP had failed or was closed"),
    ("MW_BIND_ERR", "memory window bind error"),
    ("BAD_RESP_ERR", "bad response"),
    ("LOC_ACCESS_ERR", "local access error: the memory is not registered for remote writes"),
    ("REM_INV_REQ_ERR", "the peer refused the request as invalid"),
    ("REM_ACCESS_ERR", "remote access error: the peer's memory is not registered for this"),
    ("REM_OP_ERR", "the peer could not complete the operation"),
    ("RETRY_EXC_ERR", "the peer does not answer: every retry is used up"),
    ("RNR_RETRY_EXC_ERR", "the peer has no receive posted: every retry is used up"),
    ("LOC_RDD_VIOL_ERR", "local RDD violation"),
    ("REM_INV_RD_REQ_ERR", "the peer refused a read request as invalid"),
    ("REM_ABORT_ERR", "the peer aborted the operation"),
    ("INV_EECN_ERR", "invalid EE context number"),
    ("INV_EEC_STATE_ERR", "invalid EE context state"),
    ("FATAL_ERR", "fatal error of the device"),
    ("RESP_TIMEOUT_ERR", "the response did not come in time"),
    ("GENERAL_ERR", "general error of the device"),
    ("TM_ERR", "tag matching error"),
    ("TM_RNDV_INCOMPLETE", "tag matching: rendezvous incomplete"),
];

impl WcStatus {
    /// The work request succeeded.
    pub const SUCCESS: Self = Self(0);
    /// The work request was not begun, since its QP had failed before.
    pub const FLUSHED: Self = Self(5);
    /// The peer does not answer.
    pub const RETRY_EXCEEDED: Self = Self(12);

    /// Returns the header's name without its prefix IBV_WC.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(|(name, _)| name)
    }

    fn entry(self) -> Option<(&'static str, &'static str)> {
        NAMES.get(usize::try_from(self.0).ok()?).copied()
    }
}

impl fmt::Display for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entry() {
            Some((name, meaning)) => write!(f, "{meaning} (IBV_WC_{name})"),
            None => write!(f, "work completion status {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sys::ibv_wc_status as Status;
    use super::*;

    #[test]
    fn names_are_the_headers_names() {
        let named = [
            (Status::IBV_WC_SUCCESS, "SUCCESS"),
            (Status::IBV_WC_LOC_LEN_ERR, "LOC_LEN_ERR"),
            (Status::IBV_WC_LOC_QP_OP_ERR, "LOC_QP_OP_ERR"),
            (Status::IBV_WC_LOC_EEC_OP_ERR, "LOC_EEC_OP_ERR"),
            (Status::IBV_WC_LOC_PROT_ERR, "LOC_PROT_ERR"),
            (Status::IBV_WC_WR_FLUSH_ERR, "WR_FLUSH_ERR"),
            (Status::IBV_WC_MW_BIND_ERR, "MW_BIND_ERR"),
            (Status::IBV_WC_BAD_RESP_ERR, "BAD_RESP_ERR"),
            (Status::IBV_WC_LOC_ACCESS_ERR, "LOC_ACCESS_ERR"),
            (Status::IBV_WC_REM_INV_REQ_ERR, "REM_INV_REQ_ERR"),
            (Status::IBV_WC_REM_ACCESS_ERR, "REM_ACCESS_ERR"),
            (Status::IBV_WC_REM_OP_ERR, "REM_OP_ERR"),
            (Status::IBV_WC_RETRY_EXC_ERR, "RETRY_EXC_ERR"),
            (Status::IBV_WC_RNR_RETRY_EXC_ERR, "RNR_RETRY_EXC_ERR"),
            (Status::IBV_WC_LOC_RDD_VIOL_ERR, "LOC_RDD_VIOL_ERR"),
            (Status::IBV_WC_REM_INV_RD_REQ_ERR, "REM_INV_RD_REQ_ERR"),
            (Status::IBV_WC_REM_ABORT_ERR, "REM_ABORT_ERR"),
            (Status::IBV_WC_INV_EECN_ERR, "INV_EECN_ERR"),
            (Status::IBV_WC_INV_EEC_STATE_ERR, "INV_EEC_STATE_ERR"),
            (Status::IBV_WC_FATAL_ERR, "FATAL_ERR"),
            (Status::IBV_WC_RESP_TIMEOUT_ERR, "RESP_TIMEOUT_ERR"),
            (Status::IBV_WC_GENERAL_ERR, "GENERAL_ERR"),
            (Status::IBV_WC_TM_ERR, "TM_ERR"),
            (Status::IBV_WC_TM_RNDV_INCOMPLETE, "TM_RNDV_INCOMPLETE"),
        ];
        assert_eq!(named.len(), NAMES.len());
        for (status, name) in named {
            assert_eq!(WcStatus(status.0).name(), Some(name));
        }
    }

    #[test]
    fn unknown_ones_keep_their_number() {
        assert_eq!(WcStatus(24).name(), None);
        assert_eq!(WcStatus(4711).to_string(), "work completion status 4711");
        assert_eq!(
            WcStatus::RETRY_EXCEEDED.to_string(),
            "the peer does not answer: every retry is used up (IBV_WC_RETRY_EXC_ERR)"
        );
    }
}
