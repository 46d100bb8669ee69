pub type __u16 = ::core::ffi::c_ushort;
pub type __u32 = ::core::ffi::c_uint;
pub type __u64 = ::core::ffi::c_ulonglong;
pub type __be16 = __u16;
pub type __be32 = __u32;
pub type __be64 = __u64;
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_gid {
    pub raw: [u8; 16usize],
    pub global: ibv_gid__bindgen_ty_1,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_gid__bindgen_ty_1 {
    pub subnet_prefix: __be64,
    pub interface_id: __be64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_gid__bindgen_ty_1",
    ][::core::mem::size_of::<ibv_gid__bindgen_ty_1>() - 16usize];
    [
        "Alignment of ibv_gid__bindgen_ty_1",
    ][::core::mem::align_of::<ibv_gid__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ibv_gid__bindgen_ty_1::subnet_prefix",
    ][::core::mem::offset_of!(ibv_gid__bindgen_ty_1, subnet_prefix) - 0usize];
    [
        "Offset of field: ibv_gid__bindgen_ty_1::interface_id",
    ][::core::mem::offset_of!(ibv_gid__bindgen_ty_1, interface_id) - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_gid"][::core::mem::size_of::<ibv_gid>() - 16usize];
    ["Alignment of ibv_gid"][::core::mem::align_of::<ibv_gid>() - 8usize];
    ["Offset of field: ibv_gid::raw"][::core::mem::offset_of!(ibv_gid, raw) - 0usize];
    [
        "Offset of field: ibv_gid::global",
    ][::core::mem::offset_of!(ibv_gid, global) - 0usize];
};
impl Default for ibv_gid {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl ibv_gid_type {
    pub const IBV_GID_TYPE_IB: ibv_gid_type = ibv_gid_type(0);
    pub const IBV_GID_TYPE_ROCE_V1: ibv_gid_type = ibv_gid_type(1);
    pub const IBV_GID_TYPE_ROCE_V2: ibv_gid_type = ibv_gid_type(2);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_gid_type(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_gid_entry"][::core::mem::size_of::<ibv_gid_entry>() - 32usize];
    ["Alignment of ibv_gid_entry"][::core::mem::align_of::<ibv_gid_entry>() - 8usize];
    [
        "Offset of field: ibv_gid_entry::gid",
    ][::core::mem::offset_of!(ibv_gid_entry, gid) - 0usize];
    [
        "Offset of field: ibv_gid_entry::gid_index",
    ][::core::mem::offset_of!(ibv_gid_entry, gid_index) - 16usize];
    [
        "Offset of field: ibv_gid_entry::port_num",
    ][::core::mem::offset_of!(ibv_gid_entry, port_num) - 20usize];
    [
        "Offset of field: ibv_gid_entry::gid_type",
    ][::core::mem::offset_of!(ibv_gid_entry, gid_type) - 24usize];
    [
        "Offset of field: ibv_gid_entry::ndev_ifindex",
    ][::core::mem::offset_of!(ibv_gid_entry, ndev_ifindex) - 28usize];
};
impl Default for ibv_gid_entry {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl ibv_node_type {
    pub const IBV_NODE_UNKNOWN: ibv_node_type = ibv_node_type(-1);
    pub const IBV_NODE_CA: ibv_node_type = ibv_node_type(1);
    pub const IBV_NODE_SWITCH: ibv_node_type = ibv_node_type(2);
    pub const IBV_NODE_ROUTER: ibv_node_type = ibv_node_type(3);
    pub const IBV_NODE_RNIC: ibv_node_type = ibv_node_type(4);
    pub const IBV_NODE_USNIC: ibv_node_type = ibv_node_type(5);
    pub const IBV_NODE_USNIC_UDP: ibv_node_type = ibv_node_type(6);
    pub const IBV_NODE_UNSPECIFIED: ibv_node_type = ibv_node_type(7);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_node_type(pub ::core::ffi::c_int);
impl ibv_transport_type {
    pub const IBV_TRANSPORT_UNKNOWN: ibv_transport_type = ibv_transport_type(-1);
    pub const IBV_TRANSPORT_IB: ibv_transport_type = ibv_transport_type(0);
    pub const IBV_TRANSPORT_IWARP: ibv_transport_type = ibv_transport_type(1);
    pub const IBV_TRANSPORT_USNIC: ibv_transport_type = ibv_transport_type(2);
    pub const IBV_TRANSPORT_USNIC_UDP: ibv_transport_type = ibv_transport_type(3);
    pub const IBV_TRANSPORT_UNSPECIFIED: ibv_transport_type = ibv_transport_type(4);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_transport_type(pub ::core::ffi::c_int);
impl ibv_atomic_cap {
    pub const IBV_ATOMIC_NONE: ibv_atomic_cap = ibv_atomic_cap(0);
    pub const IBV_ATOMIC_HCA: ibv_atomic_cap = ibv_atomic_cap(1);
    pub const IBV_ATOMIC_GLOB: ibv_atomic_cap = ibv_atomic_cap(2);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_atomic_cap(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_device_attr {
    pub fw_ver: [::core::ffi::c_char; 64usize],
    pub node_guid: __be64,
    pub sys_image_guid: __be64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: ::core::ffi::c_int,
    pub max_qp_wr: ::core::ffi::c_int,
    pub device_cap_flags: ::core::ffi::c_uint,
    pub max_sge: ::core::ffi::c_int,
    pub max_sge_rd: ::core::ffi::c_int,
    pub max_cq: ::core::ffi::c_int,
    pub max_cqe: ::core::ffi::c_int,
    pub max_mr: ::core::ffi::c_int,
    pub max_pd: ::core::ffi::c_int,
    pub max_qp_rd_atom: ::core::ffi::c_int,
    pub max_ee_rd_atom: ::core::ffi::c_int,
    pub max_res_rd_atom: ::core::ffi::c_int,
    pub max_qp_init_rd_atom: ::core::ffi::c_int,
    pub max_ee_init_rd_atom: ::core::ffi::c_int,
    pub atomic_cap: ibv_atomic_cap,
    pub max_ee: ::core::ffi::c_int,
    pub max_rdd: ::core::ffi::c_int,
    pub max_mw: ::core::ffi::c_int,
    pub max_raw_ipv6_qp: ::core::ffi::c_int,
    pub max_raw_ethy_qp: ::core::ffi::c_int,
    pub max_mcast_grp: ::core::ffi::c_int,
    pub max_mcast_qp_attach: ::core::ffi::c_int,
    pub max_total_mcast_qp_attach: ::core::ffi::c_int,
    pub max_ah: ::core::ffi::c_int,
    pub max_fmr: ::core::ffi::c_int,
    pub max_map_per_fmr: ::core::ffi::c_int,
    pub max_srq: ::core::ffi::c_int,
    pub max_srq_wr: ::core::ffi::c_int,
    pub max_srq_sge: ::core::ffi::c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_device_attr"][::core::mem::size_of::<ibv_device_attr>() - 232usize];
    [
        "Alignment of ibv_device_attr",
    ][::core::mem::align_of::<ibv_device_attr>() - 8usize];
    [
        "Offset of field: ibv_device_attr::fw_ver",
    ][::core::mem::offset_of!(ibv_device_attr, fw_ver) - 0usize];
    [
        "Offset of field: ibv_device_attr::node_guid",
    ][::core::mem::offset_of!(ibv_device_attr, node_guid) - 64usize];
    [
        "Offset of field: ibv_device_attr::sys_image_guid",
    ][::core::mem::offset_of!(ibv_device_attr, sys_image_guid) - 72usize];
    [
        "Offset of field: ibv_device_attr::max_mr_size",
    ][::core::mem::offset_of!(ibv_device_attr, max_mr_size) - 80usize];
    [
        "Offset of field: ibv_device_attr::page_size_cap",
    ][::core::mem::offset_of!(ibv_device_attr, page_size_cap) - 88usize];
    [
        "Offset of field: ibv_device_attr::vendor_id",
    ][::core::mem::offset_of!(ibv_device_attr, vendor_id) - 96usize];
    [
        "Offset of field: ibv_device_attr::vendor_part_id",
    ][::core::mem::offset_of!(ibv_device_attr, vendor_part_id) - 100usize];
    [
        "Offset of field: ibv_device_attr::hw_ver",
    ][::core::mem::offset_of!(ibv_device_attr, hw_ver) - 104usize];
    [
        "Offset of field: ibv_device_attr::max_qp",
    ][::core::mem::offset_of!(ibv_device_attr, max_qp) - 108usize];
    [
        "Offset of field: ibv_device_attr::max_qp_wr",
    ][::core::mem::offset_of!(ibv_device_attr, max_qp_wr) - 112usize];
    [
        "Offset of field: ibv_device_attr::device_cap_flags",
    ][::core::mem::offset_of!(ibv_device_attr, device_cap_flags) - 116usize];
    [
        "Offset of field: ibv_device_attr::max_sge",
    ][::core::mem::offset_of!(ibv_device_attr, max_sge) - 120usize];
    [
        "Offset of field: ibv_device_attr::max_sge_rd",
    ][::core::mem::offset_of!(ibv_device_attr, max_sge_rd) - 124usize];
    [
        "Offset of field: ibv_device_attr::max_cq",
    ][::core::mem::offset_of!(ibv_device_attr, max_cq) - 128usize];
    [
        "Offset of field: ibv_device_attr::max_cqe",
    ][::core::mem::offset_of!(ibv_device_attr, max_cqe) - 132usize];
    [
        "Offset of field: ibv_device_attr::max_mr",
    ][::core::mem::offset_of!(ibv_device_attr, max_mr) - 136usize];
    [
        "Offset of field: ibv_device_attr::max_pd",
    ][::core::mem::offset_of!(ibv_device_attr, max_pd) - 140usize];
    [
        "Offset of field: ibv_device_attr::max_qp_rd_atom",
    ][::core::mem::offset_of!(ibv_device_attr, max_qp_rd_atom) - 144usize];
    [
        "Offset of field: ibv_device_attr::max_ee_rd_atom",
    ][::core::mem::offset_of!(ibv_device_attr, max_ee_rd_atom) - 148usize];
    [
        "Offset of field: ibv_device_attr::max_res_rd_atom",
    ][::core::mem::offset_of!(ibv_device_attr, max_res_rd_atom) - 152usize];
    [
        "Offset of field: ibv_device_attr::max_qp_init_rd_atom",
    ][::core::mem::offset_of!(ibv_device_attr, max_qp_init_rd_atom) - 156usize];
    [
        "Offset of field: ibv_device_attr::max_ee_init_rd_atom",
    ][::core::mem::offset_of!(ibv_device_attr, max_ee_init_rd_atom) - 160usize];
    [
        "Offset of field: ibv_device_attr::atomic_cap",
    ][::core::mem::offset_of!(ibv_device_attr, atomic_cap) - 164usize];
    [
        "Offset of field: ibv_device_attr::max_ee",
    ][::core::mem::offset_of!(ibv_device_attr, max_ee) - 168usize];
    [
        "Offset of field: ibv_device_attr::max_rdd",
    ][::core::mem::offset_of!(ibv_device_attr, max_rdd) - 172usize];
    [
        "Offset of field: ibv_device_attr::max_mw",
    ][::core::mem::offset_of!(ibv_device_attr, max_mw) - 176usize];
    [
        "Offset of field: ibv_device_attr::max_raw_ipv6_qp",
    ][::core::mem::offset_of!(ibv_device_attr, max_raw_ipv6_qp) - 180usize];
    [
        "Offset of field: ibv_device_attr::max_raw_ethy_qp",
    ][::core::mem::offset_of!(ibv_device_attr, max_raw_ethy_qp) - 184usize];
    [
        "Offset of field: ibv_device_attr::max_mcast_grp",
    ][::core::mem::offset_of!(ibv_device_attr, max_mcast_grp) - 188usize];
    [
        "Offset of field: ibv_device_attr::max_mcast_qp_attach",
    ][::core::mem::offset_of!(ibv_device_attr, max_mcast_qp_attach) - 192usize];
    [
        "Offset of field: ibv_device_attr::max_total_mcast_qp_attach",
    ][::core::mem::offset_of!(ibv_device_attr, max_total_mcast_qp_attach) - 196usize];
    [
        "Offset of field: ibv_device_attr::max_ah",
    ][::core::mem::offset_of!(ibv_device_attr, max_ah) - 200usize];
    [
        "Offset of field: ibv_device_attr::max_fmr",
    ][::core::mem::offset_of!(ibv_device_attr, max_fmr) - 204usize];
    [
        "Offset of field: ibv_device_attr::max_map_per_fmr",
    ][::core::mem::offset_of!(ibv_device_attr, max_map_per_fmr) - 208usize];
    [
        "Offset of field: ibv_device_attr::max_srq",
    ][::core::mem::offset_of!(ibv_device_attr, max_srq) - 212usize];
    [
        "Offset of field: ibv_device_attr::max_srq_wr",
    ][::core::mem::offset_of!(ibv_device_attr, max_srq_wr) - 216usize];
    [
        "Offset of field: ibv_device_attr::max_srq_sge",
    ][::core::mem::offset_of!(ibv_device_attr, max_srq_sge) - 220usize];
    [
        "Offset of field: ibv_device_attr::max_pkeys",
    ][::core::mem::offset_of!(ibv_device_attr, max_pkeys) - 224usize];
    [
        "Offset of field: ibv_device_attr::local_ca_ack_delay",
    ][::core::mem::offset_of!(ibv_device_attr, local_ca_ack_delay) - 226usize];
    [
        "Offset of field: ibv_device_attr::phys_port_cnt",
    ][::core::mem::offset_of!(ibv_device_attr, phys_port_cnt) - 227usize];
};
impl Default for ibv_device_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl ibv_mtu {
    pub const IBV_MTU_256: ibv_mtu = ibv_mtu(1);
    pub const IBV_MTU_512: ibv_mtu = ibv_mtu(2);
    pub const IBV_MTU_1024: ibv_mtu = ibv_mtu(3);
    pub const IBV_MTU_2048: ibv_mtu = ibv_mtu(4);
    pub const IBV_MTU_4096: ibv_mtu = ibv_mtu(5);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_mtu(pub ::core::ffi::c_uint);
impl ibv_port_state {
    pub const IBV_PORT_NOP: ibv_port_state = ibv_port_state(0);
    pub const IBV_PORT_DOWN: ibv_port_state = ibv_port_state(1);
    pub const IBV_PORT_INIT: ibv_port_state = ibv_port_state(2);
    pub const IBV_PORT_ARMED: ibv_port_state = ibv_port_state(3);
    pub const IBV_PORT_ACTIVE: ibv_port_state = ibv_port_state(4);
    pub const IBV_PORT_ACTIVE_DEFER: ibv_port_state = ibv_port_state(5);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_port_state(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_port_attr {
    pub state: ibv_port_state,
    pub max_mtu: ibv_mtu,
    pub active_mtu: ibv_mtu,
    pub gid_tbl_len: ::core::ffi::c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_port_attr"][::core::mem::size_of::<ibv_port_attr>() - 52usize];
    ["Alignment of ibv_port_attr"][::core::mem::align_of::<ibv_port_attr>() - 4usize];
    [
        "Offset of field: ibv_port_attr::state",
    ][::core::mem::offset_of!(ibv_port_attr, state) - 0usize];
    [
        "Offset of field: ibv_port_attr::max_mtu",
    ][::core::mem::offset_of!(ibv_port_attr, max_mtu) - 4usize];
    [
        "Offset of field: ibv_port_attr::active_mtu",
    ][::core::mem::offset_of!(ibv_port_attr, active_mtu) - 8usize];
    [
        "Offset of field: ibv_port_attr::gid_tbl_len",
    ][::core::mem::offset_of!(ibv_port_attr, gid_tbl_len) - 12usize];
    [
        "Offset of field: ibv_port_attr::port_cap_flags",
    ][::core::mem::offset_of!(ibv_port_attr, port_cap_flags) - 16usize];
    [
        "Offset of field: ibv_port_attr::max_msg_sz",
    ][::core::mem::offset_of!(ibv_port_attr, max_msg_sz) - 20usize];
    [
        "Offset of field: ibv_port_attr::bad_pkey_cntr",
    ][::core::mem::offset_of!(ibv_port_attr, bad_pkey_cntr) - 24usize];
    [
        "Offset of field: ibv_port_attr::qkey_viol_cntr",
    ][::core::mem::offset_of!(ibv_port_attr, qkey_viol_cntr) - 28usize];
    [
        "Offset of field: ibv_port_attr::pkey_tbl_len",
    ][::core::mem::offset_of!(ibv_port_attr, pkey_tbl_len) - 32usize];
    [
        "Offset of field: ibv_port_attr::lid",
    ][::core::mem::offset_of!(ibv_port_attr, lid) - 34usize];
    [
        "Offset of field: ibv_port_attr::sm_lid",
    ][::core::mem::offset_of!(ibv_port_attr, sm_lid) - 36usize];
    [
        "Offset of field: ibv_port_attr::lmc",
    ][::core::mem::offset_of!(ibv_port_attr, lmc) - 38usize];
    [
        "Offset of field: ibv_port_attr::max_vl_num",
    ][::core::mem::offset_of!(ibv_port_attr, max_vl_num) - 39usize];
    [
        "Offset of field: ibv_port_attr::sm_sl",
    ][::core::mem::offset_of!(ibv_port_attr, sm_sl) - 40usize];
    [
        "Offset of field: ibv_port_attr::subnet_timeout",
    ][::core::mem::offset_of!(ibv_port_attr, subnet_timeout) - 41usize];
    [
        "Offset of field: ibv_port_attr::init_type_reply",
    ][::core::mem::offset_of!(ibv_port_attr, init_type_reply) - 42usize];
    [
        "Offset of field: ibv_port_attr::active_width",
    ][::core::mem::offset_of!(ibv_port_attr, active_width) - 43usize];
    [
        "Offset of field: ibv_port_attr::active_speed",
    ][::core::mem::offset_of!(ibv_port_attr, active_speed) - 44usize];
    [
        "Offset of field: ibv_port_attr::phys_state",
    ][::core::mem::offset_of!(ibv_port_attr, phys_state) - 45usize];
    [
        "Offset of field: ibv_port_attr::link_layer",
    ][::core::mem::offset_of!(ibv_port_attr, link_layer) - 46usize];
    [
        "Offset of field: ibv_port_attr::flags",
    ][::core::mem::offset_of!(ibv_port_attr, flags) - 47usize];
    [
        "Offset of field: ibv_port_attr::port_cap_flags2",
    ][::core::mem::offset_of!(ibv_port_attr, port_cap_flags2) - 48usize];
};
impl Default for ibv_port_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl ibv_wc_status {
    pub const IBV_WC_SUCCESS: ibv_wc_status = ibv_wc_status(0);
    pub const IBV_WC_LOC_LEN_ERR: ibv_wc_status = ibv_wc_status(1);
    pub const IBV_WC_LOC_QP_OP_ERR: ibv_wc_status = ibv_wc_status(2);
    pub const IBV_WC_LOC_EEC_OP_ERR: ibv_wc_status = ibv_wc_status(3);
    pub const IBV_WC_LOC_PROT_ERR: ibv_wc_status = ibv_wc_status(4);
    pub const IBV_WC_WR_FLUSH_ERR: ibv_wc_status = ibv_wc_status(5);
    pub const IBV_WC_MW_BIND_ERR: ibv_wc_status = ibv_wc_status(6);
    pub const IBV_WC_BAD_RESP_ERR: ibv_wc_status = ibv_wc_status(7);
    pub const IBV_WC_LOC_ACCESS_ERR: ibv_wc_status = ibv_wc_status(8);
    pub const IBV_WC_REM_INV_REQ_ERR: ibv_wc_status = ibv_wc_status(9);
    pub const IBV_WC_REM_ACCESS_ERR: ibv_wc_status = ibv_wc_status(10);
    pub const IBV_WC_REM_OP_ERR: ibv_wc_status = ibv_wc_status(11);
    pub const IBV_WC_RETRY_EXC_ERR: ibv_wc_status = ibv_wc_status(12);
    pub const IBV_WC_RNR_RETRY_EXC_ERR: ibv_wc_status = ibv_wc_status(13);
    pub const IBV_WC_LOC_RDD_VIOL_ERR: ibv_wc_status = ibv_wc_status(14);
    pub const IBV_WC_REM_INV_RD_REQ_ERR: ibv_wc_status = ibv_wc_status(15);
    pub const IBV_WC_REM_ABORT_ERR: ibv_wc_status = ibv_wc_status(16);
    pub const IBV_WC_INV_EECN_ERR: ibv_wc_status = ibv_wc_status(17);
    pub const IBV_WC_INV_EEC_STATE_ERR: ibv_wc_status = ibv_wc_status(18);
    pub const IBV_WC_FATAL_ERR: ibv_wc_status = ibv_wc_status(19);
    pub const IBV_WC_RESP_TIMEOUT_ERR: ibv_wc_status = ibv_wc_status(20);
    pub const IBV_WC_GENERAL_ERR: ibv_wc_status = ibv_wc_status(21);
    pub const IBV_WC_TM_ERR: ibv_wc_status = ibv_wc_status(22);
    pub const IBV_WC_TM_RNDV_INCOMPLETE: ibv_wc_status = ibv_wc_status(23);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_wc_status(pub ::core::ffi::c_uint);
impl ibv_wc_opcode {
    pub const IBV_WC_SEND: ibv_wc_opcode = ibv_wc_opcode(0);
    pub const IBV_WC_RDMA_WRITE: ibv_wc_opcode = ibv_wc_opcode(1);
    pub const IBV_WC_RDMA_READ: ibv_wc_opcode = ibv_wc_opcode(2);
    pub const IBV_WC_COMP_SWAP: ibv_wc_opcode = ibv_wc_opcode(3);
    pub const IBV_WC_FETCH_ADD: ibv_wc_opcode = ibv_wc_opcode(4);
    pub const IBV_WC_BIND_MW: ibv_wc_opcode = ibv_wc_opcode(5);
    pub const IBV_WC_LOCAL_INV: ibv_wc_opcode = ibv_wc_opcode(6);
    pub const IBV_WC_TSO: ibv_wc_opcode = ibv_wc_opcode(7);
    pub const IBV_WC_ATOMIC_WRITE: ibv_wc_opcode = ibv_wc_opcode(9);
    pub const IBV_WC_RECV: ibv_wc_opcode = ibv_wc_opcode(128);
    pub const IBV_WC_RECV_RDMA_WITH_IMM: ibv_wc_opcode = ibv_wc_opcode(129);
    pub const IBV_WC_TM_ADD: ibv_wc_opcode = ibv_wc_opcode(130);
    pub const IBV_WC_TM_DEL: ibv_wc_opcode = ibv_wc_opcode(131);
    pub const IBV_WC_TM_SYNC: ibv_wc_opcode = ibv_wc_opcode(132);
    pub const IBV_WC_TM_RECV: ibv_wc_opcode = ibv_wc_opcode(133);
    pub const IBV_WC_TM_NO_TAG: ibv_wc_opcode = ibv_wc_opcode(134);
    pub const IBV_WC_DRIVER1: ibv_wc_opcode = ibv_wc_opcode(135);
    pub const IBV_WC_DRIVER2: ibv_wc_opcode = ibv_wc_opcode(136);
    pub const IBV_WC_DRIVER3: ibv_wc_opcode = ibv_wc_opcode(137);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_wc_opcode(pub ::core::ffi::c_uint);
impl ibv_wc_flags {
    pub const IBV_WC_GRH: ibv_wc_flags = ibv_wc_flags(1);
    pub const IBV_WC_WITH_IMM: ibv_wc_flags = ibv_wc_flags(2);
    pub const IBV_WC_IP_CSUM_OK: ibv_wc_flags = ibv_wc_flags(4);
    pub const IBV_WC_WITH_INV: ibv_wc_flags = ibv_wc_flags(8);
    pub const IBV_WC_TM_SYNC_REQ: ibv_wc_flags = ibv_wc_flags(16);
    pub const IBV_WC_TM_MATCH: ibv_wc_flags = ibv_wc_flags(32);
    pub const IBV_WC_TM_DATA_VALID: ibv_wc_flags = ibv_wc_flags(64);
}
impl ::core::ops::BitOr<ibv_wc_flags> for ibv_wc_flags {
    type Output = Self;
    #[inline]
    fn bitor(self, other: Self) -> Self {
        ibv_wc_flags(self.0 | other.0)
    }
}
impl ::core::ops::BitOrAssign for ibv_wc_flags {
    #[inline]
    fn bitor_assign(&mut self, rhs: ibv_wc_flags) {
        self.0 |= rhs.0;
    }
}
impl ::core::ops::BitAnd<ibv_wc_flags> for ibv_wc_flags {
    type Output = Self;
    #[inline]
    fn bitand(self, other: Self) -> Self {
        ibv_wc_flags(self.0 & other.0)
    }
}
impl ::core::ops::BitAndAssign for ibv_wc_flags {
    #[inline]
    fn bitand_assign(&mut self, rhs: ibv_wc_flags) {
        self.0 &= rhs.0;
    }
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_wc_flags(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_wc {
    pub wr_id: u64,
    pub status: ibv_wc_status,
    pub opcode: ibv_wc_opcode,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub __bindgen_anon_1: ibv_wc__bindgen_ty_1,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: ::core::ffi::c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_wc__bindgen_ty_1 {
    pub imm_data: __be32,
    pub invalidated_rkey: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_wc__bindgen_ty_1",
    ][::core::mem::size_of::<ibv_wc__bindgen_ty_1>() - 4usize];
    [
        "Alignment of ibv_wc__bindgen_ty_1",
    ][::core::mem::align_of::<ibv_wc__bindgen_ty_1>() - 4usize];
    [
        "Offset of field: ibv_wc__bindgen_ty_1::imm_data",
    ][::core::mem::offset_of!(ibv_wc__bindgen_ty_1, imm_data) - 0usize];
    [
        "Offset of field: ibv_wc__bindgen_ty_1::invalidated_rkey",
    ][::core::mem::offset_of!(ibv_wc__bindgen_ty_1, invalidated_rkey) - 0usize];
};
impl Default for ibv_wc__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_wc"][::core::mem::size_of::<ibv_wc>() - 48usize];
    ["Alignment of ibv_wc"][::core::mem::align_of::<ibv_wc>() - 8usize];
    ["Offset of field: ibv_wc::wr_id"][::core::mem::offset_of!(ibv_wc, wr_id) - 0usize];
    [
        "Offset of field: ibv_wc::status",
    ][::core::mem::offset_of!(ibv_wc, status) - 8usize];
    [
        "Offset of field: ibv_wc::opcode",
    ][::core::mem::offset_of!(ibv_wc, opcode) - 12usize];
    [
        "Offset of field: ibv_wc::vendor_err",
    ][::core::mem::offset_of!(ibv_wc, vendor_err) - 16usize];
    [
        "Offset of field: ibv_wc::byte_len",
    ][::core::mem::offset_of!(ibv_wc, byte_len) - 20usize];
    [
        "Offset of field: ibv_wc::qp_num",
    ][::core::mem::offset_of!(ibv_wc, qp_num) - 28usize];
    [
        "Offset of field: ibv_wc::src_qp",
    ][::core::mem::offset_of!(ibv_wc, src_qp) - 32usize];
    [
        "Offset of field: ibv_wc::wc_flags",
    ][::core::mem::offset_of!(ibv_wc, wc_flags) - 36usize];
    [
        "Offset of field: ibv_wc::pkey_index",
    ][::core::mem::offset_of!(ibv_wc, pkey_index) - 40usize];
    ["Offset of field: ibv_wc::slid"][::core::mem::offset_of!(ibv_wc, slid) - 42usize];
    ["Offset of field: ibv_wc::sl"][::core::mem::offset_of!(ibv_wc, sl) - 44usize];
    [
        "Offset of field: ibv_wc::dlid_path_bits",
    ][::core::mem::offset_of!(ibv_wc, dlid_path_bits) - 45usize];
};
impl Default for ibv_wc {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl ibv_access_flags {
    pub const IBV_ACCESS_LOCAL_WRITE: ibv_access_flags = ibv_access_flags(1);
    pub const IBV_ACCESS_REMOTE_WRITE: ibv_access_flags = ibv_access_flags(2);
    pub const IBV_ACCESS_REMOTE_READ: ibv_access_flags = ibv_access_flags(4);
    pub const IBV_ACCESS_REMOTE_ATOMIC: ibv_access_flags = ibv_access_flags(8);
    pub const IBV_ACCESS_MW_BIND: ibv_access_flags = ibv_access_flags(16);
    pub const IBV_ACCESS_ZERO_BASED: ibv_access_flags = ibv_access_flags(32);
    pub const IBV_ACCESS_ON_DEMAND: ibv_access_flags = ibv_access_flags(64);
    pub const IBV_ACCESS_HUGETLB: ibv_access_flags = ibv_access_flags(128);
    pub const IBV_ACCESS_RELAXED_ORDERING: ibv_access_flags = ibv_access_flags(1048576);
}
impl ::core::ops::BitOr<ibv_access_flags> for ibv_access_flags {
    type Output = Self;
    #[inline]
    fn bitor(self, other: Self) -> Self {
        ibv_access_flags(self.0 | other.0)
    }
}
impl ::core::ops::BitOrAssign for ibv_access_flags {
    #[inline]
    fn bitor_assign(&mut self, rhs: ibv_access_flags) {
        self.0 |= rhs.0;
    }
}
impl ::core::ops::BitAnd<ibv_access_flags> for ibv_access_flags {
    type Output = Self;
    #[inline]
    fn bitand(self, other: Self) -> Self {
        ibv_access_flags(self.0 & other.0)
    }
}
impl ::core::ops::BitAndAssign for ibv_access_flags {
    #[inline]
    fn bitand_assign(&mut self, rhs: ibv_access_flags) {
        self.0 &= rhs.0;
    }
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_access_flags(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_mw_bind_info"][::core::mem::size_of::<ibv_mw_bind_info>() - 32usize];
    [
        "Alignment of ibv_mw_bind_info",
    ][::core::mem::align_of::<ibv_mw_bind_info>() - 8usize];
    [
        "Offset of field: ibv_mw_bind_info::mr",
    ][::core::mem::offset_of!(ibv_mw_bind_info, mr) - 0usize];
    [
        "Offset of field: ibv_mw_bind_info::addr",
    ][::core::mem::offset_of!(ibv_mw_bind_info, addr) - 8usize];
    [
        "Offset of field: ibv_mw_bind_info::length",
    ][::core::mem::offset_of!(ibv_mw_bind_info, length) - 16usize];
    [
        "Offset of field: ibv_mw_bind_info::mw_access_flags",
    ][::core::mem::offset_of!(ibv_mw_bind_info, mw_access_flags) - 24usize];
};
impl Default for ibv_mw_bind_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_pd {
    pub context: *mut ibv_context,
    pub handle: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_pd"][::core::mem::size_of::<ibv_pd>() - 16usize];
    ["Alignment of ibv_pd"][::core::mem::align_of::<ibv_pd>() - 8usize];
    [
        "Offset of field: ibv_pd::context",
    ][::core::mem::offset_of!(ibv_pd, context) - 0usize];
    [
        "Offset of field: ibv_pd::handle",
    ][::core::mem::offset_of!(ibv_pd, handle) - 8usize];
};
impl Default for ibv_pd {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut ::core::ffi::c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_mr"][::core::mem::size_of::<ibv_mr>() - 48usize];
    ["Alignment of ibv_mr"][::core::mem::align_of::<ibv_mr>() - 8usize];
    [
        "Offset of field: ibv_mr::context",
    ][::core::mem::offset_of!(ibv_mr, context) - 0usize];
    ["Offset of field: ibv_mr::pd"][::core::mem::offset_of!(ibv_mr, pd) - 8usize];
    ["Offset of field: ibv_mr::addr"][::core::mem::offset_of!(ibv_mr, addr) - 16usize];
    [
        "Offset of field: ibv_mr::length",
    ][::core::mem::offset_of!(ibv_mr, length) - 24usize];
    [
        "Offset of field: ibv_mr::handle",
    ][::core::mem::offset_of!(ibv_mr, handle) - 32usize];
    ["Offset of field: ibv_mr::lkey"][::core::mem::offset_of!(ibv_mr, lkey) - 36usize];
    ["Offset of field: ibv_mr::rkey"][::core::mem::offset_of!(ibv_mr, rkey) - 40usize];
};
impl Default for ibv_mr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl ibv_mw_type {
    pub const IBV_MW_TYPE_1: ibv_mw_type = ibv_mw_type(1);
    pub const IBV_MW_TYPE_2: ibv_mw_type = ibv_mw_type(2);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_mw_type(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_mw {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub rkey: u32,
    pub handle: u32,
    pub type_: ibv_mw_type,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_mw"][::core::mem::size_of::<ibv_mw>() - 32usize];
    ["Alignment of ibv_mw"][::core::mem::align_of::<ibv_mw>() - 8usize];
    [
        "Offset of field: ibv_mw::context",
    ][::core::mem::offset_of!(ibv_mw, context) - 0usize];
    ["Offset of field: ibv_mw::pd"][::core::mem::offset_of!(ibv_mw, pd) - 8usize];
    ["Offset of field: ibv_mw::rkey"][::core::mem::offset_of!(ibv_mw, rkey) - 16usize];
    [
        "Offset of field: ibv_mw::handle",
    ][::core::mem::offset_of!(ibv_mw, handle) - 20usize];
    ["Offset of field: ibv_mw::type_"][::core::mem::offset_of!(ibv_mw, type_) - 24usize];
};
impl Default for ibv_mw {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_global_route"][::core::mem::size_of::<ibv_global_route>() - 24usize];
    [
        "Alignment of ibv_global_route",
    ][::core::mem::align_of::<ibv_global_route>() - 8usize];
    [
        "Offset of field: ibv_global_route::dgid",
    ][::core::mem::offset_of!(ibv_global_route, dgid) - 0usize];
    [
        "Offset of field: ibv_global_route::flow_label",
    ][::core::mem::offset_of!(ibv_global_route, flow_label) - 16usize];
    [
        "Offset of field: ibv_global_route::sgid_index",
    ][::core::mem::offset_of!(ibv_global_route, sgid_index) - 20usize];
    [
        "Offset of field: ibv_global_route::hop_limit",
    ][::core::mem::offset_of!(ibv_global_route, hop_limit) - 21usize];
    [
        "Offset of field: ibv_global_route::traffic_class",
    ][::core::mem::offset_of!(ibv_global_route, traffic_class) - 22usize];
};
impl Default for ibv_global_route {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_ah_attr"][::core::mem::size_of::<ibv_ah_attr>() - 32usize];
    ["Alignment of ibv_ah_attr"][::core::mem::align_of::<ibv_ah_attr>() - 8usize];
    [
        "Offset of field: ibv_ah_attr::grh",
    ][::core::mem::offset_of!(ibv_ah_attr, grh) - 0usize];
    [
        "Offset of field: ibv_ah_attr::dlid",
    ][::core::mem::offset_of!(ibv_ah_attr, dlid) - 24usize];
    [
        "Offset of field: ibv_ah_attr::sl",
    ][::core::mem::offset_of!(ibv_ah_attr, sl) - 26usize];
    [
        "Offset of field: ibv_ah_attr::src_path_bits",
    ][::core::mem::offset_of!(ibv_ah_attr, src_path_bits) - 27usize];
    [
        "Offset of field: ibv_ah_attr::static_rate",
    ][::core::mem::offset_of!(ibv_ah_attr, static_rate) - 28usize];
    [
        "Offset of field: ibv_ah_attr::is_global",
    ][::core::mem::offset_of!(ibv_ah_attr, is_global) - 29usize];
    [
        "Offset of field: ibv_ah_attr::port_num",
    ][::core::mem::offset_of!(ibv_ah_attr, port_num) - 30usize];
};
impl Default for ibv_ah_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl ibv_qp_type {
    pub const IBV_QPT_RC: ibv_qp_type = ibv_qp_type(2);
    pub const IBV_QPT_UC: ibv_qp_type = ibv_qp_type(3);
    pub const IBV_QPT_UD: ibv_qp_type = ibv_qp_type(4);
    pub const IBV_QPT_RAW_PACKET: ibv_qp_type = ibv_qp_type(8);
    pub const IBV_QPT_XRC_SEND: ibv_qp_type = ibv_qp_type(9);
    pub const IBV_QPT_XRC_RECV: ibv_qp_type = ibv_qp_type(10);
    pub const IBV_QPT_DRIVER: ibv_qp_type = ibv_qp_type(255);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_qp_type(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_qp_cap"][::core::mem::size_of::<ibv_qp_cap>() - 20usize];
    ["Alignment of ibv_qp_cap"][::core::mem::align_of::<ibv_qp_cap>() - 4usize];
    [
        "Offset of field: ibv_qp_cap::max_send_wr",
    ][::core::mem::offset_of!(ibv_qp_cap, max_send_wr) - 0usize];
    [
        "Offset of field: ibv_qp_cap::max_recv_wr",
    ][::core::mem::offset_of!(ibv_qp_cap, max_recv_wr) - 4usize];
    [
        "Offset of field: ibv_qp_cap::max_send_sge",
    ][::core::mem::offset_of!(ibv_qp_cap, max_send_sge) - 8usize];
    [
        "Offset of field: ibv_qp_cap::max_recv_sge",
    ][::core::mem::offset_of!(ibv_qp_cap, max_recv_sge) - 12usize];
    [
        "Offset of field: ibv_qp_cap::max_inline_data",
    ][::core::mem::offset_of!(ibv_qp_cap, max_inline_data) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_qp_init_attr {
    pub qp_context: *mut ::core::ffi::c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: ibv_qp_type,
    pub sq_sig_all: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_qp_init_attr"][::core::mem::size_of::<ibv_qp_init_attr>() - 64usize];
    [
        "Alignment of ibv_qp_init_attr",
    ][::core::mem::align_of::<ibv_qp_init_attr>() - 8usize];
    [
        "Offset of field: ibv_qp_init_attr::qp_context",
    ][::core::mem::offset_of!(ibv_qp_init_attr, qp_context) - 0usize];
    [
        "Offset of field: ibv_qp_init_attr::send_cq",
    ][::core::mem::offset_of!(ibv_qp_init_attr, send_cq) - 8usize];
    [
        "Offset of field: ibv_qp_init_attr::recv_cq",
    ][::core::mem::offset_of!(ibv_qp_init_attr, recv_cq) - 16usize];
    [
        "Offset of field: ibv_qp_init_attr::srq",
    ][::core::mem::offset_of!(ibv_qp_init_attr, srq) - 24usize];
    [
        "Offset of field: ibv_qp_init_attr::cap",
    ][::core::mem::offset_of!(ibv_qp_init_attr, cap) - 32usize];
    [
        "Offset of field: ibv_qp_init_attr::qp_type",
    ][::core::mem::offset_of!(ibv_qp_init_attr, qp_type) - 52usize];
    [
        "Offset of field: ibv_qp_init_attr::sq_sig_all",
    ][::core::mem::offset_of!(ibv_qp_init_attr, sq_sig_all) - 56usize];
};
impl Default for ibv_qp_init_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl ibv_qp_attr_mask {
    pub const IBV_QP_STATE: ibv_qp_attr_mask = ibv_qp_attr_mask(1);
    pub const IBV_QP_CUR_STATE: ibv_qp_attr_mask = ibv_qp_attr_mask(2);
    pub const IBV_QP_EN_SQD_ASYNC_NOTIFY: ibv_qp_attr_mask = ibv_qp_attr_mask(4);
    pub const IBV_QP_ACCESS_FLAGS: ibv_qp_attr_mask = ibv_qp_attr_mask(8);
    pub const IBV_QP_PKEY_INDEX: ibv_qp_attr_mask = ibv_qp_attr_mask(16);
    pub const IBV_QP_PORT: ibv_qp_attr_mask = ibv_qp_attr_mask(32);
    pub const IBV_QP_QKEY: ibv_qp_attr_mask = ibv_qp_attr_mask(64);
    pub const IBV_QP_AV: ibv_qp_attr_mask = ibv_qp_attr_mask(128);
    pub const IBV_QP_PATH_MTU: ibv_qp_attr_mask = ibv_qp_attr_mask(256);
    pub const IBV_QP_TIMEOUT: ibv_qp_attr_mask = ibv_qp_attr_mask(512);
    pub const IBV_QP_RETRY_CNT: ibv_qp_attr_mask = ibv_qp_attr_mask(1024);
    pub const IBV_QP_RNR_RETRY: ibv_qp_attr_mask = ibv_qp_attr_mask(2048);
    pub const IBV_QP_RQ_PSN: ibv_qp_attr_mask = ibv_qp_attr_mask(4096);
    pub const IBV_QP_MAX_QP_RD_ATOMIC: ibv_qp_attr_mask = ibv_qp_attr_mask(8192);
    pub const IBV_QP_ALT_PATH: ibv_qp_attr_mask = ibv_qp_attr_mask(16384);
    pub const IBV_QP_MIN_RNR_TIMER: ibv_qp_attr_mask = ibv_qp_attr_mask(32768);
    pub const IBV_QP_SQ_PSN: ibv_qp_attr_mask = ibv_qp_attr_mask(65536);
    pub const IBV_QP_MAX_DEST_RD_ATOMIC: ibv_qp_attr_mask = ibv_qp_attr_mask(131072);
    pub const IBV_QP_PATH_MIG_STATE: ibv_qp_attr_mask = ibv_qp_attr_mask(262144);
    pub const IBV_QP_CAP: ibv_qp_attr_mask = ibv_qp_attr_mask(524288);
    pub const IBV_QP_DEST_QPN: ibv_qp_attr_mask = ibv_qp_attr_mask(1048576);
    pub const IBV_QP_RATE_LIMIT: ibv_qp_attr_mask = ibv_qp_attr_mask(33554432);
}
impl ::core::ops::BitOr<ibv_qp_attr_mask> for ibv_qp_attr_mask {
    type Output = Self;
    #[inline]
    fn bitor(self, other: Self) -> Self {
        ibv_qp_attr_mask(self.0 | other.0)
    }
}
impl ::core::ops::BitOrAssign for ibv_qp_attr_mask {
    #[inline]
    fn bitor_assign(&mut self, rhs: ibv_qp_attr_mask) {
        self.0 |= rhs.0;
    }
}
impl ::core::ops::BitAnd<ibv_qp_attr_mask> for ibv_qp_attr_mask {
    type Output = Self;
    #[inline]
    fn bitand(self, other: Self) -> Self {
        ibv_qp_attr_mask(self.0 & other.0)
    }
}
impl ::core::ops::BitAndAssign for ibv_qp_attr_mask {
    #[inline]
    fn bitand_assign(&mut self, rhs: ibv_qp_attr_mask) {
        self.0 &= rhs.0;
    }
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_qp_attr_mask(pub ::core::ffi::c_uint);
impl ibv_qp_state {
    pub const IBV_QPS_RESET: ibv_qp_state = ibv_qp_state(0);
    pub const IBV_QPS_INIT: ibv_qp_state = ibv_qp_state(1);
    pub const IBV_QPS_RTR: ibv_qp_state = ibv_qp_state(2);
    pub const IBV_QPS_RTS: ibv_qp_state = ibv_qp_state(3);
    pub const IBV_QPS_SQD: ibv_qp_state = ibv_qp_state(4);
    pub const IBV_QPS_SQE: ibv_qp_state = ibv_qp_state(5);
    pub const IBV_QPS_ERR: ibv_qp_state = ibv_qp_state(6);
    pub const IBV_QPS_UNKNOWN: ibv_qp_state = ibv_qp_state(7);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_qp_state(pub ::core::ffi::c_uint);
impl ibv_mig_state {
    pub const IBV_MIG_MIGRATED: ibv_mig_state = ibv_mig_state(0);
    pub const IBV_MIG_REARM: ibv_mig_state = ibv_mig_state(1);
    pub const IBV_MIG_ARMED: ibv_mig_state = ibv_mig_state(2);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_mig_state(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_qp_attr {
    pub qp_state: ibv_qp_state,
    pub cur_qp_state: ibv_qp_state,
    pub path_mtu: ibv_mtu,
    pub path_mig_state: ibv_mig_state,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: ::core::ffi::c_uint,
    pub cap: ibv_qp_cap,
    pub ah_attr: ibv_ah_attr,
    pub alt_ah_attr: ibv_ah_attr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_qp_attr"][::core::mem::size_of::<ibv_qp_attr>() - 144usize];
    ["Alignment of ibv_qp_attr"][::core::mem::align_of::<ibv_qp_attr>() - 8usize];
    [
        "Offset of field: ibv_qp_attr::qp_state",
    ][::core::mem::offset_of!(ibv_qp_attr, qp_state) - 0usize];
    [
        "Offset of field: ibv_qp_attr::cur_qp_state",
    ][::core::mem::offset_of!(ibv_qp_attr, cur_qp_state) - 4usize];
    [
        "Offset of field: ibv_qp_attr::path_mtu",
    ][::core::mem::offset_of!(ibv_qp_attr, path_mtu) - 8usize];
    [
        "Offset of field: ibv_qp_attr::path_mig_state",
    ][::core::mem::offset_of!(ibv_qp_attr, path_mig_state) - 12usize];
    [
        "Offset of field: ibv_qp_attr::qkey",
    ][::core::mem::offset_of!(ibv_qp_attr, qkey) - 16usize];
    [
        "Offset of field: ibv_qp_attr::rq_psn",
    ][::core::mem::offset_of!(ibv_qp_attr, rq_psn) - 20usize];
    [
        "Offset of field: ibv_qp_attr::sq_psn",
    ][::core::mem::offset_of!(ibv_qp_attr, sq_psn) - 24usize];
    [
        "Offset of field: ibv_qp_attr::dest_qp_num",
    ][::core::mem::offset_of!(ibv_qp_attr, dest_qp_num) - 28usize];
    [
        "Offset of field: ibv_qp_attr::qp_access_flags",
    ][::core::mem::offset_of!(ibv_qp_attr, qp_access_flags) - 32usize];
    [
        "Offset of field: ibv_qp_attr::cap",
    ][::core::mem::offset_of!(ibv_qp_attr, cap) - 36usize];
    [
        "Offset of field: ibv_qp_attr::ah_attr",
    ][::core::mem::offset_of!(ibv_qp_attr, ah_attr) - 56usize];
    [
        "Offset of field: ibv_qp_attr::alt_ah_attr",
    ][::core::mem::offset_of!(ibv_qp_attr, alt_ah_attr) - 88usize];
    [
        "Offset of field: ibv_qp_attr::pkey_index",
    ][::core::mem::offset_of!(ibv_qp_attr, pkey_index) - 120usize];
    [
        "Offset of field: ibv_qp_attr::alt_pkey_index",
    ][::core::mem::offset_of!(ibv_qp_attr, alt_pkey_index) - 122usize];
    [
        "Offset of field: ibv_qp_attr::en_sqd_async_notify",
    ][::core::mem::offset_of!(ibv_qp_attr, en_sqd_async_notify) - 124usize];
    [
        "Offset of field: ibv_qp_attr::sq_draining",
    ][::core::mem::offset_of!(ibv_qp_attr, sq_draining) - 125usize];
    [
        "Offset of field: ibv_qp_attr::max_rd_atomic",
    ][::core::mem::offset_of!(ibv_qp_attr, max_rd_atomic) - 126usize];
    [
        "Offset of field: ibv_qp_attr::max_dest_rd_atomic",
    ][::core::mem::offset_of!(ibv_qp_attr, max_dest_rd_atomic) - 127usize];
    [
        "Offset of field: ibv_qp_attr::min_rnr_timer",
    ][::core::mem::offset_of!(ibv_qp_attr, min_rnr_timer) - 128usize];
    [
        "Offset of field: ibv_qp_attr::port_num",
    ][::core::mem::offset_of!(ibv_qp_attr, port_num) - 129usize];
    [
        "Offset of field: ibv_qp_attr::timeout",
    ][::core::mem::offset_of!(ibv_qp_attr, timeout) - 130usize];
    [
        "Offset of field: ibv_qp_attr::retry_cnt",
    ][::core::mem::offset_of!(ibv_qp_attr, retry_cnt) - 131usize];
    [
        "Offset of field: ibv_qp_attr::rnr_retry",
    ][::core::mem::offset_of!(ibv_qp_attr, rnr_retry) - 132usize];
    [
        "Offset of field: ibv_qp_attr::alt_port_num",
    ][::core::mem::offset_of!(ibv_qp_attr, alt_port_num) - 133usize];
    [
        "Offset of field: ibv_qp_attr::alt_timeout",
    ][::core::mem::offset_of!(ibv_qp_attr, alt_timeout) - 134usize];
    [
        "Offset of field: ibv_qp_attr::rate_limit",
    ][::core::mem::offset_of!(ibv_qp_attr, rate_limit) - 136usize];
};
impl Default for ibv_qp_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl ibv_wr_opcode {
    pub const IBV_WR_RDMA_WRITE: ibv_wr_opcode = ibv_wr_opcode(0);
    pub const IBV_WR_RDMA_WRITE_WITH_IMM: ibv_wr_opcode = ibv_wr_opcode(1);
    pub const IBV_WR_SEND: ibv_wr_opcode = ibv_wr_opcode(2);
    pub const IBV_WR_SEND_WITH_IMM: ibv_wr_opcode = ibv_wr_opcode(3);
    pub const IBV_WR_RDMA_READ: ibv_wr_opcode = ibv_wr_opcode(4);
    pub const IBV_WR_ATOMIC_CMP_AND_SWP: ibv_wr_opcode = ibv_wr_opcode(5);
    pub const IBV_WR_ATOMIC_FETCH_AND_ADD: ibv_wr_opcode = ibv_wr_opcode(6);
    pub const IBV_WR_LOCAL_INV: ibv_wr_opcode = ibv_wr_opcode(7);
    pub const IBV_WR_BIND_MW: ibv_wr_opcode = ibv_wr_opcode(8);
    pub const IBV_WR_SEND_WITH_INV: ibv_wr_opcode = ibv_wr_opcode(9);
    pub const IBV_WR_TSO: ibv_wr_opcode = ibv_wr_opcode(10);
    pub const IBV_WR_DRIVER1: ibv_wr_opcode = ibv_wr_opcode(11);
    pub const IBV_WR_ATOMIC_WRITE: ibv_wr_opcode = ibv_wr_opcode(15);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_wr_opcode(pub ::core::ffi::c_uint);
impl ibv_send_flags {
    pub const IBV_SEND_FENCE: ibv_send_flags = ibv_send_flags(1);
    pub const IBV_SEND_SIGNALED: ibv_send_flags = ibv_send_flags(2);
    pub const IBV_SEND_SOLICITED: ibv_send_flags = ibv_send_flags(4);
    pub const IBV_SEND_INLINE: ibv_send_flags = ibv_send_flags(8);
    pub const IBV_SEND_IP_CSUM: ibv_send_flags = ibv_send_flags(16);
}
impl ::core::ops::BitOr<ibv_send_flags> for ibv_send_flags {
    type Output = Self;
    #[inline]
    fn bitor(self, other: Self) -> Self {
        ibv_send_flags(self.0 | other.0)
    }
}
impl ::core::ops::BitOrAssign for ibv_send_flags {
    #[inline]
    fn bitor_assign(&mut self, rhs: ibv_send_flags) {
        self.0 |= rhs.0;
    }
}
impl ::core::ops::BitAnd<ibv_send_flags> for ibv_send_flags {
    type Output = Self;
    #[inline]
    fn bitand(self, other: Self) -> Self {
        ibv_send_flags(self.0 & other.0)
    }
}
impl ::core::ops::BitAndAssign for ibv_send_flags {
    #[inline]
    fn bitand_assign(&mut self, rhs: ibv_send_flags) {
        self.0 &= rhs.0;
    }
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ibv_send_flags(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_sge"][::core::mem::size_of::<ibv_sge>() - 16usize];
    ["Alignment of ibv_sge"][::core::mem::align_of::<ibv_sge>() - 8usize];
    ["Offset of field: ibv_sge::addr"][::core::mem::offset_of!(ibv_sge, addr) - 0usize];
    [
        "Offset of field: ibv_sge::length",
    ][::core::mem::offset_of!(ibv_sge, length) - 8usize];
    ["Offset of field: ibv_sge::lkey"][::core::mem::offset_of!(ibv_sge, lkey) - 12usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: ::core::ffi::c_int,
    pub opcode: ibv_wr_opcode,
    pub send_flags: ::core::ffi::c_uint,
    pub __bindgen_anon_1: ibv_send_wr__bindgen_ty_1,
    pub wr: ibv_send_wr__bindgen_ty_2,
    pub qp_type: ibv_send_wr__bindgen_ty_3,
    pub __bindgen_anon_2: ibv_send_wr__bindgen_ty_4,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_1 {
    pub imm_data: __be32,
    pub invalidate_rkey: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_1",
    ][::core::mem::size_of::<ibv_send_wr__bindgen_ty_1>() - 4usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_1",
    ][::core::mem::align_of::<ibv_send_wr__bindgen_ty_1>() - 4usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_1::imm_data",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_1, imm_data) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_1::invalidate_rkey",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_1, invalidate_rkey) - 0usize];
};
impl Default for ibv_send_wr__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_2 {
    pub rdma: ibv_send_wr__bindgen_ty_2__bindgen_ty_1,
    pub atomic: ibv_send_wr__bindgen_ty_2__bindgen_ty_2,
    pub ud: ibv_send_wr__bindgen_ty_2__bindgen_ty_3,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
    pub remote_addr: u64,
    pub rkey: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_2__bindgen_ty_1",
    ][::core::mem::size_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_1>() - 16usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_2__bindgen_ty_1",
    ][::core::mem::align_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_1::remote_addr",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_1, remote_addr)
        - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_1::rkey",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_1, rkey) - 8usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_2__bindgen_ty_2",
    ][::core::mem::size_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_2>() - 32usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_2__bindgen_ty_2",
    ][::core::mem::align_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_2>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_2::remote_addr",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_2, remote_addr)
        - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_2::compare_add",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_2, compare_add)
        - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_2::swap",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_2, swap) - 16usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_2::rkey",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_2, rkey) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_2__bindgen_ty_3",
    ][::core::mem::size_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_3>() - 16usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_2__bindgen_ty_3",
    ][::core::mem::align_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_3>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_3::ah",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_3, ah) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_3::remote_qpn",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_3, remote_qpn)
        - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_3::remote_qkey",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_3, remote_qkey)
        - 12usize];
};
impl Default for ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_2",
    ][::core::mem::size_of::<ibv_send_wr__bindgen_ty_2>() - 32usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_2",
    ][::core::mem::align_of::<ibv_send_wr__bindgen_ty_2>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2::rdma",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2, rdma) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2::atomic",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2, atomic) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2::ud",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_2, ud) - 0usize];
};
impl Default for ibv_send_wr__bindgen_ty_2 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_3 {
    pub xrc: ibv_send_wr__bindgen_ty_3__bindgen_ty_1,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_3__bindgen_ty_1 {
    pub remote_srqn: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_3__bindgen_ty_1",
    ][::core::mem::size_of::<ibv_send_wr__bindgen_ty_3__bindgen_ty_1>() - 4usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_3__bindgen_ty_1",
    ][::core::mem::align_of::<ibv_send_wr__bindgen_ty_3__bindgen_ty_1>() - 4usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_3__bindgen_ty_1::remote_srqn",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_3__bindgen_ty_1, remote_srqn)
        - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_3",
    ][::core::mem::size_of::<ibv_send_wr__bindgen_ty_3>() - 4usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_3",
    ][::core::mem::align_of::<ibv_send_wr__bindgen_ty_3>() - 4usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_3::xrc",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_3, xrc) - 0usize];
};
impl Default for ibv_send_wr__bindgen_ty_3 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_4 {
    pub bind_mw: ibv_send_wr__bindgen_ty_4__bindgen_ty_1,
    pub tso: ibv_send_wr__bindgen_ty_4__bindgen_ty_2,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_4__bindgen_ty_1",
    ][::core::mem::size_of::<ibv_send_wr__bindgen_ty_4__bindgen_ty_1>() - 48usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_4__bindgen_ty_1",
    ][::core::mem::align_of::<ibv_send_wr__bindgen_ty_4__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_1::mw",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_1, mw) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_1::rkey",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_1, rkey) - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_1::bind_info",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_1, bind_info)
        - 16usize];
};
impl Default for ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_4__bindgen_ty_2 {
    pub hdr: *mut ::core::ffi::c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_4__bindgen_ty_2",
    ][::core::mem::size_of::<ibv_send_wr__bindgen_ty_4__bindgen_ty_2>() - 16usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_4__bindgen_ty_2",
    ][::core::mem::align_of::<ibv_send_wr__bindgen_ty_4__bindgen_ty_2>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_2::hdr",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_2, hdr) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_2::hdr_sz",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_2, hdr_sz) - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_2::mss",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_2, mss) - 10usize];
};
impl Default for ibv_send_wr__bindgen_ty_4__bindgen_ty_2 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_4",
    ][::core::mem::size_of::<ibv_send_wr__bindgen_ty_4>() - 48usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_4",
    ][::core::mem::align_of::<ibv_send_wr__bindgen_ty_4>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4::bind_mw",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_4, bind_mw) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4::tso",
    ][::core::mem::offset_of!(ibv_send_wr__bindgen_ty_4, tso) - 0usize];
};
impl Default for ibv_send_wr__bindgen_ty_4 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_send_wr"][::core::mem::size_of::<ibv_send_wr>() - 128usize];
    ["Alignment of ibv_send_wr"][::core::mem::align_of::<ibv_send_wr>() - 8usize];
    [
        "Offset of field: ibv_send_wr::wr_id",
    ][::core::mem::offset_of!(ibv_send_wr, wr_id) - 0usize];
    [
        "Offset of field: ibv_send_wr::next",
    ][::core::mem::offset_of!(ibv_send_wr, next) - 8usize];
    [
        "Offset of field: ibv_send_wr::sg_list",
    ][::core::mem::offset_of!(ibv_send_wr, sg_list) - 16usize];
    [
        "Offset of field: ibv_send_wr::num_sge",
    ][::core::mem::offset_of!(ibv_send_wr, num_sge) - 24usize];
    [
        "Offset of field: ibv_send_wr::opcode",
    ][::core::mem::offset_of!(ibv_send_wr, opcode) - 28usize];
    [
        "Offset of field: ibv_send_wr::send_flags",
    ][::core::mem::offset_of!(ibv_send_wr, send_flags) - 32usize];
    [
        "Offset of field: ibv_send_wr::wr",
    ][::core::mem::offset_of!(ibv_send_wr, wr) - 40usize];
    [
        "Offset of field: ibv_send_wr::qp_type",
    ][::core::mem::offset_of!(ibv_send_wr, qp_type) - 72usize];
};
impl Default for ibv_send_wr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_recv_wr"][::core::mem::size_of::<ibv_recv_wr>() - 32usize];
    ["Alignment of ibv_recv_wr"][::core::mem::align_of::<ibv_recv_wr>() - 8usize];
    [
        "Offset of field: ibv_recv_wr::wr_id",
    ][::core::mem::offset_of!(ibv_recv_wr, wr_id) - 0usize];
    [
        "Offset of field: ibv_recv_wr::next",
    ][::core::mem::offset_of!(ibv_recv_wr, next) - 8usize];
    [
        "Offset of field: ibv_recv_wr::sg_list",
    ][::core::mem::offset_of!(ibv_recv_wr, sg_list) - 16usize];
    [
        "Offset of field: ibv_recv_wr::num_sge",
    ][::core::mem::offset_of!(ibv_recv_wr, num_sge) - 24usize];
};
impl Default for ibv_recv_wr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_mw_bind {
    pub wr_id: u64,
    pub send_flags: ::core::ffi::c_uint,
    pub bind_info: ibv_mw_bind_info,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_mw_bind"][::core::mem::size_of::<ibv_mw_bind>() - 48usize];
    ["Alignment of ibv_mw_bind"][::core::mem::align_of::<ibv_mw_bind>() - 8usize];
    [
        "Offset of field: ibv_mw_bind::wr_id",
    ][::core::mem::offset_of!(ibv_mw_bind, wr_id) - 0usize];
    [
        "Offset of field: ibv_mw_bind::send_flags",
    ][::core::mem::offset_of!(ibv_mw_bind, send_flags) - 8usize];
    [
        "Offset of field: ibv_mw_bind::bind_info",
    ][::core::mem::offset_of!(ibv_mw_bind, bind_info) - 16usize];
};
impl Default for ibv_mw_bind {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut ::core::ffi::c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_srq"][::core::mem::size_of::<ibv_srq>() - 128usize];
    ["Alignment of ibv_srq"][::core::mem::align_of::<ibv_srq>() - 8usize];
    [
        "Offset of field: ibv_srq::context",
    ][::core::mem::offset_of!(ibv_srq, context) - 0usize];
    [
        "Offset of field: ibv_srq::srq_context",
    ][::core::mem::offset_of!(ibv_srq, srq_context) - 8usize];
    ["Offset of field: ibv_srq::pd"][::core::mem::offset_of!(ibv_srq, pd) - 16usize];
    [
        "Offset of field: ibv_srq::handle",
    ][::core::mem::offset_of!(ibv_srq, handle) - 24usize];
    [
        "Offset of field: ibv_srq::mutex",
    ][::core::mem::offset_of!(ibv_srq, mutex) - 32usize];
    ["Offset of field: ibv_srq::cond"][::core::mem::offset_of!(ibv_srq, cond) - 72usize];
    [
        "Offset of field: ibv_srq::events_completed",
    ][::core::mem::offset_of!(ibv_srq, events_completed) - 120usize];
};
impl Default for ibv_srq {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut ::core::ffi::c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: ibv_qp_state,
    pub qp_type: ibv_qp_type,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_qp"][::core::mem::size_of::<ibv_qp>() - 160usize];
    ["Alignment of ibv_qp"][::core::mem::align_of::<ibv_qp>() - 8usize];
    [
        "Offset of field: ibv_qp::context",
    ][::core::mem::offset_of!(ibv_qp, context) - 0usize];
    [
        "Offset of field: ibv_qp::qp_context",
    ][::core::mem::offset_of!(ibv_qp, qp_context) - 8usize];
    ["Offset of field: ibv_qp::pd"][::core::mem::offset_of!(ibv_qp, pd) - 16usize];
    [
        "Offset of field: ibv_qp::send_cq",
    ][::core::mem::offset_of!(ibv_qp, send_cq) - 24usize];
    [
        "Offset of field: ibv_qp::recv_cq",
    ][::core::mem::offset_of!(ibv_qp, recv_cq) - 32usize];
    ["Offset of field: ibv_qp::srq"][::core::mem::offset_of!(ibv_qp, srq) - 40usize];
    [
        "Offset of field: ibv_qp::handle",
    ][::core::mem::offset_of!(ibv_qp, handle) - 48usize];
    [
        "Offset of field: ibv_qp::qp_num",
    ][::core::mem::offset_of!(ibv_qp, qp_num) - 52usize];
    ["Offset of field: ibv_qp::state"][::core::mem::offset_of!(ibv_qp, state) - 56usize];
    [
        "Offset of field: ibv_qp::qp_type",
    ][::core::mem::offset_of!(ibv_qp, qp_type) - 60usize];
    ["Offset of field: ibv_qp::mutex"][::core::mem::offset_of!(ibv_qp, mutex) - 64usize];
    ["Offset of field: ibv_qp::cond"][::core::mem::offset_of!(ibv_qp, cond) - 104usize];
    [
        "Offset of field: ibv_qp::events_completed",
    ][::core::mem::offset_of!(ibv_qp, events_completed) - 152usize];
};
impl Default for ibv_qp {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_comp_channel {
    pub context: *mut ibv_context,
    pub fd: ::core::ffi::c_int,
    pub refcnt: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_comp_channel"][::core::mem::size_of::<ibv_comp_channel>() - 16usize];
    [
        "Alignment of ibv_comp_channel",
    ][::core::mem::align_of::<ibv_comp_channel>() - 8usize];
    [
        "Offset of field: ibv_comp_channel::context",
    ][::core::mem::offset_of!(ibv_comp_channel, context) - 0usize];
    [
        "Offset of field: ibv_comp_channel::fd",
    ][::core::mem::offset_of!(ibv_comp_channel, fd) - 8usize];
    [
        "Offset of field: ibv_comp_channel::refcnt",
    ][::core::mem::offset_of!(ibv_comp_channel, refcnt) - 12usize];
};
impl Default for ibv_comp_channel {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut ::core::ffi::c_void,
    pub handle: u32,
    pub cqe: ::core::ffi::c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_cq"][::core::mem::size_of::<ibv_cq>() - 128usize];
    ["Alignment of ibv_cq"][::core::mem::align_of::<ibv_cq>() - 8usize];
    [
        "Offset of field: ibv_cq::context",
    ][::core::mem::offset_of!(ibv_cq, context) - 0usize];
    [
        "Offset of field: ibv_cq::channel",
    ][::core::mem::offset_of!(ibv_cq, channel) - 8usize];
    [
        "Offset of field: ibv_cq::cq_context",
    ][::core::mem::offset_of!(ibv_cq, cq_context) - 16usize];
    [
        "Offset of field: ibv_cq::handle",
    ][::core::mem::offset_of!(ibv_cq, handle) - 24usize];
    ["Offset of field: ibv_cq::cqe"][::core::mem::offset_of!(ibv_cq, cqe) - 28usize];
    ["Offset of field: ibv_cq::mutex"][::core::mem::offset_of!(ibv_cq, mutex) - 32usize];
    ["Offset of field: ibv_cq::cond"][::core::mem::offset_of!(ibv_cq, cond) - 72usize];
    [
        "Offset of field: ibv_cq::comp_events_completed",
    ][::core::mem::offset_of!(ibv_cq, comp_events_completed) - 120usize];
    [
        "Offset of field: ibv_cq::async_events_completed",
    ][::core::mem::offset_of!(ibv_cq, async_events_completed) - 124usize];
};
impl Default for ibv_cq {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_ah {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub handle: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_ah"][::core::mem::size_of::<ibv_ah>() - 24usize];
    ["Alignment of ibv_ah"][::core::mem::align_of::<ibv_ah>() - 8usize];
    [
        "Offset of field: ibv_ah::context",
    ][::core::mem::offset_of!(ibv_ah, context) - 0usize];
    ["Offset of field: ibv_ah::pd"][::core::mem::offset_of!(ibv_ah, pd) - 8usize];
    [
        "Offset of field: ibv_ah::handle",
    ][::core::mem::offset_of!(ibv_ah, handle) - 16usize];
};
impl Default for ibv_ah {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct _ibv_device_ops {
    pub _dummy1: ::core::option::Option<
        unsafe extern "C" fn(
            device: *mut ibv_device,
            cmd_fd: ::core::ffi::c_int,
        ) -> *mut ibv_context,
    >,
    pub _dummy2: ::core::option::Option<unsafe extern "C" fn(context: *mut ibv_context)>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of _ibv_device_ops"][::core::mem::size_of::<_ibv_device_ops>() - 16usize];
    [
        "Alignment of _ibv_device_ops",
    ][::core::mem::align_of::<_ibv_device_ops>() - 8usize];
    [
        "Offset of field: _ibv_device_ops::_dummy1",
    ][::core::mem::offset_of!(_ibv_device_ops, _dummy1) - 0usize];
    [
        "Offset of field: _ibv_device_ops::_dummy2",
    ][::core::mem::offset_of!(_ibv_device_ops, _dummy2) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_device {
    pub _ops: _ibv_device_ops,
    pub node_type: ibv_node_type,
    pub transport_type: ibv_transport_type,
    pub name: [::core::ffi::c_char; 64usize],
    pub dev_name: [::core::ffi::c_char; 64usize],
    pub dev_path: [::core::ffi::c_char; 256usize],
    pub ibdev_path: [::core::ffi::c_char; 256usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_device"][::core::mem::size_of::<ibv_device>() - 664usize];
    ["Alignment of ibv_device"][::core::mem::align_of::<ibv_device>() - 8usize];
    [
        "Offset of field: ibv_device::_ops",
    ][::core::mem::offset_of!(ibv_device, _ops) - 0usize];
    [
        "Offset of field: ibv_device::node_type",
    ][::core::mem::offset_of!(ibv_device, node_type) - 16usize];
    [
        "Offset of field: ibv_device::transport_type",
    ][::core::mem::offset_of!(ibv_device, transport_type) - 20usize];
    [
        "Offset of field: ibv_device::name",
    ][::core::mem::offset_of!(ibv_device, name) - 24usize];
    [
        "Offset of field: ibv_device::dev_name",
    ][::core::mem::offset_of!(ibv_device, dev_name) - 88usize];
    [
        "Offset of field: ibv_device::dev_path",
    ][::core::mem::offset_of!(ibv_device, dev_path) - 152usize];
    [
        "Offset of field: ibv_device::ibdev_path",
    ][::core::mem::offset_of!(ibv_device, ibdev_path) - 408usize];
};
impl Default for ibv_device {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug)]
pub struct _compat_ibv_port_attr {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_context_ops {
    pub _compat_query_device: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            device_attr: *mut ibv_device_attr,
        ) -> ::core::ffi::c_int,
    >,
    pub _compat_query_port: ::core::option::Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            port_attr: *mut _compat_ibv_port_attr,
        ) -> ::core::ffi::c_int,
    >,
    pub _compat_alloc_pd: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_dealloc_pd: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_reg_mr: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_rereg_mr: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_dereg_mr: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub alloc_mw: ::core::option::Option<
        unsafe extern "C" fn(pd: *mut ibv_pd, type_: ibv_mw_type) -> *mut ibv_mw,
    >,
    pub bind_mw: ::core::option::Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            mw: *mut ibv_mw,
            mw_bind: *mut ibv_mw_bind,
        ) -> ::core::ffi::c_int,
    >,
    pub dealloc_mw: ::core::option::Option<
        unsafe extern "C" fn(mw: *mut ibv_mw) -> ::core::ffi::c_int,
    >,
    pub _compat_create_cq: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub poll_cq: ::core::option::Option<
        unsafe extern "C" fn(
            cq: *mut ibv_cq,
            num_entries: ::core::ffi::c_int,
            wc: *mut ibv_wc,
        ) -> ::core::ffi::c_int,
    >,
    pub req_notify_cq: ::core::option::Option<
        unsafe extern "C" fn(
            cq: *mut ibv_cq,
            solicited_only: ::core::ffi::c_int,
        ) -> ::core::ffi::c_int,
    >,
    pub _compat_cq_event: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_resize_cq: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_destroy_cq: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_create_srq: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_modify_srq: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_query_srq: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_destroy_srq: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub post_srq_recv: ::core::option::Option<
        unsafe extern "C" fn(
            srq: *mut ibv_srq,
            recv_wr: *mut ibv_recv_wr,
            bad_recv_wr: *mut *mut ibv_recv_wr,
        ) -> ::core::ffi::c_int,
    >,
    pub _compat_create_qp: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_query_qp: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_modify_qp: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_destroy_qp: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub post_send: ::core::option::Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            wr: *mut ibv_send_wr,
            bad_wr: *mut *mut ibv_send_wr,
        ) -> ::core::ffi::c_int,
    >,
    pub post_recv: ::core::option::Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            wr: *mut ibv_recv_wr,
            bad_wr: *mut *mut ibv_recv_wr,
        ) -> ::core::ffi::c_int,
    >,
    pub _compat_create_ah: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_destroy_ah: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_attach_mcast: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_detach_mcast: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
    pub _compat_async_event: ::core::option::Option<
        unsafe extern "C" fn() -> *mut ::core::ffi::c_void,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_context_ops"][::core::mem::size_of::<ibv_context_ops>() - 256usize];
    [
        "Alignment of ibv_context_ops",
    ][::core::mem::align_of::<ibv_context_ops>() - 8usize];
    [
        "Offset of field: ibv_context_ops::_compat_query_device",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_query_device) - 0usize];
    [
        "Offset of field: ibv_context_ops::_compat_query_port",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_query_port) - 8usize];
    [
        "Offset of field: ibv_context_ops::_compat_alloc_pd",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_alloc_pd) - 16usize];
    [
        "Offset of field: ibv_context_ops::_compat_dealloc_pd",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_dealloc_pd) - 24usize];
    [
        "Offset of field: ibv_context_ops::_compat_reg_mr",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_reg_mr) - 32usize];
    [
        "Offset of field: ibv_context_ops::_compat_rereg_mr",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_rereg_mr) - 40usize];
    [
        "Offset of field: ibv_context_ops::_compat_dereg_mr",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_dereg_mr) - 48usize];
    [
        "Offset of field: ibv_context_ops::alloc_mw",
    ][::core::mem::offset_of!(ibv_context_ops, alloc_mw) - 56usize];
    [
        "Offset of field: ibv_context_ops::bind_mw",
    ][::core::mem::offset_of!(ibv_context_ops, bind_mw) - 64usize];
    [
        "Offset of field: ibv_context_ops::dealloc_mw",
    ][::core::mem::offset_of!(ibv_context_ops, dealloc_mw) - 72usize];
    [
        "Offset of field: ibv_context_ops::_compat_create_cq",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_create_cq) - 80usize];
    [
        "Offset of field: ibv_context_ops::poll_cq",
    ][::core::mem::offset_of!(ibv_context_ops, poll_cq) - 88usize];
    [
        "Offset of field: ibv_context_ops::req_notify_cq",
    ][::core::mem::offset_of!(ibv_context_ops, req_notify_cq) - 96usize];
    [
        "Offset of field: ibv_context_ops::_compat_cq_event",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_cq_event) - 104usize];
    [
        "Offset of field: ibv_context_ops::_compat_resize_cq",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_resize_cq) - 112usize];
    [
        "Offset of field: ibv_context_ops::_compat_destroy_cq",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_destroy_cq) - 120usize];
    [
        "Offset of field: ibv_context_ops::_compat_create_srq",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_create_srq) - 128usize];
    [
        "Offset of field: ibv_context_ops::_compat_modify_srq",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_modify_srq) - 136usize];
    [
        "Offset of field: ibv_context_ops::_compat_query_srq",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_query_srq) - 144usize];
    [
        "Offset of field: ibv_context_ops::_compat_destroy_srq",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_destroy_srq) - 152usize];
    [
        "Offset of field: ibv_context_ops::post_srq_recv",
    ][::core::mem::offset_of!(ibv_context_ops, post_srq_recv) - 160usize];
    [
        "Offset of field: ibv_context_ops::_compat_create_qp",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_create_qp) - 168usize];
    [
        "Offset of field: ibv_context_ops::_compat_query_qp",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_query_qp) - 176usize];
    [
        "Offset of field: ibv_context_ops::_compat_modify_qp",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_modify_qp) - 184usize];
    [
        "Offset of field: ibv_context_ops::_compat_destroy_qp",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_destroy_qp) - 192usize];
    [
        "Offset of field: ibv_context_ops::post_send",
    ][::core::mem::offset_of!(ibv_context_ops, post_send) - 200usize];
    [
        "Offset of field: ibv_context_ops::post_recv",
    ][::core::mem::offset_of!(ibv_context_ops, post_recv) - 208usize];
    [
        "Offset of field: ibv_context_ops::_compat_create_ah",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_create_ah) - 216usize];
    [
        "Offset of field: ibv_context_ops::_compat_destroy_ah",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_destroy_ah) - 224usize];
    [
        "Offset of field: ibv_context_ops::_compat_attach_mcast",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_attach_mcast) - 232usize];
    [
        "Offset of field: ibv_context_ops::_compat_detach_mcast",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_detach_mcast) - 240usize];
    [
        "Offset of field: ibv_context_ops::_compat_async_event",
    ][::core::mem::offset_of!(ibv_context_ops, _compat_async_event) - 248usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: ::core::ffi::c_int,
    pub async_fd: ::core::ffi::c_int,
    pub num_comp_vectors: ::core::ffi::c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_context"][::core::mem::size_of::<ibv_context>() - 328usize];
    ["Alignment of ibv_context"][::core::mem::align_of::<ibv_context>() - 8usize];
    [
        "Offset of field: ibv_context::device",
    ][::core::mem::offset_of!(ibv_context, device) - 0usize];
    [
        "Offset of field: ibv_context::ops",
    ][::core::mem::offset_of!(ibv_context, ops) - 8usize];
    [
        "Offset of field: ibv_context::cmd_fd",
    ][::core::mem::offset_of!(ibv_context, cmd_fd) - 264usize];
    [
        "Offset of field: ibv_context::async_fd",
    ][::core::mem::offset_of!(ibv_context, async_fd) - 268usize];
    [
        "Offset of field: ibv_context::num_comp_vectors",
    ][::core::mem::offset_of!(ibv_context, num_comp_vectors) - 272usize];
    [
        "Offset of field: ibv_context::mutex",
    ][::core::mem::offset_of!(ibv_context, mutex) - 280usize];
    [
        "Offset of field: ibv_context::abi_compat",
    ][::core::mem::offset_of!(ibv_context, abi_compat) - 320usize];
};
impl Default for ibv_context {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_sa_path_rec {
    pub dgid: ibv_gid,
    pub sgid: ibv_gid,
    pub dlid: __be16,
    pub slid: __be16,
    pub raw_traffic: ::core::ffi::c_int,
    pub flow_label: __be32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reversible: ::core::ffi::c_int,
    pub numb_path: u8,
    pub pkey: __be16,
    pub sl: u8,
    pub mtu_selector: u8,
    pub mtu: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_sa_path_rec"][::core::mem::size_of::<ibv_sa_path_rec>() - 64usize];
    [
        "Alignment of ibv_sa_path_rec",
    ][::core::mem::align_of::<ibv_sa_path_rec>() - 8usize];
    [
        "Offset of field: ibv_sa_path_rec::dgid",
    ][::core::mem::offset_of!(ibv_sa_path_rec, dgid) - 0usize];
    [
        "Offset of field: ibv_sa_path_rec::sgid",
    ][::core::mem::offset_of!(ibv_sa_path_rec, sgid) - 16usize];
    [
        "Offset of field: ibv_sa_path_rec::dlid",
    ][::core::mem::offset_of!(ibv_sa_path_rec, dlid) - 32usize];
    [
        "Offset of field: ibv_sa_path_rec::slid",
    ][::core::mem::offset_of!(ibv_sa_path_rec, slid) - 34usize];
    [
        "Offset of field: ibv_sa_path_rec::raw_traffic",
    ][::core::mem::offset_of!(ibv_sa_path_rec, raw_traffic) - 36usize];
    [
        "Offset of field: ibv_sa_path_rec::flow_label",
    ][::core::mem::offset_of!(ibv_sa_path_rec, flow_label) - 40usize];
    [
        "Offset of field: ibv_sa_path_rec::hop_limit",
    ][::core::mem::offset_of!(ibv_sa_path_rec, hop_limit) - 44usize];
    [
        "Offset of field: ibv_sa_path_rec::traffic_class",
    ][::core::mem::offset_of!(ibv_sa_path_rec, traffic_class) - 45usize];
    [
        "Offset of field: ibv_sa_path_rec::reversible",
    ][::core::mem::offset_of!(ibv_sa_path_rec, reversible) - 48usize];
    [
        "Offset of field: ibv_sa_path_rec::numb_path",
    ][::core::mem::offset_of!(ibv_sa_path_rec, numb_path) - 52usize];
    [
        "Offset of field: ibv_sa_path_rec::pkey",
    ][::core::mem::offset_of!(ibv_sa_path_rec, pkey) - 54usize];
    [
        "Offset of field: ibv_sa_path_rec::sl",
    ][::core::mem::offset_of!(ibv_sa_path_rec, sl) - 56usize];
    [
        "Offset of field: ibv_sa_path_rec::mtu_selector",
    ][::core::mem::offset_of!(ibv_sa_path_rec, mtu_selector) - 57usize];
    [
        "Offset of field: ibv_sa_path_rec::mtu",
    ][::core::mem::offset_of!(ibv_sa_path_rec, mtu) - 58usize];
    [
        "Offset of field: ibv_sa_path_rec::rate_selector",
    ][::core::mem::offset_of!(ibv_sa_path_rec, rate_selector) - 59usize];
    [
        "Offset of field: ibv_sa_path_rec::rate",
    ][::core::mem::offset_of!(ibv_sa_path_rec, rate) - 60usize];
    [
        "Offset of field: ibv_sa_path_rec::packet_life_time_selector",
    ][::core::mem::offset_of!(ibv_sa_path_rec, packet_life_time_selector) - 61usize];
    [
        "Offset of field: ibv_sa_path_rec::packet_life_time",
    ][::core::mem::offset_of!(ibv_sa_path_rec, packet_life_time) - 62usize];
    [
        "Offset of field: ibv_sa_path_rec::preference",
    ][::core::mem::offset_of!(ibv_sa_path_rec, preference) - 63usize];
};
impl Default for ibv_sa_path_rec {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub struct Ibverbs {
    __library: ::libloading::Library,
    pub ibv_get_device_list: unsafe extern "C" fn(
        num_devices: *mut ::core::ffi::c_int,
    ) -> *mut *mut ibv_device,
    pub ibv_free_device_list: unsafe extern "C" fn(list: *mut *mut ibv_device),
    pub ibv_get_device_name: unsafe extern "C" fn(
        device: *mut ibv_device,
    ) -> *const ::core::ffi::c_char,
    pub ibv_open_device: unsafe extern "C" fn(
        device: *mut ibv_device,
    ) -> *mut ibv_context,
    pub ibv_close_device: unsafe extern "C" fn(
        context: *mut ibv_context,
    ) -> ::core::ffi::c_int,
    pub ibv_query_device: unsafe extern "C" fn(
        context: *mut ibv_context,
        device_attr: *mut ibv_device_attr,
    ) -> ::core::ffi::c_int,
    pub ibv_query_port: unsafe extern "C" fn(
        context: *mut ibv_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> ::core::ffi::c_int,
    pub ibv_query_gid: unsafe extern "C" fn(
        context: *mut ibv_context,
        port_num: u8,
        index: ::core::ffi::c_int,
        gid: *mut ibv_gid,
    ) -> ::core::ffi::c_int,
    pub ibv_alloc_pd: unsafe extern "C" fn(context: *mut ibv_context) -> *mut ibv_pd,
    pub ibv_dealloc_pd: unsafe extern "C" fn(pd: *mut ibv_pd) -> ::core::ffi::c_int,
    pub ibv_reg_mr: unsafe extern "C" fn(
        pd: *mut ibv_pd,
        addr: *mut ::core::ffi::c_void,
        length: usize,
        access: ::core::ffi::c_int,
    ) -> *mut ibv_mr,
    pub ibv_dereg_mr: unsafe extern "C" fn(mr: *mut ibv_mr) -> ::core::ffi::c_int,
    pub ibv_create_comp_channel: unsafe extern "C" fn(
        context: *mut ibv_context,
    ) -> *mut ibv_comp_channel,
    pub ibv_destroy_comp_channel: unsafe extern "C" fn(
        channel: *mut ibv_comp_channel,
    ) -> ::core::ffi::c_int,
    pub ibv_create_cq: unsafe extern "C" fn(
        context: *mut ibv_context,
        cqe: ::core::ffi::c_int,
        cq_context: *mut ::core::ffi::c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: ::core::ffi::c_int,
    ) -> *mut ibv_cq,
    pub ibv_destroy_cq: unsafe extern "C" fn(cq: *mut ibv_cq) -> ::core::ffi::c_int,
    pub ibv_get_cq_event: unsafe extern "C" fn(
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut ::core::ffi::c_void,
    ) -> ::core::ffi::c_int,
    pub ibv_ack_cq_events: unsafe extern "C" fn(
        cq: *mut ibv_cq,
        nevents: ::core::ffi::c_uint,
    ),
    pub ibv_create_qp: unsafe extern "C" fn(
        pd: *mut ibv_pd,
        qp_init_attr: *mut ibv_qp_init_attr,
    ) -> *mut ibv_qp,
    pub ibv_modify_qp: unsafe extern "C" fn(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int,
    pub ibv_destroy_qp: unsafe extern "C" fn(qp: *mut ibv_qp) -> ::core::ffi::c_int,
}
impl Ibverbs {
    pub unsafe fn new<P>(path: P) -> Result<Self, ::libloading::Error>
    where
        P: AsRef<::std::ffi::OsStr>,
    {
        let path = path.as_ref();
        let library = unsafe { ::libloading::Library::new(path) }?;
        unsafe { Self::from_library(library) }
    }
    pub unsafe fn from_library<L>(library: L) -> Result<Self, ::libloading::Error>
    where
        L: Into<::libloading::Library>,
    {
        let __library = library.into();
        let ibv_get_device_list = unsafe { __library.get(b"ibv_get_device_list\0") }
            .map(|sym| *sym)?;
        let ibv_free_device_list = unsafe { __library.get(b"ibv_free_device_list\0") }
            .map(|sym| *sym)?;
        let ibv_get_device_name = unsafe { __library.get(b"ibv_get_device_name\0") }
            .map(|sym| *sym)?;
        let ibv_open_device = unsafe { __library.get(b"ibv_open_device\0") }
            .map(|sym| *sym)?;
        let ibv_close_device = unsafe { __library.get(b"ibv_close_device\0") }
            .map(|sym| *sym)?;
        let ibv_query_device = unsafe { __library.get(b"ibv_query_device\0") }
            .map(|sym| *sym)?;
        let ibv_query_port = unsafe { __library.get(b"ibv_query_port\0") }
            .map(|sym| *sym)?;
        let ibv_query_gid = unsafe { __library.get(b"ibv_query_gid\0") }
            .map(|sym| *sym)?;
        let ibv_alloc_pd = unsafe { __library.get(b"ibv_alloc_pd\0") }.map(|sym| *sym)?;
        let ibv_dealloc_pd = unsafe { __library.get(b"ibv_dealloc_pd\0") }
            .map(|sym| *sym)?;
        let ibv_reg_mr = unsafe { __library.get(b"ibv_reg_mr\0") }.map(|sym| *sym)?;
        let ibv_dereg_mr = unsafe { __library.get(b"ibv_dereg_mr\0") }.map(|sym| *sym)?;
        let ibv_create_comp_channel = unsafe {
            __library.get(b"ibv_create_comp_channel\0")
        }
            .map(|sym| *sym)?;
        let ibv_destroy_comp_channel = unsafe {
            __library.get(b"ibv_destroy_comp_channel\0")
        }
            .map(|sym| *sym)?;
        let ibv_create_cq = unsafe { __library.get(b"ibv_create_cq\0") }
            .map(|sym| *sym)?;
        let ibv_destroy_cq = unsafe { __library.get(b"ibv_destroy_cq\0") }
            .map(|sym| *sym)?;
        let ibv_get_cq_event = unsafe { __library.get(b"ibv_get_cq_event\0") }
            .map(|sym| *sym)?;
        let ibv_ack_cq_events = unsafe { __library.get(b"ibv_ack_cq_events\0") }
            .map(|sym| *sym)?;
        let ibv_create_qp = unsafe { __library.get(b"ibv_create_qp\0") }
            .map(|sym| *sym)?;
        let ibv_modify_qp = unsafe { __library.get(b"ibv_modify_qp\0") }
            .map(|sym| *sym)?;
        let ibv_destroy_qp = unsafe { __library.get(b"ibv_destroy_qp\0") }
            .map(|sym| *sym)?;
        Ok(Ibverbs {
            __library,
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
            ibv_modify_qp,
            ibv_destroy_qp,
        })
    }
    pub unsafe fn ibv_get_device_list(
        &self,
        num_devices: *mut ::core::ffi::c_int,
    ) -> *mut *mut ibv_device {
        unsafe { (self.ibv_get_device_list)(num_devices) }
    }
    pub unsafe fn ibv_free_device_list(&self, list: *mut *mut ibv_device) {
        unsafe { (self.ibv_free_device_list)(list) }
    }
    pub unsafe fn ibv_get_device_name(
        &self,
        device: *mut ibv_device,
    ) -> *const ::core::ffi::c_char {
        unsafe { (self.ibv_get_device_name)(device) }
    }
    pub unsafe fn ibv_open_device(&self, device: *mut ibv_device) -> *mut ibv_context {
        unsafe { (self.ibv_open_device)(device) }
    }
    pub unsafe fn ibv_close_device(
        &self,
        context: *mut ibv_context,
    ) -> ::core::ffi::c_int {
        unsafe { (self.ibv_close_device)(context) }
    }
    pub unsafe fn ibv_query_device(
        &self,
        context: *mut ibv_context,
        device_attr: *mut ibv_device_attr,
    ) -> ::core::ffi::c_int {
        unsafe { (self.ibv_query_device)(context, device_attr) }
    }
    pub unsafe fn ibv_query_port(
        &self,
        context: *mut ibv_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> ::core::ffi::c_int {
        unsafe { (self.ibv_query_port)(context, port_num, port_attr) }
    }
    pub unsafe fn ibv_query_gid(
        &self,
        context: *mut ibv_context,
        port_num: u8,
        index: ::core::ffi::c_int,
        gid: *mut ibv_gid,
    ) -> ::core::ffi::c_int {
        unsafe { (self.ibv_query_gid)(context, port_num, index, gid) }
    }
    pub unsafe fn ibv_alloc_pd(&self, context: *mut ibv_context) -> *mut ibv_pd {
        unsafe { (self.ibv_alloc_pd)(context) }
    }
    pub unsafe fn ibv_dealloc_pd(&self, pd: *mut ibv_pd) -> ::core::ffi::c_int {
        unsafe { (self.ibv_dealloc_pd)(pd) }
    }
    pub unsafe fn ibv_reg_mr(
        &self,
        pd: *mut ibv_pd,
        addr: *mut ::core::ffi::c_void,
        length: usize,
        access: ::core::ffi::c_int,
    ) -> *mut ibv_mr {
        unsafe { (self.ibv_reg_mr)(pd, addr, length, access) }
    }
    pub unsafe fn ibv_dereg_mr(&self, mr: *mut ibv_mr) -> ::core::ffi::c_int {
        unsafe { (self.ibv_dereg_mr)(mr) }
    }
    pub unsafe fn ibv_create_comp_channel(
        &self,
        context: *mut ibv_context,
    ) -> *mut ibv_comp_channel {
        unsafe { (self.ibv_create_comp_channel)(context) }
    }
    pub unsafe fn ibv_destroy_comp_channel(
        &self,
        channel: *mut ibv_comp_channel,
    ) -> ::core::ffi::c_int {
        unsafe { (self.ibv_destroy_comp_channel)(channel) }
    }
    pub unsafe fn ibv_create_cq(
        &self,
        context: *mut ibv_context,
        cqe: ::core::ffi::c_int,
        cq_context: *mut ::core::ffi::c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: ::core::ffi::c_int,
    ) -> *mut ibv_cq {
        unsafe { (self.ibv_create_cq)(context, cqe, cq_context, channel, comp_vector) }
    }
    pub unsafe fn ibv_destroy_cq(&self, cq: *mut ibv_cq) -> ::core::ffi::c_int {
        unsafe { (self.ibv_destroy_cq)(cq) }
    }
    pub unsafe fn ibv_get_cq_event(
        &self,
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut ::core::ffi::c_void,
    ) -> ::core::ffi::c_int {
        unsafe { (self.ibv_get_cq_event)(channel, cq, cq_context) }
    }
    pub unsafe fn ibv_ack_cq_events(
        &self,
        cq: *mut ibv_cq,
        nevents: ::core::ffi::c_uint,
    ) {
        unsafe { (self.ibv_ack_cq_events)(cq, nevents) }
    }
    pub unsafe fn ibv_create_qp(
        &self,
        pd: *mut ibv_pd,
        qp_init_attr: *mut ibv_qp_init_attr,
    ) -> *mut ibv_qp {
        unsafe { (self.ibv_create_qp)(pd, qp_init_attr) }
    }
    pub unsafe fn ibv_modify_qp(
        &self,
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.ibv_modify_qp)(qp, attr, attr_mask) }
    }
    pub unsafe fn ibv_destroy_qp(&self, qp: *mut ibv_qp) -> ::core::ffi::c_int {
        unsafe { (self.ibv_destroy_qp)(qp) }
    }
}

#[repr(C)]
#[derive(Copy, Clone)]
pub union in6_addr__bindgen_ty_1 {
    pub __u6_addr8: [u8; 16usize],
    pub __u6_addr16: [u16; 8usize],
    pub __u6_addr32: [u32; 4usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of in6_addr__bindgen_ty_1",
    ][::core::mem::size_of::<in6_addr__bindgen_ty_1>() - 16usize];
    [
        "Alignment of in6_addr__bindgen_ty_1",
    ][::core::mem::align_of::<in6_addr__bindgen_ty_1>() - 4usize];
    [
        "Offset of field: in6_addr__bindgen_ty_1::__u6_addr8",
    ][::core::mem::offset_of!(in6_addr__bindgen_ty_1, __u6_addr8) - 0usize];
    [
        "Offset of field: in6_addr__bindgen_ty_1::__u6_addr16",
    ][::core::mem::offset_of!(in6_addr__bindgen_ty_1, __u6_addr16) - 0usize];
    [
        "Offset of field: in6_addr__bindgen_ty_1::__u6_addr32",
    ][::core::mem::offset_of!(in6_addr__bindgen_ty_1, __u6_addr32) - 0usize];
};
impl Default for in6_addr__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl rdma_cm_event_type {
    pub const RDMA_CM_EVENT_ADDR_RESOLVED: rdma_cm_event_type = rdma_cm_event_type(0);
    pub const RDMA_CM_EVENT_ADDR_ERROR: rdma_cm_event_type = rdma_cm_event_type(1);
    pub const RDMA_CM_EVENT_ROUTE_RESOLVED: rdma_cm_event_type = rdma_cm_event_type(2);
    pub const RDMA_CM_EVENT_ROUTE_ERROR: rdma_cm_event_type = rdma_cm_event_type(3);
    pub const RDMA_CM_EVENT_CONNECT_REQUEST: rdma_cm_event_type = rdma_cm_event_type(4);
    pub const RDMA_CM_EVENT_CONNECT_RESPONSE: rdma_cm_event_type = rdma_cm_event_type(5);
    pub const RDMA_CM_EVENT_CONNECT_ERROR: rdma_cm_event_type = rdma_cm_event_type(6);
    pub const RDMA_CM_EVENT_UNREACHABLE: rdma_cm_event_type = rdma_cm_event_type(7);
    pub const RDMA_CM_EVENT_REJECTED: rdma_cm_event_type = rdma_cm_event_type(8);
    pub const RDMA_CM_EVENT_ESTABLISHED: rdma_cm_event_type = rdma_cm_event_type(9);
    pub const RDMA_CM_EVENT_DISCONNECTED: rdma_cm_event_type = rdma_cm_event_type(10);
    pub const RDMA_CM_EVENT_DEVICE_REMOVAL: rdma_cm_event_type = rdma_cm_event_type(11);
    pub const RDMA_CM_EVENT_MULTICAST_JOIN: rdma_cm_event_type = rdma_cm_event_type(12);
    pub const RDMA_CM_EVENT_MULTICAST_ERROR: rdma_cm_event_type = rdma_cm_event_type(13);
    pub const RDMA_CM_EVENT_ADDR_CHANGE: rdma_cm_event_type = rdma_cm_event_type(14);
    pub const RDMA_CM_EVENT_TIMEWAIT_EXIT: rdma_cm_event_type = rdma_cm_event_type(15);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct rdma_cm_event_type(pub ::core::ffi::c_uint);
impl rdma_port_space {
    pub const RDMA_PS_IPOIB: rdma_port_space = rdma_port_space(2);
    pub const RDMA_PS_TCP: rdma_port_space = rdma_port_space(262);
    pub const RDMA_PS_UDP: rdma_port_space = rdma_port_space(273);
    pub const RDMA_PS_IB: rdma_port_space = rdma_port_space(319);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct rdma_port_space(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rdma_ib_addr {
    pub sgid: ibv_gid,
    pub dgid: ibv_gid,
    pub pkey: __be16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of rdma_ib_addr"][::core::mem::size_of::<rdma_ib_addr>() - 40usize];
    ["Alignment of rdma_ib_addr"][::core::mem::align_of::<rdma_ib_addr>() - 8usize];
    [
        "Offset of field: rdma_ib_addr::sgid",
    ][::core::mem::offset_of!(rdma_ib_addr, sgid) - 0usize];
    [
        "Offset of field: rdma_ib_addr::dgid",
    ][::core::mem::offset_of!(rdma_ib_addr, dgid) - 16usize];
    [
        "Offset of field: rdma_ib_addr::pkey",
    ][::core::mem::offset_of!(rdma_ib_addr, pkey) - 32usize];
};
impl Default for rdma_ib_addr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rdma_addr {
    pub __bindgen_anon_1: rdma_addr__bindgen_ty_1,
    pub __bindgen_anon_2: rdma_addr__bindgen_ty_2,
    pub addr: rdma_addr__bindgen_ty_3,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union rdma_addr__bindgen_ty_1 {
    pub src_addr: sockaddr,
    pub src_sin: sockaddr_in,
    pub src_sin6: sockaddr_in6,
    pub src_storage: sockaddr_storage,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of rdma_addr__bindgen_ty_1",
    ][::core::mem::size_of::<rdma_addr__bindgen_ty_1>() - 128usize];
    [
        "Alignment of rdma_addr__bindgen_ty_1",
    ][::core::mem::align_of::<rdma_addr__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: rdma_addr__bindgen_ty_1::src_addr",
    ][::core::mem::offset_of!(rdma_addr__bindgen_ty_1, src_addr) - 0usize];
    [
        "Offset of field: rdma_addr__bindgen_ty_1::src_sin",
    ][::core::mem::offset_of!(rdma_addr__bindgen_ty_1, src_sin) - 0usize];
    [
        "Offset of field: rdma_addr__bindgen_ty_1::src_sin6",
    ][::core::mem::offset_of!(rdma_addr__bindgen_ty_1, src_sin6) - 0usize];
    [
        "Offset of field: rdma_addr__bindgen_ty_1::src_storage",
    ][::core::mem::offset_of!(rdma_addr__bindgen_ty_1, src_storage) - 0usize];
};
impl Default for rdma_addr__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union rdma_addr__bindgen_ty_2 {
    pub dst_addr: sockaddr,
    pub dst_sin: sockaddr_in,
    pub dst_sin6: sockaddr_in6,
    pub dst_storage: sockaddr_storage,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of rdma_addr__bindgen_ty_2",
    ][::core::mem::size_of::<rdma_addr__bindgen_ty_2>() - 128usize];
    [
        "Alignment of rdma_addr__bindgen_ty_2",
    ][::core::mem::align_of::<rdma_addr__bindgen_ty_2>() - 8usize];
    [
        "Offset of field: rdma_addr__bindgen_ty_2::dst_addr",
    ][::core::mem::offset_of!(rdma_addr__bindgen_ty_2, dst_addr) - 0usize];
    [
        "Offset of field: rdma_addr__bindgen_ty_2::dst_sin",
    ][::core::mem::offset_of!(rdma_addr__bindgen_ty_2, dst_sin) - 0usize];
    [
        "Offset of field: rdma_addr__bindgen_ty_2::dst_sin6",
    ][::core::mem::offset_of!(rdma_addr__bindgen_ty_2, dst_sin6) - 0usize];
    [
        "Offset of field: rdma_addr__bindgen_ty_2::dst_storage",
    ][::core::mem::offset_of!(rdma_addr__bindgen_ty_2, dst_storage) - 0usize];
};
impl Default for rdma_addr__bindgen_ty_2 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union rdma_addr__bindgen_ty_3 {
    pub ibaddr: rdma_ib_addr,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of rdma_addr__bindgen_ty_3",
    ][::core::mem::size_of::<rdma_addr__bindgen_ty_3>() - 40usize];
    [
        "Alignment of rdma_addr__bindgen_ty_3",
    ][::core::mem::align_of::<rdma_addr__bindgen_ty_3>() - 8usize];
    [
        "Offset of field: rdma_addr__bindgen_ty_3::ibaddr",
    ][::core::mem::offset_of!(rdma_addr__bindgen_ty_3, ibaddr) - 0usize];
};
impl Default for rdma_addr__bindgen_ty_3 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of rdma_addr"][::core::mem::size_of::<rdma_addr>() - 296usize];
    ["Alignment of rdma_addr"][::core::mem::align_of::<rdma_addr>() - 8usize];
    [
        "Offset of field: rdma_addr::addr",
    ][::core::mem::offset_of!(rdma_addr, addr) - 256usize];
};
impl Default for rdma_addr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rdma_route {
    pub addr: rdma_addr,
    pub path_rec: *mut ibv_sa_path_rec,
    pub num_paths: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of rdma_route"][::core::mem::size_of::<rdma_route>() - 312usize];
    ["Alignment of rdma_route"][::core::mem::align_of::<rdma_route>() - 8usize];
    [
        "Offset of field: rdma_route::addr",
    ][::core::mem::offset_of!(rdma_route, addr) - 0usize];
    [
        "Offset of field: rdma_route::path_rec",
    ][::core::mem::offset_of!(rdma_route, path_rec) - 296usize];
    [
        "Offset of field: rdma_route::num_paths",
    ][::core::mem::offset_of!(rdma_route, num_paths) - 304usize];
};
impl Default for rdma_route {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct rdma_event_channel {
    pub fd: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of rdma_event_channel",
    ][::core::mem::size_of::<rdma_event_channel>() - 4usize];
    [
        "Alignment of rdma_event_channel",
    ][::core::mem::align_of::<rdma_event_channel>() - 4usize];
    [
        "Offset of field: rdma_event_channel::fd",
    ][::core::mem::offset_of!(rdma_event_channel, fd) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rdma_cm_id {
    pub verbs: *mut ibv_context,
    pub channel: *mut rdma_event_channel,
    pub context: *mut ::core::ffi::c_void,
    pub qp: *mut ibv_qp,
    pub route: rdma_route,
    pub ps: rdma_port_space,
    pub port_num: u8,
    pub event: *mut rdma_cm_event,
    pub send_cq_channel: *mut ibv_comp_channel,
    pub send_cq: *mut ibv_cq,
    pub recv_cq_channel: *mut ibv_comp_channel,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub pd: *mut ibv_pd,
    pub qp_type: ibv_qp_type,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of rdma_cm_id"][::core::mem::size_of::<rdma_cm_id>() - 416usize];
    ["Alignment of rdma_cm_id"][::core::mem::align_of::<rdma_cm_id>() - 8usize];
    [
        "Offset of field: rdma_cm_id::verbs",
    ][::core::mem::offset_of!(rdma_cm_id, verbs) - 0usize];
    [
        "Offset of field: rdma_cm_id::channel",
    ][::core::mem::offset_of!(rdma_cm_id, channel) - 8usize];
    [
        "Offset of field: rdma_cm_id::context",
    ][::core::mem::offset_of!(rdma_cm_id, context) - 16usize];
    [
        "Offset of field: rdma_cm_id::qp",
    ][::core::mem::offset_of!(rdma_cm_id, qp) - 24usize];
    [
        "Offset of field: rdma_cm_id::route",
    ][::core::mem::offset_of!(rdma_cm_id, route) - 32usize];
    [
        "Offset of field: rdma_cm_id::ps",
    ][::core::mem::offset_of!(rdma_cm_id, ps) - 344usize];
    [
        "Offset of field: rdma_cm_id::port_num",
    ][::core::mem::offset_of!(rdma_cm_id, port_num) - 348usize];
    [
        "Offset of field: rdma_cm_id::event",
    ][::core::mem::offset_of!(rdma_cm_id, event) - 352usize];
    [
        "Offset of field: rdma_cm_id::send_cq_channel",
    ][::core::mem::offset_of!(rdma_cm_id, send_cq_channel) - 360usize];
    [
        "Offset of field: rdma_cm_id::send_cq",
    ][::core::mem::offset_of!(rdma_cm_id, send_cq) - 368usize];
    [
        "Offset of field: rdma_cm_id::recv_cq_channel",
    ][::core::mem::offset_of!(rdma_cm_id, recv_cq_channel) - 376usize];
    [
        "Offset of field: rdma_cm_id::recv_cq",
    ][::core::mem::offset_of!(rdma_cm_id, recv_cq) - 384usize];
    [
        "Offset of field: rdma_cm_id::srq",
    ][::core::mem::offset_of!(rdma_cm_id, srq) - 392usize];
    [
        "Offset of field: rdma_cm_id::pd",
    ][::core::mem::offset_of!(rdma_cm_id, pd) - 400usize];
    [
        "Offset of field: rdma_cm_id::qp_type",
    ][::core::mem::offset_of!(rdma_cm_id, qp_type) - 408usize];
};
impl Default for rdma_cm_id {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rdma_conn_param {
    pub private_data: *const ::core::ffi::c_void,
    pub private_data_len: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of rdma_conn_param"][::core::mem::size_of::<rdma_conn_param>() - 24usize];
    [
        "Alignment of rdma_conn_param",
    ][::core::mem::align_of::<rdma_conn_param>() - 8usize];
    [
        "Offset of field: rdma_conn_param::private_data",
    ][::core::mem::offset_of!(rdma_conn_param, private_data) - 0usize];
    [
        "Offset of field: rdma_conn_param::private_data_len",
    ][::core::mem::offset_of!(rdma_conn_param, private_data_len) - 8usize];
    [
        "Offset of field: rdma_conn_param::responder_resources",
    ][::core::mem::offset_of!(rdma_conn_param, responder_resources) - 9usize];
    [
        "Offset of field: rdma_conn_param::initiator_depth",
    ][::core::mem::offset_of!(rdma_conn_param, initiator_depth) - 10usize];
    [
        "Offset of field: rdma_conn_param::flow_control",
    ][::core::mem::offset_of!(rdma_conn_param, flow_control) - 11usize];
    [
        "Offset of field: rdma_conn_param::retry_count",
    ][::core::mem::offset_of!(rdma_conn_param, retry_count) - 12usize];
    [
        "Offset of field: rdma_conn_param::rnr_retry_count",
    ][::core::mem::offset_of!(rdma_conn_param, rnr_retry_count) - 13usize];
    [
        "Offset of field: rdma_conn_param::srq",
    ][::core::mem::offset_of!(rdma_conn_param, srq) - 14usize];
    [
        "Offset of field: rdma_conn_param::qp_num",
    ][::core::mem::offset_of!(rdma_conn_param, qp_num) - 16usize];
};
impl Default for rdma_conn_param {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rdma_ud_param {
    pub private_data: *const ::core::ffi::c_void,
    pub private_data_len: u8,
    pub ah_attr: ibv_ah_attr,
    pub qp_num: u32,
    pub qkey: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of rdma_ud_param"][::core::mem::size_of::<rdma_ud_param>() - 56usize];
    ["Alignment of rdma_ud_param"][::core::mem::align_of::<rdma_ud_param>() - 8usize];
    [
        "Offset of field: rdma_ud_param::private_data",
    ][::core::mem::offset_of!(rdma_ud_param, private_data) - 0usize];
    [
        "Offset of field: rdma_ud_param::private_data_len",
    ][::core::mem::offset_of!(rdma_ud_param, private_data_len) - 8usize];
    [
        "Offset of field: rdma_ud_param::ah_attr",
    ][::core::mem::offset_of!(rdma_ud_param, ah_attr) - 16usize];
    [
        "Offset of field: rdma_ud_param::qp_num",
    ][::core::mem::offset_of!(rdma_ud_param, qp_num) - 48usize];
    [
        "Offset of field: rdma_ud_param::qkey",
    ][::core::mem::offset_of!(rdma_ud_param, qkey) - 52usize];
};
impl Default for rdma_ud_param {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct rdma_cm_event {
    pub id: *mut rdma_cm_id,
    pub listen_id: *mut rdma_cm_id,
    pub event: rdma_cm_event_type,
    pub status: ::core::ffi::c_int,
    pub param: rdma_cm_event__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union rdma_cm_event__bindgen_ty_1 {
    pub conn: rdma_conn_param,
    pub ud: rdma_ud_param,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of rdma_cm_event__bindgen_ty_1",
    ][::core::mem::size_of::<rdma_cm_event__bindgen_ty_1>() - 56usize];
    [
        "Alignment of rdma_cm_event__bindgen_ty_1",
    ][::core::mem::align_of::<rdma_cm_event__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: rdma_cm_event__bindgen_ty_1::conn",
    ][::core::mem::offset_of!(rdma_cm_event__bindgen_ty_1, conn) - 0usize];
    [
        "Offset of field: rdma_cm_event__bindgen_ty_1::ud",
    ][::core::mem::offset_of!(rdma_cm_event__bindgen_ty_1, ud) - 0usize];
};
impl Default for rdma_cm_event__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of rdma_cm_event"][::core::mem::size_of::<rdma_cm_event>() - 80usize];
    ["Alignment of rdma_cm_event"][::core::mem::align_of::<rdma_cm_event>() - 8usize];
    [
        "Offset of field: rdma_cm_event::id",
    ][::core::mem::offset_of!(rdma_cm_event, id) - 0usize];
    [
        "Offset of field: rdma_cm_event::listen_id",
    ][::core::mem::offset_of!(rdma_cm_event, listen_id) - 8usize];
    [
        "Offset of field: rdma_cm_event::event",
    ][::core::mem::offset_of!(rdma_cm_event, event) - 16usize];
    [
        "Offset of field: rdma_cm_event::status",
    ][::core::mem::offset_of!(rdma_cm_event, status) - 20usize];
    [
        "Offset of field: rdma_cm_event::param",
    ][::core::mem::offset_of!(rdma_cm_event, param) - 24usize];
};
impl Default for rdma_cm_event {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const RDMA_OPTION_ID: _bindgen_ty_25 = 0;
pub const RDMA_OPTION_IB: _bindgen_ty_25 = 1;
pub type _bindgen_ty_25 = ::core::ffi::c_uint;
pub const RDMA_OPTION_ID_TOS: _bindgen_ty_26 = 0;
pub const RDMA_OPTION_ID_REUSEADDR: _bindgen_ty_26 = 1;
pub const RDMA_OPTION_ID_AFONLY: _bindgen_ty_26 = 2;
pub const RDMA_OPTION_ID_ACK_TIMEOUT: _bindgen_ty_26 = 3;
pub type _bindgen_ty_26 = ::core::ffi::c_uint;
pub struct Rdmacm {
    __library: ::libloading::Library,
    pub rdma_create_event_channel: unsafe extern "C" fn() -> *mut rdma_event_channel,
    pub rdma_destroy_event_channel: unsafe extern "C" fn(
        channel: *mut rdma_event_channel,
    ),
    pub rdma_create_id: unsafe extern "C" fn(
        channel: *mut rdma_event_channel,
        id: *mut *mut rdma_cm_id,
        context: *mut ::core::ffi::c_void,
        ps: rdma_port_space,
    ) -> ::core::ffi::c_int,
    pub rdma_destroy_id: unsafe extern "C" fn(id: *mut rdma_cm_id) -> ::core::ffi::c_int,
    pub rdma_bind_addr: unsafe extern "C" fn(
        id: *mut rdma_cm_id,
        addr: *mut sockaddr,
    ) -> ::core::ffi::c_int,
    pub rdma_resolve_addr: unsafe extern "C" fn(
        id: *mut rdma_cm_id,
        src_addr: *mut sockaddr,
        dst_addr: *mut sockaddr,
        timeout_ms: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int,
    pub rdma_resolve_route: unsafe extern "C" fn(
        id: *mut rdma_cm_id,
        timeout_ms: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int,
    pub rdma_connect: unsafe extern "C" fn(
        id: *mut rdma_cm_id,
        conn_param: *mut rdma_conn_param,
    ) -> ::core::ffi::c_int,
    pub rdma_establish: unsafe extern "C" fn(id: *mut rdma_cm_id) -> ::core::ffi::c_int,
    pub rdma_listen: unsafe extern "C" fn(
        id: *mut rdma_cm_id,
        backlog: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int,
    pub rdma_accept: unsafe extern "C" fn(
        id: *mut rdma_cm_id,
        conn_param: *mut rdma_conn_param,
    ) -> ::core::ffi::c_int,
    pub rdma_reject: unsafe extern "C" fn(
        id: *mut rdma_cm_id,
        private_data: *const ::core::ffi::c_void,
        private_data_len: u8,
    ) -> ::core::ffi::c_int,
    pub rdma_disconnect: unsafe extern "C" fn(id: *mut rdma_cm_id) -> ::core::ffi::c_int,
    pub rdma_get_cm_event: unsafe extern "C" fn(
        channel: *mut rdma_event_channel,
        event: *mut *mut rdma_cm_event,
    ) -> ::core::ffi::c_int,
    pub rdma_ack_cm_event: unsafe extern "C" fn(
        event: *mut rdma_cm_event,
    ) -> ::core::ffi::c_int,
    pub rdma_get_devices: unsafe extern "C" fn(
        num_devices: *mut ::core::ffi::c_int,
    ) -> *mut *mut ibv_context,
    pub rdma_free_devices: unsafe extern "C" fn(list: *mut *mut ibv_context),
    pub rdma_set_option: unsafe extern "C" fn(
        id: *mut rdma_cm_id,
        level: ::core::ffi::c_int,
        optname: ::core::ffi::c_int,
        optval: *mut ::core::ffi::c_void,
        optlen: usize,
    ) -> ::core::ffi::c_int,
    pub rdma_migrate_id: unsafe extern "C" fn(
        id: *mut rdma_cm_id,
        channel: *mut rdma_event_channel,
    ) -> ::core::ffi::c_int,
    pub rdma_init_qp_attr: unsafe extern "C" fn(
        id: *mut rdma_cm_id,
        qp_attr: *mut ibv_qp_attr,
        qp_attr_mask: *mut ::core::ffi::c_int,
    ) -> ::core::ffi::c_int,
}
impl Rdmacm {
    pub unsafe fn new<P>(path: P) -> Result<Self, ::libloading::Error>
    where
        P: AsRef<::std::ffi::OsStr>,
    {
        let path = path.as_ref();
        let library = unsafe { ::libloading::Library::new(path) }?;
        unsafe { Self::from_library(library) }
    }
    pub unsafe fn from_library<L>(library: L) -> Result<Self, ::libloading::Error>
    where
        L: Into<::libloading::Library>,
    {
        let __library = library.into();
        let rdma_create_event_channel = unsafe {
            __library.get(b"rdma_create_event_channel\0")
        }
            .map(|sym| *sym)?;
        let rdma_destroy_event_channel = unsafe {
            __library.get(b"rdma_destroy_event_channel\0")
        }
            .map(|sym| *sym)?;
        let rdma_create_id = unsafe { __library.get(b"rdma_create_id\0") }
            .map(|sym| *sym)?;
        let rdma_destroy_id = unsafe { __library.get(b"rdma_destroy_id\0") }
            .map(|sym| *sym)?;
        let rdma_bind_addr = unsafe { __library.get(b"rdma_bind_addr\0") }
            .map(|sym| *sym)?;
        let rdma_resolve_addr = unsafe { __library.get(b"rdma_resolve_addr\0") }
            .map(|sym| *sym)?;
        let rdma_resolve_route = unsafe { __library.get(b"rdma_resolve_route\0") }
            .map(|sym| *sym)?;
        let rdma_connect = unsafe { __library.get(b"rdma_connect\0") }.map(|sym| *sym)?;
        let rdma_establish = unsafe { __library.get(b"rdma_establish\0") }
            .map(|sym| *sym)?;
        let rdma_listen = unsafe { __library.get(b"rdma_listen\0") }.map(|sym| *sym)?;
        let rdma_accept = unsafe { __library.get(b"rdma_accept\0") }.map(|sym| *sym)?;
        let rdma_reject = unsafe { __library.get(b"rdma_reject\0") }.map(|sym| *sym)?;
        let rdma_disconnect = unsafe { __library.get(b"rdma_disconnect\0") }
            .map(|sym| *sym)?;
        let rdma_get_cm_event = unsafe { __library.get(b"rdma_get_cm_event\0") }
            .map(|sym| *sym)?;
        let rdma_ack_cm_event = unsafe { __library.get(b"rdma_ack_cm_event\0") }
            .map(|sym| *sym)?;
        let rdma_get_devices = unsafe { __library.get(b"rdma_get_devices\0") }
            .map(|sym| *sym)?;
        let rdma_free_devices = unsafe { __library.get(b"rdma_free_devices\0") }
            .map(|sym| *sym)?;
        let rdma_set_option = unsafe { __library.get(b"rdma_set_option\0") }
            .map(|sym| *sym)?;
        let rdma_migrate_id = unsafe { __library.get(b"rdma_migrate_id\0") }
            .map(|sym| *sym)?;
        let rdma_init_qp_attr = unsafe { __library.get(b"rdma_init_qp_attr\0") }
            .map(|sym| *sym)?;
        Ok(Rdmacm {
            __library,
            rdma_create_event_channel,
            rdma_destroy_event_channel,
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
            rdma_get_devices,
            rdma_free_devices,
            rdma_set_option,
            rdma_migrate_id,
            rdma_init_qp_attr,
        })
    }
    pub unsafe fn rdma_create_event_channel(&self) -> *mut rdma_event_channel {
        unsafe { (self.rdma_create_event_channel)() }
    }
    pub unsafe fn rdma_destroy_event_channel(&self, channel: *mut rdma_event_channel) {
        unsafe { (self.rdma_destroy_event_channel)(channel) }
    }
    pub unsafe fn rdma_create_id(
        &self,
        channel: *mut rdma_event_channel,
        id: *mut *mut rdma_cm_id,
        context: *mut ::core::ffi::c_void,
        ps: rdma_port_space,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_create_id)(channel, id, context, ps) }
    }
    pub unsafe fn rdma_destroy_id(&self, id: *mut rdma_cm_id) -> ::core::ffi::c_int {
        unsafe { (self.rdma_destroy_id)(id) }
    }
    pub unsafe fn rdma_bind_addr(
        &self,
        id: *mut rdma_cm_id,
        addr: *mut sockaddr,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_bind_addr)(id, addr) }
    }
    pub unsafe fn rdma_resolve_addr(
        &self,
        id: *mut rdma_cm_id,
        src_addr: *mut sockaddr,
        dst_addr: *mut sockaddr,
        timeout_ms: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_resolve_addr)(id, src_addr, dst_addr, timeout_ms) }
    }
    pub unsafe fn rdma_resolve_route(
        &self,
        id: *mut rdma_cm_id,
        timeout_ms: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_resolve_route)(id, timeout_ms) }
    }
    pub unsafe fn rdma_connect(
        &self,
        id: *mut rdma_cm_id,
        conn_param: *mut rdma_conn_param,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_connect)(id, conn_param) }
    }
    pub unsafe fn rdma_establish(&self, id: *mut rdma_cm_id) -> ::core::ffi::c_int {
        unsafe { (self.rdma_establish)(id) }
    }
    pub unsafe fn rdma_listen(
        &self,
        id: *mut rdma_cm_id,
        backlog: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_listen)(id, backlog) }
    }
    pub unsafe fn rdma_accept(
        &self,
        id: *mut rdma_cm_id,
        conn_param: *mut rdma_conn_param,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_accept)(id, conn_param) }
    }
    pub unsafe fn rdma_reject(
        &self,
        id: *mut rdma_cm_id,
        private_data: *const ::core::ffi::c_void,
        private_data_len: u8,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_reject)(id, private_data, private_data_len) }
    }
    pub unsafe fn rdma_disconnect(&self, id: *mut rdma_cm_id) -> ::core::ffi::c_int {
        unsafe { (self.rdma_disconnect)(id) }
    }
    pub unsafe fn rdma_get_cm_event(
        &self,
        channel: *mut rdma_event_channel,
        event: *mut *mut rdma_cm_event,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_get_cm_event)(channel, event) }
    }
    pub unsafe fn rdma_ack_cm_event(
        &self,
        event: *mut rdma_cm_event,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_ack_cm_event)(event) }
    }
    pub unsafe fn rdma_get_devices(
        &self,
        num_devices: *mut ::core::ffi::c_int,
    ) -> *mut *mut ibv_context {
        unsafe { (self.rdma_get_devices)(num_devices) }
    }
    pub unsafe fn rdma_free_devices(&self, list: *mut *mut ibv_context) {
        unsafe { (self.rdma_free_devices)(list) }
    }
    pub unsafe fn rdma_set_option(
        &self,
        id: *mut rdma_cm_id,
        level: ::core::ffi::c_int,
        optname: ::core::ffi::c_int,
        optval: *mut ::core::ffi::c_void,
        optlen: usize,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_set_option)(id, level, optname, optval, optlen) }
    }
    pub unsafe fn rdma_migrate_id(
        &self,
        id: *mut rdma_cm_id,
        channel: *mut rdma_event_channel,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_migrate_id)(id, channel) }
    }
    pub unsafe fn rdma_init_qp_attr(
        &self,
        id: *mut rdma_cm_id,
        qp_attr: *mut ibv_qp_attr,
        qp_attr_mask: *mut ::core::ffi::c_int,
    ) -> ::core::ffi::c_int {
        unsafe { (self.rdma_init_qp_attr)(id, qp_attr, qp_attr_mask) }
    }
}

