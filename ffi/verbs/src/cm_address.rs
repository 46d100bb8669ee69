//! Socket addresses, as rdma_cm takes and gives them.

use super::sys::{rdma_addr__bindgen_ty_1, rdma_addr__bindgen_ty_2};
use core::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use libc::{in_addr, in6_addr, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};

/// An address in C's form.
pub(super) union RawAddress {
    v4: sockaddr_in,
    v6: sockaddr_in6,
}

impl RawAddress {
    pub(super) fn new(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => {
                let sin_addr = in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) };
                let sin_port = address.port().to_be();
                Self { v4: sockaddr_in { sin_family: FAMILY_V4, sin_port, sin_addr, sin_zero: [0; 8] } }
            }
            SocketAddr::V6(address) => {
                let v6 = sockaddr_in6 {
                    sin6_family: FAMILY_V6,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                Self { v6 }
            }
        }
    }

    /// Returns a pointer that is valid while this lives. rdma_cm reads as many bytes as the family has, and writes nothing.
    pub(super) fn as_ptr(&mut self) -> *mut sockaddr {
        core::ptr::from_mut(self).cast()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "families are small numbers")]
const FAMILY_V4: libc::sa_family_t = libc::AF_INET as libc::sa_family_t;
#[expect(clippy::cast_possible_truncation, reason = "families are small numbers")]
const FAMILY_V6: libc::sa_family_t = libc::AF_INET6 as libc::sa_family_t;

/// Returns the address of our end.
pub(super) fn local(raw: rdma_addr__bindgen_ty_1) -> Option<SocketAddr> {
    // SAFETY: the union is filled with zeros first, and every member is integers.
    from_storage(unsafe { &raw.src_storage })
}

/// Returns the address of the peer's end.
pub(super) fn peer(raw: rdma_addr__bindgen_ty_2) -> Option<SocketAddr> {
    // SAFETY: the union is filled with zeros first, and every member is integers.
    from_storage(unsafe { &raw.dst_storage })
}

/// Reads the address that a caller of rdma_cm gave.
///
/// # Safety
/// 1. It is as long as its family says.
#[cfg(any(test, feature = "fake"))]
pub(super) unsafe fn read(raw: *const sockaddr) -> Option<SocketAddr> {
    // SAFETY: it is integers, for all of which zero is a value.
    let mut storage: sockaddr_storage = unsafe { core::mem::MaybeUninit::zeroed().assume_init() };
    // SAFETY: the caller promises that the family is there, and as many bytes as an address of it has.
    let bytes = match unsafe { (*raw).sa_family } {
        FAMILY_V4 => size_of::<sockaddr_in>(),
        _ => size_of::<sockaddr_in6>(),
    };
    // SAFETY: the caller promises that the address has the bytes of its family. The storage is ours, and larger than every address.
    unsafe { core::ptr::copy_nonoverlapping(raw.cast::<u8>(), (&raw mut storage).cast(), bytes) };
    from_storage(&storage)
}

fn from_storage(storage: &sockaddr_storage) -> Option<SocketAddr> {
    let start: *const sockaddr_storage = storage;
    match storage.ss_family {
        FAMILY_V4 => {
            // SAFETY: a storage is larger than every address and as aligned, and every value of its bytes is one.
            let v4 = unsafe { start.cast::<sockaddr_in>().read() };
            let ip = v4.sin_addr.s_addr.to_ne_bytes().into();
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        FAMILY_V6 => {
            // SAFETY: a storage is larger than every address and as aligned, and every value of its bytes is one.
            let v6 = unsafe { start.cast::<sockaddr_in6>().read() };
            let (port, ip) = (u16::from_be(v6.sin6_port), v6.sin6_addr.s6_addr.into());
            Some(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::rdma_addr;
    use core::ptr;

    #[test]
    fn addresses_survive_the_way_there_and_back() {
        for text in ["10.77.1.1:7471", "[fd00:77:1::1]:1", "[fe80::1%3]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut raw = RawAddress::new(address);
            let mut there = rdma_addr::default();
            // SAFETY: both are at least as large as an IPv6 address, and do not overlap.
            unsafe {
                let to: *mut u8 = (&raw mut there.__bindgen_anon_1).cast();
                ptr::copy_nonoverlapping(raw.as_ptr().cast::<u8>(), to, size_of::<RawAddress>());
            }
            assert_eq!(local(there.__bindgen_anon_1), Some(address));
            assert_eq!(peer(there.__bindgen_anon_2), None, "no family, no address");
        }
    }
}
