//! Streams: transfers whose length shows when they end. `Read` and `Write`, and straight from and to files: data is
//! read into the blocks of the connection and written out of them, with no copy between.

use std::io;

use superpipe_core::{Length, Reason};

use super::deadline::Deadline;
use super::error::Error;
use super::hand_on::hand_on_of_any;
use super::over::{Half, RecvOver, SendOver, Whole};
use super::stream_error::StreamError;
use crate::io::{Digest, Sink, Source};
#[cfg(feature = "verbs")]
use crate::rdma::Rdma;
use crate::shm::fabric::Shm;

/// The sending end of a stream. Dropped before [`finish`](Self::finish), the stream is cancelled.
///
/// Each `write` is one chunk at least: wrap it in a [`BufWriter`](io::BufWriter) where writes are small.
#[derive(Debug)]
pub struct SendStream<'a>(pub(super) SendInner<'a>);

/// The receiving end of a stream. Dropped before its end, the rest is rejected.
#[derive(Debug)]
pub struct RecvStream<'a>(pub(super) RecvInner<'a>);

/// A variant a fabric and kind of owner.
#[derive(Debug)]
pub(super) enum SendInner<'a> {
    Shm(SendOver<'a, Whole<Shm>>),
    HalfShm(SendOver<'a, Half<Shm>>),
    #[cfg(feature = "verbs")]
    Verbs(SendOver<'a, Whole<Rdma>>),
    #[cfg(feature = "verbs")]
    HalfVerbs(SendOver<'a, Half<Rdma>>),
}

/// A variant a fabric and kind of owner.
#[derive(Debug)]
pub(super) enum RecvInner<'a> {
    Shm(RecvOver<'a, Whole<Shm>>),
    HalfShm(RecvOver<'a, Half<Shm>>),
    #[cfg(feature = "verbs")]
    Verbs(RecvOver<'a, Whole<Rdma>>),
    #[cfg(feature = "verbs")]
    HalfVerbs(RecvOver<'a, Half<Rdma>>),
}

impl SendStream<'_> {
    /// Bounds each later call that waits, for the peer or for a source: [`Deadline::After`] each call by itself,
    /// [`Deadline::At`] all of them. By default the peer's silence bounds them alone. A call that meets it is an error of kind
    /// `Timeout`, and the stream goes on with the next.
    pub fn set_deadline(&mut self, deadline: impl Into<Deadline>) {
        hand_on_of_any!(SendInner, &mut self.0, stream => stream.set_deadline(deadline.into()));
    }

    /// Reads once from a source, at most `max_bytes` bytes, straight into blocks, and sends them. How many there were; 0
    /// at the source's end. Waits for the source and for room.
    ///
    /// # Errors
    /// [`StreamError`]. After an error of the source the stream is still open. `Usage`: 0 bytes were asked for.
    pub fn read_from(
        &mut self,
        source: &mut Source,
        max_bytes: usize,
        digest: &mut Digest,
    ) -> Result<usize, StreamError> {
        hand_on_of_any!(SendInner, &mut self.0, stream => stream.read_from(source, max_bytes, digest))
    }

    /// Runs `work`, which may be blocked for long, while a helper thread shows the peer that this end lives: see
    /// [`Connection::blocking`](crate::Connection::blocking).
    pub fn blocking<R>(&mut self, work: impl FnOnce() -> R) -> R {
        hand_on_of_any!(SendInner, &mut self.0, stream => stream.blocking(work))
    }

    /// Flips one bit of the byte at this offset of the stream after it was counted into the digest: a test of whoever
    /// checks it. Works for [`read_from`](Self::read_from).
    #[doc(hidden)]
    pub const fn inject_flip(&mut self, offset: u64) {
        hand_on_of_any!(SendInner, &mut self.0, stream => stream.inject_flip(offset));
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// `Rejected`, `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn finish(self, deadline: impl Into<Deadline>) -> Result<(), Error> {
        hand_on_of_any!(SendInner, self.0, stream => stream.finish(deadline.into()))
    }

    /// Gives the stream up; the receiver is told why.
    pub fn cancel(self, reason: Reason) {
        hand_on_of_any!(SendInner, self.0, stream => stream.cancel(reason));
    }
}

impl io::Write for SendStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        hand_on_of_any!(SendInner, &mut self.0, stream => stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RecvStream<'_> {
    /// Bounds each later call that waits, for the peer or for a sink: [`Deadline::After`] each call by itself,
    /// [`Deadline::At`] all of them. By default the peer's silence bounds them alone. A call that meets it is an error of kind
    /// `Timeout`, and the stream goes on with the next.
    pub fn set_deadline(&mut self, deadline: impl Into<Deadline>) {
        hand_on_of_any!(RecvInner, &mut self.0, stream => stream.set_deadline(deadline.into()));
    }

    /// The sender's tag.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        hand_on_of_any!(RecvInner, &self.0, stream => stream.tag())
    }

    /// Its length, where the sender knew it.
    #[must_use]
    pub const fn length(&self) -> Length {
        hand_on_of_any!(RecvInner, &self.0, stream => stream.length())
    }

    /// Writes once to a sink, straight out of blocks, what has arrived. How many bytes; 0 at the stream's end. Waits for
    /// the peer and for the sink.
    ///
    /// # Errors
    /// [`StreamError`]. After an error of the sink nothing is lost.
    pub fn write_to(&mut self, sink: &mut Sink, digest: &mut Digest) -> Result<usize, StreamError> {
        hand_on_of_any!(RecvInner, &mut self.0, stream => stream.write_to(sink, digest))
    }

    /// Refuses the rest; the sender is told why.
    pub fn reject(self, reason: Reason) {
        hand_on_of_any!(RecvInner, self.0, stream => stream.reject(reason));
    }
}

impl io::Read for RecvStream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        hand_on_of_any!(RecvInner, &mut self.0, stream => stream.read(bytes))
    }
}
