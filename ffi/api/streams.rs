//! Streams: transfers whose length shows when they end. `Read` and `Write`, and straight from and to files: data is
//! read into the blocks of the connection and written out of them, with no copy between.

use core::fmt;
use std::io;

use superpipe_core::{End, Incoming, Length, Readable, Reason, RefusedSend, TransferId};

use super::connection::Connection;
use super::deadline::Deadline;
use super::error::Error;
use crate::io::{Digest, ReadOutcome, Sink, Source, WriteOutcome};
use crate::port::Port;
use crate::shm::fabric::Shm;

/// Spans that go into one system call.
const SPANS_MAX: usize = 64;

/// What failed: the connection, or what is read or written here.
#[derive(Debug)]
pub enum StreamError {
    /// The connection, or the other end.
    Connection(Error),
    /// The source or sink on this side.
    Local(io::Error),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::Local(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StreamError {}

impl From<Error> for StreamError {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}

/// The sending end of a stream. Dropped before [`finish`](Self::finish), the stream is cancelled.
///
/// Each `write` is one chunk at least: wrap it in a [`BufWriter`](io::BufWriter) where writes are small.
#[derive(Debug)]
pub struct SendStream<'a, P: Port = Shm> {
    connection: &'a mut Connection<P>,
    id: TransferId,
    sent: u64,
    flip_at: Option<u64>,
    ended: bool,
}

impl<'a, P: Port> SendStream<'a, P> {
    pub(super) const fn new(connection: &'a mut Connection<P>, id: TransferId) -> Self {
        Self { connection, id, sent: 0, flip_at: None, ended: false }
    }

    /// Reads once from a source, at most `max_bytes` bytes, straight into blocks, and sends them. How many there were; 0
    /// at the source's end. Waits for the source and for room.
    ///
    /// # Errors
    /// [`StreamError`]. After an error of the source the stream is still open.
    pub fn read_from(
        &mut self,
        source: &mut Source,
        max_bytes: usize,
        digest: &mut Digest,
    ) -> Result<usize, StreamError> {
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        let id = self.id;
        loop {
            let reserved = self.connection.transport().wait(Deadline::NONE, |endpoint, port| {
                let reserved = endpoint.reserve(port, id, max_bytes);
                (!matches!(reserved, Err(RefusedSend::NoCredit))).then_some(reserved)
            })?;
            let reserved = reserved.map_err(|refused| self.ended_by(refused))?;
            let mut spans = Spans::new();
            let transport = self.connection.transport();
            for (at, bytes) in reserved.spans() {
                let place = transport.port.place_in(transport.endpoint.link(), reserved.memory, at, bytes);
                spans.push(place, bytes);
            }
            let blocks = source.may_block();
            // SAFETY: 1. the spans are blocks that are reserved for us until `commit`, valid while the link lives, which
            // the connection owns and nothing here drops. 2. No reference to shared memory is ever made (`Port`).
            let mut read = || unsafe { source.read_spans(spans.list()) };
            let outcome = if blocks { self.connection.blocking(read) } else { read() };
            match outcome.map_err(StreamError::Local)? {
                ReadOutcome::End => return Ok(0),
                ReadOutcome::WouldBlock => {
                    if let Some(fd) = source.interest() {
                        self.connection.transport().wait_for_fd(fd, |endpoint| endpoint.is_rejected(id))?;
                    }
                }
                ReadOutcome::Bytes(bytes) => {
                    spans.each(bytes, |place, bytes| {
                        // SAFETY: the span was valid for the read above, and still is.
                        unsafe { digest.update_shared(place, bytes) };
                    });
                    self.flip(&spans, bytes);
                    let transport = self.connection.transport();
                    let committed = transport.endpoint.commit(
                        &mut transport.port,
                        id,
                        u32::try_from(bytes).unwrap_or(u32::MAX),
                    );
                    committed.map_err(|refused| self.ended_by(refused))?;
                    self.sent += bytes as u64;
                    return Ok(bytes);
                }
            }
        }
    }

