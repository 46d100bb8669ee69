//! The route to an address: which fabric leads there from this host.

use core::net::IpAddr;

use crate::address::Address;
#[cfg(not(feature = "verbs"))]
use crate::address::NO_RDMA;
use crate::error::{Error, ErrorKind};
use crate::fabric::shm::{ShmAddress, other_socket_hint};
use crate::options::Options;
use crate::os::{ResolveError, interface_addresses, resolve};

/// Route to a peer, or to listen for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Shared memory. If it `is_private`, the peer must belong to our own user.
    Shm { address: ShmAddress, is_private: bool },
    /// RDMA.
    Rdma { host: String, port: u16 },
}

/// Locality of a host's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locality {
    /// This host, by a name that no other host can use for it.
    Loopback,
    /// This host.
    SameHost,
    /// Another host.
    OtherHost,
}

impl Route {
    /// Returns the route to an address to connect to.
    ///
    /// # Errors
    /// `Connect`: the name has no address. `Usage`: the options are for the other fabric, or the port is 0. `Interrupted`.
    pub(super) fn to(address: &Address, options: &Options, deadline_ns: u64) -> Result<Self, Error> {
        if let Address::HostPort { port: 0, .. } | Address::Rdma { port: 0, .. } = address {
            let text = format!(
                "cannot connect to {address}: port 0 stands for any free port, to listen at; write the port that the \
                 listener got, 1 to 65535"
            );
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let route = match address {
            Address::Shm(path) => Self::Shm { address: ShmAddress::Path(path.clone()), is_private: false },
            Address::Rdma { host, port } => Self::Rdma { host: host.clone(), port: *port },
            Address::HostPort { host, port } => match Locality::of(host, options, deadline_ns)? {
                Locality::OtherHost => Self::Rdma { host: host.clone(), port: *port },
                Locality::Loopback | Locality::SameHost => Self::private(*port),
            },
        };
        match route {
            Self::Shm { .. } => options.check_shm(address)?,
            Self::Rdma { .. } => options.check_rdma(address)?,
        }
        Ok(route)
    }

    /// Returns true if the route to an address is known without a lookup, and connecting by it needs no call that may wait.
    pub(super) fn is_immediate(address: &Address) -> bool {
        match address {
            Address::Shm(_) => true,
            Address::Rdma { .. } => false,
            Address::HostPort { host, .. } => {
                matches!(Locality::known(host), Some(Locality::Loopback | Locality::SameHost))
            }
        }
    }

    /// Returns a text that names another directory of this host where a listener at this port may be.
    pub(super) fn elsewhere(&self) -> Option<String> {
        match self {
            Self::Shm { address: ShmAddress::Port(port), .. } => other_socket_hint(*port),
            _ => None,
        }
    }

    /// Returns the error of a route to another host, in a build without RDMA.
    #[cfg(not(feature = "verbs"))]
    pub(super) fn other_host(host: &str) -> Error {
        Error::new(ErrorKind::Connect, format!("{host} is another host, and {NO_RDMA}"))
    }

    /// Returns the route to a port of this host.
    pub(super) const fn private(port: u16) -> Self {
        Self::Shm { address: ShmAddress::Port(port), is_private: true }
    }
}

impl Locality {
    /// Returns the locality of a name or an IP address. Resolves a name until the deadline.
    ///
    /// # Errors
    /// `Connect`: the name has no address. `Interrupted`.
    pub(super) fn of(host: &str, options: &Options, deadline_ns: u64) -> Result<Self, Error> {
        if let Some(known) = Self::known(host) {
            return Ok(known);
        }
        let found = resolve(host, 0, deadline_ns, &|| options.is_interrupted())?;
        Ok(Self::of_all(found.iter().map(|address| Self::of_ip(address.ip()))))
    }

