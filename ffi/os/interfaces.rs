//! Addresses of this host's network interfaces (getifaddrs(3)), which rustix does not have.

use super::error::OsError;
use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::ptr;

/// Returns every address of every interface, with port 0, in the kernel's order. Link-local ones carry their scope.
///
/// # Errors
/// The kernel does not tell.
pub fn interface_addresses() -> Result<Vec<SocketAddr>, OsError> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is to a local, which the call fills if it returns 0.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(OsError::last("cannot list the network interfaces"));
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the list is the library's, ends in null, and is freed below.
        let entry = unsafe { &*next };
        // SAFETY: an address in the list is as long as its family requires.
        found.extend(unsafe { address(entry.ifa_addr) });
        next = entry.ifa_next;
    }
    // SAFETY: it came from getifaddrs, and nothing points into it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Converts a socket address; none if it is null or of another family.
///
/// # Safety
/// 1. `raw` is null, or the address of a socket address as long as its family requires.
unsafe fn address(raw: *const libc::sockaddr) -> Option<SocketAddr> {
    // SAFETY: the caller's promise; every address has a family.
    let family = i32::from(unsafe { raw.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: of this family it is a sockaddr_in.
            let v4 = unsafe { raw.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(SocketAddr::new(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()), 0))
        }
        libc::AF_INET6 => {
            // SAFETY: of this family it is a sockaddr_in6.
            let v6 = unsafe { raw.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, 0, 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_among_them() {
        let all = interface_addresses().unwrap();
        assert!(all.iter().any(|address| address.ip().is_loopback()), "{all:?}");
        assert!(all.iter().all(|address| address.port() == 0));
    }
}
