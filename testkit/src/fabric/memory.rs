//! Memory with the accesses of a fabric. An access out of range panics, since core may not make one.

use superpipe_core::{CONTROL_PAGE_BYTES, LINE_BYTES, Layout, Line};

use super::Setup;

/// Kind of an end's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Page of acknowledgements and control lines.
    ControlPage,
    /// Ring of blocks.
    Landing,
    /// Memory of the peer's application, which the owner maps for reading.
    Exposed,
    /// Memory of the owner's application, which the peer maps for writing.
    Writable,
}

/// Index of a base that is not the first landing buffer.
pub const BASE: u8 = 3;

/// Name of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    /// End that polls it. The other end writes it.
    pub owner: usize,
    /// Kind of the memory.
    pub place: Place,
    /// Landing buffer: 0 for the first, 1 plus the place of a [`Job`](superpipe_core::Job) that provisioned it, or [`BASE`] for a base
    /// that is not the first. Otherwise the place of memory that was exposed, or 0.
    pub index: u8,
}

impl Memory {
    /// Returns the control page of this end.
    #[must_use]
    pub const fn control_page(owner: usize) -> Self {
        Self { owner, place: Place::ControlPage, index: 0 }
    }

    /// Returns the landing buffer of this end.
    #[must_use]
    pub const fn landing(owner: usize) -> Self {
        Self { owner, place: Place::Landing, index: 0 }
    }

    /// Returns a landing buffer of this end that a job provisions.
    #[must_use]
    pub const fn grown(owner: usize, place: u8) -> Self {
        Self { owner, place: Place::Landing, index: 1 + place }
    }

    /// Returns the base of this end, where it is not the first landing buffer.
    #[must_use]
    pub const fn base(owner: usize) -> Self {
        Self { owner, place: Place::Landing, index: BASE }
    }

    /// Returns the memory that this end maps at a place.
    #[must_use]
    pub const fn exposed(owner: usize, place: u8) -> Self {
        Self { owner, place: Place::Exposed, index: place }
    }

    /// Returns the memory of this end's application that the peer maps for writing at a place.
    #[must_use]
    pub const fn writable(owner: usize, place: u8) -> Self {
        Self { owner, place: Place::Writable, index: place }
    }

    const fn number(self) -> usize {
        assert!(!matches!(self.place, Place::Exposed | Place::Writable), "it is the application's");
        self.owner * PER_END + self.place as usize + self.index as usize
    }
}

/// Bytes of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The memory.
    pub memory: Memory,
    /// Offset of the first byte.
    pub at: u32,
    /// Number of bytes.
    pub bytes: u32,
}

impl Span {
    /// Returns true if they have a byte in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.memory == other.memory && self.at < other.at + other.bytes && other.at < self.at + self.bytes
    }
}

/// Memories of an end: the control page, the first landing buffer, two that jobs provision, and a base.
const PER_END: usize = 5;

/// The memories of a connection, or their images.
#[derive(Clone, Debug)]
pub struct Memories {
    bytes: [Vec<u8>; 2 * PER_END],
    /// Jobs can release the first landing buffers.
    first_is_own: bool,
}

impl Memories {
    pub(crate) fn new(setup: &Setup) -> Self {
        let base = setup.growth.and_then(|growth| growth.base);
        let bytes = core::array::from_fn(|number| {
            let bytes = match number % PER_END {
                0 => CONTROL_PAGE_BYTES,
                1 => setup.layouts[number / PER_END].bytes(),
                4 => base.map_or(0, Layout::bytes),
                _ => 0,
            };
            vec![0; bytes as usize]
        });
        Self { bytes, first_is_own: base.is_some() }
    }

    /// Makes a memory of this many bytes, all zero; of none, to release it.
    pub(crate) fn provision(&mut self, memory: Memory, bytes: u32) {
        self.bytes[memory.number()] = vec![0; bytes as usize];
    }

    /// Returns the bytes of the landing buffers that jobs can release.
    pub(crate) fn grown_bytes(&self) -> u64 {
        let is_grown = |number: &usize| match number % PER_END {
            1 => self.first_is_own,
            2 | 3 => true,
            _ => false,
        };
        (0..2 * PER_END).filter(is_grown).map(|number| self.bytes[number].len() as u64).sum()
    }

    /// Returns the bytes from `at` on.
    #[must_use]
    pub fn bytes(&self, memory: Memory, at: u32, bytes: u32) -> &[u8] {
        &self.bytes[memory.number()][at as usize..][..bytes as usize]
    }

    pub(crate) fn bytes_mut(&mut self, memory: Memory, at: u32, bytes: u32) -> &mut [u8] {
        &mut self.bytes[memory.number()][at as usize..][..bytes as usize]
    }

    pub(crate) fn flag(&self, memory: Memory, at: u32) -> u64 {
        assert!(at.is_multiple_of(8), "a flag at {at}");
        let (words, _) = self.bytes(memory, at, 8).as_chunks::<8>();
        u64::from_le_bytes(words[0])
    }

    pub(crate) fn put_flag(&mut self, memory: Memory, at: u32, flag: u64) {
        assert!(at.is_multiple_of(8), "a flag at {at}");
        self.bytes_mut(memory, at, 8).copy_from_slice(&flag.to_le_bytes());
    }

    /// Returns the line at `at`.
    #[must_use]
    pub fn line(&self, memory: Memory, at: u32) -> Line {
        assert!(at.is_multiple_of(LINE_BYTES), "a line at {at}");
        let (words, _) = self.bytes(memory, at, LINE_BYTES).as_chunks::<8>();
        Line(core::array::from_fn(|word| u64::from_le_bytes(words[word])))
    }

    pub(crate) fn put_line(&mut self, memory: Memory, at: u32, line: &Line) {
        assert!(at.is_multiple_of(LINE_BYTES), "a line at {at}");
        let (words, _) = self.bytes_mut(memory, at, LINE_BYTES).as_chunks_mut::<8>();
        for (place, word) in words.iter_mut().zip(line.0) {
            *place = word.to_le_bytes();
        }
    }
}
