//! Where the other end is.

use core::fmt;
use core::str::FromStr;
use std::path::{Path, PathBuf};

use crate::shm::ShmAddress;

/// The port where nobody says otherwise.
pub const DEFAULT_PORT: u16 = 7471;

/// An address: `shm:PATH`, `HOST:PORT` or `HOST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system; whoever may open it may connect.
    Shm(PathBuf),
    /// A port of a host. On this host: shared memory, between processes of one user.
    Port {
        /// A name or number; empty is this host.
        host: String,
        /// The port.
        port: u16,
    },
}

/// An address that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAddress(String);

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for BadAddress {}

impl Address {
    /// The socket of this address, or why there is none on this host.
    pub(super) fn shm(&self) -> Result<ShmAddress, BadAddress> {
        match self {
            Self::Shm(path) => Ok(ShmAddress::Path(path.clone())),
            Self::Port { host, port } if is_here(host) => Ok(ShmAddress::Port(*port)),
            Self::Port { host, .. } => Err(BadAddress(format!(
                "{host} is another host, and this release moves data by shared memory only: run both ends on one host, \
                 or use shm:PATH"
            ))),
        }
    }

    /// Whether the peer must be of our own user.
    pub(super) const fn is_private(&self) -> bool {
        matches!(self, Self::Port { .. })
    }
}

/// Whether a host name means this host.
fn is_here(host: &str) -> bool {
    let numeric = host.parse::<core::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified());
    let own = || std::fs::read_to_string("/proc/sys/kernel/hostname").is_ok_and(|name| name.trim() == host);
    host.is_empty() || host == "localhost" || numeric || own()
}

impl Default for Address {
    fn default() -> Self {
        Self::Port { host: "localhost".into(), port: DEFAULT_PORT }
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why: &str| {
            BadAddress(format!("{text:?} is no address: {why}; write shm:PATH, HOST:PORT or HOST"))
        };
        if let Some(path) = text.strip_prefix("shm:") {
            return if path.is_empty() || path.contains('\0') {
                Err(bad("no path"))
            } else {
                Ok(Self::Shm(Path::new(path).to_path_buf()))
            };
        }
        if text.starts_with("verbs:") {
            return Err(bad("this release has no verbs fabric"));
        }
        if text.is_empty() {
            return Err(bad("it is empty"));
        }
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => {
                (host, Some(rest.strip_prefix(':').ok_or_else(|| bad("something follows ]"))?))
            }
            None if text.matches(':').count() > 1 => (text, None),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => {
                port.parse().ok().filter(|port| *port != 0).ok_or_else(|| bad("the port is 1 to 65535"))?
            }
        };
        let odd = |c: char| !(c.is_ascii_alphanumeric() || "-._:%".contains(c));
        if host.contains(odd) {
            return Err(bad("a host is a name or a number"));
        }
        Ok(Self::Port { host: host.into(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shm(path) => write!(f, "shm:{}", path.display()),
            Self::Port { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Port { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(host: &str, port: u16) -> Address {
        Address::Port { host: host.into(), port }
    }

    #[test]
    fn reads_what_people_write() {
        for (text, address) in [
            ("shm:/run/x.sock", Address::Shm("/run/x.sock".into())),
            ("shm:x", Address::Shm("x".into())),
            ("localhost", port("localhost", DEFAULT_PORT)),
            ("localhost:9", port("localhost", 9)),
            (":9", port("", 9)),
            ("::1", port("::1", DEFAULT_PORT)),
            ("[::1]:9", port("::1", 9)),
            ("127.0.0.1:9", port("127.0.0.1", 9)),
        ] {
            assert_eq!(text.parse(), Ok(address));
        }
    }

    #[test]
    fn refuses_the_rest_with_a_reason() {
        for text in
            ["", "shm:", "verbs:host:1", "host:", "host:0", "host:65536", "host:x", "[::1]x", "a b:1", "a/b"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn knows_this_host() {
        assert!(port("127.0.0.1", 1).shm().is_ok());
        assert!(port("", 1).shm().is_ok());
        assert!(port("10.1.2.3", 1).shm().is_err());
    }

    #[test]
    fn displays_what_it_reads() {
        for text in ["shm:/a", "[::1]:9", "localhost:7471"] {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()).as_deref(), Ok(text));
        }
    }
}
