//! One end of a run over many connections at once, without waiting: the same at both ends.
//!
//! | pattern | client, per connection | server, per connection |
//! |---|---|---|
//! | ping-pong | sends one message, and the next once it is answered | answers each |
//! | stream | sends one after the other | receives |
//! | both | sends and receives | sends and receives |
//!
//! An end takes the messages that it sends from one supply for all connections: a connection over which more can be sent gets more of them. Once the supply is over, or the
//! time, it sends END over each. A [drive](Exchange::drive) of one connection moves a bounded part, so that connections take turns.

use crate::exit::Failure;
use crate::rperf::buffers::{Buffer, Pool};
use crate::rperf::clock::CpuUsage;
use crate::rperf::counts::Counts;
use crate::rperf::end::check;
use crate::rperf::histogram::Histogram;
use crate::rperf::link::MessageError;
use crate::rperf::messages::{Memory, TAG_END};
use crate::rperf::parts::{TURN_BYTES, send_part};
use crate::rperf::runs::{Pattern, Run};
use superpipe::os::monotonic_ns;
use superpipe::{Connection, Drive, Interest, Received, RecvOperation, SendOperation, TrySend};

/// Most messages of a turn.
const TURN_MESSAGES: u64 = 16;

/// One end of a run over many connections.
#[derive(Debug)]
pub struct Exchange {
    run: Run,
    is_client: bool,
    supply: Supply,
    from: Pool,
    /// a buffer per connection
    to: Pool,
    lanes: Vec<Lane>,
    /// connections over which something is missing
    open: usize,
    usage: CpuUsage,
    begun_ns: u64,
    last_ns: u64,
    trips: Histogram,
    moves: u64,
}

/// One connection.
#[derive(Debug, Default)]
struct Lane {
    receive: RecvOperation,
    /// message that is sent in parts
    send: Option<SendOperation>,
    /// a message is to be answered
    owes: bool,
    /// an answer is to come, to the message that was begun then
    awaits: bool,
    begun_ns: u64,
    sent: u64,
    received: u64,
    /// END was received, and sent
    has_heard_end: bool,
    has_said_end: bool,
    is_done: bool,
}

/// Messages that this end sends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Supply {
    Nothing,
    Count(u64),
    /// as many as go until this time
    Until(u64),
    /// over each connection until its peer sends END
    Peer,
}

/// Measurement of an end.
#[derive(Debug, Clone)]
pub struct Measured {
    /// messages that were sent over each connection
    pub sent: Vec<u64>,
    /// messages that arrived
    pub counts: Counts,
    /// round trips of the client, in nanoseconds
    pub trips: Histogram,
    /// CPU time and elapsed time of the thread, in nanoseconds
    pub usage: (u64, u64),
}

impl Exchange {
    /// Allocates the buffers of a run over so many connections.
    ///
    /// # Errors
    /// Too little memory, or the error of `check_stop`.
    pub fn new(
        run: Run,
        is_client: bool,
        connections: usize,
        check_stop: &impl Fn() -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let bytes = usize::try_from(run.bytes).unwrap_or(usize::MAX);
        let (mut from, mut to) = (Pool::empty(Memory::Reused), Pool::empty(Memory::Reused));
        from.provide(bytes, sent_buffers(&run, is_client), check_stop)?;
        to.provide(bytes, if is_receiver(&run, is_client) { connections } else { 0 }, check_stop)?;
        Ok(Self {
            run,
            is_client,
            supply: Supply::Nothing,
            from,
            to,
            lanes: core::iter::repeat_with(Lane::default).take(connections).collect(),
            open: connections,
            usage: CpuUsage::begin(),
            begun_ns: 0,
            last_ns: 0,
            trips: Histogram::default(),
            moves: 0,
        })
    }

    /// Returns the bytes of the buffers of a run at one end.
    #[must_use]
    pub fn buffer_bytes(run: &Run, is_client: bool, connections: usize) -> u64 {
        let buffers =
            sent_buffers(run, is_client) + if is_receiver(run, is_client) { connections } else { 0 };
        run.bytes.saturating_mul(buffers as u64)
    }

