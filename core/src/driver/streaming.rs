//! Streams that are sent and received by calls that never wait.
//!
//! A stream belongs to the connection that opened or took it, and its value has no clones: nobody else writes, reads or ends it.

use super::{Drive, Driver};
use crate::endpoint::Incoming;
use crate::error::{Reason, RefusedSend};
use crate::fabric::Fabric;
use crate::receive::{End, Readable};
use crate::send::TransferId;
use crate::wire::header::Length;

/// A stream of this end. Until it is finished or cancelled, this end can send nothing else.
#[derive(Debug)]
#[must_use]
pub struct OutgoingStream {
    owner: u64,
    id: TransferId,
    /// The receiver has rejected it, which is final.
    rejected: Option<Reason>,
}

/// A stream or message of the peer, which this end takes as a stream. Until it has ended or is rejected, this end can receive nothing else; but a [try](Driver::try_recv) takes a complete message of which nothing was read.
#[derive(Debug)]
#[must_use]
pub struct IncomingStream {
    owner: u64,
    incoming: Incoming,
    end: Option<Result<(), Reason>>,
}

/// Result of a call that never waits, for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRead {
    /// Nothing has arrived that was not read.
    Nothing,
    /// This many bytes were read.
    Bytes(usize),
    /// The stream is complete, and everything was read.
    End,
    /// The sender cancelled the stream, and everything that it had sent was read.
    Cancelled(Reason),
}

impl IncomingStream {
    /// Returns the sender's tag.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        self.incoming.tag
    }

    /// Returns the length, if the sender knew it.
    #[must_use]
    pub const fn length(&self) -> Length {
        self.incoming.length
    }

    fn note(&mut self, end: End) {
        self.end = match end {
            End::No => return,
            End::Fin => Some(Ok(())),
            End::Cancelled(reason) => Some(Err(reason)),
        };
    }
}

impl<F: Fabric> Driver<F> {
    /// Opens a stream.
    ///
    /// # Errors
    /// `Busy`: another transfer is open. `Closed`.
    pub fn open_stream(&mut self, tag: u64) -> Result<OutgoingStream, RefusedSend> {
        let id = self.endpoint.start(tag, Length::Stream)?;
        Ok(OutgoingStream { owner: self.id, id, rejected: None })
    }

    /// Sends the next bytes of a stream. Returns their number, which may be smaller than asked for: 0 if there is no credit now.
    ///
    /// # Errors
    /// `Rejected`, each time from then on; `NotOpen`: it has ended, or is of another connection; `Closed`.
    pub fn write_stream(
        &mut self,
        fabric: &mut F,
        stream: &mut OutgoingStream,
        slices: &[&[u8]],
    ) -> Result<usize, RefusedSend> {
        self.check_outgoing(stream)?;
        // A push of no bytes is for messages.
        if slices.iter().all(|slice| slice.is_empty()) {
            return Ok(0);
        }
        note_rejection(self.endpoint.push(fabric, stream.id, slices), stream)
    }

    /// Ends a stream. Returns false if there is no credit now: call it again.
    ///
    /// # Errors
    /// As [`write_stream`](Self::write_stream).
    pub fn finish_stream(
        &mut self,
        fabric: &mut F,
        stream: &mut OutgoingStream,
    ) -> Result<bool, RefusedSend> {
        self.check_outgoing(stream)?;
        match note_rejection(self.endpoint.finish(fabric, stream.id), stream) {
            Ok(()) => Ok(true),
            Err(RefusedSend::NoCredit) => Ok(false),
            Err(refused) => Err(refused),
        }
    }

    /// Gives a stream up, with a reason that the receiver sees. One that has ended, or is of another connection, is unchanged.
    pub fn abandon_stream(&mut self, fabric: &mut F, stream: &OutgoingStream, reason: Reason) {
        if stream.owner == self.id {
            self.cancel_stream(fabric, stream.id, reason);
        }
    }

