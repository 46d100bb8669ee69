//! Addresses that are listened at.

use super::error::ConnectError;
use super::route::Route;
use crate::os::{OsError, monotonic_ns, resolve};
use crate::verbs::{CmId, Error, EventChannel};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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
    let mut found = of_device(host, &named, |ip| route.source(ip))?;
    found.set_port(port);
    Ok(vec![found])
}

/// The first of the addresses that the device that was asked for has: it is chosen by one of its addresses, which `source` gives.
fn of_device(
    host: &str,
    named: &[SocketAddr],
    source: impl Fn(IpAddr) -> Result<Option<SocketAddr>, ConnectError>,
) -> Result<SocketAddr, ConnectError> {
    let mut refused = None;
    for address in named {
        match source(address.ip()) {
            Ok(Some(source)) if host.is_empty() || source.ip() == address.ip() => return Ok(source),
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

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "192.0.2.1";
    const ELSEWHERE: &str = "192.0.2.2";

    fn at(ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), 0)
    }

    #[test]
    fn a_name_is_listened_at_at_all_its_addresses_where_no_device_is_asked_for() {
        let addresses = |host, port| addresses(host, port, &Route::default()).unwrap();
        let told =
            |addresses: Vec<SocketAddr>| addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>();
        assert_eq!(told(addresses("", 7)), ["0.0.0.0:7", "[::]:7"]);
        assert_eq!(told(addresses(HERE, 8)), ["192.0.2.1:8"]);
        assert!(addresses("localhost", 9).iter().all(|it| it.ip().is_loopback() && it.port() == 9));
    }

    #[test]
    fn a_device_is_listened_at_at_an_address_of_its_own_that_was_named() {
        let named = [at(ELSEWHERE), at(HERE)];
        // The device's only address.
        let device = |_| Ok(Some(at(HERE)));
        assert_eq!(of_device("both", &named, device), Ok(at(HERE)));
        assert_eq!(of_device("", &named, device), Ok(at(HERE)));
        let told = of_device("one", &named[..1], device).unwrap_err().to_string();
        assert_eq!(told, "one is not an address of the device or GID that was asked for; leave one out");
        let told = of_device("both", &named, |_| Ok(None)).unwrap_err().to_string();
        assert!(told.starts_with("both is not an address of the device"), "{told}");
    }

    #[test]
    fn why_a_device_has_no_such_address_is_told_where_none_is_its_own() {
        let named = [at(ELSEWHERE), at(HERE), at("fd00::1")];
        let source = |ip: IpAddr| match ip {
            IpAddr::V4(_) => Err(ConnectError::NotFound(format!("no way to {ip}"))),
            IpAddr::V6(_) => Ok(Some(SocketAddr::new(ip, 0))),
        };
        assert_eq!(of_device("", &named, source), Ok(at("fd00::1")));
        let told = of_device("", &named[..2], source).unwrap_err().to_string();
        assert_eq!(told, "no way to 192.0.2.2", "the first");
    }
}
