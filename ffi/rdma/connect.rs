//! The active side: from a host's name to a connection that both ends agreed on.

use super::cm::Cm;
use super::error::ConnectError;
use super::fabric::{Rdma, RdmaLink};
use super::greeting::{GREETING_BYTES, Greeting};
use super::handshake::{self, Agreed};
use super::patience::Patience;
use super::route::DeviceName;
use super::wire::{ACK_TIMEOUT, Wire};
use super::wishes::Wishes;
use crate::budget::Budget;
use crate::os::clock::until;
use crate::os::random::random_below;
use crate::os::{monotonic_ns, resolve};
use crate::packet::PacketError;
use crate::tuning::Settled;
use crate::verbs::{CmEventKind, CmId, Error, EventChannel};
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use superpipe_core::Attachment;

/// The first attempt's time, and a random quarter more; the next has twice that. A listener whose backlog is full drops a request on
/// InfiniBand and RoCE, and the kernel's CM asks again after 4.3 s (a response timeout of 20, and the path's), which an attempt
/// must live to see. A connection that does not come about in this time was seen to come about at once when tried again.
const ATTEMPT_NS: u64 = 6_000_000_000;
const STEP_MS_MAX: u64 = 2000;
/// How often the caller's flag is looked at.
const SLICE: Duration = Duration::from_millis(100);

/// A connection that both ends agreed on.
pub struct Met {
    /// The fabric.
    pub port: Rdma,
    /// What an endpoint is made of.
    pub attachment: Attachment<Rdma>,
    /// What was settled.
    pub settled: Settled,
    /// Why this arrival mode.
    pub arrival_reason: &'static str,
    /// The device that it runs on.
    pub device: DeviceName,
    /// Share of the budget for what is registered.
    pub share: Budget,
    /// The peer's address.
    pub peer: SocketAddr,
}

impl Met {
    pub(super) fn of(mut wire: Wire, agreed: Agreed, peer: SocketAddr) -> Result<Self, ConnectError> {
        let Agreed { mine, image, there, settled, why, share } = agreed;
        let device = wire.device().parse::<DeviceName>();
        let device = device.map_err(|error| ConnectError::NotFound(error.to_string()))?;
        wire.keep_open();
        Ok(Self {
            port: Rdma::new(),
            attachment: RdmaLink::attach(wire, mine, image, there, settled.config.arrival),
            settled,
            arrival_reason: why.text(),
            device,
            share,
            peer,
        })
    }
}

/// Connects to a listener, at each of its addresses in turn until one answers.
///
/// # Errors
/// [`ConnectError`], of the last address; one that [is transient](ConnectError::is_transient) may go away.
pub fn connect(
    host: &str,
    port: u16,
    wishes: &Wishes<'_>,
    deadline_ns: u64,
    interrupted: &dyn Fn() -> bool,
) -> Result<Met, ConnectError> {
    let attempt = |address, end_ns| {
        connect_to(address, wishes, &Patience { deadline_ns: deadline_ns.min(end_ns), interrupted })
    };
    let addresses = resolve(host, port, deadline_ns, interrupted).map_err(ConnectError::from);
    addresses.and_then(|all| connect_any(&all, deadline_ns, attempt)).map_err(ConnectError::or_limit)
}

/// Attempts each address in turn, until the time that the attempt is told, and again with more time where that went by.
fn connect_any<T>(
    addresses: &[SocketAddr],
    deadline_ns: u64,
    mut attempt: impl FnMut(SocketAddr, u64) -> Result<T, ConnectError>,
) -> Result<T, ConnectError> {
    let mut attempt_ns = ATTEMPT_NS;
    loop {
        let mut last: Option<ConnectError> = None;
        for address in addresses {
            let end_ns = monotonic_ns() + attempt_ns + random_below(attempt_ns / 4);
            match attempt(*address, end_ns) {
                Err(
                    error @ (ConnectError::Interrupted | ConnectError::Packet(PacketError::Refused { .. })),
                ) => return Err(error),
                // An error that may pass at one address is worth another attempt, whatever the others say.
                Err(error) if may_pass(&error) || !last.as_ref().is_some_and(may_pass) => last = Some(error),
                Err(_) => {}
                met => return met,
            }
        }
        let last = last.unwrap_or(ConnectError::TimedOut);
        if last != ConnectError::TimedOut || until(deadline_ns) == 0 {
            return Err(last);
        }
        attempt_ns *= 2;
    }
}

fn may_pass(error: &ConnectError) -> bool {
    error.is_transient() || *error == ConnectError::TimedOut
}

fn connect_to(to: SocketAddr, wishes: &Wishes<'_>, patience: &Patience<'_>) -> Result<Met, ConnectError> {
    let source = wishes.route.source(to.ip())?;
    connect_by(EventChannel::create()?, source, to, wishes, patience)
}

