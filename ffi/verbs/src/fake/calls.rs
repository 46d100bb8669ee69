//! The calls of libibverbs, and what those of librdmacm share with them.

use super::*;
use crate::library::Verbs;
use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};
use libloading::os::unix::Library;
use std::io::{PipeReader, PipeWriter, Write as _, pipe};
use std::os::fd::AsRawFd;

/// Makes a struct of zeros that is never freed.
pub(super) fn leaked<T: 'static>() -> &'static mut T {
    // SAFETY: each `T` here is a C struct of pointers and integers, for which zero is a value.
    Box::leak(Box::new(unsafe { MaybeUninit::<T>::zeroed().assume_init() }))
}

pub(super) fn made<T: 'static>(name: &'static str) -> *mut T {
    match called(name) {
        0 => leaked(),
        errno => {
            // SAFETY: errno is the calling thread's own word.
            unsafe { *libc::__errno_location() = errno };
            ptr::null_mut()
        }
    }
}

/// A descriptor that is open and has these bytes: readable, or never.
pub(super) fn descriptor(bytes: &[u8]) -> c_int {
    let ends: &'static mut (PipeReader, PipeWriter) = Box::leak(Box::new(pipe().unwrap()));
    ends.1.write_all(bytes).unwrap();
    ends.0.as_raw_fd()
}

macro_rules! calls {
    ($($name:ident($($type:ty),*);)*) => {
        $(unsafe extern "C" fn $name($(_: $type),*) -> c_int { called(stringify!($name)) })*
    };
}
pub(super) use calls;

calls! {
    ibv_close_device(*mut ibv_context);
    ibv_query_gid(*mut ibv_context, u8, c_int, *mut ibv_gid);
    ibv_dealloc_pd(*mut ibv_pd);
    ibv_destroy_comp_channel(*mut ibv_comp_channel);
    ibv_destroy_cq(*mut ibv_cq);
    ibv_destroy_qp(*mut ibv_qp);
    ibv_req_notify_cq(*mut ibv_cq, c_int);
}

unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let list: *mut *mut ibv_device = made("ibv_get_device_list");
    if list.is_null() {
        return list;
    }
    let devices: Vec<_> = script(|script| script.devices.clone())
        .into_iter()
        .map(|name| {
            let device: &mut ibv_device = leaked();
            for (to, from) in device.name.iter_mut().zip(name.bytes()) {
                *to = from.cast_signed() as c_char;
            }
            ptr::from_mut(device)
        })
        .collect();
    // SAFETY: the caller passes a pointer to an int of its own.
    unsafe { *count = devices.len() as c_int };
    devices.leak().as_mut_ptr()
}

unsafe extern "C" fn ibv_free_device_list(_: *mut *mut ibv_device) {
    called("ibv_free_device_list");
}

unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the caller names a device of the list, and devices are leaked.
    unsafe { (&raw const (*device).name).cast() }
}

pub(super) unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let context: *mut ibv_context = made("ibv_open_device");
    // SAFETY: the pointer is null, or of a leaked struct that was just made and that nobody else knows.
    if let Some(context) = unsafe { context.as_mut() } {
        equip(context, device);
    }
    context
}

pub(super) fn equip(context: &mut ibv_context, device: *mut ibv_device) {
    context.device = device;
    context.ops.poll_cq = Some(poll_cq);
    context.ops.req_notify_cq = Some(ibv_req_notify_cq);
    context.ops.post_send = Some(post_send);
    context.ops.post_recv = Some(post_recv);
}

unsafe extern "C" fn ibv_query_device(_: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: the caller passes a pointer to attributes of its own.
    unsafe {
        ((*attr).phys_port_cnt, (*attr).max_qp_wr) = (1, 64);
        (*attr).max_cqe = script(|script| script.cq_depth);
    }
    called("ibv_query_device")
}

