//! The calls of librdmacm.

use super::calls::{calls, descriptor, equip, ibv_open_device, leaked, made};
use super::*;
use crate::cm_address;
use core::ffi::c_void;
use core::net::SocketAddr;
use libloading::os::unix::Library;

calls! {
    rdma_destroy_id(*mut rdma_cm_id);
    rdma_resolve_addr(*mut rdma_cm_id, *mut sockaddr, *mut sockaddr, c_int);
    rdma_resolve_route(*mut rdma_cm_id, c_int);
    rdma_establish(*mut rdma_cm_id);
    rdma_reject(*mut rdma_cm_id, *const c_void, u8);
    rdma_disconnect(*mut rdma_cm_id);
    rdma_migrate_id(*mut rdma_cm_id, *mut rdma_event_channel);
}

unsafe extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    let channel: *mut rdma_event_channel = made("rdma_create_event_channel");
    // SAFETY: the pointer is null, or of a leaked struct that was just made and that nobody else knows.
    if let Some(channel) = unsafe { channel.as_mut() } {
        channel.fd = descriptor(if script(|script| script.are_channels_readable) { b"x" } else { b"" });
    }
    channel
}

unsafe extern "C" fn rdma_destroy_event_channel(_: *mut rdma_event_channel) {
    called("rdma_destroy_event_channel");
}

unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context {
    // SAFETY: the caller passes a pointer to an int of its own.
    unsafe { *count = 0 };
    made("rdma_get_devices")
}

unsafe extern "C" fn rdma_free_devices(_: *mut *mut ibv_context) {
    called("rdma_free_devices");
}

unsafe extern "C" fn rdma_create_id(
    _: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    cookie: *mut c_void,
    _: rdma_port_space,
) -> c_int {
    let made: *mut rdma_cm_id = made("rdma_create_id");
    // SAFETY: the pointer is null, or of a leaked struct that was just made and that nobody else knows.
    let Some(raw) = (unsafe { made.as_mut() }) else { return -1 };
    (raw.context, raw.port_num) = (cookie, 2);
    let device: &mut ibv_device = leaked();
    if script(|script| script.is_iwarp) {
        device.transport_type = ibv_transport_type::IBV_TRANSPORT_IWARP;
    }
    let (is_one, known) = script(|script| (script.cq_depth > 0, script.device));
    raw.verbs = match known {
        Some(known) if is_one => known.as_ptr(),
        // SAFETY: the id is leaked, and has a device from the start.
        _ => unsafe { ibv_open_device(device) },
    };
    script(|script| script.device = ptr::NonNull::new(raw.verbs));
    // SAFETY: the caller passes a pointer that it may write to.
    unsafe { *id = made };
    0
}

/// Returns what the kernel would, with others bound as in `Script::bound`.
fn taken(address: SocketAddr, is_only: bool) -> c_int {
    for other in script(|script| script.bound.clone()) {
        let apart = is_only && other.is_ipv4() != address.is_ipv4();
        if other.port() != address.port() || apart {
            continue;
        }
        if other.ip().is_unspecified() || address.ip().is_unspecified() {
            return libc::EADDRNOTAVAIL;
        }
        if other.ip() == address.ip() {
            return libc::EADDRINUSE;
        }
    }
    0
}

/// Binds as the kernel does.
unsafe extern "C" fn rdma_bind_addr(id: *mut rdma_cm_id, address: *mut sockaddr) -> c_int {
    let answer = called("rdma_bind_addr");
    if answer != 0 {
        return answer;
    }
    // SAFETY: the caller's address is as long as its family says.
    let mut address = unsafe { cm_address::read(address) }.unwrap();
    if matches!(address, SocketAddr::V6(address) if address.ip().is_unicast_link_local() && address.scope_id() == 0)
    {
        return libc::EINVAL;
    }
    let is_only = address.is_ipv4() || script(|script| script.family_only.contains(&id.addr()));
    let answer = if address.port() != 0 {
        taken(address, is_only)
    } else {
        // The kernel's choice is free.
        while let Some(port) = script(|script| script.free_ports.pop_front()) {
            address.set_port(port);
            if taken(address, is_only) == 0 {
                break;
            }
        }
        0
    };
    if answer != 0 {
        return answer;
    }
    // SAFETY: the id is leaked, and its storage is larger than every address.
    unsafe {
        let raw = cm_address::RawAddress::new(address);
        (&raw mut (*id).route.addr.__bindgen_anon_1).cast::<cm_address::RawAddress>().write(raw);
    }
    0
}

fn record_params(params: *mut rdma_conn_param) {
    // SAFETY: the caller's parameters, and as many bytes of private data as they say.
    let (number, data) = unsafe {
        let params = &*params;
        let data =
            core::slice::from_raw_parts(params.private_data.cast::<u8>(), params.private_data_len.into());
        (params.qp_num, data.to_vec())
    };
    script(|script| script.params.push((number, data)));
}

