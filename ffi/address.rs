//! Addresses that listeners bind and peers connect to.

use core::fmt;
use core::str::FromStr;
use std::path::{Path, PathBuf};

/// Remedy that a build without RDMA names.
pub(crate) const NO_RDMA: &str =
    "this program was built without RDMA; build superpipe with its feature verbs, which is on by default";

/// Port of an address that names none.
pub const DEFAULT_PORT: u16 = 7471;

/// An address: `shm:PATH`, `verbs:HOST:PORT`, `HOST:PORT` or `HOST`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// `shm:PATH`: shared memory, by a socket in the file system. Socket permissions control access.
    Shm(PathBuf),
    /// `HOST:PORT`: shared memory between processes of one user on this host, RDMA to another host.
    HostPort {
        /// Name or IP address; empty stands for this host.
        host: String,
        /// Port; 0 stands for any free one, to listen at.
        port: u16,
    },
    /// `verbs:HOST:PORT`: RDMA, even to this host. The scheme names RDMA's programming interface, verbs.
    Rdma {
        /// Name or IP address; empty stands for every address of this host, to listen at.
        host: String,
        /// Port; 0 stands for any free one, to listen at.
        port: u16,
    },
}

/// Error of an address that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressParseError(String);

impl fmt::Display for AddressParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for AddressParseError {}

impl FromStr for Address {
    type Err = AddressParseError;

    fn from_str(text: &str) -> Result<Self, AddressParseError> {
        let bad = |why: &str| {
            AddressParseError(format!(
                "{text:?} is no address: {why}; write HOST:PORT, HOST, verbs:HOST:PORT or shm:PATH"
            ))
        };
        if let Some(path) = text.strip_prefix("shm:") {
            return if path.is_empty() || path.contains('\0') {
                Err(bad("no path"))
            } else {
                Ok(Self::Shm(Path::new(path).to_path_buf()))
            };
        }
        if let Some(rest) = text.strip_prefix("verbs:") {
            if cfg!(not(feature = "verbs")) {
                return Err(AddressParseError(format!("{text:?} cannot be used: {NO_RDMA}")));
            }
            let (host, port) = host_and_port(rest).map_err(bad)?;
            return Ok(Self::Rdma { host, port });
        }
        let (host, port) = host_and_port(text).map_err(bad)?;
        Ok(Self::HostPort { host, port })
    }
}

/// Parses HOST, HOST:PORT or \[HOST\]:PORT; the error is the reason.
fn host_and_port(text: &str) -> Result<(String, u16), &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or("something follows ]")?)),
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => port.parse().map_err(|_| "the port is 1 to 65535, or 0 to listen at a free one")?,
    };
    let odd = |c: char| !(c.is_ascii_alphanumeric() || "-._:%".contains(c));
    if host.contains(odd) {
        return Err("a host is a name or a number");
    }
    Ok((host.into(), port))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shm(path) => write!(f, "shm:{}", path.display()),
            Self::Rdma { host, port } => write!(f, "verbs:{}", Bracketed(host, *port)),
            Self::HostPort { host, port } => Bracketed(host, *port).fmt(f),
        }
    }
}

/// HOST:PORT, with the brackets that an IPv6 address needs.
struct Bracketed<'a>(&'a str, u16);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(host: &str, port: u16) -> Address {
        Address::HostPort { host: host.into(), port }
    }

    #[test]
    fn reads_what_people_write() {
        for (text, address) in [
            ("shm:/run/x.sock", Address::Shm("/run/x.sock".into())),
            ("shm:x", Address::Shm("x".into())),
            ("localhost", port("localhost", DEFAULT_PORT)),
            ("localhost:9", port("localhost", 9)),
            (":9", port("", 9)),
            ("localhost:0", port("localhost", 0)),
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
            ["", "shm:", "verbs:", "verbs:[::1]x", "host:", "host:65536", "host:x", "[::1]x", "a b:1", "a/b"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[cfg(feature = "verbs")]
    #[test]
    fn verbs_precedes_the_host() {
        for (text, host, port) in [
            ("verbs:node1:9", "node1", 9),
            ("verbs:node1", "node1", DEFAULT_PORT),
            ("verbs::9", "", 9),
            ("verbs:[fe80::1%eth0]:9", "fe80::1%eth0", 9),
        ] {
            assert_eq!(text.parse(), Ok(Address::Rdma { host: host.into(), port }));
        }
    }

    #[cfg(not(feature = "verbs"))]
    #[test]
    fn without_verbs_the_error_names_the_feature() {
        let text = "verbs:node1:9".parse::<Address>().unwrap_err().to_string();
        assert_eq!(
            text,
            "\"verbs:node1:9\" cannot be used: this program was built without RDMA; build superpipe with its feature \
             verbs, which is on by default"
        );
    }

    #[test]
    fn displays_what_it_reads() {
        let verbs: &[&str] = if cfg!(feature = "verbs") { &["verbs:[::1]:9", "verbs::7471"] } else { &[] };
        for text in ["shm:/a", "[::1]:9", "localhost:7471"].iter().chain(verbs) {
            assert_eq!(text.parse::<Address>().map(|a| a.to_string()).as_deref(), Ok(*text));
        }
    }
}
