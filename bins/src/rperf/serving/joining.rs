//! Further connections of a client: those that join by a JOIN, and those that replace its data connection.

use super::client::Client;
use super::stop::Stop;
use super::{Owner, SHARED, Server};
use crate::connection::peer;
use crate::protocol::Violation;
use crate::rperf::messages::Join;
use superpipe::{Interest, Key};

impl Server<'_> {
    /// Returns the client of a connection, by its control connection.
    pub(super) fn control_of(&self, connection: Key) -> Key {
        self.owners.get(&connection).map_or(connection, |owner| owner.control)
    }

    /// Makes a connection that said JOIN a further one of the client that it names.
    pub(super) fn join(&mut self, key: Key, join: Join) {
        let named = self.clients.values().find(|client| client.token == join.token && join.token != 0);
        let Some(control) = named.map(|client| client.control).filter(|control| *control != key) else {
            return self.refuse_join(key, "sent a JOIN for a client that is not there");
        };
        if join.number == 0 {
            // the RUN that asks for it was sent before, and may not have been read yet
            self.step(control, SHARED);
            let Some(client) = self.clients.get_mut(&control).filter(|client| client.is_reconnecting())
            else {
                return self.refuse_join(key, "sent a JOIN for a client that asked for no new connection");
            };
            let (replaced, begun) = client.reconnected(key, &mut self.poller, self.session);
            self.clients.remove(&key);
            return self.replaced(control, key, replaced, begun);
        }
        if !self.clients.get_mut(&control).is_some_and(|client| client.join(join.number, key)) {
            return self
                .refuse_join(key, "sent a JOIN for a connection that its PLAN has not, or that is there");
        }
        self.clients.remove(&key);
        let lane = usize::try_from(join.number - 1).ok();
        self.owners.insert(key, Owner { control, lane });
        self.poller.set_interest(key, Interest::NONE);
        self.step(control, SHARED);
    }

    fn refuse_join(&mut self, key: Key, why: &'static str) {
        self.stop(key, Stop::Tell(peer::failure_of_violation(Violation(why))));
    }

    /// Goes on with a client whose data connection was replaced, if its run could begin.
    pub(super) fn replaced(
        &mut self,
        control: Key,
        key: Key,
        replaced: Option<Key>,
        begun: Result<(), Stop>,
    ) {
        self.owners.insert(key, Owner { control, lane: None });
        if let Some(replaced) = replaced {
            self.owners.remove(&replaced);
            drop(self.poller.remove(replaced));
        }
        match begun {
            Ok(()) => _ = self.step(control, SHARED),
            Err(stop) => self.stop(control, stop),
        }
    }

    /// Returns true while a client has a run over many connections.
    pub(super) fn is_spread(&self, control: Key) -> bool {
        self.clients.get(&control).is_some_and(Client::is_spread)
    }

    /// Drives one of many connections of a client.
    pub(super) fn drive(&mut self, control: Key, lane: usize) {
        let Some(client) = self.clients.get_mut(&control) else { return };
        match client.drive(lane, &mut self.poller, self.session) {
            Ok(false) => {}
            Ok(true) => _ = self.step(control, SHARED),
            Err(stop) => self.stop(control, stop),
        }
    }

    /// Drives all of them.
    pub(super) fn drive_all(&mut self, control: Key) {
        let lanes = self.clients.get(&control).map_or(0, Client::lane_count);
        for lane in 0..lanes {
            if !self.is_spread(control) {
                return;
            }
            self.drive(control, lane);
        }
    }
}