unsafe extern "C" fn rdma_connect(_: *mut rdma_cm_id, params: *mut rdma_conn_param) -> c_int {
    record_params(params);
    called("rdma_connect")
}

unsafe extern "C" fn rdma_accept(_: *mut rdma_cm_id, params: *mut rdma_conn_param) -> c_int {
    record_params(params);
    called("rdma_accept")
}

unsafe extern "C" fn rdma_listen(_: *mut rdma_cm_id, backlog: c_int) -> c_int {
    script(|script| script.backlogs.push(backlog));
    called("rdma_listen")
}

unsafe extern "C" fn rdma_get_cm_event(_: *mut rdma_event_channel, into: *mut *mut rdma_cm_event) -> c_int {
    called("rdma_get_cm_event");
    let Some((kind, status)) = script(|script| (!script.events.is_empty()).then(|| script.events.remove(0)))
    else {
        // SAFETY: errno is the calling thread's own word.
        unsafe { *libc::__errno_location() = libc::EAGAIN };
        return -1;
    };
    let (event, about): (&mut rdma_cm_event, &mut rdma_cm_id) = (leaked(), leaked());
    let number = script(|script| script.about);
    about.context = ptr::without_provenance_mut(if number == 0 { 4711 } else { number });
    (event.event, event.status, event.id) = (kind, status, about);
    if kind == rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST {
        let asking: &mut rdma_cm_id = leaked();
        let context: &mut ibv_context = leaked();
        equip(context, leaked());
        asking.verbs = context;
        let raw = cm_address::RawAddress::new(SocketAddr::from(([192, 0, 2, 7], 7)));
        // SAFETY: the storage is larger than every address.
        unsafe { (&raw mut asking.route.addr.__bindgen_anon_2).cast::<cm_address::RawAddress>().write(raw) };
        (event.listen_id, event.id) = (event.id, asking);
    }
    let has_data = [
        rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST,
        rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_RESPONSE,
        rdma_cm_event_type::RDMA_CM_EVENT_ESTABLISHED,
        rdma_cm_event_type::RDMA_CM_EVENT_REJECTED,
    ];
    if has_data.contains(&kind) {
        let said: &'static [u8] = script(|script| script.private_data.clone()).leak();
        event.param.conn = rdma_conn_param {
            private_data: said.as_ptr().cast(),
            private_data_len: said.len() as u8,
            ..rdma_conn_param::default()
        };
    }
    // SAFETY: the caller passes a pointer that it may write to.
    unsafe { *into = event };
    0
}

unsafe extern "C" fn rdma_ack_cm_event(_: *mut rdma_cm_event) -> c_int {
    called("rdma_ack_cm_event")
}

unsafe extern "C" fn rdma_set_option(
    id: *mut rdma_cm_id,
    _: c_int,
    option: c_int,
    value: *mut c_void,
    bytes: usize,
) -> c_int {
    let value = match bytes {
        // SAFETY: the caller passes a pointer to an option of one byte.
        1 => unsafe { value.cast::<u8>().read() },
        // SAFETY: the caller passes a pointer to an option of four bytes, an int.
        4 => unsafe { value.cast::<c_int>().read() as u8 },
        _ => panic!("no option has {bytes} bytes"),
    };
    script(|script| script.options.push((option, value)));
    if option == RDMA_OPTION_ID_AFONLY.cast_signed() {
        script(|script| script.family_only.push(id.addr()));
    }
    called("rdma_set_option")
}

unsafe extern "C" fn rdma_init_qp_attr(
    _: *mut rdma_cm_id,
    attr: *mut ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    // SAFETY: the caller passes pointers to attributes and a mask of its own.
    unsafe {
        (*attr).path_mtu = ibv_mtu::IBV_MTU_1024;
        let to_send = (*attr).qp_state == ibv_qp_state::IBV_QPS_RTS;
        let timeout = if to_send { ibv_qp_attr_mask::IBV_QP_TIMEOUT.0 } else { 0 };
        let always = ibv_qp_attr_mask::IBV_QP_STATE | ibv_qp_attr_mask::IBV_QP_PATH_MTU;
        *mask = (always.0 | timeout).cast_signed();
    }
    called("rdma_init_qp_attr")
}

/// librdmacm.
pub(crate) fn rdmacm() -> &'static Rdmacm {
    Box::leak(Box::new(Rdmacm {
        __library: Library::this().into(),
        rdma_create_event_channel,
        rdma_destroy_event_channel,
        rdma_get_devices,
        rdma_free_devices,
        rdma_create_id,
        rdma_destroy_id,
        rdma_bind_addr,
        rdma_resolve_addr,
        rdma_resolve_route,
        rdma_connect,
        rdma_establish,
        rdma_listen,
        rdma_accept,
        rdma_reject,
        rdma_disconnect,
        rdma_get_cm_event,
        rdma_ack_cm_event,
        rdma_set_option,
        rdma_migrate_id,
        rdma_init_qp_attr,
    }))
}
