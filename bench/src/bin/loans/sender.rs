//! The other process: writes messages and sends them, as it is told.

use superpipe::{Address, Connection};
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;
use superpipe_bench::map::{SharedMapping, resident};
use superpipe_bench::spin::Timeout;
use superpipe_bench::work::{WORD_BYTES, first_word, write};

use crate::connections::Connections;
use crate::ring::{Layout, Ring};
use crate::way::{COMMAND_BYTES, Command, Way};

/// Serves until the receiver closes. Words of the last message of each command by the way `flip_word` are wrong.
pub(crate) fn serve(
    address: &Address,
    sizes: &[usize],
    maps: &[SharedMapping],
    timeout: &Timeout,
    flip_word: Option<Way>,
) -> Result<(), Failure> {
    let mut connections = Connections::accept(address, sizes)?;
    let ring = |(map, &bytes)| Ring::new(map, Layout::new(bytes), timeout);
    let mut rings: Vec<Ring<'_>> = maps.iter().zip(sizes).map(ring).collect();
    let mut source = resident(sizes.iter().copied().max().unwrap_or(0), false)?;
    let mut numbers = vec![[0_u64; Way::ALL.len()]; sizes.len()];
    loop {
        let mut command = [0; COMMAND_BYTES];
        if connections.control.recv_into(&mut [&mut command], DEADLINE).is_err() {
            return Ok(());
        }
        let Command { size, way, count } = Command::decode(&command);
        let pair = &mut connections.pairs[size];
        for index in 0..count {
            let number = &mut numbers[size][way as usize];
            *number += 1;
            let first = first_word(*number);
            let is_wrong = flip_word == Some(way) && index + 1 == count;
            match way {
                Way::Ring => rings[size].send(|message| {
                    write(first, message);
                    message[0] ^= u8::from(is_wrong);
                })?,
                Way::Slices => send_slices(&mut pair.in_place, first, sizes[size], is_wrong)?,
                Way::Spans => send_spans(&mut pair.in_place, first, sizes[size], is_wrong)?,
                Way::Copy => {
                    let message = &mut source[..sizes[size]];
                    write(first, message);
                    message[0] ^= u8::from(is_wrong);
                    pair.copied.send(0, &[message], DEADLINE).map_err(fail)?;
                }
            }
        }
    }
}

fn send_slices(connection: &mut Connection, first: u64, bytes: usize, is_wrong: bool) -> Result<(), Failure> {
    let mut reserved = connection.reserve(0, bytes, DEADLINE).map_err(fail)?;
    let mut word = first;
    // SAFETY: 1. the peer is this program, which reads only what was committed. 2. Landing is not on demand.
    for slice in unsafe { connection.reserved_slices(&mut reserved) }.map_err(fail)? {
        write(word, slice);
        word = word.wrapping_add((slice.len() / WORD_BYTES) as u64);
        slice[0] ^= u8::from(is_wrong);
    }
    connection.commit(reserved).map_err(|(_, error)| fail(error))
}

fn send_spans(connection: &mut Connection, first: u64, bytes: usize, is_wrong: bool) -> Result<(), Failure> {
    let reserved = connection.reserve(0, bytes, DEADLINE).map_err(fail)?;
    let mut word = first;
    for span in connection.reserved_spans(&reserved).map_err(fail)? {
        for at in (0..span.len()).step_by(WORD_BYTES) {
            if !span.write(at, (word ^ u64::from(is_wrong)).to_le_bytes()) {
                return Err(Failure::Integrity("a span ends in a word".into()));
            }
            word = word.wrapping_add(1);
        }
    }
    connection.commit(reserved).map_err(|(_, error)| fail(error))
}
