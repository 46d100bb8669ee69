//! Both libraries without a device, for tests: each call is recorded by name, and returns what the test has scripted.
//!
//! Objects are leaked, so that a use after destruction shows in the record and not in a crash. Records and scripts are per
//! thread.

mod calls;
mod cm_calls;

use super::*;
pub use super::{ibv_send_flags, ibv_wr_opcode, rdma_cm_event_type as CmKind};
use crate::{EventChannel, RemoteAddr, WcStatus};
pub(crate) use calls::verbs;
pub(crate) use cm_calls::rdmacm;
use core::cell::RefCell;
use core::ffi::c_int;
use core::net::SocketAddr;
use core::{ptr, slice};
use std::collections::VecDeque;

/// A work request, as post_send got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    pub id: u64,
    pub opcode: ibv_wr_opcode,
    pub flags: u32,
    /// address and length of each SGE
    pub from: Vec<(u64, u32)>,
    /// key of each SGE
    pub lkeys: Vec<u32>,
    pub to: u64,
    /// key of the peer's region that it goes to
    pub rkey: u32,
    /// immediate; 0 without one
    pub immediate: u32,
}

/// A region that is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub start: u64,
    pub bytes: u64,
    /// flags of ibv_reg_mr
    pub access: c_int,
    /// both its keys
    pub key: u32,
}

/// Records of this thread's calls, and their scripted results.
#[derive(Default)]
pub struct Script {
    /// every call, in order
    pub calls: Vec<&'static str>,
    /// what a call answers instead of success; a call that makes something answers null, and this is errno
    pub answers: Vec<(&'static str, c_int)>,
    /// names of the devices
    pub devices: Vec<&'static str>,
    /// regions that this thread registered, without those that it has deregistered
    pub regions: Vec<Region>,
    /// states that QPs were moved to
    pub states: Vec<ibv_qp_state>,
    /// ACK timeouts that QPs were given
    pub ack_timeouts: Vec<u8>,
    /// batches that were posted
    pub posted: Vec<Vec<Posted>>,
    /// receives that are posted, the oldest first: number, address and length
    pub receives: VecDeque<(u64, u64, u32)>,
    /// how many of a batch post_send takes before it answers what is scripted
    pub taken: usize,
    /// what poll_cq gives
    pub completions: Vec<ibv_wc>,
    /// events of rdma_cm that come: kind, status, and whether an id comes along
    pub events: Vec<(rdma_cm_event_type, c_int)>,
    /// the private data of a connect request, of its answer or of a refusal
    pub private_data: Vec<u8>,
    /// the number of the id that the next events are about; 4711 where it is 0
    pub about: usize,
    /// channels of rdma_cm are readable, whether there is an event or not
    pub are_channels_readable: bool,
    /// all ids are of one device, whose CQs have this depth at most; 0: each id is of its own, without CQs
    pub cq_depth: c_int,
    /// that device
    device: Option<ptr::NonNull<ibv_context>>,
    /// devices speak iWARP
    pub is_iwarp: bool,
    /// what rdma_listen was given
    pub backlogs: Vec<c_int>,
    /// options and values of set_option
    pub options: Vec<(c_int, u8)>,
    /// addresses that others are bound to
    pub bound: Vec<SocketAddr>,
    /// ports that the kernel chooses of; where there are none, 0 stays 0
    pub free_ports: VecDeque<u16>,
    /// ids that are of one address family only
    pub family_only: Vec<usize>,
    /// parameters of connect and accept: QP number and private data
    pub params: Vec<(u32, Vec<u8>)>,
}

std::thread_local! {
    static SCRIPT: RefCell<Script> = RefCell::default();
}

/// Resets records and scripts of this thread.
pub fn begin() {
    SCRIPT.take();
}

/// Reads or changes the script.
pub fn script<T>(with: impl FnOnce(&mut Script) -> T) -> T {
    SCRIPT.with_borrow_mut(with)
}

/// Takes the names of the calls since the last time.
pub fn calls() -> Vec<&'static str> {
    script(|script| core::mem::take(&mut script.calls))
}

/// Scripts the return code of `call` from now on.
pub fn answer(call: &'static str, answer: c_int) {
    script(|script| script.answers.push((call, answer)));
}

/// Makes the next poll find that this work request ended with `status`.
pub fn sent(id: u64, status: WcStatus) {
    complete(ibv_wc { wr_id: id, status: ibv_wc_status(status.0), ..ibv_wc::default() });
}