pub struct IbverbsRecent {
    __library: ::libloading::Library,
    pub _ibv_query_gid_ex: Result<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u32,
            gid_index: u32,
            entry: *mut ibv_gid_entry,
            flags: u32,
            entry_size: usize,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
    pub ibv_query_qp_data_in_order: Result<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            op: ibv_wr_opcode,
            flags: u32,
        ) -> ::core::ffi::c_int,
        ::libloading::Error,
    >,
}
impl IbverbsRecent {
    pub unsafe fn new<P>(path: P) -> Result<Self, ::libloading::Error>
    where
        P: AsRef<::std::ffi::OsStr>,
    {
        let path = path.as_ref();
        let library = unsafe { ::libloading::Library::new(path) }?;
        unsafe { Self::from_library(library) }
    }
    pub unsafe fn from_library<L>(library: L) -> Result<Self, ::libloading::Error>
    where
        L: Into<::libloading::Library>,
    {
        let __library = library.into();
        let _ibv_query_gid_ex = unsafe { __library.get(b"_ibv_query_gid_ex\0") }
            .map(|sym| *sym);
        let ibv_query_qp_data_in_order = unsafe {
            __library.get(b"ibv_query_qp_data_in_order\0")
        }
            .map(|sym| *sym);
        Ok(IbverbsRecent {
            __library,
            _ibv_query_gid_ex,
            ibv_query_qp_data_in_order,
        })
    }
    pub unsafe fn _ibv_query_gid_ex(
        &self,
        context: *mut ibv_context,
        port_num: u32,
        gid_index: u32,
        entry: *mut ibv_gid_entry,
        flags: u32,
        entry_size: usize,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                ._ibv_query_gid_ex
                .as_ref()
                .expect(
                    "Expected function, got error.",
                ))(context, port_num, gid_index, entry, flags, entry_size)
        }
    }
    pub unsafe fn ibv_query_qp_data_in_order(
        &self,
        qp: *mut ibv_qp,
        op: ibv_wr_opcode,
        flags: u32,
    ) -> ::core::ffi::c_int {
        unsafe {
            (self
                .ibv_query_qp_data_in_order
                .as_ref()
                .expect("Expected function, got error."))(qp, op, flags)
        }
    }
}
