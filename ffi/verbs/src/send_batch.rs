//! Work requests that go out with one doorbell.
//!
//! A batch is built in arrays that its QP has from the start, and borrows every region that it names, so that none is
//! deregistered before the batch was posted:
//!
//! ```compile_fail,E0505
//! use superpipe_verbs::{Mr, PostError, Qp, SendFlags};
//! fn gone(qp: &mut Qp, mr: Mr) -> Result<(), PostError> {
//!     let mut batch = qp.batch();
//!     let _ = batch.send(1, mr.sge(0, 64).expect("it is longer"), SendFlags::default());
//!     drop(mr);
//!     batch.post()
//! }
//! ```
//!
//! The same without its fault:
//!
//! ```
//! use superpipe_verbs::{Mr, PostError, Qp, SendFlags};
//! fn there(qp: &mut Qp, mr: Mr) -> Result<(), PostError> {
//!     let mut batch = qp.batch();
//!     let _ = batch.send(1, mr.sge(0, 64).expect("it is longer"), SendFlags::default());
//!     batch.post()?;
//!     drop(mr);
//!     Ok(())
//! }
//! ```

use super::error::Error;
use super::registration::{Rkey, Sge};
use super::return_code::{errno_of, failed};
use super::sys::{
    ibv_qp, ibv_send_flags, ibv_send_wr, ibv_send_wr__bindgen_ty_1, ibv_send_wr__bindgen_ty_2,
    ibv_send_wr__bindgen_ty_2__bindgen_ty_1, ibv_sge, ibv_wr_opcode,
};
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::{error, fmt};

pub(super) type PostSend =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;

/// Largest number of SGEs of one work request: a header and its data.
pub(super) const SGES: u32 = 2;
pub(super) type Sges = [ibv_sge; SGES as usize];

/// Address in the peer's memory that a write goes to. The peer's NIC checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteAddr {
    /// Address.
    pub addr: u64,
    /// Key of its region.
    pub rkey: Rkey,
}

/// Flags of a work request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// It has a completion. A work request that fails always has one.
    pub signaled: bool,
    /// The bytes are copied while posting, so their memory can be changed at once. There may be at most as many as the QP was granted.
    pub inline: bool,
}

/// The batch is full: post it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchFull;

/// Error of a batch of which the device took only a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostError {
    /// Number of work requests that were posted, from the first on.
    pub posted: usize,
    /// Cause that the next one was not.
    pub cause: Error,
}

/// A batch of work requests. Dropping it without [`post`](Self::post) posts nothing.
pub struct SendBatch<'qp, 'mr> {
    qp: NonNull<ibv_qp>,
    post_send: PostSend,
    wrs: &'qp mut [ibv_send_wr],
    sges: &'qp mut [Sges],
    len: usize,
    regions: PhantomData<&'mr ()>,
}

impl<'qp, 'mr> SendBatch<'qp, 'mr> {
    #[inline]
    pub(super) fn new(
        qp: NonNull<ibv_qp>,
        post_send: PostSend,
        wrs: &'qp mut [ibv_send_wr],
        sges: &'qp mut [Sges],
    ) -> Self {
        Self { qp, post_send, wrs, sges, len: 0, regions: PhantomData }
    }

    /// Adds an RDMA write.
    ///
    /// # Errors
    /// [`BatchFull`]; nothing was added.
    #[inline]
    pub fn write(
        &mut self,
        id: u64,
        from: Sge<'mr>,
        to: RemoteAddr,
        flags: SendFlags,
    ) -> Result<(), BatchFull> {
        let wr =
            ibv_send_wr { opcode: ibv_wr_opcode::IBV_WR_RDMA_WRITE, wr: to.raw(), ..ibv_send_wr::default() };
        self.push(id, &[from], flags, wr)
    }

    /// Adds an RDMA write that consumes a receive of the peer and gives it `immediate`. iWARP has none.
    ///
    /// # Errors
    /// [`BatchFull`]; nothing was added.
    #[inline]
    pub fn write_with_immediate(
        &mut self,
        id: u64,
        from: Sge<'mr>,
        to: RemoteAddr,
        immediate: u32,
        flags: SendFlags,
    ) -> Result<(), BatchFull> {
        let wr = ibv_send_wr {
            opcode: ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            wr: to.raw(),
            __bindgen_anon_1: ibv_send_wr__bindgen_ty_1 { imm_data: immediate.to_be() },
            ..ibv_send_wr::default()
        };
        self.push(id, &[from], flags, wr)
    }

