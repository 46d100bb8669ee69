//! `rperf serve`: many clients, at once and one after another, in one thread.
//!
//! ```text
//! mod       the connections, whose turn it is, and what is reported
//! joining   further connections of a client          places   how many there are, and who loses its place
//! client    one client: its messages in their order          messages, stop   what it is sent, and why it ends
//! script    the server's part of one run; that of one over many connections is `many::exchange`
//! budget    limits of all clients together
//! ```
//!
//! While one client measures and no other one does, the server looks for its messages and for nothing else, for some milliseconds at a time. Clients that measure
//! at the same time take turns of few messages.

mod budget;
mod client;
mod joining;
mod messages;
mod places;
mod script;
mod stop;

use super::options::Serve;
use crate::command_line::options::Common;
use crate::connection::attempts::Attempts;
use crate::connection::listen;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::protocol::Place;
use crate::quantity::format_duration;
use crate::report::copying::Copying;
use crate::report::growth::Growth;
use crate::timeouts::HELLO_TIMEOUT;
use crate::trace::Trace;
use crate::trace::track::Track;
use budget::Budget;
use client::{Client, Next};
use core::time::Duration;
use script::Turn;
use std::collections::HashMap;
use std::thread;
use std::time::Instant;
use stop::Stop;
use superpipe::{
    Connection, Error, ErrorKind, Interest, Key, Options, Peer, PollEvent, PollEvents, Poller, PollerOptions,
    Reason, WaitStrategy,
};

/// Events of a round.
const EVENTS: usize = 64;
/// Interval between two looks at deadlines.
const TICK: Duration = Duration::from_millis(50);
/// Longest time for which a close holds up all others.
const LINGER: Duration = Duration::from_millis(50);
/// Turn of a client while others measure.
const SHARED: Turn = Turn { messages: 16, looks: 1 };
/// Looks of a client that is alone for its next message before others are looked at: some tens of µs, longer than a peer on another core takes; and of one that yields,
/// whose peer may be on this core.
const LOOKS: [u32; 2] = [4096, 128];
/// Messages of a turn of one that is alone. Others are looked at each [`ALONE`].
const MESSAGES: u32 = 1024;
/// Time after which a client that is alone lets the others be looked at: that costs one of its messages a few µs, so few enough that a 99.9th percentile of short messages does not see it.
const ALONE: Duration = Duration::from_millis(5);

struct Server<'a> {
    session: &'a Session<'a>,
    poller: Poller,
    clients: HashMap<Key, Client>,
    /// clients by their further connections
    owners: HashMap<Key, Owner>,
    budget: Budget,
    connections_max: u32,
    /// those that have more to do at once
    again: Vec<Key>,
    attempts: Attempts,
    used_at: Instant,
    trace: &'a mut Trace,
    /// without --keep: it ends once all measurements that began have ended
    is_once: bool,
    /// measurements that ended, and the first failure among them
    ended: u64,
    failure: Option<Failure>,
}

/// Client of a further connection.
#[derive(Clone, Copy)]
struct Owner {
    control: Key,
    /// place among many; `None`: it replaces the data connection
    lane: Option<usize>,
}

/// Serves clients until a signal, or until nobody was connected for --accept-timeout; without --keep until all measurements that began have
/// ended.
///
/// # Errors
/// Nobody can connect, or did in time; or a signal arrived. Without --keep: the failure of a measurement.
pub(super) fn serve(session: &Session<'_>, serve: &Serve, trace: &mut Trace) -> Result<(), Failure> {
    session.pin()?;
    let failed = |error: Error| session.failure(&error);
    let connections_max = places::open(session, serve.connections_max);
    let mut poller = Poller::new(PollerOptions {
        connections_max,
        interrupt: Some(session.signals.flag()),
        ..PollerOptions::default()
    })
    .map_err(failed)?;
    let options = Options { linger: LINGER, ..session.options(WaitStrategy::Sleep) };
    let made = listen::bind(session, &serve.listening, options)?;
    let attempts = Attempts::new(made.local_addr().clone());
    let nobody = format!("nobody connected to {}", made.local_addr());
    poller.adopt_listener(made).map_err(failed)?;
    let mut server = Server {
        session,
        poller,
        clients: HashMap::new(),
        owners: HashMap::new(),
        budget: Budget::new(places::further(connections_max)),
        connections_max,
        again: Vec::new(),
        attempts,
        used_at: Instant::now(),
        trace,
        is_once: !serve.keep,
        ended: 0,
        failure: None,
    };
    server.run(serve.listening.accept_timeout, &nobody)
}

