//! Memory of the applications that their peers map, for reading or for writing, as files that go over a socket.
//!
//! A peer that maps what was not handed over, twice, or uses what it does not map, panics. So does one that writes memory while its application has not
//! offered it.

use std::collections::VecDeque;

use superpipe_core::{Buffer, EXPOSED_MAX, JobFailed, JobOutcome, JobResult, PeerAccess};

use super::memory::{Memory, Place};

/// Memory of the applications at both ends, what was handed over, and what is mapped.
#[derive(Clone, Debug, Default, Hash)]
pub struct ExposedMemories {
    buffers: Vec<(usize, Vec<u8>)>,
    /// Place, buffer and access, by the end that receives them.
    handed: [VecDeque<(u8, usize, PeerAccess)>; 2],
    /// Buffers by place, by the end that maps them for reading.
    mapped: [[Option<usize>; EXPOSED_MAX]; 2],
    /// Buffers by place, by the end that maps them for writing.
    written: [[Option<usize>; EXPOSED_MAX]; 2],
    /// Buffers by place, by the end whose memory they are, which has exposed them for writing last.
    own: [[Option<usize>; EXPOSED_MAX]; 2],
    /// Buffer of each end that its peer may write now, and the first byte.
    offered: [Option<(usize, usize)>; 2],
    /// Nothing is checked: a line was forged.
    is_unchecked: bool,
}

fn index(buffer: Buffer) -> usize {
    usize::try_from(buffer.0).expect("a buffer of this fabric")
}

impl ExposedMemories {
    /// Makes memory of an application.
    pub fn add(&mut self, side: usize, bytes: Vec<u8>) -> Buffer {
        self.buffers.push((side, bytes));
        Buffer(self.buffers.len() as u64 - 1)
    }

    /// Writes into memory of an application, as the application does.
    pub fn write(&mut self, buffer: Buffer, at: usize, bytes: &[u8]) {
        self.buffers[index(buffer)].1[at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Returns the bytes of memory of an application.
    #[must_use]
    pub fn bytes(&self, buffer: Buffer) -> &[u8] {
        &self.buffers[index(buffer)].1
    }

    /// Notes that the application lets its peer write this memory, from `from` on.
    pub fn offer(&mut self, buffer: Buffer, from: usize) {
        self.offered[self.buffers[index(buffer)].0] = Some((index(buffer), from));
    }

    /// Notes that the application of this end uses all of its memory itself again.
    pub const fn end_offer(&mut self, side: usize) {
        self.offered[side] = None;
    }

    /// Stops checking who writes what.
    pub const fn stop(&mut self) {
        self.is_unchecked = true;
    }

    /// Hands memory of an end over to its peer, for a place.
    pub fn expose<R>(
        &mut self,
        side: usize,
        place: u8,
        buffer: Buffer,
        access: PeerAccess,
    ) -> JobResult<Memory, R> {
        let (owner, bytes) = &self.buffers[index(buffer)];
        assert_eq!(*owner, side, "an end exposes its own memory");
        assert!(usize::from(place) < EXPOSED_MAX, "place {place}");
        let bytes = u32::try_from(bytes.len()).map_err(|_| JobFailed::Refused)?;
        self.handed[1 - side].push_back((place, index(buffer), access));
        let is_writable = access == PeerAccess::Write;
        if is_writable {
            self.own[side][usize::from(place)] = Some(index(buffer));
        }
        Ok(JobOutcome::Exposed { bytes, memory: is_writable.then(|| Memory::writable(side, place)) })
    }

    /// Maps what was handed over first.
    pub fn map(
        &mut self,
        side: usize,
        place: u8,
        bytes: u32,
        access: PeerAccess,
    ) -> JobResult<Memory, Memory> {
        let handed = self.handed[side].pop_front().ok_or(JobFailed::WrongClaim)?;
        let (there, buffer, its) = handed;
        if there != place || its != access || self.buffers[buffer].1.len() != bytes as usize {
            return Err(JobFailed::WrongClaim);
        }
        let number = usize::from(place);
        let is_free = self.mapped[side][number].is_none() && self.written[side][number].is_none();
        assert!(is_free, "place {place} is mapped twice");
        Ok(match access {
            PeerAccess::Read => {
                self.mapped[side][number] = Some(buffer);
                JobOutcome::Mapped(Memory::exposed(side, place))
            }
            PeerAccess::Write => {
                self.written[side][number] = Some(buffer);
                JobOutcome::MappedWritable(Memory::writable(1 - side, place))
            }
        })
    }

    /// Drops what was handed over first, since the job that maps it fails.
    pub fn drop_handed(&mut self, side: usize) {
        self.handed[side].pop_front();
    }

    /// Unmaps memory.
    pub fn unmap<R>(&mut self, memory: Memory) -> JobResult<Memory, R> {
        let mapped = match memory.place {
            Place::Exposed => &mut self.mapped[memory.owner],
            Place::Writable => &mut self.written[1 - memory.owner],
            Place::ControlPage | Place::Landing => panic!("{memory:?} is unmapped"),
        };
        let mapped = mapped[usize::from(memory.index)].take();
        assert!(mapped.is_some(), "{memory:?} is unmapped, and is not mapped");
        Ok(JobOutcome::Released)
    }

    /// Returns the memory of an application that this is: mapped by the peer for reading, or exposed for writing.
    #[must_use]
    pub fn buffer(&self, memory: Memory) -> Buffer {
        let buffers = match memory.place {
            Place::Exposed => &self.mapped,
            Place::Writable => &self.own,
            Place::ControlPage | Place::Landing => panic!("{memory:?} is read"),
        };
        let buffer = buffers[memory.owner][usize::from(memory.index)];
        Buffer(buffer.unwrap_or_else(|| panic!("{memory:?} is read, and is not mapped")) as u64)
    }

    /// Returns bytes that are mapped, or that the peer may write.
    #[must_use]
    pub fn read(&self, memory: Memory, at: u32, bytes: u32) -> &[u8] {
        &self.bytes(self.buffer(memory))[at as usize..][..bytes as usize]
    }

    /// Returns the memory that the peer of its owner writes now, from `at` on. Panics if it is not mapped, or not offered.
    #[must_use]
    pub fn written(&self, memory: Memory, at: u32) -> Buffer {
        assert_eq!(memory.place, Place::Writable, "{memory:?} is written");
        let buffer = self.written[1 - memory.owner][usize::from(memory.index)];
        let buffer = buffer.unwrap_or_else(|| panic!("{memory:?} is written, and is not mapped"));
        let is_offered = self.offered[memory.owner]
            .is_some_and(|(offered, from)| offered == buffer && from <= at as usize);
        assert!(is_offered || self.is_unchecked, "{memory:?} is written at {at}, and not offered");
        Buffer(buffer as u64)
    }

    /// Returns the number of memories that an end maps.
    #[must_use]
    pub fn mapped(&self, side: usize) -> usize {
        self.mapped[side].iter().chain(&self.written[side]).flatten().count()
    }
}
