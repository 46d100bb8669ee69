//! The other process: it takes the messages of a slice, and answers the last one.

use superpipe::{Address, Connection, Listener};
use superpipe_bench::channel::Channel;
use superpipe_bench::connection::{DEADLINE, fail, polling};
use superpipe_bench::failure::Failure;
use superpipe_bench::map::{self, SharedMapping};
use superpipe_bench::pattern;
use superpipe_bench::probe::{self, PROBE_BYTES};
use superpipe_bench::spin::Timeout;

use crate::contestant::ALL;

/// Commands: their first word. A slice has a contestant.
pub(crate) const PROBE: u64 = 0;
pub(crate) const SLICE: u64 = 1;

/// Tags of messages: the last one of a slice is answered.
pub(crate) const MORE: u64 = 0;
pub(crate) const LAST: u64 = 1;

/// Number of the message that every slice sends again and again.
pub(crate) const MESSAGE: u64 = 1;

/// Bytes of the mapping: the channel, and the lines of the probe.
pub(crate) const MAP_BYTES: usize = probe::BEHIND_CHANNEL + PROBE_BYTES;

/// Words of a slice's answer: one, which is 1 if its last message was wrong.
pub(crate) const RESULTS: usize = 1;

pub(crate) fn serve(
    map: &SharedMapping,
    address: &Address,
    bytes_max: usize,
    timeout: &Timeout,
) -> Result<(), Failure> {
    let mut listener = Listener::bind(address, polling()).map_err(fail)?;
    let mut connections = Vec::new();
    for contestant in ALL {
        let mut connection = listener.accept(DEADLINE).map_err(fail)?;
        contestant.prepare(&mut connection);
        connections.push(connection);
    }
    let mut channel = Channel::new(map);
    let mut buffer = map::resident(bytes_max, false)?;
    let mut probe_number = 0;
    loop {
        let [command, contestant, ..] = channel.take(timeout)?;
        let place = usize::try_from(contestant).ok().and_then(|place| connections.get_mut(place));
        match (command, place) {
            (SLICE, Some(connection)) => {
                let is_wrong = slice(connection, &mut buffer)?;
                channel.answer(&[u64::from(is_wrong)]);
            }
            (PROBE, _) => {
                probe::answer(map, probe::BEHIND_CHANNEL, &mut probe_number, timeout)?;
                channel.answer(&[]);
            }
            (command, _) => {
                let what = format!("command {command} to contestant {contestant}: there is none");
                return Err(Failure::Integrity(what));
            }
        }
    }
}

/// Takes messages until the last one. Returns true if that was wrong.
fn slice(connection: &mut Connection, buffer: &mut [u8]) -> Result<bool, Failure> {
    loop {
        let received = connection.recv_into(&mut [&mut *buffer], DEADLINE).map_err(fail)?;
        if received.tag == LAST {
            connection.send(LAST, &[&[0; 8]], DEADLINE).map_err(fail)?;
            return Ok(pattern::find_wrong_byte(MESSAGE, &buffer[..received.bytes]).is_some());
        }
    }
}