    /// Flips one bit of the byte at this offset of the stream after it was counted into the digest: a test of whoever
    /// checks it. Works for [`read_from`](Self::read_from).
    #[doc(hidden)]
    pub const fn inject_flip(&mut self, offset: u64) {
        self.flip_at = Some(offset);
    }

    fn flip(&self, spans: &Spans, bytes: usize) {
        let Some(offset) = self.flip_at.and_then(|at| at.checked_sub(self.sent)) else { return };
        let mut before = 0;
        spans.each(bytes, |place, bytes| {
            let end = before + bytes as u64;
            if (before..end).contains(&offset) {
                // SAFETY: the offset is inside this span, which is reserved for us, and nobody reads it before `commit`.
                unsafe { *place.add(usize::try_from(offset - before).unwrap_or(0)) ^= 1 };
            }
            before = end;
        });
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// `Rejected`, `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn finish(mut self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        let id = self.id;
        let finished = self.connection.transport().wait(deadline.into(), |endpoint, port| {
            let finished = endpoint.finish(port, id);
            (finished != Err(RefusedSend::NoCredit)).then_some(finished)
        })?;
        finished.map_err(|refused| self.ended_by(refused))?;
        self.ended = true;
        Ok(())
    }

    /// Gives the stream up; the receiver is told why.
    pub fn cancel(mut self, reason: Reason) {
        self.ended = true;
        self.connection.give_up(self.id, reason);
    }

    fn ended_by(&mut self, refused: RefusedSend) -> Error {
        self.ended |= matches!(refused, RefusedSend::Rejected(_));
        self.connection.refused(refused)
    }
}

impl<P: Port> io::Write for SendStream<'_, P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let id = self.id;
        let pushed = self.connection.transport().wait(Deadline::NONE, |endpoint, port| {
            let pushed = endpoint.push(port, id, &[bytes]);
            (pushed != Ok(0)).then_some(pushed)
        })?;
        let pushed = pushed.map_err(|refused| self.ended_by(refused))?;
        self.sent += pushed as u64;
        Ok(pushed)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<P: Port> Drop for SendStream<'_, P> {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.give_up(self.id, Reason::GIVEN_UP);
        }
    }
}

/// The receiving end of a stream. Dropped before its end, the rest is rejected.
#[derive(Debug)]
pub struct RecvStream<'a, P: Port = Shm> {
    connection: &'a mut Connection<P>,
    incoming: Incoming,
    end: Option<Result<(), Reason>>,
}

impl<'a, P: Port> RecvStream<'a, P> {
    pub(super) const fn new(connection: &'a mut Connection<P>, incoming: Incoming) -> Self {
        Self { connection, incoming, end: None }
    }

