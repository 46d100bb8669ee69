//! The other process: receives over one connection or many, and serves those that connect.
//!
//! ```text
//! client ── command, count, bytes ──▶ server     on the control connection
//!        ◀── ready ──────────────────
//!        ══ messages, END ══════════▶            on each connection of a group
//!        ◀── counts ─────────────────
//! ```

use superpipe::{
    Address, Connection, Listener, PollEvent, PollEvents, Poller, PollerOptions, TryRecv, TrySend,
    WaitStrategy,
};
use superpipe_bench::connection::{DEADLINE, fail, polling};
use superpipe_bench::failure::Failure;

use super::TAG;
use super::group::Group;
use super::receiver::{Lanes, receive_all};

const COMMAND_BYTES: usize = 24;

/// Next step of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Accept so many connections, as a group.
    Accept,
    /// Receive over the group of this number: 0 for one connection, 1 for many.
    Receive,
    /// Serve those that connect to the second address, until so many have left.
    Serve,
}

pub(crate) fn encode(command: Command, count: usize, bytes: usize) -> [u8; COMMAND_BYTES] {
    let mut encoded = [0; COMMAND_BYTES];
    for (place, word) in encoded.chunks_exact_mut(8).zip([command as usize, count, bytes]) {
        place.copy_from_slice(&(word as u64).to_le_bytes());
    }
    encoded
}

fn decode(command: &[u8; COMMAND_BYTES]) -> (Command, usize, usize) {
    let mut words = command
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)));
    let mut next = || words.next().unwrap_or(0);
    let command = [Command::Accept, Command::Receive].get(next()).copied().unwrap_or(Command::Serve);
    (command, next(), next())
}

/// Serves until the client closes.
pub(crate) fn serve(addresses: &[Address; 2]) -> Result<(), Failure> {
    let mut listener = Listener::bind(&addresses[0], polling()).map_err(fail)?;
    let mut control = listener.accept(DEADLINE).map_err(fail)?;
    let mut groups: Vec<Group> = Vec::new();
    loop {
        let mut command = [0; COMMAND_BYTES];
        if control.recv_into(&mut [&mut command], DEADLINE).is_err() {
            return Ok(());
        }
        let (command, count, bytes) = decode(&command);
        if command == Command::Serve {
            groups.clear();
            serve_others(&addresses[1], count, &mut control)?;
            continue;
        }
        if command == Command::Accept {
            control.send(TAG, &[], DEADLINE).map_err(fail)?;
            // Two groups at a time.
            if groups.len() == 2 {
                groups.clear();
            }
            let accepted = (0..count).map(|_| listener.accept(DEADLINE).map_err(fail));
            groups.push(Group::new(accepted.collect::<Result<_, _>>()?)?);
            control.send(TAG, &[], DEADLINE).map_err(fail)?;
        } else {
            let group =
                groups.get_mut(count).ok_or_else(|| Failure::Integrity("there is no such group".into()))?;
            let mut lanes = Lanes::new(group, bytes);
            control.send(TAG, &[], DEADLINE).map_err(fail)?;
            let counts = receive_all(group, &mut lanes)?;
            let counts: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
            control.send(TAG, &[&counts], DEADLINE).map_err(fail)?;
            lanes.check()?;
        }
    }
}

/// Answers each message of those that connect, until so many have left.
fn serve_others(address: &Address, count: usize, control: &mut Connection) -> Result<(), Failure> {
    let places = u32::try_from(count).unwrap_or(u32::MAX);
    let options =
        PollerOptions { wait: WaitStrategy::Spin, connections_max: places, ..PollerOptions::default() };
    let mut poller = Poller::new(options).map_err(fail)?;
    poller.listen(address, polling()).map_err(fail)?;
    control.send(TAG, &[], DEADLINE).map_err(fail)?;
    let mut events = PollEvents::with_capacity(256);
    let (mut left, mut room) = (count, [0; 8]);
    while left > 0 {
        poller.poll(&mut events, DEADLINE).map_err(fail)?;
        if events.is_empty() {
            return Err(Failure::Timeout(DEADLINE.as_secs()));
        }
        for event in &events {
            match event {
                PollEvent::Readable { connection: key } => {
                    let Some(connection) = poller.connection(key) else { continue };
                    if let TryRecv::Received(received) =
                        connection.try_recv(&mut [&mut room]).map_err(fail)?
                    {
                        let sent = connection.try_send(TAG, &[&room[..received.bytes]]).map_err(fail)?;
                        if sent != TrySend::Sent {
                            return Err(Failure::Integrity(format!("{sent:?}")));
                        }
                    }
                }
                PollEvent::Ended { connection: key } => {
                    drop(poller.remove(key));
                    left -= 1;
                }
                // those that say nothing
                _ => {}
            }
        }
    }
    Ok(())
}
