//! The active side: from a host's name to an established connection.

use super::ack_timeout::AckTimeout;
use super::cm::Cm;
use super::connection::RdmaConnection;
use super::deadline::{ConnectDeadline, instant};
use super::device::DeviceName;
use super::error::ConnectError;
use super::fabric::{LinkTerms, Rdma, RdmaLink};
use super::handshake::{self, HandshakeResult};
use super::options::RdmaOptions;
use super::private_data::{PRIVATE_DATA_BYTES, PrivateData};
use crate::budget::BudgetShare;
use crate::os::clock::until;
use crate::os::random::random_below;
use crate::os::{MemoryPlacement, monotonic_ns, resolve};
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use superpipe_core::driver::setup::{Negotiated, PacketError};
use superpipe_core::{Attachment, Nanos};
use superpipe_verbs::{CmEventKind, CmId, Error, EventChannel};

/// Time of the first attempt, to which a random quarter is added; the next has twice that. On InfiniBand and RoCE a listener whose
/// backlog is full drops a request, and the kernel's CM repeats it after 4.3 s (a response timeout of 20, and the path's), so an attempt
/// must last longer. A connection that was not established in this time was observed to be so at once in the next attempt.
const ATTEMPT_NS: u64 = 6_000_000_000;
/// Limit of each of the two steps in which rdma_cm resolves an address: ARP or a path query, which take milliseconds unless packets are lost.
const STEP_MS_MAX: u64 = 2000;
/// Interval of checks of the caller's interrupt flag.
const SLICE: Duration = Duration::from_millis(100);

/// An established connection.
pub struct Established {
    /// The fabric.
    pub fabric: Rdma,
    /// Parts of an endpoint.
    pub attachment: Attachment<Rdma>,
    /// Negotiated settings.
    pub negotiated: Negotiated,
    /// Reason for the arrival mode.
    pub arrival_reason: &'static str,
    /// Device that it runs on.
    pub device: DeviceName,
    /// Share of the budget for the registered memory.
    pub share: Arc<BudgetShare>,
    /// Bytes of the budget in all, with what may be released before the connection ends.
    pub provisioned_bytes: u64,
    /// Bytes of it that are receives, and what SENDs are taken from.
    pub receive_bytes: u64,
    /// Memory node of all that is registered.
    pub memory: MemoryPlacement,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Time for which the peer lets this end be silent, if it tells that.
    pub peer_idle_timeout: Option<Nanos>,
}

impl Established {
    pub(super) fn of(
        mut connection: RdmaConnection,
        result: HandshakeResult,
        peer: SocketAddr,
    ) -> Result<Self, ConnectError> {
        let placement = connection.placement();
        let HandshakeResult { memory, negotiated, why, share, provisioned_bytes, peer_idle_timeout } = result;
        let receive_bytes = connection.receive_pool_bytes() as u64;
        let device = connection.device().parse::<DeviceName>();
        let device = device.map_err(|error| ConnectError::NotFound(error.to_string()))?;
        connection.keep_open();
        Ok(Self {
            fabric: Rdma::new(),
            attachment: RdmaLink::attach(connection, memory, LinkTerms::of(&negotiated)),
            negotiated,
            arrival_reason: why.text(),
            device,
            share,
            provisioned_bytes,
            receive_bytes,
            memory: placement,
            peer,
            peer_idle_timeout,
        })
    }
}

/// Connects to a listener, trying its addresses in turn.
///
/// # Errors
/// [`ConnectError`] of the last address; a [transient](ConnectError::is_transient) one may go away.
pub fn connect(
    host: &str,
    port: u16,
    options: &RdmaOptions<'_>,
    deadline_ns: u64,
    interrupted: &dyn Fn() -> bool,
) -> Result<Established, ConnectError> {
    let attempt = |address, end_ns| {
        connect_to(address, options, &ConnectDeadline { deadline_ns: deadline_ns.min(end_ns), interrupted })
    };
    let addresses = resolve(host, port, deadline_ns, interrupted).map_err(ConnectError::from);
    addresses.and_then(|all| connect_any(&all, deadline_ns, attempt)).map_err(ConnectError::or_limit)
}

/// Attempts each address in turn with a limited time, and all again with more time if they ran out of it.
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
                // An error that may pass at one address is worth another attempt, despite the errors of others.
                Err(error) if may_pass(&error) || !last.as_ref().is_some_and(may_pass) => last = Some(error),
                Err(_) => {}
                attempted => return attempted,
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

fn connect_to(
    to: SocketAddr,
    options: &RdmaOptions<'_>,
    deadline: &ConnectDeadline<'_>,
) -> Result<Established, ConnectError> {
    let source = options.device.source(to.ip())?;
    connect_by(EventChannel::create()?, source, to, options, deadline)
}

