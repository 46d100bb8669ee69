//! Streams by calls that never wait.

use superpipe_core::Reason;
use superpipe_core::driver::{Drive, IncomingStream, OutgoingStream, StreamRead};

use super::Connection;
use crate::blocking::dispatch::{AnyConnection, dispatch};
use crate::error::{Error, StreamError};
use crate::io::{Digest, Sink};

impl Connection {
    /// Opens a stream without waiting, to be written by [`write_stream`](Self::write_stream) and ended by [`finish_stream`](Self::finish_stream) or [`abandon_stream`](Self::abandon_stream): until then this
    /// end can send nothing else, also if the value is dropped. `None`: another transfer is open.
    ///
    /// # Errors
    /// `Closed`, `PeerLost`, `Protocol`, `Device`.
    pub fn try_open_stream(&mut self, tag: u64) -> Result<Option<OutgoingStream>, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.try_open_stream(tag))
    }

    /// Sends the next bytes of a stream, as many as there is credit for: a landing buffer at most. Returns their number; 0: there is no credit now. Each call takes at least one chunk, so many short ones should be gathered.
    ///
    /// # Errors
    /// `Rejected`, each time from then on; `Usage`: the stream has ended, or is of another connection; `Closed`, `PeerLost`, `Protocol`, `Device`.
    pub fn write_stream(&mut self, stream: &mut OutgoingStream, slices: &[&[u8]]) -> Result<usize, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.write_stream(stream, slices))
    }

    /// Ends a stream. Returns false if there is no credit now: call it again.
    ///
    /// # Errors
    /// As [`write_stream`](Self::write_stream).
    pub fn finish_stream(&mut self, stream: &mut OutgoingStream) -> Result<bool, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.finish_stream(stream))
    }

    /// Gives a stream up. The receiver gets the reason after what was sent. One that has ended is unchanged.
    pub fn abandon_stream(&mut self, stream: &OutgoingStream, reason: Reason) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.abandon_stream(stream, reason));
    }

    /// Takes the next transfer, stream or message, if its begin has arrived, to be read by [`read_stream`](Self::read_stream) to its end or until [`reject_stream`](Self::reject_stream): until then this end can
    /// receive nothing else, also if the value is dropped.
    ///
    /// # Errors
    /// `Usage`: an operation or another stream has begun to take it. `Closed`, `PeerLost`, `Protocol`, `Device`.
    pub fn try_accept_stream(&mut self) -> Result<Option<IncomingStream>, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.try_accept_stream())
    }

    /// Reads what has arrived of a stream, as much as fits.
    ///
    /// # Errors
    /// `Usage`: the stream was rejected, or is of another connection. `Closed`, `PeerLost`, `Protocol`, `Device`.
    pub fn read_stream(
        &mut self,
        stream: &mut IncomingStream,
        slices: &mut [&mut [u8]],
    ) -> Result<StreamRead, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.read_stream(stream, slices))
    }

    /// Writes the next piece of a stream to a sink, straight out of blocks that have arrived, without waiting for the peer: at most 256 KiB, so that a
    /// [`Poller`](crate::Poller) serves many. A write to a disk takes as long as the disk does. [`Drive::Moved`]: the digest has counted what was written. [`Drive::Idle`]: nothing more has
    /// arrived, or the sink has no room. [`Drive::Done`]: the stream has ended.
    ///
    /// # Errors
    /// [`StreamError`]: `Cancelled`, and as [`read_stream`](Self::read_stream). After an error of the sink nothing is lost, and the stream is open: reject it, or go on.
    pub fn read_stream_to(
        &mut self,
        stream: &mut IncomingStream,
        sink: &mut Sink,
        digest: &mut Digest,
    ) -> Result<Drive<()>, StreamError> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.read_stream_to(stream, sink, digest))
    }

    /// Rejects the rest of a stream. The sender gets the reason. One that has ended is unchanged.
    pub fn reject_stream(&mut self, stream: &mut IncomingStream, reason: Reason) {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.reject_stream(stream, reason));
    }
}
