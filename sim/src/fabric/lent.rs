//! Memory of the applications, registered beside the CPU of the end, and remote writes between it.
//!
//! While memory is registered, its MR holds its bytes. A write to memory that is not registered any more fails the QP of both ends, as on a
//! real HCA. Memory must not be deregistered while a NIC may read it, or a write to it is on its way, unless the QP has failed.

use superpipe_core::{
    Buffer, DestinationClaim, JobFailed, JobOutcome, JobResult, Registration, RemoteClaim, SqFull,
};
use superpipe_testkit::Memory;

use super::SimFabric;
use crate::faults::GrowthCase;
use crate::nic::{Key, MemoryUse, Op, PostRefused, Rights, TraceEvent, Wr};

/// Memory of one application, and its registrations. Numbers are never used again.
#[derive(Debug, Default)]
pub(super) struct LentMemory {
    buffers: Vec<Option<Vec<u8>>>,
    registered: Vec<Option<Registered>>,
    /// The link was ended by this end.
    has_ended: bool,
}

#[derive(Clone, Copy, Debug)]
struct Registered {
    buffer: usize,
    key: Key,
}

impl LentMemory {
    /// Returns the MR of a registration.
    pub(super) fn key(&self, registration: Registration) -> Option<Key> {
        self.registered.get(index(registration.0)).copied().flatten().map(|registered| registered.key)
    }

    /// Forgets everything, and returns the keys of all registrations.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Key> + use<> {
        core::mem::take(&mut self.registered).into_iter().flatten().map(|registered| registered.key)
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl<const DIRECT: bool> SimFabric<DIRECT> {
    /// Lends memory of an application.
    pub(crate) fn lend(&mut self, side: usize, bytes: Vec<u8>) -> Buffer {
        let buffers = &mut self.lent[side].buffers;
        buffers.push(Some(bytes));
        Buffer(buffers.len() as u64 - 1)
    }

    /// Gives memory back. Panics if it is registered.
    pub(crate) fn take_back(&mut self, side: usize, buffer: Buffer) -> Vec<u8> {
        let LentMemory { buffers, registered, .. } = &mut self.lent[side];
        let is_registered = registered.iter().flatten().any(|it| it.buffer == index(buffer.0));
        assert!(!is_registered, "{buffer:?} of end {side} is given back, and is registered");
        buffers[index(buffer.0)].take().unwrap_or_else(|| panic!("{buffer:?} is not lent"))
    }

    fn is_lent_end_over(&self, side: usize) -> bool {
        self.is_forged || self.lent.iter().any(|lent| lent.has_ended) || self.world.has_failed(self.qps[side])
    }

    /// Returns the bytes of memory that was registered with this claim.
    pub(crate) fn registered_bytes(&self, side: usize, claim: RemoteClaim) -> &[u8] {
        self.world.whole(Key { node: self.hosts[side], index: claim.key as usize })
    }

    /// Sets all bytes of memory that was registered with this claim to 0.
    pub(crate) fn clear_registered(&mut self, side: usize, claim: RemoteClaim) {
        let key = Key { node: self.hosts[side], index: claim.key as usize };
        let bytes = u32::try_from(self.world.whole(key).len()).unwrap_or(u32::MAX);
        self.world.bytes_mut(key, 0, bytes).unwrap_or_else(|error| panic!("{error}")).fill(0);
    }

    pub(crate) fn register_lent(
        &mut self,
        side: usize,
        buffer: Buffer,
        bytes: u64,
        remote_write: bool,
    ) -> JobResult<Memory, Memory> {
        if self.world.fails_job(self.flags.refuses_one_in) {
            let case = if remote_write { GrowthCase::DestinationRefused } else { GrowthCase::SourceRefused };
            self.world.growth_coverage.count_case(case);
            return Err(JobFailed::Refused);
        }
        let Some(memory) = &self.lent[side].buffers[index(buffer.0)] else {
            panic!("{buffer:?} of end {side} is registered, and not lent")
        };
        let Ok(all) = u32::try_from(bytes) else { return Err(JobFailed::Refused) };
        let host = self.hosts[side];
        let key = self.world.register_aside(host, all, Rights { remote_write });
        let there = self.world.bytes_mut(key, 0, all).unwrap_or_else(|error| panic!("{error}"));
        there.copy_from_slice(&memory[..all as usize]);
        let memory_use = if remote_write { MemoryUse::Destination } else { MemoryUse::Source };
        self.world.note_here(host, TraceEvent::Register { key, bytes: all, memory_use });
        let registered = &mut self.lent[side].registered;
        registered.push(Some(Registered { buffer: index(buffer.0), key }));
        let registration = Registration(registered.len() as u64 - 1);
        let claim = RemoteClaim { address: 0, key: u32::try_from(key.index).unwrap_or(u32::MAX) };
        Ok(JobOutcome::Registered(registration, claim))
    }

    pub(super) fn deregister_lent(&mut self, side: usize, registration: Registration) {
        let Some(Registered { buffer, key }) = self.lent[side].registered[index(registration.0)].take()
        else {
            panic!("{registration:?} of end {side} is deregistered twice")
        };
        assert!(
            self.is_lent_end_over(side) || !self.world.is_in_use(key),
            "{key} is deregistered, and a write of it is on its way"
        );
        self.keep_bytes(side, buffer, key);
        self.world.deregister_aside(key);
        self.world.note_here(self.hosts[side], TraceEvent::Deregister { key });
    }

    /// Copies the bytes of an MR into the buffer.
    fn keep_bytes(&mut self, side: usize, buffer: usize, key: Key) {
        let Some(there) = &mut self.lent[side].buffers[buffer] else { return };
        let bytes = self.world.whole(key);
        there[..bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn end_link(&mut self, side: usize) {
        self.lent[side].has_ended = true;
        self.world.broken = true;
        self.world.fail_qp(self.qps[side]);
    }

    pub(super) fn post_remote(
        &mut self,
        side: usize,
        from: Registration,
        to: DestinationClaim,
        at: u64,
        bytes: u32,
    ) -> Result<(), SqFull> {
        let Some(Registered { key, .. }) = self.lent[side].registered[index(from.0)] else {
            panic!("{from:?} of end {side} is written from, and not registered")
        };
        // An address beyond what an MR can have is as wrong as any other.
        let there = to.memory.address.checked_add(at).and_then(|there| u32::try_from(there).ok());
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        let peer = Key { node: self.hosts[1 - side], index: to.memory.key as usize };
        let op = Op::Write { to: peer, at: there.unwrap_or(u32::MAX) };
        let inline = bytes <= self.world.profile.inline_bytes;
        let request = Wr { id: None, op, from: key, at, bytes, inline, delay_ns: 0 };
        match self.world.post(self.qps[side], request) {
            Ok(_) => Ok(()),
            Err(PostRefused::SqFull) => Err(SqFull),
            Err(error @ PostRefused::InlineTooLong { .. }) => panic!("{error}"),
        }
    }
}
