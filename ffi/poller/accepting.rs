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
        // The error of the client before is kept for the program until the next call.
        if events
            .iter()
            .any(|event| matches!(event, PollEvent::AcceptFailed { listener, .. } if listener == key))
        {
            self.rounds.set_due(key, 0);
            return;
        }
        let now_ns = self.clock.now_ns();
        let Some(Entry::Listening(listening)) = self.rounds.get_mut(key) else { return };
        // A client that comes does not end the pause within the first 10 ms.
        if listening.lacks(now_ns) {
            let at_ns = listening.look_at_ns(now_ns);
            self.rounds.set_due(key, at_ns);
            return;
        }
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

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::path::{Path, PathBuf};
    use std::{env, process};

    use super::super::PollerOptions;
    use super::*;
    use crate::error::ErrorKind;
    use crate::fabric::shm::Socket;
    use crate::os::monotonic_ns;

    fn listening() -> (Poller, Key, PathBuf) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("superpipe-accepting-{}-{number}.sock", process::id()));
        let mut poller = Poller::new(PollerOptions::default()).unwrap();
        let listener = poller.listen(&Address::Shm(path.clone()), Options::default()).unwrap();
        (poller, listener, path)
    }

    fn stranger(path: &Path) -> Socket {
        let client = Socket::connect(path).unwrap();
        client.send(b"GET /", None).unwrap();
        client
    }

    /// Accepts until a client has failed.
    fn accept_one(poller: &mut Poller, listener: Key, events: &mut PollEvents) {
        events.clear();
        let end_ns = monotonic_ns() + 10_000_000_000;
        while events.is_empty() {
            poller.clock.note(monotonic_ns());
            assert!(poller.clock.now_ns() < end_ns, "no client failed");
            poller.accept(listener, events);
        }
    }

    /// As if one client had come after another, and a call had looked twice at what is due.
    #[test]
    fn each_client_that_fails_in_a_call_has_an_error_of_its_own() {
        let (mut poller, listener, path) = listening();
        let clients = [0; 2].map(|_| stranger(&path));
        let mut events = PollEvents::with_capacity(8);
        for _ in &clients {
            accept_one(&mut poller, listener, &mut events);
            (0..100).for_each(|_| poller.accept(listener, &mut events));
            assert_eq!(events.len(), 1, "{events:?}");
            assert!(poller.rounds.earliest_ns() <= monotonic_ns(), "nothing looks at the next client");
            let error = poller.take_accept_error(listener).expect("the error of this client");
            assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
            assert!(poller.take_accept_error(listener).is_none());
        }
    }

    /// A client makes the listener due, and nothing is tried before the pause is over.
    #[test]
    fn a_client_does_not_end_the_pause_for_lack_of_descriptors() {
        let (mut poller, listener, path) = listening();
        let until_ns = monotonic_ns() + 200_000_000;
        let Some(Entry::Listening(paused)) = poller.rounds.get_mut(listener) else { unreachable!() };
        paused.lack_until(until_ns);
        let _client = stranger(&path);
        let mut events = PollEvents::with_capacity(8);
        // The clock stands still, in the pause.
        poller.clock.note(until_ns - 1);
        for _ in 0..100 {
            // Whatever is due is taken, and the listener is to be due at the end of its pause.
            while poller.rounds.take_due(u64::MAX - 1, true).is_some() {}
            poller.accept(listener, &mut events);
            assert!(events.is_empty(), "{events:?}");
            assert_eq!(poller.rounds.earliest_ns(), until_ns);
        }
        poller.clock.note(until_ns);
        accept_one(&mut poller, listener, &mut events);
    }
}
