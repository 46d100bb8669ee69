//! Memory of the applications that their peers map for reading, as sealed files that go over a socket.
//!
//! A peer that maps what was not handed over, twice, or reads what it does not map, panics.

use std::collections::VecDeque;

use superpipe_core::{Buffer, EXPOSED_MAX, JobFailed, JobOutcome, JobResult};

use super::memory::{Memory, Place};

/// Memory of the applications at both ends, what was handed over, and what is mapped.
#[derive(Clone, Debug, Default, Hash)]
pub struct ExposedMemories {
    buffers: Vec<(usize, Vec<u8>)>,
    /// Place and buffer, by the end that receives them.
    handed: [VecDeque<(u8, usize)>; 2],
    /// Buffers by place, by the end that maps them.
    mapped: [[Option<usize>; EXPOSED_MAX]; 2],
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

    /// Hands memory of an end over to its peer, for a place.
    pub fn expose<R>(&mut self, side: usize, place: u8, buffer: Buffer) -> JobResult<Memory, R> {
        let (owner, bytes) = &self.buffers[index(buffer)];
        assert_eq!(*owner, side, "an end exposes its own memory");
        assert!(usize::from(place) < EXPOSED_MAX, "place {place}");
        let bytes = u32::try_from(bytes.len()).map_err(|_| JobFailed::Refused)?;
        self.handed[1 - side].push_back((place, index(buffer)));
        Ok(JobOutcome::Exposed { bytes })
    }

    /// Maps what was handed over first.
    pub fn map<R>(&mut self, side: usize, place: u8, bytes: u32) -> JobResult<Memory, R> {
        let (there, buffer) = self.handed[side].pop_front().ok_or(JobFailed::WrongClaim)?;
        if there != place || self.buffers[buffer].1.len() != bytes as usize {
            return Err(JobFailed::WrongClaim);
        }
        let mapped = self.mapped[side][usize::from(place)].replace(buffer);
        assert_eq!(mapped, None, "place {place} is mapped twice");
        Ok(JobOutcome::Mapped(Memory::exposed(side, place)))
    }

    /// Drops what was handed over first, since the job that maps it fails.
    pub fn drop_handed(&mut self, side: usize) {
        self.handed[side].pop_front();
    }

    /// Unmaps memory.
    pub fn unmap<R>(&mut self, memory: Memory) -> JobResult<Memory, R> {
        let mapped = self.mapped[memory.owner][usize::from(memory.index)].take();
        assert!(mapped.is_some(), "{memory:?} is unmapped, and is not mapped");
        Ok(JobOutcome::Released)
    }

    /// Returns bytes that are mapped.
    #[must_use]
    pub fn read(&self, memory: Memory, at: u32, bytes: u32) -> &[u8] {
        assert_eq!(memory.place, Place::Exposed, "{memory:?}");
        let buffer = self.mapped[memory.owner][usize::from(memory.index)];
        let buffer = buffer.unwrap_or_else(|| panic!("{memory:?} is read, and is not mapped"));
        &self.buffers[buffer].1[at as usize..][..bytes as usize]
    }

    /// Returns the number of memories that an end maps.
    #[must_use]
    pub fn mapped(&self, side: usize) -> usize {
        self.mapped[side].iter().flatten().count()
    }
}
