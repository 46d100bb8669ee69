//! Listeners of a poller, which accept beside everything else.

use superpipe_core::polling::Key;

use super::entry::Entry;
use super::events::{PollEvent, PollEvents};
use super::{EntryRounds, Poller, full};
use crate::address::Address;
use crate::connection::Connection;
use crate::error::Error;
use crate::listener::Listener;
use crate::options::Options;
use crate::watched::Listening;

impl Poller {
    /// Begins to listen, as [`Listener::bind`](crate::Listener::bind). Its connections are reported by [`PollEvent::Accepted`]. A name of another host may take seconds to be looked up.
    ///
    /// # Errors
    /// Those of [`Listener::bind`](crate::Listener::bind). `Limit`: there is no place for a listener. `Os`: the system can watch no more descriptors.
    pub fn listen(&mut self, address: &Address, options: Options) -> Result<Key, Error> {
        if self.counts.listeners == self.options.listeners_max {
            return Err(full("listeners", self.options.listeners_max));
        }
        self.adopt_listener(Listener::bind(address, options)?)
    }

    /// Takes a listener in that was made elsewhere. Its connections are reported by [`PollEvent::Accepted`].
    ///
    /// # Errors
    /// `Limit`: there is no place for a listener. `Os`: the system can watch no more descriptors. The listener is dropped.
    pub fn adopt_listener(&mut self, listener: Listener) -> Result<Key, Error> {
        if self.counts.listeners == self.options.listeners_max {
            return Err(full("listeners", self.options.listeners_max));
        }
        let mut acceptor = listener.into_acceptor();
        acceptor.share(&self.shards);
        let listening = Listening::new(acceptor);
        let key = self.insert(Entry::Listening(Box::new(listening)))?;
        self.counts.listeners += 1;
        if let Some(Entry::Listening(listening)) = self.rounds.get(key)
            && let Err(error) = listening.watch(&self.epoll, EntryRounds::number(key))
        {
            self.remove(key);
            return Err(error.into());
        }
        self.rounds.set_due(key, 0);
        Ok(key)
    }

    /// Takes the next connection of a listener, if there is a place for it.
    pub(super) fn accept(&mut self, key: Key, events: &mut PollEvents) {
        // It is due once a place is free.
        if !self.has_place() {
            return;
        }
        let now_ns = self.clock.now_ns();
        let Some(Entry::Listening(listening)) = self.rounds.get_mut(key) else { return };
        let accepted = listening.accept(now_ns);
        let due_ns = listening.due_ns;
        self.rounds.set_due(key, due_ns);
        match accepted {
            Ok(None) => {}
            Ok(Some(ready)) => match self.adopt(Connection::from(ready)) {
                Ok(connection) => {
                    self.metrics.counts.accepted += 1;
                    events.push(PollEvent::Accepted { listener: key, connection });
                }
                Err((_, error)) => self.accept_failed(key, error, events),
            },
            Err(error) => self.accept_failed(key, error, events),
        }
    }

    fn accept_failed(&mut self, key: Key, error: Error, events: &mut PollEvents) {
        self.metrics.counts.accept_failed += 1;
        events.push(PollEvent::AcceptFailed { listener: key, kind: error.kind() });
        if let Some(Entry::Listening(listening)) = self.rounds.get_mut(key) {
            listening.keep_error(error);
        }
    }

    /// Has the listeners look for clients that waited for a place.
    pub(super) fn place_is_free(&mut self) {
        if self.counts.listeners > 0 && self.counts.connections + 1 == self.options.connections_max {
            self.rounds.set_due_where(|entry| matches!(entry, Entry::Listening(_)));
        }
    }
}
