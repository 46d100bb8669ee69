//! Addresses that are listened at.

use super::error::ConnectError;
use super::route::Route;
use crate::os::{OsError, monotonic_ns, resolve};
use crate::verbs::{CmId, Error, EventChannel};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Requests that the kernel holds for us until they are accepted; its own limit is net.rdma_ucm.max_backlog, 1024. What is more
/// is reset on iWARP, and dropped elsewhere until the peer's CM asks again after 4.3 s.
const BACKLOG: u16 = 128;
/// A name that one listens at is this host's own, and known here.
const LOOKUP_NS: u64 = 5_000_000_000;

/// Ports of the kernel's choice that are tried where others have some of their addresses.
pub(super) const PORTS: u32 = 8;

/// An address.
#[derive(Debug)]
pub(super) struct Place {
    /// With the port that it got.
    pub(super) address: SocketAddr,
    /// None while no device has it.
    pub(super) id: Option<CmId>,
}

/// Finds what to listen at.
pub(super) fn addresses(host: &str, port: u16, route: &Route) -> Result<Vec<SocketAddr>, ConnectError> {
    let any = || {
        [
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
        ]
    };
    let named = if host.is_empty() {
        any().to_vec()
    } else {
        resolve(host, port, monotonic_ns() + LOOKUP_NS, &|| false)?
    };
    if *route == Route::default() {
        return Ok(named);
    }
    // A device is chosen by one of its addresses.
    let mut refused = None;
    for address in &named {
        match route.source(address.ip()) {
            Ok(Some(mut source)) if host.is_empty() || source.ip() == address.ip() => {
                source.set_port(port);
                return Ok(vec![source]);
            }
            Ok(_) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| {
        ConnectError::NotFound(format!(
            "{host} is not an address of the device or GID that was asked for; leave one out"
        ))
    }))
}

/// Listens at each, all at one port: where the kernel is to choose it, it does for the first.
pub(super) fn listen_at_all(
    channel: &EventChannel,
    addresses: &[SocketAddr],
) -> Result<Vec<Place>, ConnectError> {
    let mut places: Vec<Place> = Vec::new();
    let mut refused = None;
    for address in addresses {
        let mut address = *address;
        if let Some(first) = places.first() {
            address.set_port(first.address.port());
        }
        match listen(channel, address, addresses.len() == 1) {
            Ok(id) => places.push(Place { address: id.local_addr().unwrap_or(address), id: Some(id) }),
            Err(error) if is_taken(&error) => return Err(error),
            // A host without IPv6.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if places.is_empty() => Err(error),
        _ => Ok(places),
    }
}

/// Returns true if another listens there.
pub(super) fn is_taken(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Verbs(Error::Verb(error)) if error.errno() == libc::EADDRINUSE)
}

/// Returns true if no device has the address.
pub(super) fn is_absent(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Verbs(Error::Verb(error))
        if matches!(error.errno(), libc::ENODEV | libc::EADDRNOTAVAIL))
}

/// Listens at one address. The IPv6 wildcard takes IPv4 as well if it `is_alone` and the host has it so; beside another it must not.
pub(super) fn listen(
    channel: &EventChannel,
    address: SocketAddr,
    is_alone: bool,
) -> Result<CmId, ConnectError> {
    let mut id = unbound(channel, address, is_alone)?;
    match id.bind(address).map_err(ConnectError::from) {
        Err(error) if is_absent(&error) && has_device(channel, address, is_alone) => {
            return Err(taken(address));
        }
        bound => bound?,
    }
    id.listen(BACKLOG)?;
    Ok(id)
}

fn unbound(channel: &EventChannel, address: SocketAddr, is_alone: bool) -> Result<CmId, ConnectError> {
    let mut id = CmId::create(channel)?;
    if address.is_ipv6() && !is_alone {
        id.set_family_only()?;
    }
    Ok(id)
}

/// Returns true if a device has the address, whatever its ports are taken by: EADDRNOTAVAIL is rdma_cm's answer where no device has
/// it, and where another is bound to the port and either of the two to every address.
fn has_device(channel: &EventChannel, address: SocketAddr, is_alone: bool) -> bool {
    let any = SocketAddr::new(address.ip(), 0);
    let any = match (any, address) {
        (SocketAddr::V6(mut any), SocketAddr::V6(address)) => {
            any.set_scope_id(address.scope_id());
            any.into()
        }
        (any, _) => any,
    };
    unbound(channel, any, is_alone).is_ok_and(|mut id| id.bind(any).is_ok())
}

fn taken(address: SocketAddr) -> ConnectError {
    let error = OsError::new(libc::EADDRINUSE, format!("cannot listen at {address}"));
    Error::Verb(error.with_remedy("another process listens there: take another port")).into()
}
