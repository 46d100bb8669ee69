//! Memory of the applications that their peers map, over direct store. It goes over beside the messages, as a descriptor over a socket, and
//! belongs to the process that made it: nothing is lost with the peer.

use superpipe_core::{Buffer, CopyKernel, JobFailed, JobResult, PeerAccess};
use superpipe_testkit::{Memory, Place};

use super::{SimFabric, length};
use crate::nic::{Key, Rights};

/// One job in so many fails, to expose or to map.
const FAIL_ONE_IN: usize = 8;

impl<const DIRECT: bool> SimFabric<DIRECT> {
    pub(super) fn expose_memory(
        &mut self,
        side: usize,
        place: u8,
        buffer: Buffer,
        access: PeerAccess,
    ) -> JobResult<Memory, Memory> {
        if self.world.rng.one_in(FAIL_ONE_IN) {
            return Err(JobFailed::Refused);
        }
        let exposed = self.exposed.expose(side, place, buffer, access);
        let is_known = self.writable.iter().any(|(known, _)| *known == buffer);
        if access == PeerAccess::Write && exposed.is_ok() && !is_known {
            let memory = self.exposed.bytes(buffer).to_vec();
            let key =
                self.world.register_aside(self.hosts[side], length(&memory), Rights { remote_write: true });
            self.writable.push((buffer, key));
            self.write_own(buffer, 0, &memory);
        }
        exposed
    }

    pub(super) fn map_memory(
        &mut self,
        side: usize,
        place: u8,
        bytes: u32,
        access: PeerAccess,
    ) -> JobResult<Memory, Memory> {
        if self.world.rng.one_in(FAIL_ONE_IN) {
            self.exposed.drop_handed(side);
            let is_budget = self.world.rng.one_in(2);
            return Err(if is_budget { JobFailed::OverBudget { bytes_max: 0 } } else { JobFailed::Refused });
        }
        self.exposed.map(side, place, bytes, access)
    }

    pub(super) fn unmap_memory(&mut self, side: usize, memory: Memory) -> JobResult<Memory, Memory> {
        let mapper = if memory.place == Place::Writable { 1 - memory.owner } else { memory.owner };
        assert_eq!(mapper, side, "an end unmaps what it maps");
        self.exposed.unmap(memory)
    }

    /// Copies bytes out of memory that an end maps.
    pub(super) fn copy_exposed(&self, side: usize, from: Memory, at: u32, to: &mut [u8], kernel: CopyKernel) {
        assert_eq!(from.owner, side, "an end reads what it maps");
        let bytes = length(to);
        let there = self.exposed.read(from, at, bytes);
        self.spend(side, self.world.profile.copy_ns(u64::from(bytes), u64::from(bytes), kernel, 0));
        to.copy_from_slice(there);
    }

    /// Returns the key of memory that the peer of its end may write: its bytes as they are visible.
    pub(super) fn writable_key(&self, buffer: Buffer) -> Key {
        let found = self.writable.iter().find(|(known, _)| *known == buffer);
        found.unwrap_or_else(|| panic!("{buffer:?} was not exposed for writing")).1
    }

    /// Writes into such memory, as its application does.
    pub(crate) fn write_own(&mut self, buffer: Buffer, at: u32, bytes: &[u8]) {
        let key = self.writable_key(buffer);
        let there = self.world.bytes_mut(key, at, length(bytes));
        there.unwrap_or_else(|error| panic!("{error}")).copy_from_slice(bytes);
    }

    /// Stores bytes into memory of the peer's application, which the other end sees in order. A peer that is gone sees nothing.
    pub(super) fn write_exposed(&mut self, side: usize, to: Memory, at: u32, data: &[u8]) {
        assert_ne!(to.owner, side, "an end writes its peer's memory, not its own");
        let buffer = self.exposed.written(to, at);
        let key = self.writable.iter().find(|(known, _)| *known == buffer);
        if let Some((_, key)) = key {
            self.world.store(self.qps[side], *key, at, data.to_vec(), 0);
        }
    }

    /// Forgets the memory of an end.
    pub(super) fn release_writable(&mut self, side: usize) {
        let (host, world) = (self.hosts[side], &mut self.world);
        self.writable.retain(|(_, key)| {
            let is_its = key.node == host;
            if is_its {
                world.deregister_aside(*key);
            }
            !is_its
        });
    }
}