unsafe extern "C" fn ibv_query_port(_: *mut ibv_context, _: u8, attr: *mut _compat_ibv_port_attr) -> c_int {
    // SAFETY: the caller passes a pointer to a complete ibv_port_attr of its own.
    let attr = unsafe { &mut *attr.cast::<ibv_port_attr>() };
    (attr.gid_tbl_len, attr.state) = (1, ibv_port_state::IBV_PORT_ACTIVE);
    // As rxe.
    attr.max_msg_sz = 8 << 20;
    called("ibv_query_port")
}

unsafe extern "C" fn ibv_alloc_pd(_: *mut ibv_context) -> *mut ibv_pd {
    made("ibv_alloc_pd")
}

unsafe extern "C" fn ibv_reg_mr(
    _: *mut ibv_pd,
    start: *mut c_void,
    bytes: usize,
    access: c_int,
) -> *mut ibv_mr {
    static KEY: AtomicU32 = AtomicU32::new(1);
    let mr: *mut ibv_mr = made("ibv_reg_mr");
    // SAFETY: the pointer is null, or of a leaked struct that was just made and that nobody else knows.
    if let Some(mr) = unsafe { mr.as_mut() } {
        let key = KEY.fetch_add(1, Ordering::Relaxed);
        (mr.lkey, mr.rkey) = (key, key);
        let (start, bytes) = (start.expose_provenance() as u64, bytes as u64);
        script(|script| script.regions.push(Region { start, bytes, access, key }));
    }
    mr
}

unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    let answer = called("ibv_dereg_mr");
    if answer == 0 {
        // SAFETY: the caller names a region that was made here, which is leaked.
        let key = unsafe { (*mr).lkey };
        script(|script| script.regions.retain(|region| region.key != key));
    }
    answer
}

unsafe extern "C" fn ibv_modify_qp(_: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    let answer = called("ibv_modify_qp");
    if answer == 0 {
        // SAFETY: the caller passes a pointer to attributes of its own, which name a state.
        let (state, ack_timeout) = unsafe { ((*attr).qp_state, (*attr).timeout) };
        script(|script| {
            script.states.push(state);
            if mask.cast_unsigned() & ibv_qp_attr_mask::IBV_QP_TIMEOUT.0 != 0 {
                script.ack_timeouts.push(ack_timeout);
            }
        });
    }
    answer
}

unsafe extern "C" fn ibv_create_comp_channel(_: *mut ibv_context) -> *mut ibv_comp_channel {
    let channel: *mut ibv_comp_channel = made("ibv_create_comp_channel");
    // SAFETY: the pointer is null, or of a leaked struct that was just made and that nobody else knows.
    if let Some(channel) = unsafe { channel.as_mut() } {
        channel.fd = descriptor(b"");
    }
    channel
}

unsafe extern "C" fn ibv_create_cq(
    _: *mut ibv_context,
    depth: c_int,
    cookie: *mut c_void,
    channel: *mut ibv_comp_channel,
    _: c_int,
) -> *mut ibv_cq {
    let cq: *mut ibv_cq = made("ibv_create_cq");
    // SAFETY: the pointer is null, or of a leaked struct that was just made and that nobody else knows.
    if let Some(cq) = unsafe { cq.as_mut() } {
        (cq.cqe, cq.cq_context, cq.channel) = (depth, cookie, channel);
    }
    cq
}

/// Gives the event of a queue with this cookie, which is its own address, or none.
unsafe extern "C" fn ibv_get_cq_event(
    _: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cookie: *mut *mut c_void,
) -> c_int {
    match called("ibv_get_cq_event") {
        0 => {
            let made: &mut ibv_cq = leaked();
            // SAFETY: the caller passes pointers that it may write to.
            unsafe { (*cq, *cookie) = (made, ptr::without_provenance_mut(usize::MAX)) };
            0
        }
        errno => {
            // SAFETY: errno is the calling thread's own word.
            unsafe { *libc::__errno_location() = errno };
            -1
        }
    }
}

unsafe extern "C" fn ibv_ack_cq_events(_: *mut ibv_cq, _: u32) {
    called("ibv_ack_cq_events");
}