fn connect_by(
    events: EventChannel,
    source: Option<SocketAddr>,
    to: SocketAddr,
    wishes: &Wishes<'_>,
    patience: &Patience<'_>,
) -> Result<Met, ConnectError> {
    let mut id = CmId::create(&events)?;
    // Kernels before 5.1 have no such option, and keep seconds.
    let _ = id.set_ack_timeout(ACK_TIMEOUT);
    id.resolve_addr(source, to, step_ms(patience))?;
    expect(&events, CmEventKind::ADDR_RESOLVED, patience)?;
    id.resolve_route(step_ms(patience))?;
    expect(&events, CmEventKind::ROUTE_RESOLVED, patience)?;
    let cm = Cm::new(events, id);
    wishes.route.check(&cm.context()?.name())?;
    let wire = Wire::new(cm)?;
    let greeting = Greeting { mtu: wire.mtu()? }.encode();
    let mut wire = ask(wire, greeting, patience)?;
    let event = match wire.event(patience) {
        Ok(event) => event,
        Err(error) => {
            let_go(wire);
            return Err(error);
        }
    };
    match event.failure() {
        // A listener that does not want this connection refuses with its greeting, which says its version. One that has no room,
        // or went away, says nothing.
        Some(failure) => {
            return Err(match Greeting::decode(&event.private_data) {
                Err(version @ PacketError::Version { .. }) => version.into(),
                Ok(_) => ConnectError::Refused(failure),
                Err(_) => Error::Connection(failure).into(),
            });
        }
        None if event.kind == CmEventKind::CONNECT_RESPONSE => {
            let Greeting { mtu } = Greeting::decode(&event.private_data)?;
            wire.make_ready(mtu)?;
            wire.establish()?;
        }
        None if event.kind == CmEventKind::ESTABLISHED => drop(Greeting::decode(&event.private_data)?),
        None => return Err(unexpected(CmEventKind::ESTABLISHED, event.kind)),
    }
    let (wire, agreed) = handshake::connect(wire, wishes, patience)?;
    Met::of(wire, agreed, to)
}

/// Asks the peer for a connection. Drivers of iWARP make the TCP connection in this call and wait for minutes for a host that
/// drops it, which nothing ends; so there it is a thread that asks, and keeps the wire if it is too late.
fn ask(
    mut wire: Wire,
    greeting: [u8; GREETING_BYTES],
    patience: &Patience<'_>,
) -> Result<Wire, ConnectError> {
    if !wire.is_iwarp() {
        wire.connect(&greeting)?;
        return Ok(wire);
    }
    let (answer, answers) = channel();
    let asking = move || {
        let asked = wire.connect(&greeting).map(|()| wire);
        // Nobody may be waiting any more.
        let _ = answer.send(asked);
    };
    let thread = thread::Builder::new().name("superpipe-connect".into()).spawn(asking);
    thread.map_err(|error| ConnectError::NotFound(format!("cannot start a thread to connect: {error}")))?;
    loop {
        match answers.recv_timeout(SLICE.min(Duration::from_nanos(until(patience.deadline_ns)))) {
            Ok(asked) => return asked,
            Err(RecvTimeoutError::Disconnected) => return Err(ConnectError::Lost("while connecting")),
            Err(RecvTimeoutError::Timeout) if (patience.interrupted)() => {
                return Err(ConnectError::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) if until(patience.deadline_ns) == 0 => {
                return Err(ConnectError::TimedOut);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Drops a wire whose request is not answered. Over iWARP destroying its id waits for the answer as long as the driver does, 10 s
/// with siw, so a thread does that.
fn let_go(wire: Wire) {
    if wire.is_iwarp() {
        // A `spawn` that fails drops the closure, and the wire with it: then this thread waits.
        let _ = thread::Builder::new().name("superpipe-connect".into()).spawn(move || drop(wire));
    }
}

/// Waits for a step of connecting.
fn expect(channel: &EventChannel, due: CmEventKind, patience: &Patience<'_>) -> Result<(), ConnectError> {
    loop {
        match channel.expect(due, patience.deadline_ns) {
            Err(Error::Interrupted) if !(patience.interrupted)() => {}
            event => return Ok(event.map(|_| ())?),
        }
    }
}

pub(super) fn unexpected(due: CmEventKind, came: CmEventKind) -> ConnectError {
    ConnectError::Verbs(Error::Unexpected { due, came })
}

fn step_ms(patience: &Patience<'_>) -> u32 {
    u32::try_from((until(patience.deadline_ns) / 1_000_000).clamp(1, STEP_MS_MAX)).unwrap_or(1)
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