impl Server<'_> {
    fn run(&mut self, accept_timeout: Duration, nobody: &str) -> Result<(), Failure> {
        let mut events = PollEvents::with_capacity(EVENTS);
        let mut next_tick = Instant::now();
        loop {
            let busy = self.busy();
            let is_idle = busy.is_empty() && self.again.is_empty();
            let polled = self.poller.poll(&mut events, if is_idle { TICK } else { Duration::ZERO });
            match polled {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(self.session.failure(&error));
                }
                Ok(()) | Err(_) => {}
            }
            if let Some(failure) = self.session.signals.failure() {
                self.close_all(failure.code.into());
                return Err(failure);
            }
            for event in &events {
                self.handle(event)?;
            }
            let again = core::mem::take(&mut self.again);
            let is_quiet = events.is_empty() && again.is_empty();
            for key in again {
                self.step(key, SHARED);
            }
            if let [key] = busy[..]
                && !self.clients.get(&key).is_some_and(Client::is_spread)
            {
                self.step_alone(key);
            } else if !busy.is_empty() && is_quiet {
                // Those that sleep are woken by the poller; here somebody spins or yields.
                if busy.iter().any(|key| !self.spins(*key)) || busy.len() > 1 {
                    thread::yield_now();
                }
            }
            if self.is_once && self.ended > 0 && !self.clients.values().any(|client| client.has_begun) {
                self.close_all(Code::Connect.into());
                return self.failure.take().map_or(Ok(()), Err);
            }
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick(now);
                if !self.clients.is_empty() {
                    // without --keep attempts that fail do not extend the time
                    self.used_at = if self.is_once { self.used_at } else { now };
                } else if now.saturating_duration_since(self.used_at) >= accept_timeout {
                    return Err(self.attempts.explain(self.session.role.work(), accept_timeout, nobody));
                }
            }
        }
    }

    /// Returns the clients that measure, and do not sleep meanwhile; two at most, since more are not told apart.
    fn busy(&self) -> Vec<Key> {
        let is_busy = |client: &&Client| {
            (client.is_performing() || client.is_spread()) && client.wait != WaitStrategy::Sleep
        };
        self.clients.values().filter(is_busy).map(|client| client.control).take(2).collect()
    }

    fn spins(&self, key: Key) -> bool {
        self.clients.get(&key).is_some_and(|client| client.wait == WaitStrategy::Spin)
    }

    /// Serves a client while nothing else is looked at, as long as it has something to do.
    fn step_alone(&mut self, key: Key) {
        let begin = Instant::now();
        while let Some(client) = self.clients.get(&key).filter(|client| client.is_performing()) {
            let yields = client.wait == WaitStrategy::Yield;
            let looks = LOOKS[usize::from(yields)];
            if !self.step(key, Turn { messages: MESSAGES, looks }) {
                if yields {
                    thread::yield_now();
                }
                return;
            }
            if begin.elapsed() >= ALONE {
                // Somebody else may be busy by then, and no event says that there is more to do here.
                if !self.again.contains(&key) {
                    self.again.push(key);
                }
                return;
            }
        }
    }

    fn handle(&mut self, event: PollEvent) -> Result<(), Failure> {
        match event {
            PollEvent::Accepted { connection, .. } => self.accepted(connection)?,
            PollEvent::AcceptFailed { listener, .. } => {
                let Some(error) = self.poller.take_accept_error(listener) else { return Ok(()) };
                let failure = self.session.failure(&error);
                let Common { memory, tuning, .. } = self.session.common;
                if memory.fit_no_connection(&failure.text, &tuning.tuning()) {
                    return Err(failure);
                }
                self.attempts.add(self.session, &failure);
            }
            PollEvent::Readable { connection } | PollEvent::Writable { connection } => {
                match self.owners.get(&connection) {
                    Some(&Owner { control, lane: Some(lane) }) if self.is_spread(control) => {
                        self.drive(control, lane);
                    }
                    Some(&Owner { control, .. }) => _ = self.step(control, SHARED),
                    None => _ = self.step(connection, SHARED),
                }
            }
            PollEvent::Ended { connection } => self.ended(connection),
            PollEvent::Silent { connection } => {
                let key = self.control_of(connection);
                if self.clients.get(&key).is_some_and(Client::awaits_hello) {
                    return Ok(());
                }
                // It was told, and has failed once.
                if !self.clients.get(&key).is_some_and(Client::is_settled) {
                    let within = format_duration(self.session.common.idle_timeout);
                    let text = format!("the client was silent for {within} (--idle-timeout)");
                    // what it did before says more
                    let asked = self.clients.get(&key).and_then(Client::asked);
                    self.fail(key, &asked.unwrap_or_else(|| Failure::new(Code::Timeout, text)));
                }
                self.remove(key, Code::Timeout.into());
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a new connection, which is that of a new client or one more of a client that reconnects.
    fn accepted(&mut self, key: Key) -> Result<(), Failure> {
        let Some(connection) = self.poller.connection(key) else { return Ok(()) };
        self.session.connected(connection)?;
        self.trace.start_recording(connection);
        let peer = connection.peer();
        // A RUN that asks for this connection was sent before, and may not have been read yet.
        let same: Vec<Key> = self
            .clients
            .values()
            .filter(|client| client.peer.may_be(peer) && !peer.is_anonymous())
            .map(|client| client.control)
            .collect();
        for client in &same {
            self.step(*client, SHARED);
        }
        let awaiting =
            same.into_iter().find(|key| self.clients.get(key).is_some_and(Client::is_reconnecting));
        if let Some(control) = awaiting
            && let Some(client) = self.clients.get_mut(&control)
        {
            let (replaced, begun) = client.reconnected(key, &mut self.poller, self.session);
            self.replaced(control, key, replaced, begun);
            return Ok(());
        }
        // One that serves others already does not leave its core.
        let place = if self.clients.is_empty() {
            self.session.listeners_place(matches!(peer, Peer::Process(_)))?
        } else {
            Place { core: self.session.core(), ..Place::default() }
        };
        self.clients.insert(
            key,
            Client::new(
                key,
                peer,
                place,
                self.budget.share(),
                Instant::now() + self.hello_timeout(),
                self.trace.is_wanted(),
            ),
        );
        self.step(key, SHARED);
        Ok(())
    }

    fn hello_timeout(&self) -> Duration {
        HELLO_TIMEOUT.min(self.session.common.idle_timeout)
    }

    /// Does what can be done for a client. Returns true if there may be more to do.
    fn step(&mut self, key: Key, turn: Turn) -> bool {
        let Some(client) = self.clients.get_mut(&key) else { return false };
        let stepped = client.step(&mut self.poller, self.session, turn);
        client.tracks.drain(..).for_each(|track| self.trace.add(track));
        match stepped {
            Ok(Next::Again) => {
                self.await_data(key, true, false);
                if turn.looks == 1 && !self.again.contains(&key) {
                    self.again.push(key);
                }
                true
            }
            Ok(Next::Wait { on_data, to_send }) => {
                self.await_data(key, on_data, to_send);
                false
            }
            Ok(Next::Join(join)) => {
                self.join(key, join);
                false
            }
            Ok(Next::Spread) => {
                self.await_data(key, false, false);
                self.drive_all(key);
                false
            }
            Ok(Next::End) => {
                self.attempts.restart();
                self.remove(key, Reason::DONE);
                false
            }
            Err(_) if client.is_settled() => {
                self.remove(key, Reason::DONE);
                false
            }
            Err(stop) => {
                self.stop(key, stop);
                false
            }
        }
    }

    /// Has the poller report what a client waits for.
    fn await_data(&mut self, key: Key, on_data: bool, to_send: bool) {
        let Some(client) = self.clients.get(&key) else { return };
        let (control, data) = (client.control, client.measured());
        let wanted = Interest { readable: true, writable: to_send };
        let nothing = Interest::NONE;
        match data {
            None => _ = self.poller.set_interest(control, wanted),
            Some(data) => {
                let [at_control, at_data] = if on_data { [nothing, wanted] } else { [wanted, nothing] };
                self.poller.set_interest(control, at_control);
                self.poller.set_interest(data, at_data);
            }
        }
    }

    fn stop(&mut self, key: Key, stop: Stop) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        match stop {
            Stop::Tell(failure) => {
                client.refuse(&failure);
                self.fail(key, &failure);
                self.step(key, SHARED);
            }
            Stop::Ask(failure) => {
                client.await_report(failure);
                self.step(key, SHARED);
            }
            Stop::Lost(failure) => {
                self.fail(key, &failure);
                self.remove(key, failure.code.into());
            }
        }
    }

    /// Handles the end of a connection.
    fn ended(&mut self, connection: Key) {
        let key = self.control_of(connection);
        if key != connection {
            // what it said before, on the other connection
            self.step(key, SHARED);
        }
        let Some(client) = self.clients.get_mut(&key) else { return };
        if client.is_settled() {
            return self.remove(key, Reason::DONE);
        }
        if key != connection && client.is_between() {
            // it closes all; if not, its next run fails
            return;
        }
        let asked = client.asked();
        let is_control = key == connection;
        let error = self.poller.connection(connection).and_then(|gone| gone.try_recv(&mut []).err());
        // the reason of a close says more than what was seen before
        let told = error.as_ref().and_then(stop::told_by).or(asked);
        let failure = told.unwrap_or_else(|| match &error {
            Some(error) => self.session.failure(error),
            None => Failure::new(Code::PeerLost, "the client ended in the middle of a message"),
        });
        if is_control {
            self.fail(key, &failure);
            self.remove(key, failure.code.into());
        } else if let Some(client) = self.clients.get_mut(&key) {
            // the control connection has the reason
            client.await_report(failure);
            self.step(key, SHARED);
        }
    }

    /// Reports a failure, as one of an attempt if nothing was measured yet.
    fn fail(&mut self, key: Key, failure: &Failure) {
        let has_begun = self.clients.get(&key).is_some_and(|client| client.has_begun);
        if has_begun && self.is_once {
            self.failure.get_or_insert_with(|| failure.clone());
        } else if has_begun {
            self.session.print_if(true, &failure.text);
            self.attempts.restart();
        } else {
            self.attempts.add(self.session, failure);
        }
    }

    fn remove(&mut self, key: Key, reason: Reason) {
        let Some(client) = self.clients.remove(&key) else { return };
        self.ended += u64::from(client.has_begun);
        if client.has_begun
            && self.trace.is_wanted()
            && self.trace.is_empty()
            && let Some(data) = self.poller.connection(client.measured().unwrap_or(key))
        {
            self.trace.add(Track::take(self.session.role.tool(), data));
        }
        for key in client.connections() {
            self.owners.remove(&key);
            if let Some(connection) = self.poller.remove(key) {
                self.close(connection, reason);
            }
        }
    }

    fn close(&self, mut connection: Connection, reason: Reason) {
        let counters = connection.counters();
        let (growth, copying) = (Growth::new(&counters), Copying::new(&counters));
        let is_verbose = self.session.common.verbose;
        self.session.print_if(is_verbose && growth.has_any(), &growth.to_string());
        self.session.print_if(is_verbose && copying.has_any(), &copying.to_string());
        let _ = connection.close(reason, LINGER);
    }

    fn close_all(&mut self, reason: Reason) {
        let keys: Vec<Key> = self.clients.keys().copied().collect();
        for key in keys {
            self.remove(key, reason);
        }
    }

    /// Looks at deadlines.
    fn tick(&mut self, now: Instant) {
        let late = self.clients.values().filter(|client| client.is_late(now)).map(|client| client.control);
        let late: Vec<Key> = late.collect();
        for key in late {
            let Some(client) = self.clients.get(&key) else { continue };
            if client.is_settled() {
                self.remove(key, Reason::DONE);
            } else {
                let (failure, is_asked) = (client.late(self.hello_timeout()), client.asked().is_some());
                let stop = if is_asked { Stop::Lost(failure) } else { Stop::Tell(failure) };
                self.stop(key, stop);
            }
        }
        self.give_way(now);
    }
}
