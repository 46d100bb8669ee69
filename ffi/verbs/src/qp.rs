//! A queue pair of the reliable connected kind. Posting allocates nothing.
//!
//! Made by `ibv_create_qp` and moved by [`Qp::modify`] with the attributes of [`CmId::qp_attr`](super::CmId::qp_attr), and not by
//! rdma_cm, so that its timeouts and its MTU can be set on the way.

use super::cq::Cq;
use super::error::Error;
use super::pd::Pd;
use super::qp_attr::{QpAttr, QpState};
use super::registration::Sge;
use super::return_code::{done, errno_of, failed, made};
use super::send_batch::{PostSend, SGES, SendBatch, Sges};
use super::sys::{
    ibv_qp, ibv_qp_cap, ibv_qp_init_attr, ibv_qp_type, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wr_opcode,
};
use core::fmt;
use core::ptr::{self, NonNull};

type PostReceive =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> core::ffi::c_int;

/// Capacities of a QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpConfig {
    /// Work requests in the send queue, and in one batch.
    pub send_depth: u32,
    /// Receives that can be posted ahead.
    pub receive_depth: u32,
    /// Bytes that can be sent inline; 0 if the device has no inline data.
    pub inline_bytes: u32,
}

/// A queue pair.
pub struct Qp {
    raw: NonNull<ibv_qp>,
    post_send: PostSend,
    post_receive: PostReceive,
    number: u32,
    granted: QpConfig,
    wrs: Box<[ibv_send_wr]>,
    sges: Box<[Sges]>,
    pd: Pd,
    _send_cq: Cq,
    _receive_cq: Cq,
}

// SAFETY: the library's functions on it may be called from any thread (verbs(7)). The work requests' pointers are written
// by the thread that posts them, and not read after.
unsafe impl Send for Qp {}

impl Qp {
    /// Makes a QP in the state RESET. Completions of signaled sends go to `send_cq`, and those of receives to
    /// `receive_cq`.
    ///
    /// # Errors
    /// The device has none so large (a device without inline data refuses `inline_bytes` above 0), or the queues are of
    /// another device.
    pub fn create(pd: &Pd, send_cq: &Cq, receive_cq: &Cq, config: QpConfig) -> Result<Self, Error> {
        const OTHER_DEVICE: &str = "a QP and its completion queue are of different devices";
        let context = pd.context();
        context.check_same(send_cq.context(), OTHER_DEVICE)?;
        context.check_same(receive_cq.context(), OTHER_DEVICE)?;
        let mut attr = ibv_qp_init_attr {
            send_cq: send_cq.raw(),
            recv_cq: receive_cq.raw(),
            cap: ibv_qp_cap {
                max_send_wr: config.send_depth,
                max_recv_wr: config.receive_depth,
                max_send_sge: SGES,
                max_recv_sge: 1,
                max_inline_data: config.inline_bytes,
            },
            qp_type: ibv_qp_type::IBV_QPT_RC,
            ..ibv_qp_init_attr::default()
        };
        // SAFETY: the domain and the queues live and are of one context; the attributes are ours to be written.
        let raw = unsafe { context.verbs().required.ibv_create_qp(pd.raw(), &raw mut attr) };
        let raw = made(raw, "ibv_create_qp", || {
            let QpConfig { send_depth, receive_depth, inline_bytes } = config;
            format!(
                "make a queue pair ({send_depth} to send, {receive_depth} to receive, {inline_bytes} bytes inline)"
            )
        })?;
        // SAFETY: an open context's operations were filled in by its driver, and are not changed.
        let (post_send, post_receive) =
            unsafe { ((*context.raw()).ops.post_send, (*context.raw()).ops.post_recv) };
        let (Some(post_send), Some(post_receive)) = (post_send, post_receive) else {
            // SAFETY: ibv_create_qp has just made the QP, and nobody else has it.
            let _ = unsafe { context.verbs().required.ibv_destroy_qp(raw.as_ptr()) };
            return Err(Error::Mismatch("this device's driver cannot post"));
        };
        let count = config.send_depth as usize;
        Ok(Self {
            raw,
            post_send,
            post_receive,
            // SAFETY: the library has just made it; its number never changes.
            number: unsafe { (*raw.as_ptr()).qp_num },
            granted: QpConfig {
                send_depth: attr.cap.max_send_wr,
                receive_depth: attr.cap.max_recv_wr,
                inline_bytes: attr.cap.max_inline_data,
            },
            wrs: vec![ibv_send_wr::default(); count].into(),
            sges: vec![Sges::default(); count].into(),
            pd: pd.clone(),
            _send_cq: send_cq.clone(),
            _receive_cq: receive_cq.clone(),
        })
    }

