//! Makes the connections of a client, many at a time.

use super::options::Many;
use crate::connection::peer;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::protocol::{HELLO_BYTES, Hello, Role, TAG_HELLO};
use crate::quantity::format_duration;
use crate::rperf::messages::{Join, Ready, TAG_JOIN};
use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;
use superpipe::{
    Address, Connection, ErrorKind, Interest, Key, LandingMode, Options, PollEvent, PollEvents, Poller,
    PollerOptions, TryRecv, TrySend,
};

/// Connects under way at a time: four times the half-open connections of a listener, so that its places are taken again at once.
const AT_ONCE: usize = 64;

/// The connections of a client.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) poller: Poller,
    /// connections over which messages are spread
    pub(super) lanes: Vec<Key>,
    /// their places in the list
    pub(super) index: HashMap<Key, usize>,
    /// time of a connect, with those that were made beside it
    pub(super) connect_us: f64,
}

/// Connects to the server that sent this READY, and joins.
///
/// # Errors
/// A connection is not made in time, or is none to an rperf serve; or a signal arrived.
pub(super) fn connect(
    session: &Session<'_>,
    address: &Address,
    many: Many,
    ready: &Ready,
    timeout: Duration,
) -> Result<Fleet, Failure> {
    let all = many.connections + many.idle;
    let failed = |error: superpipe::Error| session.failure(&error);
    let mut poller = Poller::new(PollerOptions {
        connections_max: all,
        listeners_max: 1,
        wait: ready.wait,
        interrupt: Some(session.signals.flag()),
        ..PollerOptions::default()
    })
    .map_err(failed)?;
    let begin = Instant::now();
    let deadline = begin + timeout;
    let options = session.options(ready.wait);
    let mut idle_options = Options { ..options };
    idle_options.tuning.landing = Some(LandingMode::OnDemand);
    let mut events = PollEvents::with_capacity(AT_ONCE);
    let (mut numbers, mut begun, mut joined) = (HashMap::new(), 0, 0);
    while joined < all {
        while begun < all && begun - joined < u32::try_from(AT_ONCE).unwrap_or(1) {
            let options = if begun < many.connections { options } else { idle_options };
            let key = poller.connect(address, options, deadline).map_err(failed)?;
            begun += 1;
            numbers.insert(key, begun);
        }
        poller.poll(&mut events, deadline).map_err(failed)?;
        if Instant::now() >= deadline {
            let within = format_duration(timeout);
            let text =
                format!("only {joined} of {all} connections were made within {within} (--connect-timeout)");
            return Err(Failure::new(Code::Connect, text));
        }
        for event in &events {
            match event {
                PollEvent::Connected { connection: key } => {
                    let Some(connection) = poller.connection(key) else { continue };
                    session.tune(connection);
                    let number = numbers.get(&key).copied().unwrap_or(0);
                    let join = Join { token: ready.token, number }.encode();
                    if connection.try_send(TAG_JOIN, &[&join]).map_err(failed)? != TrySend::Sent {
                        return Err(Failure::new(Code::Device, "a new connection has no room for a message"));
                    }
                }
                PollEvent::Readable { connection: key } => {
                    let Some(connection) = poller.connection(key) else { continue };
                    if take_hello(session, connection)? {
                        poller.set_interest(key, Interest::NONE);
                        joined += 1;
                    }
                }
                PollEvent::ConnectFailed { connection: key, .. } => {
                    let error = poller.take_error(key);
                    let nothing = || Failure::new(Code::Connect, "a connection was not made");
                    let failure = error.map_or_else(nothing, failed);
                    let code = if failure.code == Code::Timeout { Code::Connect } else { failure.code };
                    let text = format!("{}; {joined} of {all} connections were made", failure.text);
                    return Err(Failure::new(code, text));
                }
                PollEvent::Ended { connection: key } | PollEvent::Silent { connection: key } => {
                    return Err(lost(session, &mut poller, key));
                }
                _ => {}
            }
        }
    }
    let connect_us = begin.elapsed().as_secs_f64() * 1e6 / f64::from(all.max(1));
    let mut lanes: Vec<(u32, Key)> = numbers.into_iter().map(|(key, number)| (number, key)).collect();
    lanes.sort_unstable_by_key(|(number, _)| *number);
    let lanes: Vec<Key> =
        lanes.into_iter().filter(|(number, _)| *number <= many.connections).map(|(_, key)| key).collect();
    let index = lanes.iter().copied().enumerate().map(|(index, key)| (key, index)).collect();
    Ok(Fleet { poller, lanes, index, connect_us })
}

/// Returns why a connection has ended, or was silent.
pub(super) fn lost(session: &Session<'_>, poller: &mut Poller, key: Key) -> Failure {
    let error = poller.connection(key).and_then(|connection| connection.try_recv(&mut []).err());
    match error {
        Some(error) if error.kind() != ErrorKind::TooSmall => session.failure(&error),
        _ => Failure::new(Code::PeerLost, "rperf serve ended one of many connections"),
    }
}

/// Takes the server's HELLO, which every connection begins with. Returns false if it is not there yet.
fn take_hello(session: &Session<'_>, connection: &mut Connection) -> Result<bool, Failure> {
    let mut room = [0; HELLO_BYTES];
    let hello = match connection.try_recv(&mut [&mut room]).map_err(|error| session.failure(&error))? {
        TryRecv::Nothing => return Ok(false),
        TryRecv::Received(received) if received.tag == TAG_HELLO => {
            Hello::decode(&room[..received.bytes], Role::Server)
        }
        _ => Hello::decode(&[], Role::Server),
    };
    hello.map(|_| true).map_err(peer::failure_of_violation)
}
