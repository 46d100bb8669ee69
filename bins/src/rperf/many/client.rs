//! The client: it has each connection checked, and each size measured over all of them at once.

use super::connect::{Fleet, connect, lost};
use super::exchange::{Exchange, Measured};
use super::options::Many;
use crate::connection::peer;
use crate::exit::{Code, Failure};
use crate::os::descriptors;
use crate::protocol::TAG_VERDICT;
use crate::quantity::format_duration;
use crate::report::events::ConnectionProperties;
use crate::rperf::counts::Counts;
use crate::rperf::end::{End, receive, send};
use crate::rperf::link::{Link, MessageError};
use crate::rperf::many_row::{Direction, ManyRow};
use crate::rperf::messages::{Ready, TAG_COUNTS, TAG_DONE, TAG_RUN};
use crate::rperf::options::{ClientOptions, Test};
use crate::rperf::output::Output;
use crate::rperf::row::percent;
use crate::rperf::runs::{Done, Pattern, Run};
use core::time::Duration;
use std::time::Instant;
use superpipe::{Address, ErrorKind, Key, PollEvent, PollEvents};

/// Time of the timed messages of a size, and of those that warm up.
const TIMED: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_millis(50);
/// Interval between two looks at the control connection.
const TICK: Duration = Duration::from_millis(50);
/// Checks of connections between two looks at all of them, which send keepalives.
const CHECKS: usize = 64;
/// Events of a round.
const EVENTS: usize = 256;

/// A client whose connections are made.
struct Client<'a, 'b> {
    options: &'a ClientOptions,
    link: &'a mut Link<'b>,
    end: &'a mut End,
    ready: &'a Ready,
    properties: &'a ConnectionProperties,
    many: Many,
    fleet: Fleet,
    events: PollEvents,
}

/// Measures every size of the options.
///
/// # Errors
/// The failure that ends the measurement early.
pub fn measure(
    options: &ClientOptions,
    address: &Address,
    many: Many,
    link: &mut Link<'_>,
    (end, ready): (&mut End, &Ready),
    properties: &ConnectionProperties,
    output: &mut Output,
) -> Result<(), Failure> {
    descriptors::allow(many.connections + many.idle)?;
    let made = connect(link.session, address, many, ready, options.connect_timeout);
    // the server may have said why on the control connection
    let fleet = made.map_err(|failure| link.check_peer().err().unwrap_or(failure))?;
    let events = PollEvents::with_capacity(EVENTS);
    let mut client = Client { options, link, end, ready, properties, many, fleet, events };
    for bytes in options.sizes.iter() {
        client.size(bytes, output)?;
    }
    Ok(())
}

impl Client<'_, '_> {
    fn size(&mut self, bytes: u64, output: &mut Output) -> Result<(), Failure> {
        let pattern = match (self.options.bidirectional, self.options.test()) {
            (true, _) => Pattern::Both,
            (false, Test::Latency) => Pattern::Pingpong,
            (false, Test::Stream) => Pattern::Stream,
        };
        let check = Run {
            pattern: Pattern::Check,
            is_reconnected: false,
            is_recorded: false,
            batch: 1,
            bytes,
            warmup: 0,
            samples: 1,
            time_ns: 0,
            connection: 1,
        };
        for index in 0..self.fleet.lanes.len() {
            self.check(&check, index)?;
        }
        let run = Run { pattern, connection: 0, ..check };
        let by_time = |time: Duration| (0, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        match self.options.warmup {
            Some(0) => {}
            warmup => {
                let (samples, time_ns) = warmup.map_or_else(|| by_time(WARM_UP), |count| (count, 0));
                self.run(Run { samples, time_ns, ..run })?;
            }
        }
        let timed = match (self.options.iterations, self.options.time) {
            (Some(count), _) => (count, 0),
            (None, time) => by_time(time.unwrap_or(TIMED)),
        };
        let (measured, done, counts) = self.run(Run { samples: timed.0, time_ns: timed.1, ..run })?;
        for row in self.rows(&run, &measured, &done, counts) {
            output.put_many(row)?;
        }
        Ok(())
    }

    /// Has one message go over a connection and one back, compared at both ends.
    fn check(&mut self, check: &Run, index: usize) -> Result<(), Failure> {
        if index % CHECKS == CHECKS - 1 {
            self.poll(Instant::now())?;
        }
        let Some(&key) = self.fleet.lanes.get(index) else { return Ok(()) };
        let connection = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let run = Run { connection, ..*check };
        self.link.send(TAG_RUN, &run.encode())?;
        let checked = self.exchange_checked(key, &run);
        checked.map_err(|error| self.link.explain(error))?;
        let done = self.link.receive_message(TAG_DONE)?;
        Done::decode(&done).map_err(peer::failure_of_violation)?;
        self.end.check_contents()
    }

    fn exchange_checked(&mut self, key: Key, run: &Run) -> Result<(), MessageError> {
        let session = self.link.session;
        let Some(connection) = self.fleet.poller.connection(key) else {
            return Err(MessageError::Unexpected);
        };
        self.end.set_up(connection, session, run)?;
        self.link.await_go()?;
        self.end.prepare(connection, &session.signals, 1)?;
        let (from, to) = (self.end.from.buffers(), self.end.to.buffers());
        if let ([from, ..], [to, ..]) = (from, to) {
            send(connection, from)?;
            receive(connection, to)?;
        }
        self.end.compare(0, true, &session.signals)
    }

    /// Performs a run over all connections. Returns what both ends measured.
    fn run(&mut self, run: Run) -> Result<(Measured, Done, Option<Counts>), Failure> {
        let signals = self.link.session.signals;
        self.link.send(TAG_RUN, &run.encode())?;
        let check_stop = || signals.failure().map_or(Ok(()), Err);
        // those of the checks
        self.end.release();
        let mut exchange = Exchange::new(run, true, self.fleet.lanes.len(), &check_stop)?;
        self.link.await_go().map_err(|error| self.link.explain(error))?;
        exchange.start();
        for index in 0..self.fleet.lanes.len() {
            self.drive(&mut exchange, index)?;
        }
        let mut next_tick = Instant::now() + TICK;
        let (mut moves, mut moved_at) = (exchange.moves(), Instant::now());
        while !exchange.is_done() {
            self.poll(next_tick)?;
            for at in 0..self.events.len() {
                let event = self.events.iter().nth(at);
                if let Some(PollEvent::Readable { connection } | PollEvent::Writable { connection }) = event
                    && let Some(&index) = self.fleet.index.get(&connection)
                {
                    self.drive(&mut exchange, index)?;
                }
            }
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK;
                self.look_at_server()?;
                if exchange.moves() != moves {
                    (moves, moved_at) = (exchange.moves(), now);
                } else if now.saturating_duration_since(moved_at) >= self.link.session.common.idle_timeout {
                    return Err(self.late());
                }
            }
        }
        let measured = exchange.finish();
        // the server may still receive
        let deadline = Instant::now() + self.link.session.common.idle_timeout;
        while !self.is_answered()? {
            if Instant::now() >= deadline {
                return Err(self.late());
            }
            self.poll(Instant::now() + Duration::from_millis(1))?;
        }
        let done = Done::decode(&self.link.receive_message(TAG_DONE)?).map_err(peer::failure_of_violation)?;
        let counts = match run.pattern {
            Pattern::Stream | Pattern::Both => {
                let bytes = self.link.receive_long(TAG_COUNTS, Counts::bytes(measured.sent.len()))?;
                Some(Counts::decode(&bytes, &measured.sent).map_err(peer::failure_of_violation)?)
            }
            Pattern::Check | Pattern::Pingpong => None,
        };
        Ok((measured, done, counts))
    }