fn connect_by(
    events: EventChannel,
    source: Option<SocketAddr>,
    to: SocketAddr,
    options: &RdmaOptions<'_>,
    deadline: &ConnectDeadline<'_>,
) -> Result<Established, ConnectError> {
    let mut id = CmId::create(&events)?;
    // Kernels before 5.1 lack this option, and wait for seconds.
    // Not that of the options: rdma_cm also repeats its own requests by this one.
    let _ = id.set_ack_timeout(AckTimeout::default().exponent());
    id.resolve_addr(source, to, step_ms(deadline))?;
    expect(&events, CmEventKind::ADDR_RESOLVED, deadline)?;
    id.resolve_route(step_ms(deadline))?;
    expect(&events, CmEventKind::ROUTE_RESOLVED, deadline)?;
    let cm = Cm::new(events, id);
    options.device.check(&cm.context()?.name())?;
    let connection = RdmaConnection::new(cm, options.memory_node, options.shards)?;
    let private_data = PrivateData { mtu: connection.mtu()? }.encode();
    let mut connection = request(connection, private_data, deadline)?;
    let event = match connection.event(deadline) {
        Ok(event) => event,
        Err(error) => {
            drop_in_background(connection);
            return Err(error);
        }
    };
    match event.failure() {
        // A listener that refuses this connection sends its private data with the version. One that has no room or went away sends
        // none.
        Some(failure) => {
            return Err(match PrivateData::decode(&event.private_data) {
                Err(version @ PacketError::Version { .. }) => version.into(),
                Ok(_) => ConnectError::Refused(failure),
                Err(_) => Error::Connection(failure).into(),
            });
        }
        None if event.kind == CmEventKind::CONNECT_RESPONSE => {
            let PrivateData { mtu } = PrivateData::decode(&event.private_data)?;
            connection.make_ready(mtu, options.ack_timeout)?;
            connection.establish()?;
        }
        None if event.kind == CmEventKind::ESTABLISHED => drop(PrivateData::decode(&event.private_data)?),
        None => return Err(unexpected(CmEventKind::ESTABLISHED, event.kind)),
    }
    let (connection, agreed) = handshake::connect(connection, options, deadline)?;
    Established::of(connection, agreed, to)
}

/// Requests a connection. Drivers of iWARP make the TCP connection in this call, and wait for minutes for a host that drops it. So on
/// iWARP a thread calls, and keeps the connection if it returns too late.
fn request(
    mut connection: RdmaConnection,
    private_data: [u8; PRIVATE_DATA_BYTES],
    deadline: &ConnectDeadline<'_>,
) -> Result<RdmaConnection, ConnectError> {
    if !connection.is_iwarp() {
        connection.connect(&private_data)?;
        return Ok(connection);
    }
    let (answer, answers) = channel();
    let connecting = move || {
        let connected = connection.connect(&private_data).map(|()| connection);
        // The caller may have given up.
        let _ = answer.send(connected);
    };
    let thread = thread::Builder::new().name("superpipe-connect".into()).spawn(connecting);
    thread.map_err(|error| ConnectError::NotFound(format!("cannot start a thread to connect: {error}")))?;
    loop {
        match answers.recv_timeout(SLICE.min(Duration::from_nanos(until(deadline.deadline_ns)))) {
            Ok(connected) => return connected,
            Err(RecvTimeoutError::Disconnected) => return Err(ConnectError::Lost("while connecting")),
            Err(RecvTimeoutError::Timeout) if (deadline.interrupted)() => {
                return Err(ConnectError::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) if until(deadline.deadline_ns) == 0 => {
                return Err(ConnectError::TimedOut);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Drops a connection whose request is not answered. On iWARP destroying its id waits for the answer as long as the driver does, 10 s
/// with siw, so a thread does it.
fn drop_in_background(connection: RdmaConnection) {
    if connection.is_iwarp() {
        // A `spawn` that fails drops the closure and the connection: then this thread waits.
        let _ = thread::Builder::new().name("superpipe-connect".into()).spawn(move || drop(connection));
    }
}

/// Waits for the event of a step of connecting.
fn expect(
    channel: &EventChannel,
    due: CmEventKind,
    deadline: &ConnectDeadline<'_>,
) -> Result<(), ConnectError> {
    loop {
        match channel.expect(due, instant(deadline.deadline_ns)) {
            Err(Error::Interrupted) if !(deadline.interrupted)() => {}
            event => return Ok(event.map(|_| ())?),
        }
    }
}

pub(super) fn unexpected(due: CmEventKind, came: CmEventKind) -> ConnectError {
    ConnectError::Verbs(Error::Unexpected { due, came })
}

fn step_ms(deadline: &ConnectDeadline<'_>) -> u32 {
    u32::try_from((until(deadline.deadline_ns) / 1_000_000).clamp(1, STEP_MS_MAX)).unwrap_or(1)
}

#[cfg(test)]
mod tests;
