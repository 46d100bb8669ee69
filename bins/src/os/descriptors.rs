//! The limit of open files.

use crate::exit::{Code, Failure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of a connection: over shared memory the socket and the peer's process, over RDMA its channel of events, and the channel of
/// completions if it shares none.
const PER_CONNECTION: u64 = 2;
/// Those of the tool itself, and of up to 64 connections that are being made, with three more each: two segments, and an answer.
const OTHERS: u64 = 256;

/// Raises the limit of open files to what so many connections need, or to the hard limit. Returns the number of connections for which there
/// are descriptors.
#[must_use]
pub fn raise(connections: u32) -> u32 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = u64::from(connections) * PER_CONNECTION + OTHERS;
    let possible = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let has_enough = current.is_none_or(|current| current >= possible);
    let is_raised =
        has_enough || setrlimit(Resource::Nofile, Rlimit { current: Some(possible), maximum }).is_ok();
    let limit = if is_raised { possible } else { current.unwrap_or(possible) };
    u32::try_from(limit.saturating_sub(OTHERS) / PER_CONNECTION)
        .map_or(connections, |room| room.min(connections))
}

/// Raises the limit of open files, so that there is room for so many connections.
///
/// # Errors
/// The hard limit is lower.
pub fn allow(connections: u32) -> Result<(), Failure> {
    let room = raise(connections);
    if room >= connections {
        return Ok(());
    }
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(0);
    let text = format!(
        "cannot open the {} files of {connections} connections: the hard limit is {limit} (ulimit -Hn), which is enough for {room}; raise it, or \
         lower --connections and --idle",
        u64::from(connections) * PER_CONNECTION + OTHERS
    );
    Err(Failure::new(Code::Device, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_named() {
        assert_eq!(raise(1), 1);
        allow(1).unwrap();
        if let Some(limit) = getrlimit(Resource::Nofile).maximum.filter(|limit| *limit < 1 << 32) {
            let failure = allow(u32::MAX).unwrap_err();
            assert_eq!(failure.code, Code::Device);
            assert!(failure.text.contains(&format!("the hard limit is {limit}")), "{failure}");
        }
    }
}