    /// Returns the locality of an IP address, or of a name of this host that needs no lookup.
    fn known(host: &str) -> Option<Self> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Some(Self::of_ip(ip));
        }
        if host.trim_end_matches('.').eq_ignore_ascii_case("localhost") {
            return Some(Self::Loopback);
        }
        // Other hosts may know this name, even if it resolves to a loopback address here: so it is `SameHost` and not `Loopback`.
        let is_own = || {
            std::fs::read_to_string("/proc/sys/kernel/hostname")
                .is_ok_and(|name| name.trim().eq_ignore_ascii_case(host))
        };
        (host.is_empty() || is_own()).then_some(Self::SameHost)
    }

    /// Returns the locality of a name from those of its addresses.
    fn of_all(mut all: impl Iterator<Item = Self> + Clone) -> Self {
        if all.clone().all(|reach| reach == Self::Loopback) {
            Self::Loopback
        } else if all.any(|reach| reach != Self::OtherHost) {
            Self::SameHost
        } else {
            Self::OtherHost
        }
    }

    /// Returns the locality of an IP address. An IPv4-mapped IPv6 address counts as the IPv4 address.
    fn of_ip(ip: IpAddr) -> Self {
        let ip = ip.to_canonical();
        // If the kernel does not list its addresses, none counts as ours: a user who means this host can write localhost.
        let is_ours = || interface_addresses().is_ok_and(|all| all.iter().any(|address| address.ip() == ip));
        match ip {
            _ if ip.is_loopback() => Self::Loopback,
            _ if ip.is_unspecified() || is_ours() => Self::SameHost,
            _ => Self::OtherHost,
        }
    }
}

impl From<ResolveError> for Error {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::NotFound(text) => Self::new(ErrorKind::Connect, text),
            ResolveError::TimedOut(text) => Self::new(ErrorKind::Timeout, text),
            ResolveError::Interrupted => Self::interrupted(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::monotonic_ns;

    fn reach(host: &str) -> Result<Locality, Error> {
        Locality::of(host, &Options::default(), monotonic_ns() + 20_000_000_000)
    }

    #[test]
    fn this_host_has_many_names() {
        for (host, its) in [
            ("localhost", Locality::Loopback),
            ("127.0.0.1", Locality::Loopback),
            ("127.9.9.9", Locality::Loopback),
            ("::1", Locality::Loopback),
            ("", Locality::SameHost),
            ("0.0.0.0", Locality::SameHost),
            ("::", Locality::SameHost),
            ("LocalHost", Locality::Loopback),
            ("localhost.", Locality::Loopback),
            ("::ffff:127.0.0.1", Locality::Loopback),
            ("::ffff:0.0.0.0", Locality::SameHost),
            ("::ffff:192.0.2.1", Locality::OtherHost),
            ("192.0.2.1", Locality::OtherHost),
            ("2001:db8::1", Locality::OtherHost),
        ] {
            assert_eq!(reach(host).unwrap(), its, "{host}");
        }
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(reach(name.trim()).unwrap(), Locality::SameHost);
        for address in interface_addresses().unwrap() {
            assert_ne!(reach(&address.ip().to_string()).unwrap(), Locality::OtherHost, "{address}");
        }
    }

    #[test]
    fn a_name_is_loopback_if_all_of_its_addresses_are() {
        use Locality::{Loopback, OtherHost, SameHost};
        for (all, its) in [
            (&[Loopback, Loopback][..], Loopback),
            (&[Loopback, SameHost], SameHost),
            (&[OtherHost, Loopback], SameHost),
            (&[SameHost], SameHost),
            (&[OtherHost, OtherHost], OtherHost),
        ] {
            assert_eq!(Locality::of_all(all.iter().copied()), its, "{all:?}");
        }
    }

    #[test]
    fn a_name_that_nobody_has_is_told() {
        let error = reach("no-such-host.invalid").unwrap_err();
        assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
    }

    #[test]
    fn a_plain_address_leads_where_its_host_is() {
        let route = |text: &str| {
            let deadline_ns = monotonic_ns() + 20_000_000_000;
            Route::to(&text.parse().unwrap(), &Options::default(), deadline_ns).unwrap()
        };
        assert_eq!(route("localhost:9"), Route::private(9));
        assert_eq!(route("192.0.2.1:9"), Route::Rdma { host: "192.0.2.1".into(), port: 9 });
        assert_eq!(route("shm:/x"), Route::Shm { address: ShmAddress::Path("/x".into()), is_private: false });
    }
}