    /// Adds a SEND, into a receive of the peer.
    ///
    /// # Errors
    /// [`BatchFull`]; nothing was added.
    #[inline]
    pub fn send(&mut self, id: u64, from: Sge<'mr>, flags: SendFlags) -> Result<(), BatchFull> {
        let wr = ibv_send_wr { opcode: ibv_wr_opcode::IBV_WR_SEND, ..ibv_send_wr::default() };
        self.push(id, &[from], flags, wr)
    }

    /// Adds a SEND of two parts, one behind the other.
    ///
    /// # Errors
    /// [`BatchFull`]; nothing was added.
    #[inline]
    pub fn send_both(&mut self, id: u64, parts: [Sge<'mr>; 2], flags: SendFlags) -> Result<(), BatchFull> {
        let wr = ibv_send_wr { opcode: ibv_wr_opcode::IBV_WR_SEND, ..ibv_send_wr::default() };
        self.push(id, &parts, flags, wr)
    }

    /// Adds a SEND of no bytes, which only consumes a receive of the peer.
    ///
    /// # Errors
    /// [`BatchFull`]; nothing was added.
    #[inline]
    pub fn send_nothing(&mut self, id: u64, flags: SendFlags) -> Result<(), BatchFull> {
        let wr = ibv_send_wr { opcode: ibv_wr_opcode::IBV_WR_SEND, ..ibv_send_wr::default() };
        self.push(id, &[], flags, wr)
    }

    /// Returns the number of its work requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no work request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Posts the batch with one doorbell. An empty batch rings none.
    ///
    /// # Errors
    /// The device took a part of the batch: its queue is full, or it lacks an operation.
    #[inline]
    pub fn post(self) -> Result<(), PostError> {
        if self.len == 0 {
            return Ok(());
        }
        let (first_wr, first_sges) = (self.wrs.as_mut_ptr(), self.sges.as_mut_ptr());
        for index in 0..self.len {
            let next = if index + 1 == self.len { ptr::null_mut() } else { first_wr.wrapping_add(index + 1) };
            // SAFETY: `index` is below `len`, which is at most the length of both slices, which are borrowed for writing.
            unsafe {
                (*first_wr.add(index)).next = next;
                (*first_wr.add(index)).sg_list = first_sges.add(index).cast();
            }
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the QP lives, as the slices do, which are its own. The list is `len` long, ends in null, and each request
        // names its own SGEs, of which it has at most as many as there are; the library copies them. What the SGEs name is
        // registered, and its regions are borrowed, so that inline data can be read now; later their regions keep the memory
        // until the NIC has given it up.
        let answer = unsafe { (self.post_send)(self.qp.as_ptr(), first_wr, &raw mut bad) };
        errno_of(answer).map_err(|errno| refused(errno, self.wrs, self.len, bad))
    }

    #[inline]
    fn push(
        &mut self,
        id: u64,
        from: &[Sge<'mr>],
        flags: SendFlags,
        wr: ibv_send_wr,
    ) -> Result<(), BatchFull> {
        let (Some(place), Some(sges)) = (self.wrs.get_mut(self.len), self.sges.get_mut(self.len)) else {
            return Err(BatchFull);
        };
        let mut num_sge = 0;
        for (sge, from) in sges.iter_mut().zip(from) {
            *sge = from.raw();
            num_sge += 1;
        }
        *place = ibv_send_wr { wr_id: id, num_sge, send_flags: flags.raw(), ..wr };
        self.len += 1;
        Ok(())
    }
}

impl RemoteAddr {
    fn raw(self) -> ibv_send_wr__bindgen_ty_2 {
        let rdma = ibv_send_wr__bindgen_ty_2__bindgen_ty_1 { remote_addr: self.addr, rkey: self.rkey.0 };
        ibv_send_wr__bindgen_ty_2 { rdma }
    }
}

impl SendFlags {
    /// Signaled, not inline.
    pub const SIGNALED: Self = Self { signaled: true, inline: false };

    fn raw(self) -> u32 {
        let flag = |on, flag: ibv_send_flags| if on { flag.0 } else { 0 };
        flag(self.signaled, ibv_send_flags::IBV_SEND_SIGNALED)
            | flag(self.inline, ibv_send_flags::IBV_SEND_INLINE)
    }
}

#[cold]
fn refused(errno: c_int, wrs: &[ibv_send_wr], len: usize, bad: *const ibv_send_wr) -> PostError {
    let posted = wrs.iter().take(len).position(|wr| ptr::eq(wr, bad)).unwrap_or(0);
    PostError {
        posted,
        cause: failed(errno, "ibv_post_send", format!("post work request {} of {len}", posted + 1)),
    }
}

impl fmt::Debug for SendBatch<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendBatch({} of {})", self.len, self.wrs.len())
    }
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl error::Error for PostError {}