unsafe extern "C" fn ibv_create_qp(_: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    let qp: *mut ibv_qp = made("ibv_create_qp");
    // SAFETY: the pointer is null, or of a QP that was just made and that nobody else knows.
    if let Some(qp) = unsafe { qp.as_mut() } {
        qp.qp_num = 77;
        // SAFETY: the caller's attributes live during the call, and nobody else uses them.
        unsafe { (*attr).cap.max_inline_data += 16 };
    }
    qp
}

unsafe extern "C" fn post_send(_: *mut ibv_qp, first: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) -> c_int {
    let (mut batch, mut next) = (Vec::new(), first);
    let answer = called("post_send");
    let taken = script(|script| script.taken);
    // SAFETY: the list is the caller's, and ends in null; unions are integers.
    while let Some(wr) = unsafe { next.as_ref() } {
        if answer != 0 && batch.len() == taken {
            // SAFETY: the caller passes a pointer that it may write to.
            unsafe { *bad = next };
            break;
        }
        // SAFETY: the caller's request has as many SGEs as it says.
        let sges = (0..wr.num_sge as usize).map(|index| unsafe { *wr.sg_list.add(index) });
        let (from, lkeys) = sges.map(|sge| ((sge.addr, sge.length), sge.lkey)).unzip();
        // SAFETY: every member of the union is integers, so any bytes are a value.
        let (to, rkey) = unsafe { (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) };
        // SAFETY: as above.
        let immediate = u32::from_be(unsafe { wr.__bindgen_anon_1.imm_data });
        let (id, opcode, flags) = (wr.wr_id, wr.opcode, wr.send_flags);
        batch.push(Posted { id, opcode, flags, from, lkeys, to, rkey, immediate });
        next = wr.next;
    }
    script(|script| script.posted.push(batch));
    answer
}

unsafe extern "C" fn post_recv(_: *mut ibv_qp, wr: *mut ibv_recv_wr, _: *mut *mut ibv_recv_wr) -> c_int {
    // SAFETY: the caller passes a request of its own, with as many SGEs as it says.
    let (id, sge) = unsafe { ((*wr).wr_id, ((*wr).num_sge > 0).then(|| *(*wr).sg_list)) };
    let answer = called("post_recv");
    if let Some(sge) = sge.filter(|_| answer == 0) {
        script(|script| script.receives.push_back((id, sge.addr, sge.length)));
    }
    answer
}

unsafe extern "C" fn poll_cq(_: *mut ibv_cq, room: c_int, into: *mut ibv_wc) -> c_int {
    let answer = called("poll_cq");
    if answer != 0 {
        return answer;
    }
    script(|script| {
        let count = script.completions.len().min(room as usize);
        for (at, wc) in script.completions.drain(..count).enumerate() {
            // SAFETY: the caller has room for so many.
            unsafe { into.add(at).write(wc) };
        }
        count as c_int
    })
}

/// libibverbs, one that is too old for what is optional.
pub(crate) fn verbs() -> &'static Verbs {
    let absent = || libloading::Error::DlSymUnknown;
    let required = Ibverbs {
        __library: Library::this().into(),
        ibv_get_device_list,
        ibv_free_device_list,
        ibv_get_device_name,
        ibv_open_device,
        ibv_close_device,
        ibv_query_device,
        ibv_query_port,
        ibv_query_gid,
        ibv_alloc_pd,
        ibv_dealloc_pd,
        ibv_reg_mr,
        ibv_dereg_mr,
        ibv_create_comp_channel,
        ibv_destroy_comp_channel,
        ibv_create_cq,
        ibv_destroy_cq,
        ibv_get_cq_event,
        ibv_ack_cq_events,
        ibv_create_qp,
        ibv_destroy_qp,
        ibv_modify_qp,
    };
    let recent = IbverbsRecent {
        __library: Library::this().into(),
        _ibv_query_gid_ex: Err(absent()),
        ibv_query_qp_data_in_order: Err(absent()),
    };
    Box::leak(Box::new(Verbs { required, recent }))
}
