//! Choice of the fabric that leads to an address, seen from this host.

use core::net::IpAddr;

use super::address::Address;
use super::error::{Error, ErrorKind};
use super::options::Options;
use crate::os::{ResolveError, interface_addresses, resolve};
use crate::shm::{ShmAddress, elsewhere};

/// Way to a peer, or to listen for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Shared memory. Where it `is_private`, the peer must be of our own user.
    Shm { address: ShmAddress, is_private: bool },
    /// RDMA.
    Verbs { host: String, port: u16 },
}

/// Reach of a host's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// This host, and nobody else can use that name for it.
    Loopback,
    /// This host.
    Here,
    /// Another host.
    Far,
}

impl Way {
    /// The way to connect.
    ///
    /// # Errors
    /// `Connect`: the name has no address. `Usage`: the options are for the other way, or the port is 0. `Interrupted`.
    pub(super) fn to(address: &Address, options: &Options, deadline_ns: u64) -> Result<Self, Error> {
        if let Address::Port { port: 0, .. } | Address::Verbs { port: 0, .. } = address {
            let text = format!(
                "cannot connect to {address}: port 0 stands for any free port, to listen at; write the port that the \
                 listener got, 1 to 65535"
            );
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let way = match address {
            Address::Shm(path) => Self::Shm { address: ShmAddress::Path(path.clone()), is_private: false },
            Address::Verbs { host, port } => Self::Verbs { host: host.clone(), port: *port },
            Address::Port { host, port } => match Reach::of(host, options, deadline_ns)? {
                Reach::Far => Self::Verbs { host: host.clone(), port: *port },
                Reach::Loopback | Reach::Here => Self::private(*port),
            },
        };
        match way {
            Self::Shm { .. } => options.check_shm(address)?,
            Self::Verbs { .. } => options.check_verbs(address)?,
        }
        Ok(way)
    }

    /// Another place of this host where a listener at this port may be, in words for people.
    pub(super) fn elsewhere(&self) -> Option<String> {
        match self {
            Self::Shm { address: ShmAddress::Port(port), .. } => elsewhere(*port),
            _ => None,
        }
    }

    /// To a port of this host.
    pub(super) const fn private(port: u16) -> Self {
        Self::Shm { address: ShmAddress::Port(port), is_private: true }
    }
}

impl Reach {
    /// Of a name or a number; a name is looked up until the deadline.
    ///
    /// # Errors
    /// `Connect`: it has no address. `Interrupted`.
    pub(super) fn of(host: &str, options: &Options, deadline_ns: u64) -> Result<Self, Error> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(Self::of_ip(ip));
        }
        if host.trim_end_matches('.').eq_ignore_ascii_case("localhost") {
            return Ok(Self::Loopback);
        }
        // Other hosts may know this name, even if it resolves to a loopback address here: so it is `Here` and not `Loopback`.
        let is_own = || {
            std::fs::read_to_string("/proc/sys/kernel/hostname")
                .is_ok_and(|name| name.trim().eq_ignore_ascii_case(host))
        };
        if host.is_empty() || is_own() {
            return Ok(Self::Here);
        }
        let found = resolve(host, 0, deadline_ns, &|| options.is_interrupted())?;
        Ok(Self::of_all(found.iter().map(|address| Self::of_ip(address.ip()))))
    }

    /// Reach of a name, from the reaches of its addresses.
    fn of_all(mut all: impl Iterator<Item = Self> + Clone) -> Self {
        if all.clone().all(|reach| reach == Self::Loopback) {
            Self::Loopback
        } else if all.any(|reach| reach != Self::Far) {
            Self::Here
        } else {
            Self::Far
        }
    }

    /// An IPv4 address that is written as IPv6 is that address.
    fn of_ip(ip: IpAddr) -> Self {
        let ip = ip.to_canonical();
        // Without an answer of the kernel no address counts as ours: a user who means this host can write localhost.
        let is_ours = || interface_addresses().is_ok_and(|all| all.iter().any(|address| address.ip() == ip));
        match ip {
            _ if ip.is_loopback() => Self::Loopback,
            _ if ip.is_unspecified() || is_ours() => Self::Here,
            _ => Self::Far,
        }
    }
}

/// Another host, in a build that knows no way to it.
#[cfg(not(feature = "verbs"))]
pub(super) fn far(host: &str) -> Error {
    Error::new(ErrorKind::Connect, format!("{host} is another host, and {}", super::address::NO_VERBS))
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

    fn reach(host: &str) -> Result<Reach, Error> {
        Reach::of(host, &Options::default(), monotonic_ns() + 20_000_000_000)
    }

    #[test]
    fn this_host_has_many_names() {
        for (host, its) in [
            ("localhost", Reach::Loopback),
            ("127.0.0.1", Reach::Loopback),
            ("127.9.9.9", Reach::Loopback),
            ("::1", Reach::Loopback),
            ("", Reach::Here),
            ("0.0.0.0", Reach::Here),
            ("::", Reach::Here),
            ("LocalHost", Reach::Loopback),
            ("localhost.", Reach::Loopback),
            ("::ffff:127.0.0.1", Reach::Loopback),
            ("::ffff:0.0.0.0", Reach::Here),
            ("::ffff:192.0.2.1", Reach::Far),
            ("192.0.2.1", Reach::Far),
            ("2001:db8::1", Reach::Far),
        ] {
            assert_eq!(reach(host).unwrap(), its, "{host}");
        }
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(reach(name.trim()).unwrap(), Reach::Here);
        for address in interface_addresses().unwrap() {
            assert_ne!(reach(&address.ip().to_string()).unwrap(), Reach::Far, "{address}");
        }
    }

    #[test]
    fn a_name_is_loopback_if_all_of_its_addresses_are() {
        use Reach::{Far, Here, Loopback};
        for (all, its) in [
            (&[Loopback, Loopback][..], Loopback),
            (&[Loopback, Here], Here),
            (&[Far, Loopback], Here),
            (&[Here], Here),
            (&[Far, Far], Far),
        ] {
            assert_eq!(Reach::of_all(all.iter().copied()), its, "{all:?}");
        }
    }

    #[test]
    fn a_name_that_nobody_has_is_told() {
        let error = reach("no-such-host.invalid").unwrap_err();
        assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
    }

    #[test]
    fn a_plain_address_leads_where_its_host_is() {
        let way = |text: &str| {
            let deadline_ns = monotonic_ns() + 20_000_000_000;
            Way::to(&text.parse().unwrap(), &Options::default(), deadline_ns).unwrap()
        };
        assert_eq!(way("localhost:9"), Way::private(9));
        assert_eq!(way("192.0.2.1:9"), Way::Verbs { host: "192.0.2.1".into(), port: 9 });
        assert_eq!(way("shm:/x"), Way::Shm { address: ShmAddress::Path("/x".into()), is_private: false });
    }
}
