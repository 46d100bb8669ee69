//! The process that all visit: one thread, one poller. It answers each message, and counts what is left whenever all have gone.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::time::Instant;

use superpipe::{
    Address, Connection, ErrorKind, Interest, Key, Options, Peer, PeerCred, PollEvent, PollEvents, Poller,
    PollerOptions, Reason,
};

use super::HANG_TIMEOUT;
use super::counts::{Counts, Event};
use super::crew::{Crew, LOOK};
use super::leftovers::Leftovers;
use super::message::{CONNECTIONS_MAX, Pool, Side};
use super::options::VisitorsOptions;
use super::talk::{Stop, Talk};
use crate::random::Random;

/// Messages that are received, or sent, of a connection at a time, so that the others have their turn.
const BATCH: usize = 4;
/// Keys of connections that are gone, and must name nothing.
const STALE_MAX: usize = 64;
/// Tries until one tells how a connection has ended that was reported.
const LAST_TRIES: u32 = 10_000;
/// Interval of the looks at everything that is held, owed or stale.
const SWEEP: Duration = Duration::from_millis(5);

/// The host.
pub(crate) struct Host<'a> {
    options: &'a VisitorsOptions,
    pool: &'a Pool,
    seed: u64,
    poller: Poller,
    crew: Crew,
    talks: HashMap<Key, Talk>,
    accepted: u64,
    stale: VecDeque<Key>,
    pub(crate) counts: Counts,
}

impl<'a> Host<'a> {
    pub(crate) fn new(
        options: &'a VisitorsOptions,
        seed: u64,
        pool: &'a Pool,
        socket: &Path,
    ) -> Result<Self, String> {
        let failed = |error: superpipe::Error| format!("cannot listen: {error}");
        // No more places than visitors can fill at a time: one that is not given back is missed soon.
        let connections_max = options.visitors * CONNECTIONS_MAX;
        let mut poller =
            Poller::new(PollerOptions { connections_max, ..PollerOptions::default() }).map_err(failed)?;
        poller.listen(&Address::Shm(socket.to_path_buf()), Options::default()).map_err(failed)?;
        Ok(Self {
            options,
            pool,
            seed,
            poller,
            crew: Crew::new(seed, socket),
            talks: HashMap::new(),
            accepted: 0,
            stale: VecDeque::new(),
            counts: Counts::default(),
        })
    }

    /// Serves visitors in rounds. Returns the number of rounds.
    pub(crate) fn run(&mut self) -> Result<u32, String> {
        let end = Instant::now() + Duration::from_secs(self.options.seconds);
        let before = Leftovers::count()?;
        let (mut warm, mut rounds) = (None, 0);
        while Instant::now() < end {
            self.round(end.min(Instant::now() + Duration::from_millis(self.options.round_ms)))?;
            self.check_stale()?;
            let left = self
                .settle(&before, warm.as_ref())
                .map_err(|text| format!("after round {rounds}: {text}"))?;
            warm.get_or_insert(left);
            rounds += 1;
        }
        Ok(rounds)
    }

    /// Polls until nothing is left, also of handshakes whose visitors were killed.
    fn settle(&mut self, before: &Leftovers, warm: Option<&Leftovers>) -> Result<Leftovers, String> {
        let (mut events, begun) = (PollEvents::with_capacity(16), Instant::now());
        loop {
            self.poller.poll(&mut events, LOOK).map_err(|error| format!("poll: {error}"))?;
            for event in &events {
                self.handle(event)?;
            }
            let left = Leftovers::count()?;
            match left.check(before, warm) {
                Ok(()) => return Ok(left),
                Err(text) if begun.elapsed() > HANG_TIMEOUT => return Err(text),
                Err(_) => {}
            }
        }
    }

    /// Has visitors come and go until `end`, and then the last ones go.
    fn round(&mut self, end: Instant) -> Result<(), String> {
        let mut events = PollEvents::with_capacity(16);
        let mut swept = Instant::now();
        loop {
            let now = Instant::now();
            if now < end {
                self.crew.start(self.options.visitors as usize, &mut self.counts)?;
            } else if self.crew.count() == 0 && self.talks.is_empty() {
                break;
            } else if now > end + 3 * HANG_TIMEOUT {
                return Err(format!("{} connections do not end: {:?}", self.talks.len(), self.poller));
            }
            self.crew.strike(now, &mut self.counts);
            self.crew.reap()?;
            self.poller.poll(&mut events, LOOK).map_err(|error| format!("poll: {error}"))?;
            for event in &events {
                self.handle(event)?;
            }
            if now - swept > SWEEP {
                swept = now;
                self.sweep()?;
            }
        }
        self.crew.forget();
        match self.poller.connection_count() {
            0 => Ok(()),
            count => Err(format!("{count} places are taken, and there is no connection")),
        }
    }