    /// Returns its number on the wire, which the peer must know.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the capacities that the device granted, at least those requested.
    #[must_use]
    pub fn granted(&self) -> QpConfig {
        self.granted
    }

    /// Moves the QP to another state.
    ///
    /// # Errors
    /// The state is not the next one, or the path cannot be used.
    pub fn modify(&mut self, attr: &QpAttr) -> Result<(), Error> {
        let (mut raw, mask) = attr.raw();
        // SAFETY: the QP lives, and the attributes are a copy that the library may read.
        let answer = unsafe {
            self.pd.context().verbs().required.ibv_modify_qp(self.raw.as_ptr(), &raw mut raw, mask)
        };
        done(answer, "ibv_modify_qp", || format!("move a queue pair to {attr}"))
    }

    /// Moves the QP to ERR: what is posted completes as flushed, and nothing more begins, also no write of the peer. After a transfer that
    /// failed, call it before the memory of that transfer is deregistered.
    ///
    /// # Errors
    /// The device refuses.
    pub fn fail(&mut self) -> Result<(), Error> {
        self.modify(&QpAttr::to(QpState::Error))
    }

    /// Returns true if the bytes of one RDMA write that arrives here become visible in ascending order
    /// (`ibv_query_qp_data_in_order(3)`). Returns false with libraries that lack the call.
    #[must_use]
    pub fn writes_arrive_in_order(&self) -> bool {
        let Ok(query) = &self.pd.context().verbs().recent.ibv_query_qp_data_in_order else {
            return false;
        };
        // SAFETY: the QP lives.
        unsafe { query(self.raw.as_ptr(), ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0) == 1 }
    }

    /// Begins a batch, which goes out with one doorbell.
    #[must_use]
    #[inline]
    pub fn batch<'mr>(&mut self) -> SendBatch<'_, 'mr> {
        SendBatch::new(self.raw, self.post_send, &mut self.wrs, &mut self.sges)
    }

    /// Posts a receive into `place`, or without memory for messages of no bytes, which siw refuses.
    ///
    /// # Errors
    /// The queue is full, the QP is in the state RESET, or the NIC may not write to `place`
    /// ([`Access::LocalRead`](crate::Access::LocalRead)).
    #[inline]
    pub fn post_receive(&mut self, id: u64, place: Option<Sge<'_>>) -> Result<(), Error> {
        // The device would refuse it, too, and fail the QP. But memory that is borrowed as a source depends on it.
        if place.is_some_and(|place| !place.is_writable()) {
            return Err(Error::Mismatch(
                "a receive is posted into memory that was registered to be read only",
            ));
        }
        let mut sge = place.map_or_else(ibv_sge::default, |place| place.raw());
        let mut wr = ibv_recv_wr {
            wr_id: id,
            next: ptr::null_mut(),
            sg_list: &raw mut sge,
            num_sge: i32::from(place.is_some()),
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the QP lives, and the request and its SGE are locals, which the library copies. What the SGE names is
        // registered for being written, and its region keeps the memory until the NIC has given it up.
        let answer = unsafe { (self.post_receive)(self.raw.as_ptr(), &raw mut wr, &raw mut bad) };
        errno_of(answer).map_err(|errno| failed(errno, "ibv_post_recv", "post a receive"))
    }
}

impl fmt::Debug for Qp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qp")
            .field("number", &self.number)
            .field("granted", &self.granted)
            .finish_non_exhaustive()
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: it was made here. The queues and the domain are dropped after it. A failure leaves it to the context.
        let _ = unsafe { self.pd.context().verbs().required.ibv_destroy_qp(self.raw.as_ptr()) };
    }
}
