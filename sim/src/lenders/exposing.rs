//! Messages out of memory that the program exposes to its peer, over direct store: it exposes and withdraws buffers at any moment, writes
//! the next message into a buffer as soon as that is not shared, and uses handles that are stale.

use superpipe_core::driver::SendOperation;
use superpipe_core::{Buffer, End, Exposed, ExposedState, Length, Readable, SendMemory};
use superpipe_testkit::{PairFabric, Rng};

use super::{LenderPair, Outgoing, ROOM_BYTES, payload};

/// Most buffers of a program: more than there are places.
const BUFFERS_MAX: usize = 10;
/// Turns in which a buffer is looked at, on average, until it is withdrawn: while it is shared, which few turns find, and otherwise.
const WITHDRAWS_ONE_IN: [usize; 2] = [4, 40];

/// A buffer of the program.
#[derive(Clone, Debug)]
struct Exposure {
    buffer: Buffer,
    /// Its handle, and those before: the newest of them, which is stale, and all others by which it is still shared.
    exposed: Option<Exposed>,
    stale: Vec<Exposed>,
}

/// Buffers of one end.
#[derive(Debug, Default)]
pub(super) struct Exposures(Vec<Exposure>);

/// A message that is read in place.
#[derive(Debug)]
pub(super) struct InPlace {
    number: usize,
    bytes: Vec<u8>,
}

impl<const DIRECT: bool> LenderPair<DIRECT> {
    /// Exposes or withdraws a buffer now and then.
    pub(super) fn change_exposures(&mut self, side: usize) {
        let Self { fabric, ends, .. } = self;
        let end = &mut ends[side];
        let all = &mut end.exposures.0;
        // Messages are split out of buffers only.
        let is_due = if end.rooms.is_some() {
            end.rng.one_in(2 + 8 * all.len())
        } else {
            end.rng.one_in(20 + 20 * all.len())
        };
        if all.len() < BUFFERS_MAX && is_due {
            let buffer = fabric.exposed.add(side, vec![0xa5; ROOM_BYTES]);
            all.push(Exposure { buffer, exposed: None, stale: Vec::new() });
        }
        if all.is_empty() {
            return;
        }
        let one = end.rng.below(all.len());
        let one = &mut all[one];
        let endpoint = end.driver.endpoint_mut();
        match one.exposed {
            None => one.exposed = endpoint.expose(fabric, one.buffer),
            Some(exposed) => {
                let is_refused = endpoint.exposed_state(exposed) == ExposedState::Refused;
                let is_free = usize::from(!endpoint.is_shared(exposed));
                // Messages are split out of memory that is mapped.
                let rarer = if end.rooms.is_some() { 10 } else { 1 };
                if is_refused || end.rng.one_in(rarer * WITHDRAWS_ONE_IN[is_free]) {
                    endpoint.withdraw_exposed(fabric, exposed);
                    one.stale.retain(|stale| endpoint.is_shared(*stale));
                    one.stale.extend(one.exposed.take());
                }
            }
        }
    }

    /// Puts a message into a buffer that is not shared, and begins to send it out of that. Returns `None` if there is none.
    pub(super) fn begin_exposed(&mut self, side: usize, number: usize, bytes: usize) -> Option<Outgoing> {
        let Self { fabric, ends, .. } = self;
        let end = &mut ends[side];
        let all = &end.exposures.0;
        let one = all.get(end.rng.below(all.len().max(1)))?;
        let mut exposed = one.exposed?;
        let endpoint = end.driver.endpoint();
        if one.stale.iter().chain([&exposed]).any(|it| endpoint.is_shared(*it)) {
            return None;
        }
        let offset = end.rng.below(ROOM_BYTES - bytes + 1);
        let payload = payload(bytes, number);
        fabric.exposed.write(one.buffer, offset, &payload);
        if let Some(stale) = one.stale.last()
            && end.rng.one_in(4)
        {
            exposed = *stale;
        }
        let memory = SendMemory::Exposed(exposed, u32::try_from(offset).unwrap_or(u32::MAX));
        let op = SendOperation::new(number as u64, bytes).with_memory(memory);
        Some(Outgoing { op, payload, buffer: None, cancel_in: None })
    }

    /// Begins to read the message at the head in place, or goes on with that. Returns true while one is being read.
    pub(super) fn read_in_place(&mut self, side: usize) -> bool {
        let Self { fabric, ends, is_unchecked, .. } = self;
        let end = &mut ends[side];
        let endpoint = end.driver.endpoint_mut();
        let mut reading = match end.reading.take() {
            Some(reading) => reading,
            None if end.place.is_none() && end.rng.one_in(8) => {
                let Some(incoming) = endpoint.incoming(fabric) else { return false };
                if incoming.length == Length::Stream {
                    return false;
                }
                InPlace { number: usize::try_from(incoming.tag).unwrap_or(usize::MAX), bytes: Vec::new() }
            }
            None => return false,
        };
        let max_bytes = 1 + u32::try_from(end.rng.below(9000)).unwrap_or(0);
        let ended = match endpoint.readable(fabric, max_bytes) {
            Readable::Nothing if endpoint.closed().is_some() => return false,
            Readable::Nothing => None,
            Readable::Ended(ended) => Some(ended),
            // It stays at the head for a while.
            Readable::Run(_) if end.rng.one_in(4) => None,
            Readable::Run(run) => {
                for (at, bytes) in run.spans() {
                    reading.bytes.extend_from_slice(fabric.visible(run.memory, at, bytes));
                }
                Some(endpoint.consume(fabric, run.bytes)).filter(|ended| *ended != End::No)
            }
        };
        match ended {
            None => end.reading = Some(reading),
            Some(End::Fin) if !*is_unchecked => {
                let InPlace { number, bytes } = reading;
                assert!(number >= end.received, "message {number} came out of order, or twice");
                end.received = number + 1;
                let wanted = payload(ends[1 - side].plan.messages[number], number);
                assert!(
                    bytes == wanted,
                    "message {number} to end {side}: {} bytes differ in place",
                    bytes.len()
                );
            }
            // A line was forged: it counts, whatever it is. Otherwise the ends would expose and withdraw memory for ever.
            Some(End::Fin) => end.received += 1,
            Some(_) => {}
        }
        true
    }
}

/// Returns true for the message whose number decides that it goes without a buffer.
pub(super) fn is_without_buffer(rng: &mut Rng) -> bool {
    rng.one_in(6)
}
