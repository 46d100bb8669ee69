//! Memory of the applications that their peers map, over direct store. It goes over beside the messages, as a descriptor over a socket, and
//! belongs to the process that made it: nothing is lost with the peer.

use superpipe_core::{Buffer, CopyHint, JobFailed, JobResult};
use superpipe_testkit::Memory;

use super::{SimFabric, length};

/// One job in so many fails, to expose or to map.
const FAIL_ONE_IN: usize = 8;

impl<const DIRECT: bool> SimFabric<DIRECT> {
    pub(super) fn expose_memory(
        &mut self,
        side: usize,
        place: u8,
        buffer: Buffer,
    ) -> JobResult<Memory, Memory> {
        if self.world.rng.one_in(FAIL_ONE_IN) {
            return Err(JobFailed::Refused);
        }
        self.exposed.expose(side, place, buffer)
    }

    pub(super) fn map_memory(&mut self, side: usize, place: u8, bytes: u32) -> JobResult<Memory, Memory> {
        if self.world.rng.one_in(FAIL_ONE_IN) {
            self.exposed.drop_handed(side);
            let is_budget = self.world.rng.one_in(2);
            return Err(if is_budget { JobFailed::OverBudget { bytes_max: 0 } } else { JobFailed::Refused });
        }
        self.exposed.map(side, place, bytes)
    }

    pub(super) fn unmap_memory(&mut self, side: usize, memory: Memory) -> JobResult<Memory, Memory> {
        assert_eq!(memory.owner, side, "an end unmaps what it maps");
        self.exposed.unmap(memory)
    }

    /// Copies bytes out of memory that an end maps.
    pub(super) fn copy_exposed(&self, side: usize, from: Memory, at: u32, to: &mut [u8], hint: CopyHint) {
        assert_eq!(from.owner, side, "an end reads what it maps");
        let bytes = length(to);
        let there = self.exposed.read(from, at, bytes);
        self.spend(side, self.world.profile.copy_ns(u64::from(bytes), u64::from(bytes), hint));
        to.copy_from_slice(there);
    }
}
