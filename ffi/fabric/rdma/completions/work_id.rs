//! Ids of work requests: the number that a connection gave, and whose it is.
//!
//! ```text
//! bit 63       a receive
//! 48 to 62     generation of the slot: of the connections that had it one after the other, which one
//! 32 to 47     slot in the shard
//! 0 to 31      lower half of the position in the send queue, or slot of the receive
//! ```
//!
//! A connection with a CQ of its own has slot and generation 0.

use crate::fabric::rdma::receive_pool::IS_RECEIVE;

/// Generations of a slot, which begin again behind the last one.
const GENERATIONS: u16 = 1 << 15;

/// Ids of one connection's work requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric::rdma) struct WorkIds(u64);

impl WorkIds {
    /// Those of a connection with a CQ of its own.
    pub(in crate::fabric::rdma) const ALONE: Self = Self::new(0, 0);

    /// Those of a connection at this slot.
    pub(super) const fn new(slot: u16, generation: u16) -> Self {
        Self((generation as u64 % GENERATIONS as u64) << 48 | (slot as u64) << 32)
    }

    /// Returns the id of the work request at this position of the send queue.
    #[inline]
    pub(in crate::fabric::rdma) const fn send(self, position: u64) -> u64 {
        self.0 | position & 0xffff_ffff
    }

    /// Returns the id of the receive in this slot.
    #[inline]
    pub(in crate::fabric::rdma) const fn receive(self, slot: u16) -> u64 {
        IS_RECEIVE | self.0 | slot as u64
    }
}

/// Returns the generation behind this one.
pub(super) const fn next_generation(generation: u16) -> u16 {
    (generation + 1) % GENERATIONS
}

/// Returns the slot and the generation of an id.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the fields are of 16 and 15 bits")]
pub(super) const fn owner(id: u64) -> (u16, u16) {
    ((id >> 32) as u16, (id >> 48) as u16 % GENERATIONS)
}

/// Returns true if an id is of a receive, and its number.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
pub(super) const fn parts(id: u64) -> (bool, u32) {
    (id & IS_RECEIVE != 0, id as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_its_owner_and_its_number() {
        for (slot, generation) in [(0, 0), (1, 0), (0, 1), (u16::MAX, GENERATIONS - 1), (80, 77)] {
            let ids = WorkIds::new(slot, generation);
            for position in [0, 1, 255, u64::from(u32::MAX), 1 << 32 | 5, u64::MAX] {
                let id = ids.send(position);
                assert_eq!(
                    (owner(id), parts(id)),
                    ((slot, generation), (false, (position & 0xffff_ffff) as u32))
                );
            }
            for receive in [0, 1, 143] {
                let id = ids.receive(receive);
                assert_eq!((owner(id), parts(id)), ((slot, generation), (true, receive.into())));
            }
        }
        assert_eq!((next_generation(0), next_generation(GENERATIONS - 1)), (1, 0));
        assert_eq!((WorkIds::ALONE.send(7), WorkIds::ALONE.receive(7)), (7, IS_RECEIVE | 7));
    }
}