    /// Starts the clock. Every connection is to be driven once.
    pub fn start(&mut self) {
        self.usage = CpuUsage::begin();
        self.begun_ns = monotonic_ns();
        self.last_ns = self.begun_ns;
        self.supply = match (self.run.pattern, self.is_client) {
            (Pattern::Check, _) | (Pattern::Pingpong | Pattern::Stream, false) => Supply::Nothing,
            (Pattern::Both, false) if self.run.is_by_time() => Supply::Peer,
            _ if self.run.is_by_time() => Supply::Until(self.begun_ns.saturating_add(self.run.time_ns)),
            _ => Supply::Count(self.run.samples),
        };
    }

    /// Returns the pattern.
    #[must_use]
    pub const fn pattern(&self) -> Pattern {
        self.run.pattern
    }

    /// Returns true once both ends have nothing more to send.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.open == 0
    }

    /// Returns the number of messages, and parts of them, that were moved.
    #[must_use]
    pub const fn moves(&self) -> u64 {
        self.moves
    }

    /// Returns what was measured.
    #[must_use]
    pub fn finish(self) -> Measured {
        let messages = self.lanes.iter().map(|lane| lane.received).collect();
        Measured {
            sent: self.lanes.iter().map(|lane| lane.sent).collect(),
            counts: Counts { elapsed_ns: self.last_ns - self.begun_ns, messages },
            trips: self.trips,
            usage: self.usage.since(),
        }
    }

    /// Moves a part of what can be moved over a connection now. Returns what it waits for.
    ///
    /// # Errors
    /// The error of the library, or another message than the expected one.
    pub fn drive(&mut self, index: usize, connection: &mut Connection) -> Result<Interest, MessageError> {
        let Self { run, is_client, supply, from, to, lanes, open, last_ns, trips, moves, .. } = self;
        let Some(lane) = lanes.get_mut(index).filter(|lane| !lane.is_done) else { return Ok(Interest::NONE) };
        if let Supply::Until(until_ns) = *supply
            && monotonic_ns() >= until_ns
        {
            *supply = Supply::Nothing;
        }
        let mut rules = Rules { run, is_client: *is_client, supply };
        let most = TURN_BYTES.checked_div(run.bytes).unwrap_or(u64::MAX).clamp(1, TURN_MESSAGES);
        let [mut to_receive, mut to_send] = [most; 2];
        let received_before = lane.received;
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            if to_receive > 0
                && !lane.owes
                && rules.expects(lane)
                && let Some(buffer) = to.buffers().get_mut(index)
            {
                let driven = receive(lane, connection, buffer)?;
                *moves += u64::from(!matches!(driven, Drive::Idle));
                match driven {
                    Drive::Done(is_message) => {
                        (to_receive, goes_on) = (to_receive - 1, true);
                        if is_message && lane.awaits {
                            trips.push(monotonic_ns().saturating_sub(lane.begun_ns));
                        }
                        if is_message {
                            lane.awaits = false;
                            lane.owes = rules.answers();
                        } else if !rules.hears_end() {
                            return Err(MessageError::Unexpected);
                        }
                    }
                    // a part of a long message, which is a turn
                    Drive::Moved => to_receive = 0,
                    Drive::Idle => {}
                }
            }
            if to_send > 0
                && (lane.send.is_some() || rules.may_send(lane))
                && let [buffer, ..] = from.buffers()
            {
                let was_begun = lane.send.is_some();
                let driven = send(lane, connection, buffer)?;
                *moves += u64::from(!matches!(driven, Drive::Idle));
                if !was_begun && (lane.send.is_some() || matches!(driven, Drive::Done(()))) {
                    rules.take_one();
                }
                match driven {
                    Drive::Done(()) => {
                        (to_send, goes_on) = (to_send - 1, true);
                        rules.note_sent(lane);
                    }
                    Drive::Moved => to_send = 0,
                    Drive::Idle => {}
                }
            }
        }
        if rules.may_end(lane)
            && connection.try_send(TAG_END, &[]).map_err(MessageError::Library)? == TrySend::Sent
        {
            lane.has_said_end = true;
        }
        if lane.received > received_before {
            *last_ns = monotonic_ns();
        }
        lane.is_done = rules.is_done(lane);
        *open -= usize::from(lane.is_done);
        Ok(Interest {
            readable: rules.expects(lane) && !lane.owes,
            writable: lane.send.is_some() || rules.may_send(lane) || rules.may_end(lane),
        })
    }
}

