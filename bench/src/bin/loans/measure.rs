//! The measuring process: receives messages and reads them.

use std::time::Instant;

use memmap2::MmapMut;
use superpipe::{Address, Connection};
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;
use superpipe_bench::map::{SharedMapping, resident};
use superpipe_bench::spin::Timeout;
use superpipe_bench::stats::median;
use superpipe_bench::work::{WORD_BYTES, first_word, read};

use crate::connections::Connections;
use crate::ring::{Layout, Ring};
use crate::way::{Command, Way};

/// Parts of a slice. The first one warms up, and a pause of the machine spoils only one.
const PARTS: usize = 10;
/// Messages of the first slice of a way, by which the count of the others is chosen.
const FIRST_COUNT: usize = 40;
/// Most messages of a slice.
const COUNT_MAX: usize = 100_000;

/// The receiver's ends.
pub(crate) struct Receiver<'a> {
    connections: Connections,
    rings: Vec<Ring<'a>>,
    target: MmapMut,
    sizes: &'a [usize],
    /// The last message of each size and way.
    numbers: Vec<[u64; Way::ALL.len()]>,
}

impl<'a> Receiver<'a> {
    pub(crate) fn connect(
        address: &Address,
        sizes: &'a [usize],
        maps: &'a [SharedMapping],
        timeout: &'a Timeout,
    ) -> Result<Self, Failure> {
        let ring = |(map, &bytes)| Ring::new(map, Layout::new(bytes), timeout);
        Ok(Self {
            connections: Connections::connect(address, sizes)?,
            rings: maps.iter().zip(sizes).map(ring).collect(),
            target: resident(sizes.iter().copied().max().unwrap_or(0), false)?,
            sizes,
            numbers: vec![[0; Way::ALL.len()]; sizes.len()],
        })
    }

    /// Returns the messages of each way that take `slice_ms`.
    pub(crate) fn counts(&mut self, size: usize, slice_ms: u64) -> Result<[usize; Way::ALL.len()], Failure> {
        let mut counts = [0; Way::ALL.len()];
        for (count, way) in counts.iter_mut().zip(Way::ALL) {
            let us = self.slice(size, way, FIRST_COUNT)?;
            let fit = slice_ms as f64 * 1000.0 / us.max(0.001);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count that is clamped"
            )]
            let fit = fit as usize;
            *count = fit.clamp(PARTS, COUNT_MAX);
        }
        Ok(counts)
    }

    /// Receives so many messages. Returns the microseconds of one.
    pub(crate) fn slice(&mut self, size: usize, way: Way, count: usize) -> Result<f64, Failure> {
        let command = Command { size, way, count }.encode();
        self.connections.control.send(0, &[&command], DEADLINE).map_err(fail)?;
        let mut parts_us = Vec::with_capacity(PARTS);
        for part in 0..PARTS {
            let part_count = count * (part + 1) / PARTS - count * part / PARTS;
            let begin = Instant::now();
            for _ in 0..part_count {
                self.receive(size, way)?;
            }
            if part > 0 && part_count > 0 {
                parts_us.push(begin.elapsed().as_secs_f64() * 1e6 / part_count as f64);
            }
        }
        Ok(median(&parts_us))
    }

    /// Receives a message, and reads it.
    fn receive(&mut self, size: usize, way: Way) -> Result<(), Failure> {
        let number = &mut self.numbers[size][way as usize];
        *number += 1;
        let (first, bytes) = (first_word(*number), self.sizes[size]);
        let pair = &mut self.connections.pairs[size];
        let is_right = match way {
            Way::Ring => self.rings[size].receive(|message| read(first, message))?,
            Way::Slices => receive_slices(&mut pair.in_place, first)?,
            Way::Spans => receive_spans(&mut pair.in_place, first)?,
            Way::Copy => {
                let target = &mut self.target[..bytes];
                let received = pair.copied.recv_into(&mut [&mut *target], DEADLINE).map_err(fail)?;
                received.bytes == bytes && read(first, target)
            }
        };
        if is_right {
            return Ok(());
        }
        Err(Failure::Integrity(format!("message {number} of {bytes} bytes by {}", way.name())))
    }
}

fn receive_slices(connection: &mut Connection, first: u64) -> Result<bool, Failure> {
    let loan = connection.recv_loan(DEADLINE).map_err(fail)?;
    let (mut word, mut is_right) = (first, true);
    // SAFETY: 1. the peer is this program, which writes a message again only after it was given back. 2. Landing is not on demand.
    for slice in unsafe { connection.loan_slices(&loan) }.map_err(fail)? {
        is_right &= read(word, slice);
        word = word.wrapping_add((slice.len() / WORD_BYTES) as u64);
    }
    connection.give_back(loan).map_err(|(_, error)| fail(error))?;
    Ok(is_right)
}

fn receive_spans(connection: &mut Connection, first: u64) -> Result<bool, Failure> {
    let loan = connection.recv_loan(DEADLINE).map_err(fail)?;
    let (mut word, mut differences) = (first, 0);
    for span in connection.loan_spans(&loan).map_err(fail)? {
        for at in (0..span.len()).step_by(WORD_BYTES) {
            let Some(bytes) = span.read(at) else {
                return Err(Failure::Integrity("a span ends in a word".into()));
            };
            differences |= u64::from_le_bytes(bytes) ^ word;
            word = word.wrapping_add(1);
        }
    }
    connection.give_back(loan).map_err(|(_, error)| fail(error))?;
    Ok(differences == 0)
}
