//! The server: one poller.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use superpipe::{
    Address, Arming, ErrorKind, Key, Options, PollEvent, PollEvents, Poller, PollerOptions, Reason, TryRecv,
    TrySend,
};

use crate::{DEADLINE, FLOW, MORE, QUIET, ROUNDS, STOP, SURVIVORS, VICTIMS, WAKE};

/// Condition that the server waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Gathering,
    Waking,
    Losing,
    Stopping,
}

/// A connection.
struct Client {
    process: u64,
    /// Answers since the phase began.
    answers: u32,
}

pub(crate) struct Server {
    poller: Poller,
    clients: HashMap<Key, Client>,
    phase: Phase,
    connections: usize,
    victims: usize,
    lost: usize,
    room: Vec<u8>,
}

impl Server {
    /// Listens at these addresses, for clients of so many hosts at each.
    pub(crate) fn new(addresses: &[Address], hosts: u32) -> Self {
        let mut poller = Poller::new(PollerOptions::default()).unwrap();
        for address in addresses {
            poller.listen(address, Options::default()).unwrap();
        }
        let each = addresses.len() * hosts as usize;
        Self {
            poller,
            clients: HashMap::new(),
            phase: Phase::Gathering,
            connections: each * (SURVIVORS + VICTIMS) as usize,
            victims: each * VICTIMS as usize,
            lost: 0,
            room: vec![0; 64 << 10],
        }
    }

    /// Serves until all clients have closed.
    pub(crate) fn run(mut self) {
        let until = Instant::now() + DEADLINE;
        let mut events = PollEvents::with_capacity(64);
        while self.phase != Phase::Stopping || !self.clients.is_empty() {
            self.poller.poll(&mut events, until).unwrap();
            assert!(Instant::now() < until, "{:?}: nothing more happens: {:?}", self.phase, self.poller);
            for event in &events {
                self.handle(event);
            }
            if self.is_over() {
                self.begin_next(until);
            }
        }
        assert_eq!((self.lost, self.poller.connection_count()), (self.victims, 0));
    }

    fn handle(&mut self, event: PollEvent) {
        match event {
            // The process is in its first question.
            PollEvent::Accepted { connection, .. } => {
                // Only a wake-up brings what arrives while it sleeps.
                self.poller.connection(connection).unwrap().set_looks_while_armed(false);
                self.clients.insert(connection, Client { process: 0, answers: 0 });
            }
            PollEvent::Readable { connection } => self.answer(connection),
            PollEvent::Ended { connection } => self.ended(connection),
            // A client repeats an attempt that failed.
            PollEvent::AcceptFailed { listener, kind } => {
                eprintln!("accept: {kind}: {:?}", self.poller.take_accept_error(listener));
            }
            other => panic!("{:?}: {other:?}", self.phase),
        }
    }

    /// Sends what came back, with what the client is to do next.
    fn answer(&mut self, key: Key) {
        let client = self.clients.get_mut(&key).unwrap();
        let connection = self.poller.connection(key).unwrap();
        let received = match connection.try_recv(&mut [&mut self.room]) {
            Ok(TryRecv::Received(received)) => received,
            Ok(TryRecv::Nothing | TryRecv::Incomplete(_)) => return,
            other => panic!("{:?}: {other:?}", self.phase),
        };
        let next = match self.phase {
            // Those that are there leave the processor to those that come.
            Phase::Gathering if client.answers + 1 >= ROUNDS => QUIET,
            Phase::Gathering | Phase::Waking => MORE,
            Phase::Losing => FLOW,
            Phase::Stopping => STOP,
        };
        client.process = received.tag;
        client.answers += 1;
        match connection.try_send(next, &[&self.room[..received.bytes]]) {
            Ok(TrySend::Sent) => {}
            // Its end comes.
            Err(error) if error.kind() == ErrorKind::PeerLost => {}
            other => panic!(
                "{:?}: one message is on its way, and there is room for another: {other:?}",
                self.phase
            ),
        }
    }

    fn ended(&mut self, key: Key) {
        self.clients.remove(&key).unwrap();
        let mut connection = self.poller.remove(key).unwrap();
        // A last question may be there, and a part of one more, whose sender was killed in it.
        let error = loop {
            let received = match connection.try_recv(&mut [&mut self.room]) {
                Ok(TryRecv::Received(_)) => Ok(()),
                Ok(TryRecv::Incomplete(_)) => {
                    connection.recv_into(&mut [&mut self.room], DEADLINE).map(|_| ())
                }
                Ok(other) => panic!("{:?}: {other:?}", self.phase),
                Err(error) => Err(error),
            };
            match received {
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        match (self.phase, error.kind()) {
            (Phase::Losing, ErrorKind::PeerLost) => {
                self.lost += 1;
                // What the others get from here on counts.
                self.clients.values_mut().for_each(|client| client.answers = 0);
            }
            (Phase::Stopping, ErrorKind::Closed(Reason::DONE)) => {}
            (phase, _) => panic!("{phase:?}: {error}"),
        }
    }

    fn is_over(&self) -> bool {
        let each = |answers| self.clients.values().all(|client| client.answers >= answers);
        match self.phase {
            Phase::Gathering => self.clients.len() == self.connections && each(ROUNDS),
            Phase::Waking => each(1),
            Phase::Losing => self.lost == self.victims && each(ROUNDS),
            Phase::Stopping => false,
        }
    }

    fn begin_next(&mut self, until: Instant) {
        eprintln!("{:?} is over after {:?}", self.phase, DEADLINE - (until - Instant::now()));
        self.phase = match self.phase {
            Phase::Gathering => {
                self.arm(until);
                self.wake();
                Phase::Waking
            }
            Phase::Waking => Phase::Losing,
            Phase::Losing | Phase::Stopping => Phase::Stopping,
        };
        self.clients.values_mut().for_each(|client| client.answers = 0);
    }

    /// Waits until every connection waits for a wake-up.
    fn arm(&mut self, until: Instant) {
        let mut events = PollEvents::with_capacity(1);
        while !matches!(self.poller.arm(), Arming::Armed { .. }) {
            assert!(Instant::now() < until, "it cannot be armed: {:?}", self.poller);
            self.poller.poll(&mut events, core::time::Duration::from_millis(1)).unwrap();
            assert!(events.is_empty(), "{events:?}");
        }
    }

    /// Sends a message over one connection of each process.
    fn wake(&mut self) {
        let mut woken = HashSet::new();
        for (key, client) in &self.clients {
            if woken.insert(client.process) {
                let sent = self.poller.connection(*key).unwrap().try_send(WAKE, &[]).unwrap();
                assert_eq!(sent, TrySend::Sent);
            }
        }
        eprintln!("{} processes are woken", woken.len());
    }
}