    fn handle(&mut self, event: PollEvent) -> Result<(), String> {
        match event {
            PollEvent::Accepted { connection: key, .. } => {
                self.accepted += 1;
                let random = Random::new(&[self.seed, 1, self.accepted]);
                if self.talks.insert(key, Talk::new(Side::Host, None, random)).is_some() {
                    return Err(format!("{key:?} names two connections"));
                }
                self.check_count()
            }
            PollEvent::Readable { connection: key } | PollEvent::Writable { connection: key } => {
                self.serve(key)
            }
            PollEvent::Ended { connection: key } => self.end(key),
            PollEvent::AcceptFailed { listener, kind } => {
                let error = self.poller.take_accept_error(listener);
                if matches!(kind, ErrorKind::Limit | ErrorKind::Os | ErrorKind::Device) {
                    return Err(format!("accept: {kind}: {error:?}"));
                }
                self.counts.add(Event::AcceptFailed);
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    }

    /// Receives and answers messages of a connection.
    fn serve(&mut self, key: Key) -> Result<(), String> {
        // An earlier event of the same call may have ended it.
        let (Some(talk), Some(connection)) = (self.talks.get_mut(&key), self.poller.connection(key)) else {
            return Ok(());
        };
        let served = exchange(talk, connection, self.pool, &mut self.counts);
        match served {
            Ok(()) => {
                let writable = talk.received > talk.sent;
                self.poller.set_interest(key, Interest { readable: true, writable });
                Ok(())
            }
            // Its visitor has dropped it while a message was on its way. The end is reported.
            Err(Stop::Ended(ErrorKind::Cancelled(_))) => Ok(()),
            Err(Stop::Ended(kind)) => self.leave(key, kind),
            Err(Stop::Wrong(text)) => Err(text),
        }
    }

    /// Receives what is left of a connection that has ended.
    fn end(&mut self, key: Key) -> Result<(), String> {
        let (Some(talk), Some(connection)) = (self.talks.get_mut(&key), self.poller.connection(key)) else {
            return Err(format!("{key:?} has ended, and was removed"));
        };
        for _ in 0..LAST_TRIES {
            match talk.receive(connection, self.pool, &mut self.counts) {
                Ok(true) => {}
                // A part of a message whose visitor is gone: the error comes behind it.
                Ok(false) => _ = connection.progress(),
                // What was cancelled is taken out, and the end is behind it.
                Err(Stop::Ended(ErrorKind::Cancelled(_))) => {}
                Err(Stop::Ended(kind)) => return self.leave(key, kind),
                Err(Stop::Wrong(text)) => return Err(text),
            }
        }
        Err(format!("{key:?} was reported, and no call tells how it has ended: {:?}", talk.id))
    }

    /// Removes a connection that has ended in this way.
    fn leave(&mut self, key: Key, kind: ErrorKind) -> Result<(), String> {
        let Some(mut talk) = self.talks.remove(&key) else { return Err(format!("{key:?} is none of ours")) };
        let Some(mut connection) = self.poller.remove(key) else {
            return Err(format!("{key:?} is a connection, and cannot be removed"));
        };
        // Also of a connection that has ended, what is held is what it was.
        while talk.held() > 0 {
            if let Err(Stop::Wrong(text)) = talk.give_back(&mut connection, self.pool) {
                return Err(text);
            }
        }
        // By the process, since one that ended before its first message has told no name.
        let Peer::Process(PeerCred { pid, .. }) = connection.peer() else {
            return Err(format!("{:?} is of no process of this host", talk.id));
        };
        let was_killed = self.crew.was_killed(pid).ok_or_else(|| format!("process {pid} is no visitor"))?;
        match kind {
            ErrorKind::Closed(Reason::DONE) => self.counts.add(Event::Closed),
            ErrorKind::PeerLost if was_killed => self.counts.add(Event::Lost),
            other => return Err(format!("{:?}, whose visitor was not killed, ended with {other}", talk.id)),
        }
        drop(connection);
        self.stale.push_back(key);
        if self.stale.len() > STALE_MAX {
            self.stale.pop_front();
        }
        self.check_count()
    }

    fn check_count(&self) -> Result<(), String> {
        let (places, talks) = (self.poller.connection_count(), self.talks.len());
        // Those whose acceptance is still to be reported have places.
        if places >= talks { Ok(()) } else { Err(format!("{talks} connections have {places} places")) }
    }

    /// Gives loans back, and looks for those that starve.
    fn sweep(&mut self) -> Result<(), String> {
        let keys: Vec<Key> = self.talks.keys().copied().collect();
        for key in keys {
            let Some(talk) = self.talks.get_mut(&key) else { continue };
            talk.check_progress(talk.received > talk.sent || talk.is_sending())?;
            if talk.held() == 0 {
                continue;
            }
            let Some(connection) = self.poller.connection(key) else {
                return Err(format!("{key:?} has a place, and names nothing"));
            };
            match talk.give_back(connection, self.pool) {
                Err(Stop::Wrong(text)) => return Err(text),
                // Its end is reported.
                Ok(()) | Err(Stop::Ended(_)) => {}
            }
        }
        self.check_stale()
    }

    /// Fails if a key names something although its connection was removed.
    fn check_stale(&mut self) -> Result<(), String> {
        for key in &self.stale {
            let poller = &mut self.poller;
            let names = poller.connection(*key).is_some()
                || poller.set_interest(*key, Interest::default())
                || poller.take_error(*key).is_some()
                || poller.remove(*key).is_some();
            if names {
                return Err(format!("{key:?} names something, and its connection was removed"));
            }
            self.counts.add(Event::StaleKey);
        }
        Ok(())
    }
}

/// Receives some messages, and answers as many as were received.
fn exchange(
    talk: &mut Talk,
    connection: &mut Connection,
    pool: &Pool,
    counts: &mut Counts,
) -> Result<(), Stop> {
    for _ in 0..BATCH {
        if !talk.receive(connection, pool, counts)? {
            break;
        }
    }
    for _ in 0..BATCH {
        if talk.sent == talk.received || !talk.send(connection, pool, counts)? {
            break;
        }
    }
    Ok(())
}
