//! Places for connections: how many there are, and who loses its place while all are taken.

use super::Server;
use super::stop::Stop;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::os::descriptors;
use crate::quantity::format_duration;
use crate::timeouts::HELLO_TIMEOUT;
use std::time::Instant;
use superpipe::Key;

/// Default of --connections-max: a client with 1,000 connections, and others. The poller has some MiB for so many.
const CONNECTIONS_MAX: u32 = 2048;
/// Places that no client has beside its control connection, so that others can connect.
const RESERVED: u32 = 64;

/// Returns the most connections that there can be: as many as asked for, or as there are descriptors for, which is then told.
pub(super) fn open(session: &Session<'_>, asked: Option<u32>) -> u32 {
    let wanted = asked.unwrap_or(CONNECTIONS_MAX);
    let room = descriptors::raise(wanted).max(1);
    let text = format!(
        "{room} connections at most, and not {wanted}: the hard limit of open files is too low (ulimit -Hn)"
    );
    session.print_if(room < wanted && (asked.is_some() || session.common.verbose), &text);
    room
}

/// Returns how many of these may be further connections of clients.
pub(super) const fn further(connections_max: u32) -> u32 {
    let quarter = connections_max / 4;
    connections_max - if quarter < RESERVED { quarter } else { RESERVED }
}

impl Server<'_> {
    /// Ends the client that has done nothing for longest, if all places are taken and it was for long; or if a client was refused for want of what it has.
    pub(super) fn give_way(&mut self, now: Instant) {
        let idle: Vec<_> = self.clients.iter_mut().map(|(key, client)| (client.idle(now), *key)).collect();
        let is_full = self.poller.connection_count() >= self.connections_max as usize;
        if !self.budget.was_short() && !is_full {
            return;
        }
        let may_go = |key: &Key| {
            let client = self.clients.get(key);
            client.is_some_and(|client| !client.is_settled() && (is_full || client.has_share()))
        };
        let longest = idle.into_iter().filter(|(_, key)| may_go(key)).max_by_key(|(idle, _)| *idle);
        let timeout = HELLO_TIMEOUT.min(self.session.common.idle_timeout);
        let Some((_, key)) = longest.filter(|(idle, _)| *idle >= timeout) else { return };
        let why = if is_full {
            format!("all {} places are taken (--connections-max)", self.connections_max)
        } else {
            "another client needs its buffers or connections".to_owned()
        };
        let text = format!("it did nothing for {}, and {why}", format_duration(timeout));
        self.stop(key, Stop::Tell(Failure::new(Code::Timeout, text)));
    }
}