    /// Returns the failure of a server that does nothing.
    fn late(&self) -> Failure {
        let within = format_duration(self.link.session.common.idle_timeout);
        Failure::new(
            Code::Timeout,
            format!("rperf serve did not end the run within {within} (--idle-timeout)"),
        )
    }

    /// Drives one connection.
    fn drive(&mut self, exchange: &mut Exchange, index: usize) -> Result<(), Failure> {
        let Some(&key) = self.fleet.lanes.get(index) else { return Ok(()) };
        let Some(connection) = self.fleet.poller.connection(key) else { return Ok(()) };
        let interest = exchange.drive(index, connection).map_err(|error| self.link.explain(error))?;
        self.fleet.poller.set_interest(key, interest);
        Ok(())
    }

    /// Polls all connections.
    fn poll(&mut self, until: Instant) -> Result<(), Failure> {
        let session = self.link.session;
        match self.fleet.poller.poll(&mut self.events, until) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(session.failure(&error)),
        }
        if let Some(failure) = session.signals.failure() {
            return Err(failure);
        }
        let gone = self.events.iter().find_map(|event| match event {
            PollEvent::Ended { connection } | PollEvent::Silent { connection } => Some(connection),
            _ => None,
        });
        let Some(key) = gone else { return Ok(()) };
        let failure = lost(session, &mut self.fleet.poller, key);
        Err(self.link.check_peer().err().unwrap_or(failure))
    }

    /// Returns true once the server has answered on the control connection.
    fn is_answered(&mut self) -> Result<bool, Failure> {
        let peeked = self.link.control().try_peek();
        Ok(peeked.map_err(|error| self.link.explain(MessageError::Library(error)))?.is_some())
    }

    /// Checks that the server has not failed meanwhile, and sends keepalives on the control connection.
    fn look_at_server(&mut self) -> Result<(), Failure> {
        self.link.control().progress();
        let peeked = self.link.control().try_peek();
        match peeked.map_err(|error| self.link.explain(MessageError::Library(error)))? {
            Some(incoming) if incoming.tag == TAG_VERDICT => self.link.receive_message(TAG_DONE).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the rows of a run: one per direction, and their sum if there are two.
    fn rows(&self, run: &Run, measured: &Measured, done: &Done, counts: Option<Counts>) -> Vec<ManyRow> {
        let make = |direction: Direction, counts: &Counts| ManyRow {
            idle: self.many.idle,
            connect_us: (self.fleet.connect_us * 10.0).round() / 10.0,
            cpu_percent: percent(measured.usage),
            peer_cpu_percent: percent((done.cpu_ns, done.wall_ns)),
            protocol: self.properties.protocol,
            wait: self.ready.wait.name(),
            fabric: self.properties.fabric,
            core: self.end.plan.core,
            peer_core: self.ready.core,
            ..ManyRow::new(self.options.test(), direction, run.bytes, counts)
        };
        match (run.pattern, counts) {
            (Pattern::Both, Some(to_server)) => {
                let sum = to_server.beside(&measured.counts);
                vec![
                    make(Direction::ToServer, &to_server),
                    make(Direction::ToClient, &measured.counts),
                    make(Direction::Sum, &sum),
                ]
            }
            (_, Some(to_server)) => vec![make(Direction::ToServer, &to_server)],
            (_, None) => vec![make(Direction::RoundTrips, &measured.counts).with_trips(&measured.trips)],
        }
    }
}
