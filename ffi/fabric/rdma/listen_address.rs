//! Addresses of a listener.

use super::device::RdmaDevice;
use super::error::ConnectError;
use crate::os::{OsError, monotonic_ns, resolve};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use superpipe_verbs::{CmId, EventChannel};

/// Requests that the kernel keeps until they are accepted; its own limit is net.rdma_ucm.max_backlog, 1024. Further requests are reset
/// on iWARP, and dropped elsewhere until the peer's CM repeats them after 4.3 s.
const BACKLOG: u16 = 128;
/// Limit of the lookup of a name, which is this host's own: as long as the resolver waits for one name server by default
/// (resolv.conf(5)).
const LOOKUP_NS: u64 = 5_000_000_000;

/// Ports chosen by the kernel that are tried, since others may use one of them at some of the addresses.
pub(super) const PORT_ATTEMPTS: u32 = 8;

/// An address and its id.
#[derive(Debug)]
pub(super) struct ListenAddress {
    /// Includes the port that was chosen.
    pub(super) address: SocketAddr,
    /// None while no device has the address.
    pub(super) id: Option<CmId>,
}

/// Resolves the addresses to listen at.
pub(super) fn addresses(host: &str, port: u16, device: &RdmaDevice) -> Result<Vec<SocketAddr>, ConnectError> {
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
    if *device == RdmaDevice::default() {
        return Ok(named);
    }
    let mut found = of_device(host, &named, |ip| device.source(ip))?;
    found.set_port(port);
    Ok(vec![found])
}

/// Returns the first of `named` that the requested device has. `source` gives the address of the device.
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

/// Listens at each address, all at one port. If the kernel is to choose the port, it does so for the first.
pub(super) fn listen_at_all(
    channel: &EventChannel,
    addresses: &[SocketAddr],
) -> Result<Vec<ListenAddress>, ConnectError> {
    let mut places: Vec<ListenAddress> = Vec::new();
    let mut refused = None;
    for address in addresses {
        let mut address = *address;
        if let Some(first) = places.first() {
            address.set_port(first.address.port());
        }
        match listen(channel, address, addresses.len() == 1) {
            Ok(id) => {
                places.push(ListenAddress { address: id.local_addr().unwrap_or(address), id: Some(id) })
            }
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

/// Returns true if another listener has the address.
pub(super) fn is_taken(error: &ConnectError) -> bool {
    error.errno() == Some(libc::EADDRINUSE)
}

/// Returns true if no device has the address.
pub(super) fn is_absent(error: &ConnectError) -> bool {
    matches!(error.errno(), Some(libc::ENODEV | libc::EADDRNOTAVAIL))
}

/// Listens at one address. The IPv6 wildcard takes IPv4 as well if it `is_alone` and the host is configured so; else it must not.
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

/// Returns true if a device has the address, even if its port is taken. rdma_cm returns EADDRNOTAVAIL if no device has the address,
/// and also if another id is bound to the port and one of the two to the wildcard.
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
    error.with_remedy("another process listens there: take another port").into()
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
    fn without_a_device_all_addresses_of_a_name_are_used() {
        let addresses = |host, port| addresses(host, port, &RdmaDevice::default()).unwrap();
        let text =
            |addresses: Vec<SocketAddr>| addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>();
        assert_eq!(text(addresses("", 7)), ["0.0.0.0:7", "[::]:7"]);
        assert_eq!(text(addresses(HERE, 8)), ["192.0.2.1:8"]);
        assert!(addresses("localhost", 9).iter().all(|it| it.ip().is_loopback() && it.port() == 9));
    }

    #[test]
    fn with_a_device_its_own_address_of_the_name_is_used() {
        let named = [at(ELSEWHERE), at(HERE)];
        // The device's only address.
        let device = |_| Ok(Some(at(HERE)));
        assert_eq!(of_device("both", &named, device), Ok(at(HERE)));
        assert_eq!(of_device("", &named, device), Ok(at(HERE)));
        let text = of_device("one", &named[..1], device).unwrap_err().to_string();
        assert_eq!(text, "one is not an address of the device or GID that was asked for; leave one out");
        let text = of_device("both", &named, |_| Ok(None)).unwrap_err().to_string();
        assert!(text.starts_with("both is not an address of the device"), "{text}");
    }

    #[test]
    fn the_error_names_the_first_address_without_a_device() {
        let named = [at(ELSEWHERE), at(HERE), at("fd00::1")];
        let source = |ip: IpAddr| match ip {
            IpAddr::V4(_) => Err(ConnectError::NotFound(format!("no way to {ip}"))),
            IpAddr::V6(_) => Ok(Some(SocketAddr::new(ip, 0))),
        };
        assert_eq!(of_device("", &named, source), Ok(at("fd00::1")));
        let text = of_device("", &named[..2], source).unwrap_err().to_string();
        assert_eq!(text, "no way to 192.0.2.2", "the first");
    }
}
