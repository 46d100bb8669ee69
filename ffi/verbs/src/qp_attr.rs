//! States of a QP, and the attributes of a move to one.

use super::port::Mtu;
use super::sys::{ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_state};
use core::ffi::c_int;
use core::fmt;

/// State that a QP is moved to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpState {
    /// Receives can be posted.
    Init,
    /// The QP takes what the peer sends.
    ReadyToReceive,
    /// The QP sends what is posted.
    ReadyToSend,
    /// The QP flushes everything.
    Error,
}

/// Attributes of a move. Setters change values of rdma_cm, and have no effect on a move without that attribute: iWARP has no MTU and
/// no timeouts.
#[derive(Clone, Copy)]
pub struct QpAttr {
    raw: ibv_qp_attr,
    mask: u32,
}

/// Bits that the header names. Kernels have set others on InfiniBand, which libraries refuse.
const MASK_KNOWN: u32 = (1 << 21) - 1;

impl QpAttr {
    /// Makes a move to `state` without other attributes.
    #[must_use]
    pub fn to(state: QpState) -> Self {
        let raw = ibv_qp_attr { qp_state: state.raw(), ..ibv_qp_attr::default() };
        Self { raw, mask: ibv_qp_attr_mask::IBV_QP_STATE.0 }
    }

    pub(super) fn of(raw: ibv_qp_attr, mask: c_int) -> Self {
        Self { raw, mask: mask.cast_unsigned() & MASK_KNOWN }
    }

    pub(super) fn raw(&self) -> (ibv_qp_attr, c_int) {
        (self.raw, self.mask.cast_signed())
    }

    /// Returns the MTU of the path; none on iWARP.
    #[must_use]
    pub fn path_mtu(&self) -> Option<Mtu> {
        self.has(ibv_qp_attr_mask::IBV_QP_PATH_MTU).then_some(Mtu(self.raw.path_mtu.0))
    }

    /// Sets the MTU of the path, which is the smaller one of both ends.
    #[must_use]
    pub fn with_path_mtu(mut self, mtu: Mtu) -> Self {
        self.raw.path_mtu = mtu.raw();
        self
    }

    /// Sets the ACK timeout: 4.096 µs times two to the power of `exponent`; 14 is 67 ms.
    #[must_use]
    pub fn with_ack_timeout(mut self, exponent: u8) -> Self {
        self.raw.timeout = exponent;
        self
    }

    /// Sets the retries of a packet before the QP fails, at most 7.
    #[must_use]
    pub fn with_retries(mut self, count: u8) -> Self {
        self.raw.retry_cnt = count.min(7);
        self
    }

    /// Sets the retries of a SEND that met no receive; 7 is no limit.
    #[must_use]
    pub fn with_rnr_retries(mut self, count: u8) -> Self {
        self.raw.rnr_retry = count.min(7);
        self
    }

    /// Sets the time that a peer waits after it met no receive here, as the InfiniBand specification codes it: 12 is 0.64 ms.
    #[must_use]
    pub fn with_rnr_timer(mut self, code: u8) -> Self {
        self.raw.min_rnr_timer = code;
        self
    }

    fn has(&self, attribute: ibv_qp_attr_mask) -> bool {
        self.mask & attribute.0 != 0
    }
}

impl QpState {
    pub(super) fn raw(self) -> ibv_qp_state {
        match self {
            Self::Init => ibv_qp_state::IBV_QPS_INIT,
            Self::ReadyToReceive => ibv_qp_state::IBV_QPS_RTR,
            Self::ReadyToSend => ibv_qp_state::IBV_QPS_RTS,
            Self::Error => ibv_qp_state::IBV_QPS_ERR,
        }
    }
}

impl fmt::Display for QpAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.raw.qp_state {
            ibv_qp_state::IBV_QPS_INIT => f.write_str("INIT")?,
            ibv_qp_state::IBV_QPS_RTR => f.write_str("RTR")?,
            ibv_qp_state::IBV_QPS_RTS => f.write_str("RTS")?,
            ibv_qp_state::IBV_QPS_ERR => f.write_str("ERR")?,
            ibv_qp_state(other) => write!(f, "state {other}")?,
        }
        self.path_mtu().map_or(Ok(()), |mtu| write!(f, " with {mtu}"))
    }
}

impl fmt::Debug for QpAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QpAttr({self}, mask {:#x})", self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::ibv_mtu;

    #[test]
    fn setters_change_values_and_not_the_mask() {
        let mask = ibv_qp_attr_mask::IBV_QP_STATE | ibv_qp_attr_mask::IBV_QP_PATH_MTU;
        let raw = ibv_qp_attr {
            qp_state: ibv_qp_state::IBV_QPS_RTR,
            path_mtu: ibv_mtu::IBV_MTU_4096,
            ..ibv_qp_attr::default()
        };
        let chosen = QpAttr::of(raw, mask.0.cast_signed() | 0x00E0_0000);
        assert_eq!(chosen.to_string(), "RTR with MTU 4096");
        let mtu = chosen.path_mtu().unwrap().min(Mtu(ibv_mtu::IBV_MTU_1024.0));
        let changed = chosen
            .with_path_mtu(mtu)
            .with_ack_timeout(14)
            .with_retries(9)
            .with_rnr_retries(6)
            .with_rnr_timer(12);
        let (raw, raw_mask) = changed.raw();
        assert_eq!(raw_mask, mask.0.cast_signed(), "unknown bits are gone");
        assert_eq!(raw.path_mtu, ibv_mtu::IBV_MTU_1024);
        assert_eq!((raw.timeout, raw.retry_cnt, raw.rnr_retry, raw.min_rnr_timer), (14, 7, 6, 12));
    }

    #[test]
    fn iwarp_has_no_path_mtu() {
        assert_eq!(QpAttr::to(QpState::Init).with_path_mtu(Mtu(5)).path_mtu(), None);
        assert_eq!(QpAttr::to(QpState::Error).to_string(), "ERR");
    }
}
