//! Connects of a poller, which go on beside everything else.

use superpipe_core::polling::Key;

use super::entry::Entry;
use super::events::{PollEvent, PollEvents};
use super::{EntryRounds, Poller, full};
use crate::address::Address;
use crate::blocking::{ConnectProgress, PendingConnect};
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::options::Options;

/// Time after which descriptors that could not be watched are watched again.
const WATCH_AGAIN_NS: u64 = 1_000_000;

impl Poller {
    /// Begins to connect, as [`Connection::connect`], without waiting. [`PollEvent::Connected`] or [`PollEvent::ConnectFailed`] reports the result, a second after the deadline at the latest.
    ///
    /// Over shared memory nothing waits here. By RDMA, and by a name that needs a lookup, a thread of its own makes the connection; there are 16 at a time, and further connects wait for their turn. The
    /// interrupt flag of `options` ends a connect.
    ///
    /// # Errors
    /// `Usage`: the options contradict each other. `Limit`: there is no place for a connection. Errors of the address are reported by [`PollEvent::ConnectFailed`].
    pub fn connect(
        &mut self,
        address: &Address,
        options: Options,
        deadline: impl Into<Deadline>,
    ) -> Result<Key, Error> {
        if !self.has_place() {
            return Err(full("connections", self.options.connections_max));
        }
        let connect = PendingConnect::new(address, options, deadline.into().at_ns())?;
        let key = self.insert(Entry::Connecting(Box::new(connect)))?;
        self.counts.connections += 1;
        self.rounds.set_due(key, 0);
        Ok(key)
    }

    /// Continues a connect.
    pub(super) fn drive_connect(&mut self, key: Key, events: &mut PollEvents) {
        let now_ns = self.clock.now_ns();
        let Some(Entry::Connecting(connect)) = self.rounds.get_mut(key) else { return };
        match connect.drive(now_ns, &self.threads) {
            ConnectProgress::Pending => {
                let mut due_ns = connect.timeout_ns(now_ns);
                if let Some(fds) = connect.unwatched() {
                    let watch = |fd| self.epoll.watch(fd, EntryRounds::number(key));
                    match fds.iter().filter_map(|fd| fd.fd()).try_for_each(watch) {
                        Ok(()) => connect.note_watched(),
                        // It is asked again soon.
                        Err(_) => due_ns = due_ns.min(now_ns.saturating_add(WATCH_AGAIN_NS)),
                    }
                }
                self.rounds.set_due(key, due_ns);
            }
            ConnectProgress::Done(ready) => {
                self.put(key, Entry::of_connection(Connection::from(ready), now_ns));
                match self.establish(key) {
                    Ok(()) => {
                        self.metrics.counts.connected += 1;
                        events.push(PollEvent::Connected { connection: key });
                    }
                    Err(error) => self.fail(key, error.into(), events),
                }
            }
            ConnectProgress::Failed(error) => self.fail(key, error, events),
        }
    }

    fn fail(&mut self, key: Key, error: Error, events: &mut PollEvents) {
        self.metrics.counts.connect_failed += 1;
        events.push(PollEvent::ConnectFailed { connection: key, kind: error.kind() });
        self.put(key, Entry::Failed(error));
    }

    fn put(&mut self, key: Key, entry: Entry) {
        if let Some(place) = self.rounds.get_mut(key) {
            *place = entry;
        }
    }

    /// Has all connects that need threads looked at: one has ended.
    pub(super) fn wake_connects(&mut self) {
        self.rounds
            .set_due_where(|entry| matches!(entry, Entry::Connecting(connect) if connect.needs_thread()));
    }
}