    /// The sender's tag.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        self.incoming.tag
    }

    /// Its length, where the sender knew it.
    #[must_use]
    pub const fn length(&self) -> Length {
        self.incoming.length
    }

    /// Writes once to a sink, straight out of blocks, what has arrived. How many bytes; 0 at the stream's end. Waits for
    /// the peer and for the sink.
    ///
    /// # Errors
    /// [`StreamError`]. After an error of the sink nothing is lost.
    pub fn write_to(&mut self, sink: &mut Sink, digest: &mut Digest) -> Result<usize, StreamError> {
        loop {
            if let Some(end) = self.end {
                return end.map(|()| 0).map_err(|reason| Error::cancelled(reason).into());
            }
            let readable =
                self.connection.transport().wait(Deadline::NONE, |endpoint, port| {
                    match endpoint.readable(port, u32::MAX) {
                        Readable::Nothing => None,
                        readable => Some(readable),
                    }
                })?;
            let run = match readable {
                Readable::Nothing => continue,
                Readable::Ended(end) => {
                    self.note(end);
                    continue;
                }
                Readable::Run(run) => run,
            };
            let mut spans = Spans::new();
            let transport = self.connection.transport();
            for (at, bytes) in run.spans() {
                let source = transport.port.source_of(transport.endpoint.link(), run.memory, at, bytes);
                spans.push(source.cast_mut(), bytes);
            }
            let blocks = sink.may_block();
            // SAFETY: 1. the spans are blocks that have arrived and are ours until `consume`, valid while the link lives,
            // which the connection owns and nothing here drops. 2. No reference to shared memory is ever made (`Port`).
            let mut write = || unsafe { sink.write_spans(spans.list()) };
            let outcome = if blocks { self.connection.blocking(write) } else { write() };
            match outcome.map_err(StreamError::Local)? {
                WriteOutcome::WouldBlock => {
                    if let Some(fd) = sink.interest() {
                        self.connection.transport().wait_for_fd(fd, |_| false)?;
                    }
                }
                WriteOutcome::Bytes(0) => {
                    return Err(StreamError::Local(io::ErrorKind::WriteZero.into()));
                }
                WriteOutcome::Bytes(bytes) => {
                    spans.each(bytes, |source, bytes| {
                        // SAFETY: the span was valid for the write above, and still is.
                        unsafe { digest.update_shared(source, bytes) };
                    });
                    let transport = self.connection.transport();
                    let end = transport
                        .endpoint
                        .consume(&mut transport.port, u32::try_from(bytes).unwrap_or(u32::MAX));
                    self.note(end);
                    return Ok(bytes);
                }
            }
        }
    }

    fn note(&mut self, end: End) {
        self.end = match end {
            End::No => return,
            End::Fin => Some(Ok(())),
            End::Cancelled(reason) => Some(Err(reason)),
        };
    }

    /// Refuses the rest; the sender is told why.
    pub fn reject(mut self, reason: Reason) {
        if self.end.is_none() {
            self.end = Some(Ok(()));
            self.connection.reject(reason);
        }
    }
}

impl<P: Port> io::Read for RecvStream<'_, P> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        while self.end.is_none() {
            let pulled = self.connection.transport().wait(Deadline::NONE, |endpoint, port| {
                let pulled = endpoint.pull(port, &mut [&mut *bytes]);
                (pulled.bytes > 0 || pulled.end != End::No).then_some(pulled)
            })?;
            self.note(pulled.end);
            if pulled.bytes > 0 {
                return Ok(pulled.bytes);
            }
        }
        match self.end {
            Some(Err(reason)) => Err(Error::cancelled(reason).into()),
            _ => Ok(0),
        }
    }
}

impl<P: Port> Drop for RecvStream<'_, P> {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.connection.reject(Reason::GIVEN_UP);
        }
    }
}

/// Spans for one system call; neighbours are joined.
struct Spans {
    list: heapless::Vec<libc::iovec, SPANS_MAX>,
}

impl Spans {
    const fn new() -> Self {
        Self { list: heapless::Vec::new() }
    }

    /// Adds a span; what doesn't fit any more is left for the next call.
    fn push(&mut self, place: *mut u8, bytes: u32) {
        let bytes = bytes as usize;
        if let Some(last) = self.list.last_mut()
            && last.iov_base.cast::<u8>().wrapping_add(last.iov_len) == place
        {
            last.iov_len += bytes;
            return;
        }
        let _ = self.list.push(libc::iovec { iov_base: place.cast(), iov_len: bytes });
    }

    fn list(&self) -> &[libc::iovec] {
        &self.list
    }

    /// Calls `f` with the parts of the first `bytes` bytes.
    fn each(&self, mut bytes: usize, mut f: impl FnMut(*mut u8, usize)) {
        for span in &self.list {
            let part = span.iov_len.min(bytes);
            if part == 0 {
                return;
            }
            f(span.iov_base.cast(), part);
            bytes -= part;
        }
    }
}
