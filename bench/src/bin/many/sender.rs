//! The measuring process: its poller sends over one connection, and over many.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use serde_json::{Value, json};
use superpipe::{
    Address, Connection, Drive, Interest, LandingMode, Options, PollEvent, SendOperation, TrySend, Tuning,
};
use superpipe_bench::connection::{DEADLINE, fail, polling};
use superpipe_bench::failure::Failure;
use superpipe_bench::stats::Spread;

use super::group::{Group, turn};
use super::server::{Command, encode};
use super::{BYTE, TAG, TAG_END};

/// Measurement by messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Many senders of long messages.
    Senders,
    /// Short messages over many connections.
    Sending,
}

pub(crate) struct Client {
    control: Connection,
    /// One connection, and many.
    groups: Vec<Group>,
}

/// Figures of one size.
pub(crate) struct Row {
    kind: Kind,
    connections: usize,
    bytes: usize,
    one_per_s: Spread,
    many_over_one: Spread,
    least_share: Spread,
}

/// A connection of a slice.
#[derive(Default)]
struct Lane {
    send: Option<SendOperation>,
    is_ended: bool,
}

impl Client {
    pub(crate) fn connect(address: &Address) -> Result<Self, Failure> {
        let control = Connection::connect(address, polling(), DEADLINE).map_err(fail)?;
        Ok(Self { control, groups: Vec::new() })
    }

    /// Makes a group of one connection, and one of many.
    pub(crate) fn make_groups(
        &mut self,
        address: &Address,
        connections: u32,
        landing: LandingMode,
    ) -> Result<(), Failure> {
        let tuning = Tuning { landing: Some(landing), ..Tuning::default() };
        let options = Options { tuning, ..polling() };
        for count in [1, connections] {
            self.command(Command::Accept, count as usize, 0)?;
            let made = (0..count).map(|_| Connection::connect(address, options, DEADLINE).map_err(fail));
            self.groups.push(Group::new(made.collect::<Result<_, _>>()?)?);
            self.control.recv_into(&mut [&mut []], DEADLINE).map_err(fail)?;
        }
        Ok(())
    }

    /// Closes all but the control connection.
    pub(crate) fn drop_groups(&mut self) {
        self.groups.clear();
    }

    pub(crate) fn into_control(self) -> Connection {
        self.control
    }

    /// Measures messages of this length.
    pub(crate) fn measure(
        &mut self,
        kind: Kind,
        bytes: usize,
        rounds: usize,
        slice_ms: u64,
    ) -> Result<Row, Failure> {
        let (mut rates, mut shares) = ([const { Vec::new() }; 2], Vec::new());
        for round in 0..=rounds {
            for turn in 0..2 {
                let at = (turn + round) % 2;
                let (per_s, share) = self.slice(at, bytes, Duration::from_millis(slice_ms))?;
                // The first round warms up.
                if round > 0 {
                    rates[at].push(per_s);
                    if at == 1 {
                        shares.push(share);
                    }
                }
            }
        }
        let [one, many] = &rates;
        let over: Vec<f64> = many.iter().zip(one).map(|(many, one)| many / one).collect();
        Ok(Row {
            kind,
            connections: self.groups[1].keys.len(),
            bytes,
            one_per_s: Spread::new(one),
            many_over_one: Spread::new(&over),
            least_share: Spread::new(&shares),
        })
    }

    fn command(&mut self, command: Command, count: usize, bytes: usize) -> Result<(), Failure> {
        self.control.send(TAG, &[&encode(command, count, bytes)], DEADLINE).map_err(fail)?;
        self.control.recv_into(&mut [&mut []], DEADLINE).map_err(fail)?;
        Ok(())
    }

    /// Sends for this time. Returns the messages per second that arrived, and what the slowest connection had of its fair share.
    fn slice(&mut self, at: usize, bytes: usize, time: Duration) -> Result<(f64, f64), Failure> {
        self.command(Command::Receive, at, bytes)?;
        let Self { control, groups } = self;
        let group = &mut groups[at];
        let message = vec![BYTE; bytes];
        let mut lanes: Vec<Lane> = core::iter::repeat_with(Lane::default).take(group.keys.len()).collect();
        for key in &group.keys {
            group.poller.set_interest(*key, Interest { readable: false, writable: true });
        }
        let begin = Instant::now();
        let mut open = lanes.len();
        while open > 0 {
            group.poller.poll(&mut group.events, DEADLINE).map_err(fail)?;
            if group.events.is_empty() {
                return Err(Failure::Timeout(DEADLINE.as_secs()));
            }
            let is_over = begin.elapsed() >= time;
            for event in &group.events {
                let PollEvent::Writable { connection: key } = event else {
                    return Err(Failure::Integrity(format!("{event:?}")));
                };
                let (Some(connection), Some(&index)) = (group.poller.connection(key), group.index.get(&key))
                else {
                    continue;
                };
                let lane = &mut lanes[index];
                send_some(connection, lane, &message, is_over)?;
                if lane.is_ended {
                    group.poller.set_interest(key, Interest::NONE);
                    open -= 1;
                }
            }
        }
        let mut counts = vec![0; 8 * lanes.len()];
        let received = control.recv_into(&mut [&mut counts], DEADLINE).map_err(fail)?;
        let seconds = begin.elapsed().as_secs_f64();
        if received.bytes != counts.len() {
            return Err(Failure::Integrity("the receiver has other connections".into()));
        }
        let counts: Vec<f64> = counts
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)) as f64)
            .collect();
        let (total, least) = (counts.iter().sum::<f64>(), counts.iter().copied().fold(f64::MAX, f64::min));
        Ok((total / seconds, least * counts.len() as f64 / total.max(1.0)))
    }
}

/// Sends what has room over a connection now, within a turn.
fn send_some(
    connection: &mut Connection,
    lane: &mut Lane,
    message: &[u8],
    is_over: bool,
) -> Result<(), Failure> {
    for _ in 0..turn(message.len()) {
        if lane.send.is_none() && is_over {
            lane.is_ended = connection.try_send(TAG_END, &[]).map_err(fail)? == TrySend::Sent;
            return Ok(());
        }
        if lane.send.is_none() {
            match connection.try_send(TAG, &[message]).map_err(fail)? {
                TrySend::Sent => continue,
                TrySend::Full if message.len() <= 64 << 10 => return Ok(()),
                TrySend::Full | TrySend::TooLong => {
                    lane.send = Some(SendOperation::new(TAG, message.len()));
                }
            }
        }
        let Some(send) = &mut lane.send else { return Ok(()) };
        match connection.drive_send(send, &[message]).map_err(fail)? {
            Drive::Done(()) => lane.send = None,
            Drive::Moved | Drive::Idle => return Ok(()),
        }
    }
    Ok(())
}

impl Row {
    pub(crate) fn to_json(&self) -> Value {
        let kind = if self.kind == Kind::Senders { "senders" } else { "sending" };
        json!({
            "event": "median", "kind": kind, "connections": self.connections, "bytes": self.bytes,
            "one_messages_per_s": self.one_per_s.to_json(), "many_over_one": self.many_over_one.to_json(),
            "least_share": self.least_share.to_json(),
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, bytes, .. } = self;
        write!(
            f,
            "{connections} connections, {bytes} B: {} of one's messages a second ({}); the slowest has {} of a fair share",
            self.many_over_one.to_text(),
            self.one_per_s.to_text(),
            self.least_share.to_text()
        )
    }
}
