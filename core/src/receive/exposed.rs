//! Messages in memory of the peer that this end has mapped. wire.md 4.9.
//!
//! Such a message is one chunk of one block, which names the memory and has no payload. The block is consumed with the last byte of the
//! message, so its acknowledgement says that the memory is not read any more.

use super::outcome::Place;
use super::{End, Head, Pulled, Readable, Receiver, Run};
use crate::error::ProtocolError;
use crate::exposing::Sources;
use crate::fabric::{CopyHint, Fabric};
use crate::recording;
use crate::slices::{CALL_BYTES, Scatter};
use crate::wire::header::Length;
use crate::wire::sequence::after;

/// The rest of a message in memory that is mapped.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Named {
    place: u8,
    /// Offset of its next byte.
    at: u32,
    bytes: u32,
}

impl<F: Fabric> Receiver<F> {
    /// Returns the memories that are mapped.
    pub(crate) const fn sources(&self) -> &Sources<F::Region> {
        &self.sources
    }

    pub(crate) const fn sources_mut(&mut self) -> &mut Sources<F::Region> {
        &mut self.sources
    }

    /// Returns the place of the memory that the message at the head is in.
    pub(crate) const fn named_place(&self) -> Option<u8> {
        match self.head {
            Head::Exposed(named) => Some(named.place),
            _ => None,
        }
    }

    /// Checks a chunk that names memory, and makes it the head.
    #[cold]
    pub(super) fn accept_exposed(
        &mut self,
        transfer: u64,
        tag: u64,
        bytes: u64,
        memory: [u64; 2],
    ) -> Result<(), ProtocolError> {
        self.check_next(transfer)?;
        let [place, offset] = memory;
        let (place, at, named) = self.sources.check(self.sequence, place, offset, bytes)?;
        self.begin(tag, Length::Exact(bytes), bytes, false);
        self.head = Head::Exposed(Named { place, at, bytes: named });
        Ok(())
    }

    /// Copies out as much of the message at the head as fits, and at most as much as one call moves.
    pub(super) fn pull_exposed(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        named: Named,
        to: &mut Scatter<'_, '_>,
        hint: CopyHint,
    ) -> Result<Pulled, ProtocolError> {
        let memory = self.sources.memory(named.place).ok_or(ProtocolError::SourceWrong)?;
        let begin = recording::begin(fabric, link);
        let most = named.bytes.min(CALL_BYTES);
        let mut bytes = 0;
        while bytes < most {
            let place = to.take((most - bytes) as usize);
            if place.is_empty() {
                break;
            }
            fabric.copy_out(link, memory, named.at + bytes, place, hint);
            bytes += u32::try_from(place.len()).unwrap_or(0);
        }
        if bytes > 0 {
            record!(fabric, link, since begin, CopyOut { sequence: self.sequence, block: self.consumed, bytes });
        }
        let end = self.take_named(named, bytes);
        Ok(Pulled { bytes: bytes as usize, end })
    }

    /// Returns the rest of the message at the head, to be read in place.
    pub(super) fn readable_exposed(
        &mut self,
        named: Named,
        max_bytes: u32,
    ) -> Result<Readable<F::Region>, ProtocolError> {
        let memory = self.sources.memory(named.place).ok_or(ProtocolError::SourceWrong)?;
        if named.bytes == 0 {
            return Ok(Readable::Ended(self.take_named(named, 0)));
        }
        let bytes = named.bytes.min(max_bytes);
        let place = Place::Exposed { at: named.at };
        Ok(if bytes > 0 { Readable::Run(Run { memory, bytes, place }) } else { Readable::Nothing })
    }

    /// Takes `bytes` bytes of the message at the head, which has as many.
    pub(super) fn take_named(&mut self, named: Named, bytes: u32) -> End {
        let rest = named.bytes.saturating_sub(bytes);
        self.exposed_bytes += u64::from(bytes);
        if rest > 0 {
            self.head = Head::Exposed(Named { at: named.at + bytes, bytes: rest, ..named });
            return End::No;
        }
        self.finish_exposed();
        End::Fin
    }

    /// Ends the message at the head.
    pub(super) fn finish_exposed(&mut self) {
        self.head = Head::Nothing;
        self.open = None;
        self.sequence = after(self.sequence);
        self.chunks += 1;
        self.consume_block();
    }
}

impl Named {
    /// Returns true if nothing was taken of a message of this length.
    pub(super) fn is_whole(&self, length: Length) -> bool {
        length == Length::Exact(u64::from(self.bytes))
    }
}
