//! Memory that the program lets its peer write, over direct store: it exposes and withdraws rooms at any moment, offers one to the next
//! message, and writes all of it as soon as that is not offered. It receives messages into other memory, so that the tails of split ones
//! are copied, or reads them in place.

use superpipe_core::{Buffer, Exposed, ExposedState};
use superpipe_testkit::Rng;

use super::{LenderPair, ROOM_BYTES};

/// Most rooms of a program.
const ROOMS_MAX: usize = 3;
/// Turns on average until a room is exposed, until one is withdrawn, until one is offered if none is, and until a message is begun: most offers come in time.
const EXPOSES_ONE_IN: usize = 8;
const WITHDRAWS_ONE_IN: usize = 400;
const OFFERS_ONE_IN: usize = 3;
const BEGINS_ONE_IN: usize = 60;
/// Offsets of offers are less than this, so that most messages fit.
const OFFSETS: usize = 6_000;

/// Memory that the peer may write.
#[derive(Clone, Copy, Debug)]
struct Room {
    buffer: Buffer,
    /// Its newest handle, and one that was withdrawn.
    exposed: Option<Exposed>,
    withdrawn: Option<Exposed>,
}

/// Rooms of one end. They have a stream of choices of their own.
#[derive(Debug)]
pub(super) struct Rooms {
    rng: Rng,
    all: Vec<Room>,
    offered: Option<(Exposed, Buffer)>,
}

impl Rooms {
    pub(super) const fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed ^ 0x5b11), all: Vec::new(), offered: None }
    }

    /// Returns true for a turn in which no message is begun.
    pub(super) fn holds_back(&mut self) -> bool {
        !self.rng.one_in(BEGINS_ONE_IN)
    }
}

impl<const DIRECT: bool> LenderPair<DIRECT> {
    /// Exposes, withdraws or offers a room now and then.
    pub(super) fn change_rooms(&mut self, side: usize) {
        let Self { fabric, ends, .. } = self;
        let end = &mut ends[side];
        let Some(Rooms { rng, all, offered }) = &mut end.rooms else { return };
        if all.len() < ROOMS_MAX && rng.one_in(EXPOSES_ONE_IN) {
            let buffer = fabric.exposed.add(side, vec![0xa5; ROOM_BYTES + 500]);
            all.push(Room { buffer, exposed: None, withdrawn: None });
        }
        if all.is_empty() {
            return;
        }
        let room = rng.below(all.len());
        let room = &mut all[room];
        let endpoint = end.driver.endpoint_mut();
        let Some(exposed) = room.exposed else {
            // One that was withdrawn may still be written.
            if room.withdrawn.is_none_or(|withdrawn| !endpoint.is_offered(withdrawn)) {
                room.exposed = endpoint.expose_writable(fabric, room.buffer);
            }
            return;
        };
        if endpoint.exposed_state(exposed) == ExposedState::Refused || rng.one_in(WITHDRAWS_ONE_IN) {
            endpoint.withdraw_exposed(fabric, exposed);
            room.withdrawn = room.exposed.take();
        } else if offered.is_none() && rng.one_in(OFFERS_ONE_IN) {
            let offset = rng.below(OFFSETS);
            if endpoint.offer(fabric, exposed, u32::try_from(offset).unwrap_or(0)) {
                fabric.exposed.offer(room.buffer, offset);
                *offered = Some((exposed, room.buffer));
            }
        }
    }

    /// Writes all of a room that is not offered any more.
    pub(super) fn take_room_back(&mut self, side: usize) {
        let Self { fabric, ends, .. } = self;
        let end = &mut ends[side];
        let Some(Rooms { offered, .. }) = &mut end.rooms else { return };
        let endpoint = end.driver.endpoint();
        if let Some((_, buffer)) = offered.take_if(|(exposed, _)| !endpoint.is_offered(*exposed)) {
            fabric.exposed.end_offer(side);
            fabric.write_own(buffer, 0, &vec![0xee; ROOM_BYTES + 500]);
        }
    }
}
