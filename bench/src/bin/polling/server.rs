//! The other process: answers on the connection that it is told, by blocking calls or by a poller.
//!
//! ```text
//! client ── kind, count, bytes ──▶ server     on the control connection
//!        ◀── ready ──────────────
//!        ══ message ═▶ ◀═ answer ═            on that connection, count times
//! ```

use superpipe::{
    Address, Connection, Drive, Interest, Listener, PollEvent, PollEvents, Poller, PollerOptions,
    RecvOperation, SendOperation, TryRecv, WaitStrategy,
};
use superpipe_bench::connection::{DEADLINE, fail, polling};
use superpipe_bench::failure::Failure;

use super::idle;

/// Tag of the messages.
pub(crate) const TAG: u64 = 3;
/// Bytes of a command.
pub(crate) const COMMAND_BYTES: usize = 24;

/// How messages are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Blocking,
    Poller,
    /// By a poller that has idle connections as well.
    AmongIdle,
    /// None are: the idle ones are measured.
    Idle,
}

impl Kind {
    pub(crate) const SERVED: [Self; 3] = [Self::Blocking, Self::Poller, Self::AmongIdle];
}

pub(crate) fn encode(kind: Kind, count: usize, bytes: usize) -> [u8; COMMAND_BYTES] {
    let mut command = [0; COMMAND_BYTES];
    for (place, word) in command.chunks_exact_mut(8).zip([kind as usize, count, bytes]) {
        place.copy_from_slice(&(word as u64).to_le_bytes());
    }
    command
}

fn decode(command: &[u8; COMMAND_BYTES]) -> (Kind, usize, usize) {
    let mut words = command
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)));
    let mut next = || words.next().unwrap_or(0);
    let kind = [Kind::Blocking, Kind::Poller, Kind::AmongIdle].get(next()).copied().unwrap_or(Kind::Idle);
    (kind, next(), next())
}

/// Serves until the client closes.
pub(crate) fn serve(address: &Address, idle: u32, bytes_max: usize, idle_s: u64) -> Result<(), Failure> {
    let mut listener = Listener::bind(address, polling()).map_err(fail)?;
    let mut accept = || listener.accept(DEADLINE).map_err(fail);
    let mut control = accept()?;
    let mut blocking = accept()?;
    let mut pollers = Vec::new();
    for idle in [0, idle] {
        let options =
            PollerOptions { wait: WaitStrategy::Spin, connections_max: idle + 1, ..PollerOptions::default() };
        let mut poller = Poller::new(options).map_err(fail)?;
        for _ in 0..=idle {
            poller.adopt(accept()?).map_err(|(_, error)| fail(error))?;
        }
        pollers.push(poller);
    }
    // The idle ones are measured as a server would have them that sleeps.
    let options = PollerOptions { connections_max: idle.max(1), ..PollerOptions::default() };
    let mut sleeping = Poller::new(options).map_err(fail)?;
    for _ in 0..idle {
        sleeping.adopt(accept()?).map_err(|(_, error)| fail(error))?;
    }
    let mut events = PollEvents::with_capacity(64);
    let mut room = vec![1; bytes_max];
    loop {
        let mut command = [0; COMMAND_BYTES];
        if control.recv_into(&mut [&mut command], DEADLINE).is_err() {
            return Ok(());
        }
        let (kind, count, bytes) = decode(&command);
        control.send(TAG, &[], DEADLINE).map_err(fail)?;
        match kind {
            Kind::Blocking => (0..count).try_for_each(|_| answer(&mut blocking, &mut room[..bytes]))?,
            Kind::Poller => answer_by(&mut pollers[0], &mut events, count, &mut room[..bytes])?,
            Kind::AmongIdle => answer_by(&mut pollers[1], &mut events, count, &mut room[..bytes])?,
            Kind::Idle => {
                let percent = idle::percent_of_core(&mut sleeping, &mut events, idle_s)?;
                control.send(TAG, &[&percent.to_le_bytes()], DEADLINE).map_err(fail)?;
            }
        }
    }
}

fn answer(connection: &mut Connection, room: &mut [u8]) -> Result<(), Failure> {
    let received = connection.recv_into(&mut [&mut *room], DEADLINE).map_err(fail)?;
    connection.send(TAG, &[&room[..received.bytes]], DEADLINE).map_err(fail)
}

/// Answers so many messages of whichever connection they come from.
fn answer_by(
    poller: &mut Poller,
    events: &mut PollEvents,
    count: usize,
    room: &mut [u8],
) -> Result<(), Failure> {
    let is_short = room.len() <= 64 << 10;
    let (mut receive, mut send) = (RecvOperation::new(), None);
    let mut answered = 0;
    while answered < count {
        poller.poll(events, DEADLINE).map_err(fail)?;
        if events.is_empty() {
            return Err(Failure::Integrity("no message came".into()));
        }
        for event in &*events {
            // The idle ones, which nothing polls at the client.
            if matches!(event, PollEvent::Silent { .. }) {
                continue;
            }
            let (PollEvent::Readable { connection: key } | PollEvent::Writable { connection: key }) = event
            else {
                return Err(Failure::Integrity(format!("{event:?}")));
            };
            let Some(connection) = poller.connection(key) else { continue };
            if is_short {
                if let TryRecv::Received(received) = connection.try_recv(&mut [&mut *room]).map_err(fail)? {
                    connection.send(TAG, &[&room[..received.bytes]], DEADLINE).map_err(fail)?;
                    answered += 1;
                }
                continue;
            }
            let sending = match &mut send {
                Some(sending) => sending,
                None => match connection.drive_recv(&mut receive, &mut [&mut *room]).map_err(fail)? {
                    Drive::Done(received) => {
                        poller.set_interest(key, Interest { readable: true, writable: true });
                        receive = RecvOperation::new();
                        send = Some(SendOperation::new(TAG, received.bytes));
                        continue;
                    }
                    Drive::Moved | Drive::Idle => continue,
                },
            };
            if let Drive::Done(()) = connection.drive_send(sending, &[room]).map_err(fail)? {
                poller.set_interest(key, Interest::default());
                send = None;
                answered += 1;
            }
        }
    }
    Ok(())
}
