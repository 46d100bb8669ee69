//! Messages in memory of the peer that this end has mapped, and split messages. wire.md 4.9, 4.10.
//!
//! Such a message is one chunk of one block, which names the memory and has no payload. The block is consumed with the last byte of the
//! message, so its acknowledgement says that the memory is not read any more. A split message is two such chunks: the first names its head in memory of the
//! peer, and the second, its last, stands for the tail in own memory that the peer has written.

use super::outcome::Place;
use super::{End, Head, Pulled, Readable, Receiver, Run};
use crate::copying::CopyKernel;
use crate::error::ProtocolError;
use crate::exposing::Sources;
use crate::fabric::Fabric;
use crate::job::Exposed;
use crate::recording;
use crate::slices::{CALL_BYTES, Scatter};
use crate::wire::header::Length;
use crate::wire::sequence::after;

/// Memory that holds a message, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NamedIn {
    /// Memory of the peer, by its place.
    Peer(u8),
    /// Memory of this end that was offered to the peer.
    Offered(Exposed),
}

/// The rest of a message, or of the head or tail of a split one, in memory.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Named {
    pub(super) memory: NamedIn,
    /// Offset of its next byte.
    pub(super) at: u32,
    pub(super) bytes: u32,
}

impl<F: Fabric> Receiver<F> {
    /// Returns the memories that are mapped.
    pub(crate) const fn sources(&self) -> &Sources<F::Region, F::Remote> {
        &self.sources
    }

    pub(crate) const fn sources_mut(&mut self) -> &mut Sources<F::Region, F::Remote> {
        &mut self.sources
    }

    /// Returns the place of the peer's memory that the message at the head is in.
    pub(crate) const fn named_place(&self) -> Option<u8> {
        match self.head {
            Head::Exposed(Named { memory: NamedIn::Peer(place), .. }) => Some(place),
            _ => None,
        }
    }

    /// Returns the memory that the message at the head is in.
    fn named_memory(&self, named: Named) -> Result<F::Region, ProtocolError> {
        match named.memory {
            NamedIn::Peer(place) => self.sources.memory(place).ok_or(ProtocolError::SourceWrong),
            NamedIn::Offered(_) => {
                self.offered.map(|offered| offered.memory).ok_or(ProtocolError::SplitWrong)
            }
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
        self.head = Head::Exposed(Named { memory: NamedIn::Peer(place), at, bytes: named });
        Ok(())
    }

    /// Copies out as much of the message at the head as fits, and at most as much as one call moves.
    pub(super) fn pull_exposed(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        named: Named,
        to: &mut Scatter<'_, '_>,
        kernel: CopyKernel,
    ) -> Result<Pulled, ProtocolError> {
        let memory = self.named_memory(named)?;
        let begin = recording::begin(fabric, link);
        let most = named.bytes.min(CALL_BYTES);
        let mut bytes = 0;
        while bytes < most {
            let place = to.take((most - bytes) as usize);
            if place.is_empty() {
                break;
            }
            fabric.copy_out(link, memory, named.at + bytes, place, kernel);
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
        let memory = self.named_memory(named)?;
        if named.bytes == 0 {
            return Ok(Readable::Ended(self.take_named(named, 0)));
        }
        let bytes = named.bytes.min(max_bytes);
        let place = match named.memory {
            NamedIn::Peer(_) => Place::Exposed { at: named.at },
            NamedIn::Offered(exposed) => Place::Offered { exposed, at: named.at },
        };
        Ok(if bytes > 0 { Readable::Run(Run { memory, bytes, place }) } else { Readable::Nothing })
    }

    /// Takes `bytes` bytes of the message at the head, which has as many.
    pub(super) fn take_named(&mut self, named: Named, bytes: u32) -> End {
        let rest = named.bytes.saturating_sub(bytes);
        match named.memory {
            NamedIn::Peer(_) => self.exposed_bytes += u64::from(bytes),
            NamedIn::Offered(_) => self.split_bytes += u64::from(bytes),
        }
        if rest > 0 {
            self.head = Head::Exposed(Named { at: named.at + bytes, bytes: rest, ..named });
            return End::No;
        }
        self.finish_exposed()
    }

    /// Consumes the chunk at the head, and ends its message unless the tail of that is to come.
    pub(super) fn finish_exposed(&mut self) -> End {
        self.head = Head::Nothing;
        self.sequence = after(self.sequence);
        self.chunks += 1;
        self.consume_block_of_lap(self.ends_lap);
        if self.awaits_tail() {
            planted!(TailBeforeFin => self.take_tail_early());
            return End::No;
        }
        self.open = None;
        self.end_split();
        End::Fin
    }
}

impl Named {
    /// Returns true if this is all that has come of a message of `seen` bytes, and nothing of it was taken.
    pub(super) fn is_whole(&self, seen: u64) -> bool {
        matches!(self.memory, NamedIn::Peer(_)) && seen == u64::from(self.bytes)
    }
}