/// Limits of the pattern.
struct Rules<'a> {
    run: &'a Run,
    is_client: bool,
    supply: &'a mut Supply,
}

impl Rules<'_> {
    /// Returns true if the peer sends END.
    fn hears_end(&self) -> bool {
        !self.is_client || self.run.pattern == Pattern::Both
    }

    /// Returns true if this end sends END.
    fn says_end(&self) -> bool {
        self.is_client || self.run.pattern == Pattern::Both
    }

    /// Returns true if this end answers each message.
    fn answers(&self) -> bool {
        !self.is_client && self.run.pattern == Pattern::Pingpong
    }

    /// Returns true if something has to come.
    fn expects(&self, lane: &Lane) -> bool {
        match self.hears_end() {
            true => !lane.has_heard_end,
            false => lane.awaits,
        }
    }

    /// Returns true if a message may be begun.
    fn may_send(&self, lane: &Lane) -> bool {
        if self.answers() {
            return lane.owes;
        }
        let is_there = match *self.supply {
            Supply::Nothing => false,
            Supply::Count(left) => left > 0,
            Supply::Until(_) => true,
            Supply::Peer => !lane.has_heard_end,
        };
        is_there && !lane.awaits && !lane.has_said_end
    }

    /// Takes a message that was begun out of the supply.
    fn take_one(&mut self) {
        if let Supply::Count(left) = &mut *self.supply {
            *left = left.saturating_sub(1);
        }
    }

    /// Notes that a message was sent.
    fn note_sent(&mut self, lane: &mut Lane) {
        lane.sent += 1;
        lane.owes = false;
        lane.awaits = self.is_client && self.run.pattern == Pattern::Pingpong;
    }

    /// Returns true if END is to be sent.
    fn may_end(&self, lane: &Lane) -> bool {
        let is_over = lane.send.is_none() && !lane.awaits && !self.may_send(lane);
        self.says_end() && is_over && !lane.has_said_end
    }

    fn is_done(&self, lane: &Lane) -> bool {
        (!self.says_end() || lane.has_said_end) && !self.expects(lane) && !lane.owes
    }
}

/// Receives the next message of a connection, or a part of it. Done, and false: it was END.
fn receive(
    lane: &mut Lane,
    connection: &mut Connection,
    buffer: &mut Buffer,
) -> Result<Drive<bool>, MessageError> {
    let bytes = buffer.message_bytes();
    let driven = connection.drive_recv(&mut lane.receive, &mut [buffer.memory()]);
    Ok(match driven.map_err(MessageError::Library)? {
        Drive::Done(received) => {
            lane.receive = RecvOperation::new();
            if received == (Received { tag: TAG_END, bytes: 0 }) {
                lane.has_heard_end = true;
                return Ok(Drive::Done(false));
            }
            check(received, bytes)?;
            lane.received += 1;
            Drive::Done(true)
        }
        Drive::Moved => Drive::Moved,
        Drive::Idle => Drive::Idle,
    })
}

/// Sends a message over a connection, or a part of it.
fn send(
    lane: &mut Lane,
    connection: &mut Connection,
    buffer: &mut Buffer,
) -> Result<Drive<()>, MessageError> {
    if lane.send.is_none() {
        lane.begun_ns = monotonic_ns();
    }
    send_part(connection, &mut lane.send, buffer.memory())
}

/// Returns the number of buffers for messages that this end sends: one for all connections.
fn sent_buffers(run: &Run, is_client: bool) -> usize {
    usize::from(is_client || run.pattern != Pattern::Stream)
}

/// Returns true if measured messages come to this end.
fn is_receiver(run: &Run, is_client: bool) -> bool {
    !is_client || run.pattern != Pattern::Stream
}
