//! Names of hosts, with a deadline.

use super::clock::until;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::net::ToSocketAddrs;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

/// A failure to resolve a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// There is no such host, or no address; the system's text.
    NotFound(String),
    /// No answer came before the deadline.
    TimedOut(String),
    /// The caller's flag was set.
    Interrupted,
}

impl core::fmt::Display for ResolveError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotFound(text) | Self::TimedOut(text) => f.write_str(text),
            Self::Interrupted => f.write_str("interrupted by a signal"),
        }
    }
}

impl core::error::Error for ResolveError {}

/// Interval at which the caller's flag is checked.
const SLICE: Duration = Duration::from_millis(100);

/// Returns the addresses of a host, by name or number; in the system's order, each once, one at least. A lookup cannot be
/// cancelled, so it runs in a thread of its own, and its result is discarded if it comes too late.
///
/// # Errors
/// [`ResolveError`].
pub fn resolve(
    host: &str,
    port: u16,
    deadline_ns: u64,
    interrupted: &dyn Fn() -> bool,
) -> Result<Vec<SocketAddr>, ResolveError> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip.to_canonical(), port)]);
    }
    let (answer, answers) = channel();
    let name = host.to_owned();
    let looked_up = move || {
        // The caller may have given up.
        let _ = answer.send((name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>));
    };
    let not_found = |why: String| ResolveError::NotFound(format!("cannot find {host}: {why}"));
    let thread = thread::Builder::new().name("superpipe-name".into()).spawn(looked_up);
    thread.map_err(|error| not_found(error.to_string()))?;
    loop {
        match answers.recv_timeout(SLICE.min(Duration::from_nanos(until(deadline_ns)))) {
            Ok(Ok(mut found)) => {
                let mut seen = Vec::new();
                found.retain(|address| {
                    !seen.contains(address) && {
                        seen.push(*address);
                        true
                    }
                });
                return if found.is_empty() { Err(not_found("it has no address".into())) } else { Ok(found) };
            }
            Ok(Err(error)) => return Err(not_found(error.to_string())),
            Err(RecvTimeoutError::Disconnected) => return Err(not_found("the lookup ended".into())),
            Err(RecvTimeoutError::Timeout) if interrupted() => return Err(ResolveError::Interrupted),
            Err(RecvTimeoutError::Timeout) if until(deadline_ns) == 0 => {
                return Err(ResolveError::TimedOut(format!("no name server tells where {host} is in time")));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::monotonic_ns;

    fn soon() -> u64 {
        monotonic_ns() + 20_000_000_000
    }

    #[test]
    fn numbers_and_this_host_have_addresses() {
        let of = |host: &str| resolve(host, 7, soon(), &|| false).unwrap();
        assert_eq!(of("10.1.2.3"), ["10.1.2.3:7".parse().unwrap()]);
        assert_eq!(of("::1"), ["[::1]:7".parse().unwrap()]);
        let local = of("localhost");
        assert!(!local.is_empty() && local.iter().all(|it| it.ip().is_loopback() && it.port() == 7));
    }

    #[test]
    fn a_name_without_address_is_an_error() {
        let error = resolve("no-such-host.invalid", 7, soon(), &|| false).unwrap_err();
        assert!(error.to_string().starts_with("cannot find no-such-host.invalid: "), "{error}");
    }
}
