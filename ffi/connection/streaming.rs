//! Streams without waiting.

use superpipe_core::driver::Drive;

use super::Connection;
use crate::blocking::dispatch::{AnyConnection, dispatch};
use crate::error::StreamError;
use crate::io::{Digest, Sink};
use crate::recv_stream_operation::RecvStreamOperation;

impl Connection {
    /// Writes the next piece of a stream to a sink, straight out of blocks that have arrived, without waiting for the peer: at most 256 KiB, so that a
    /// [`Poller`](crate::Poller) serves many. A write to a disk takes as long as the disk does. [`Drive::Moved`]: the digest has counted what was written. [`Drive::Idle`]: nothing more has
    /// arrived, or the sink has no room. [`Drive::Done`]: the stream has ended.
    ///
    /// # Errors
    /// [`StreamError`]. After an error of the sink nothing is lost, and the stream is open: [reject](Self::reject) it, or go on. `Usage`: another operation or stream takes the transfer; this one
    /// has ended, belongs to another connection, or its stream was rejected.
    pub fn drive_recv_stream(
        &mut self,
        receive: &mut RecvStreamOperation,
        sink: &mut Sink,
        digest: &mut Digest,
    ) -> Result<Drive<()>, StreamError> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.drive_recv_stream(receive, sink, digest))
    }
}
