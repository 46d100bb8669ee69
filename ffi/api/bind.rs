//! From an address to where a listener listens: which fabrics, and which port.

use super::address::Address;
#[cfg(feature = "verbs")]
use super::by_verbs;
use super::error::{Error, ErrorKind};
use super::listener::Listener;
use super::options::Options;
use super::way::Reach;
use crate::os::monotonic_ns;
use crate::os::random::random_below;
use crate::shm::{self, BindError, ShmAddress};

/// For the lookup of a name of this host.
const LOOKUP_NS: u64 = 5_000_000_000;
/// Ports that are tried where any free one will do.
const TRIES: u16 = 64;
/// Ports that are nobody's by name (RFC 6335).
const DYNAMIC: u16 = 49_152;
const DYNAMIC_COUNT: u16 = u16::MAX - DYNAMIC + 1;

impl Listener {
    /// Listens. A socket that a dead process left behind is replaced.
    ///
    /// At a HOST:PORT of this host that is no loopback address it listens for other hosts as well, if there is an RDMA
    /// device: at HOST where that is a number, else at every address of this host. Port 0 takes a free one, on both fabrics the
    /// same; [`address`](Self::address) tells which.
    ///
    /// # Errors
    /// `Connect`: the address is in use, or cannot be. `Auth`: it is another user's. `Usage`: wishes that cannot be. `Device`,
    /// `Limit`: RDMA was asked for, and this host has none, or refuses it.
    pub fn bind(address: &Address, options: Options) -> Result<Self, Error> {
        options.check()?;
        let mut listener = Self::deaf(address.clone(), options);
        match address {
            Address::Shm(path) => {
                options.check_shm(address)?;
                listener.shm = Some(shm::Listener::bind(&ShmAddress::Path(path.clone()).socket_path()?)?);
            }
            Address::Verbs { host, port } => {
                options.check_verbs(address)?;
                listener.listen_by_verbs(host, *port, true)?;
                let port = listener.verbs_port().unwrap_or(*port);
                listener.address = Address::Verbs { host: host.clone(), port };
            }
            Address::Port { host, port } => {
                let reach = Reach::of(host, &options, monotonic_ns() + LOOKUP_NS)?;
                if matches!(reach, Reach::Here) {
                    options.check_verbs(address)?;
                }
                let is_number = host.parse::<core::net::IpAddr>().is_ok();
                let everywhere = match reach {
                    Reach::Far => {
                        let text = format!("cannot listen at {address}: {host} is another host");
                        return Err(Error::new(ErrorKind::Connect, text));
                    }
                    Reach::Loopback => {
                        options.check_shm(address)?;
                        None
                    }
                    Reach::Here if is_number => Some(&host[..]),
                    Reach::Here => Some(""),
                };
                listener.is_private = true;
                let port = listener.listen_at_port(everywhere, *port)?;
                listener.address = Address::Port { host: host.clone(), port };
            }
        }
        Ok(listener)
    }

    /// Listens at a port of this host, and for others by RDMA where a host is named, at one port on both fabrics: which.
    fn listen_at_port(&mut self, for_others: Option<&str>, wanted: u16) -> Result<u16, Error> {
        let choose = || {
            if let Some(host) = for_others {
                self.listen_by_verbs(host, wanted, self.options.has_route())?;
            }
            Ok(match (wanted, self.verbs_port()) {
                (0, None) => DYNAMIC + u16::try_from(random_below(DYNAMIC_COUNT.into())).unwrap_or(0),
                (0, Some(port)) => port,
                (port, _) => port,
            })
        };
        let tries = if wanted == 0 { TRIES } else { 1 };
        let (listener, port) = at_free_port(tries, choose, |port| {
            Ok(shm::Listener::bind(&ShmAddress::Port(port).socket_path()?))
        })?;
        self.shm = Some(listener);
        Ok(port)
    }

    /// Listens by RDMA. A host without a device is an error if RDMA `is_wanted`.
    #[cfg(feature = "verbs")]
    fn listen_by_verbs(&mut self, host: &str, port: u16, is_wanted: bool) -> Result<(), Error> {
        match by_verbs::listen(host, port, &self.options)? {
            Ok(listener) => self.verbs = Some(listener),
            Err(error) if is_wanted => return Err(error),
            Err(error) => self.why_no_verbs = Some(error.to_string()),
        }
        Ok(())
    }

    #[cfg(not(feature = "verbs"))]
    fn listen_by_verbs(&mut self, _: &str, _: u16, is_wanted: bool) -> Result<(), Error> {
        if is_wanted {
            return Err(Error::new(ErrorKind::Connect, super::address::NO_VERBS));
        }
        self.why_no_verbs = Some(super::address::NO_VERBS.into());
        Ok(())
    }

    #[cfg(feature = "verbs")]
    fn verbs_port(&self) -> Option<u16> {
        self.verbs_address().map(|address| address.port())
    }

    #[cfg(not(feature = "verbs"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    const fn verbs_port(&self) -> Option<u16> {
        None
    }
}

/// Binds to the first port of those chosen that nobody has, so many at most.
fn at_free_port<T>(
    tries: u16,
    mut choose: impl FnMut() -> Result<u16, Error>,
    mut bind: impl FnMut(u16) -> Result<Result<T, BindError>, Error>,
) -> Result<(T, u16), Error> {
    let mut tried = 1;
    loop {
        let port = choose()?;
        match bind(port)? {
            Err(error) if error.is_taken() && tried < tries => tried += 1,
            bound => return Ok((bound?, port)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// The port that is found where these are taken, and how many were tried.
    fn found(tries: u16, taken: fn(PathBuf) -> BindError) -> (Result<u16, ErrorKind>, u16) {
        let mut tried = 0;
        let choose = || {
            tried += 1;
            Ok(tried)
        };
        let bind = |port| Ok(if port < 5 { Err(taken("/x".into())) } else { Ok(()) });
        let found = at_free_port(tries, choose, bind);
        (found.map(|((), port)| port).map_err(|error| error.kind()), tried)
    }

    #[test]
    fn another_port_is_tried_where_one_is_taken_and_no_more_than_so_many() {
        let taken: [fn(PathBuf) -> BindError; 3] =
            [BindError::InUse, BindError::NotASocket, |path| BindError::ForeignOwner { path, owner: 7 }];
        for taken in taken {
            assert_eq!(found(TRIES, taken), (Ok(5), 5));
            assert_eq!(found(5, taken), (Ok(5), 5));
            let (none, tried) = found(4, taken);
            assert!(none.is_err() && tried == 4);
        }
        assert_eq!(found(1, BindError::InUse), (Err(ErrorKind::Connect), 1));
    }

    #[test]
    fn what_no_other_port_mends_is_told_at_once() {
        let (none, tried) = found(TRIES, BindError::Locked);
        assert!(none.is_err() && tried == 1);
    }
}