/// Makes the next poll find that this receive got a write with this immediate.
pub fn receive_immediate(id: u64, immediate: u32) {
    complete(ibv_wc {
        wr_id: id,
        opcode: ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM,
        __bindgen_anon_1: ibv_wc__bindgen_ty_1 { imm_data: immediate.to_be() },
        wc_flags: ibv_wc_flags::IBV_WC_WITH_IMM.0,
        ..ibv_wc::default()
    });
}

/// Makes the next poll find that the oldest receive got a write with this immediate.
pub fn receive_write(immediate: u32) {
    let (id, ..) = script(|script| script.receives.pop_front()).expect("a receive is posted");
    receive_immediate(id, immediate);
}

/// Makes the next poll find that the oldest receive got these bytes by a SEND.
///
/// # Safety
/// The memory of that receive is still registered, and nobody looks at it before the completion.
pub unsafe fn receive(bytes: &[u8]) {
    let (id, to, room) = script(|script| script.receives.pop_front()).expect("a receive is posted");
    assert!(bytes.len() <= room as usize, "the device would have failed the QP");
    // SAFETY: the caller promises it.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), ptr::with_exposed_provenance_mut(to as usize), bytes.len())
    };
    let byte_len = bytes.len() as u32;
    complete(ibv_wc { wr_id: id, opcode: ibv_wc_opcode::IBV_WC_RECV, byte_len, ..ibv_wc::default() });
}

/// Returns the bytes that the device would read now for this work request.
///
/// # Safety
/// The memory that the request names is still valid, and nobody writes it during the call.
pub unsafe fn gathered(posted: &Posted) -> Vec<u8> {
    let parts = posted.from.iter().map(|&(from, bytes)| {
        // SAFETY: the caller promises it.
        unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(from as usize), bytes as usize) }
    });
    parts.flatten().copied().collect()
}

/// Does what a device does with this work request now, without the bytes: it fails if its QP did (here, if any QP did) or if one of
/// its SGEs is not in a region of that key.
pub fn execute(posted: &Posted) {
    let mut sges = posted.from.iter().zip(&posted.lkeys);
    let is_registered =
        sges.all(|(&(at, bytes), &key)| region(key).is_some_and(|region| region.holds(at, bytes.into())));
    let status = if script(|script| script.states.contains(&ibv_qp_state::IBV_QPS_ERR)) {
        ibv_wc_status::IBV_WC_WR_FLUSH_ERR
    } else if is_registered {
        ibv_wc_status::IBV_WC_SUCCESS
    } else {
        ibv_wc_status::IBV_WC_LOC_PROT_ERR
    };
    sent(posted.id, WcStatus(status.0));
}

/// Writes as the peer would, and returns the status that the peer sees.
///
/// # Safety
/// Memory of a region that the peer may write is still valid, and nobody looks at it during the call.
pub unsafe fn write_from_peer(to: RemoteAddr, bytes: &[u8]) -> WcStatus {
    let remote_write = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0.cast_signed();
    let may_write = |region: Region| {
        region.holds(to.addr, bytes.len() as u64) && region.access & remote_write == remote_write
    };
    if !region(to.rkey.0).is_some_and(may_write) {
        return WcStatus(ibv_wc_status::IBV_WC_REM_ACCESS_ERR.0);
    }
    let place = ptr::with_exposed_provenance_mut(to.addr as usize);
    // SAFETY: the caller promises it, and the bytes are inside the region.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
    WcStatus::SUCCESS
}

fn region(key: u32) -> Option<Region> {
    script(|script| script.regions.iter().find(|region| region.key == key).copied())
}

impl Region {
    /// Returns true if all these bytes are inside.
    pub fn holds(&self, at: u64, bytes: u64) -> bool {
        at >= self.start && at + bytes <= self.start + self.bytes
    }
}

fn complete(wc: ibv_wc) {
    script(|script| script.completions.push(wc));
}

/// Makes a channel of rdma_cm, whose ids have a device.
pub fn channel() -> EventChannel {
    EventChannel::of(rdmacm(), verbs()).unwrap()
}

fn called(name: &'static str) -> c_int {
    script(|script| {
        script.calls.push(name);
        script.answers.iter().rev().find(|(call, _)| *call == name).map_or(0, |&(_, answer)| answer)
    })
}