    const fn check_outgoing(&self, stream: &OutgoingStream) -> Result<(), RefusedSend> {
        match stream.rejected {
            _ if stream.owner != self.id => Err(RefusedSend::NotOpen),
            Some(reason) => Err(RefusedSend::Rejected(reason)),
            None => Ok(()),
        }
    }

    /// Takes the next transfer as a stream, if its begin has arrived.
    ///
    /// [`Drive::Done`] with `None`: an operation or another stream has begun to take it.
    pub fn take_stream(&mut self, fabric: &mut F) -> Drive<Option<IncomingStream>> {
        let Some(incoming) = self.try_peek(fabric) else { return Drive::Idle };
        let owner = self.id;
        Drive::Done(self.claim(&incoming).then_some(IncomingStream { owner, incoming, end: None }))
    }

    /// Reads what has arrived of a stream, as much as fits. `None`: the stream was rejected, or is of another connection.
    pub fn read_stream(
        &mut self,
        fabric: &mut F,
        stream: &mut IncomingStream,
        slices: &mut [&mut [u8]],
    ) -> Option<StreamRead> {
        if stream.owner != self.id {
            return None;
        }
        if let Some(end) = stream.end {
            return Some(end.map_or_else(StreamRead::Cancelled, |()| StreamRead::End));
        }
        if !self.is_taking(stream) {
            return None;
        }
        let pulled = self.endpoint.pull(fabric, slices);
        stream.note(pulled.end);
        match (pulled.bytes, stream.end) {
            (0, None) => Some(StreamRead::Nothing),
            (0, Some(Ok(()))) => Some(StreamRead::End),
            (0, Some(Err(reason))) => Some(StreamRead::Cancelled(reason)),
            (bytes, _) => Some(StreamRead::Bytes(bytes)),
        }
    }

    /// Shows what has arrived of a stream in place, at most `bytes_max` bytes, to be [consumed](Self::consume_stream). `None`: as [`read_stream`](Self::read_stream).
    pub fn stream_in_place(
        &mut self,
        fabric: &mut F,
        stream: &mut IncomingStream,
        bytes_max: u32,
    ) -> Option<Readable<F::Region>> {
        if stream.owner != self.id {
            return None;
        }
        if let Some(end) = stream.end {
            return Some(Readable::Ended(end.map_or_else(End::Cancelled, |()| End::Fin)));
        }
        if !self.is_taking(stream) {
            return None;
        }
        let readable = self.endpoint.readable(fabric, bytes_max);
        if let Readable::Ended(end) = readable {
            stream.note(end);
        }
        Some(readable)
    }

    /// Consumes the first `bytes` bytes that [`stream_in_place`](Self::stream_in_place) showed last.
    pub fn consume_stream(&mut self, fabric: &mut F, stream: &mut IncomingStream, bytes: u32) -> End {
        if stream.owner != self.id || stream.end.is_some() || !self.is_taking(stream) {
            return End::No;
        }
        let end = self.endpoint.consume(fabric, bytes);
        stream.note(end);
        end
    }

    /// Rejects the rest of a stream, with a reason that the sender sees. One that has ended, or is of another connection, is unchanged.
    pub fn reject_stream(&mut self, fabric: &mut F, stream: &mut IncomingStream, reason: Reason) {
        if stream.owner == self.id && stream.end.is_none() && self.is_taking(stream) {
            self.endpoint.reject(fabric, reason);
        }
    }

    /// Returns true if the transfer at the head is this stream.
    fn is_taking(&self, stream: &IncomingStream) -> bool {
        self.endpoint.head().is_some_and(|(number, _)| number == stream.incoming.transfer)
    }
}

fn note_rejection<T>(result: Result<T, RefusedSend>, stream: &mut OutgoingStream) -> Result<T, RefusedSend> {
    if let Err(RefusedSend::Rejected(reason)) = result {
        stream.rejected = Some(reason);
    }
    result
}
