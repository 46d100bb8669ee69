//! Work completions.

use super::status::WcStatus;
use super::sys::{ibv_wc, ibv_wc_flags, ibv_wc_opcode};
use core::{error, fmt};

/// A completion. Of a failed one only [`id`](Self::id), [`status`](Self::status) and the vendor's error number are valid.
#[repr(transparent)]
#[derive(Clone, Copy, Default)]
pub struct Wc(pub(super) ibv_wc);

/// A work request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WcError {
    /// The status.
    pub status: WcStatus,
    /// The driver's own number, which its vendor can explain.
    pub vendor_err: u32,
}

/// Operation that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WcOpcode {
    /// A SEND that was posted here.
    Send,
    /// An RDMA write that was posted here.
    Write,
    /// A receive, of the peer's SEND.
    Receive,
    /// A receive, of the immediate that came with the peer's RDMA write.
    ReceiveImmediate,
    /// Something else, by the header's number.
    Other(u32),
}

impl Wc {
    /// Returns the id that the work request was posted with.
    #[must_use]
    #[inline]
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    /// Returns its status.
    #[must_use]
    #[inline]
    pub fn status(&self) -> WcStatus {
        WcStatus(self.0.status.0)
    }

    /// Returns the error of a failed one.
    ///
    /// # Errors
    /// The status is not success.
    #[inline]
    pub fn result(&self) -> Result<(), WcError> {
        match self.status() {
            WcStatus::SUCCESS => Ok(()),
            status => Err(WcError { status, vendor_err: self.0.vendor_err }),
        }
    }

    /// Returns the operation that completed.
    #[must_use]
    #[inline]
    pub fn opcode(&self) -> WcOpcode {
        match self.0.opcode {
            ibv_wc_opcode::IBV_WC_SEND => WcOpcode::Send,
            ibv_wc_opcode::IBV_WC_RDMA_WRITE => WcOpcode::Write,
            ibv_wc_opcode::IBV_WC_RECV => WcOpcode::Receive,
            ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM => WcOpcode::ReceiveImmediate,
            ibv_wc_opcode(other) => WcOpcode::Other(other),
        }
    }

    /// Returns the bytes that arrived, of a receive.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> u32 {
        self.0.byte_len
    }

    /// Returns the immediate, if one came.
    #[must_use]
    #[inline]
    pub fn immediate(&self) -> Option<u32> {
        // SAFETY: both members of the union are 32 bits, for which every value is one.
        let immediate = unsafe { self.0.__bindgen_anon_1.imm_data };
        (self.0.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0).then(|| u32::from_be(immediate))
    }
}

impl fmt::Display for WcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, vendor error {:#x}", self.status, self.vendor_err)
    }
}

impl error::Error for WcError {}

impl fmt::Debug for Wc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wc")
            .field("id", &self.id())
            .field("status", &self.status())
            .field("opcode", &self.opcode())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}
