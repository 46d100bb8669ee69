//! The memories of the peer that this end has mapped, by their places. wire.md 4.9, 4.10.

use core::hash::{Hash, Hasher};

use super::EXPOSED_MAX;
use crate::error::ProtocolError;
use crate::wire::sequence::is_before;

/// A memory of the peer that is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mapped<R, A> {
    /// For reading.
    Source(R),
    /// For writing.
    Destination(A),
}

/// A memory at its place.
#[derive(Clone, Copy, Debug)]
struct Placed<R, A> {
    memory: Mapped<R, A>,
    bytes: u32,
    /// Sequence of the last chunk that names it, or 0 if none does. `None`: it was not withdrawn.
    last: Option<u64>,
}

impl<R, A> Placed<R, A> {
    /// Returns true if no chunk of this sequence, or a later one, may name it.
    fn is_over(&self, sequence: u64) -> bool {
        self.last.is_some_and(|last| last == 0 || is_before(last, sequence))
    }
}

/// The memories that are mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<R, A> {
    places: [Option<Placed<R, A>>; EXPOSED_MAX],
}

impl<R: Copy, A: Copy> Sources<R, A> {
    pub(crate) const fn new() -> Self {
        Self { places: [const { None }; EXPOSED_MAX] }
    }

    fn get(&self, place: u64) -> Option<&Placed<R, A>> {
        self.places.get(usize::try_from(place).ok()?)?.as_ref()
    }

    /// Returns the memory at a place, if it is for reading.
    pub(crate) fn memory(&self, place: u8) -> Option<R> {
        match self.get(u64::from(place))?.memory {
            Mapped::Source(memory) => Some(memory),
            Mapped::Destination(_) => None,
        }
    }

    /// Returns the memory at a place and its bytes, if it is for writing and was not withdrawn.
    pub(crate) fn destination(&self, place: u8) -> Option<(A, u32)> {
        let placed = self.get(u64::from(place)).filter(|placed| placed.last.is_none())?;
        match placed.memory {
            Mapped::Source(_) => None,
            Mapped::Destination(memory) => Some((memory, placed.bytes)),
        }
    }

    /// Returns true if any memory is mapped for writing.
    pub(crate) fn has_destinations(&self) -> bool {
        self.places.iter().flatten().any(|placed| matches!(placed.memory, Mapped::Destination(_)))
    }

    /// Returns true if nothing is mapped at this place, which there is.
    pub(super) fn is_free(&self, place: u8) -> bool {
        self.places.get(usize::from(place)).is_some_and(Option::is_none)
    }

    pub(super) fn insert(&mut self, place: u8, memory: Mapped<R, A>, bytes: u32) {
        if let Some(free) = self.places.get_mut(usize::from(place)) {
            *free = Some(Placed { memory, bytes, last: None });
        }
    }

    /// Checks what a chunk of this sequence names. Returns place, offset and bytes.
    ///
    /// # Errors
    /// `SourceWrong`: the place is not mapped for reading, or was withdrawn; or the bytes are not in the memory.
    pub(crate) fn check(
        &self,
        sequence: u64,
        place: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<(u8, u32, u32), ProtocolError> {
        let wrong = ProtocolError::SourceWrong;
        let source = self.get(place).filter(|source| !source.is_over(sequence)).ok_or(wrong)?;
        let is_source = matches!(source.memory, Mapped::Source(_));
        if !is_source || offset.checked_add(bytes).is_none_or(|end| end > u64::from(source.bytes)) {
            return Err(wrong);
        }
        let number = u8::try_from(place).map_err(|_| wrong)?;
        Ok((number, u32::try_from(offset).map_err(|_| wrong)?, u32::try_from(bytes).map_err(|_| wrong)?))
    }

    /// Handles WITHDRAWN. `read` is the sequence of the chunk that names the place and is being taken out: a program may be reading the
    /// memory in place.
    ///
    /// # Errors
    /// `WithdrawnUnknown`; `ReservedNotZero`: `last` of memory that no chunk names; `SourceWrong`: that chunk is after `last`. The memory stays
    /// mapped.
    pub(super) fn withdraw(&mut self, place: u8, last: u64, read: Option<u64>) -> Result<(), ProtocolError> {
        let source = self.places.get_mut(usize::from(place)).and_then(Option::as_mut);
        let source = source.filter(|source| source.last.is_none()).ok_or(ProtocolError::WithdrawnUnknown)?;
        let withdrawn = Placed { last: Some(last), ..*source };
        if last != 0 && matches!(source.memory, Mapped::Destination(_)) {
            return Err(ProtocolError::ReservedNotZero);
        }
        if read.is_some_and(|sequence| withdrawn.is_over(sequence)) {
            return Err(ProtocolError::SourceWrong);
        }
        *source = withdrawn;
        Ok(())
    }

    /// Takes a memory out that was withdrawn, and of which all is consumed. `next` is the sequence of the chunk that is awaited or being
    /// taken out.
    pub(super) fn take_over(&mut self, next: u64) -> Option<Mapped<R, A>> {
        let is_over = |source: &mut Placed<R, A>| {
            planted!(UnmappedEarly => return source.last.is_some());
            source.is_over(next)
        };
        self.places.iter_mut().find_map(|place| place.take_if(is_over)).map(|source| source.memory)
    }

    /// Returns true while a memory was withdrawn, and its last chunks are not consumed.
    pub(crate) fn awaits_chunks(&self) -> bool {
        self.places.iter().flatten().any(|source| source.last.is_some())
    }

    /// Returns the bytes that are mapped.
    pub(crate) fn bytes(&self) -> u64 {
        self.places.iter().flatten().map(|source| u64::from(source.bytes)).sum()
    }
}

impl<R, A> Hash for Sources<R, A> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        for place in &self.places {
            place
                .as_ref()
                .map(|Placed { memory, bytes, last }| (matches!(memory, Mapped::Source(_)), bytes, last))
                .hash(hasher);
        }
    }
}
