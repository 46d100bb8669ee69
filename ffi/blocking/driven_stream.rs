//! Streams that a loop of the program's own receives into a file or pipe: one piece per call, without waiting for the peer.

use std::io;

use superpipe_core::driver::{Drive, IncomingStream};
use superpipe_core::{End, Readable};

use super::Blocking;
use super::access::DriverAccess;
use super::io_vectors::IoVectors;
use super::streaming::not_open;
use crate::error::{Error, StreamError};
use crate::fabric::HostFabric;
use crate::io::{Digest, Sink, WriteOutcome};

/// Most bytes that a call writes: half of a default landing buffer, so that the sender fills one half while the other is written, and a few hundred µs of a disk's cache.
const PIECE_BYTES: u32 = 256 << 10;

impl<A: DriverAccess> Blocking<A> {
    /// Writes the next piece of a stream to a sink.
    pub(crate) fn read_stream_to(
        &mut self,
        stream: &mut IncomingStream,
        sink: &mut Sink,
        digest: &mut Digest,
    ) -> Result<Drive<()>, StreamError> {
        let Some(mut held) = self.access().try_hold() else { return Ok(Drive::Idle) };
        let host = &mut *held;
        let readable = host.driver.stream_in_place(&mut host.fabric, stream, PIECE_BYTES);
        let run = match readable.ok_or_else(|| not_open(host))? {
            Readable::Nothing => {
                host.count_idle_drive()?;
                return Ok(Drive::Idle);
            }
            Readable::Ended(end) => return driven(end),
            Readable::Run(run) => run,
        };
        let mut spans = IoVectors::new();
        for (at, bytes) in run.spans() {
            let source = host.fabric.source_of(host.driver.endpoint().link(), run.memory, at, bytes);
            spans.push(source.cast_mut(), bytes);
        }
        // SAFETY: 1. the spans are blocks that have arrived and are ours until `consume_stream`, valid while the link lives, which the connection owns, and nothing here drops.
        // 2. No reference to shared memory is ever made (`HostFabric`).
        match unsafe { sink.write_spans(spans.list()) }.map_err(StreamError::Local)? {
            WriteOutcome::WouldBlock => {
                host.count_idle_drive()?;
                Ok(Drive::Idle)
            }
            WriteOutcome::Bytes(0) => Err(StreamError::Local(io::ErrorKind::WriteZero.into())),
            WriteOutcome::Bytes(bytes) => {
                spans.each(bytes, |source, bytes| {
                    // SAFETY: the span was valid for the write above, and still is.
                    unsafe { digest.update_shared(source, bytes) };
                });
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                driven(host.driver.consume_stream(&mut host.fabric, stream, bytes))
            }
        }
    }
}

/// Returns the result of a call after which the stream is at this point.
fn driven(end: End) -> Result<Drive<()>, StreamError> {
    match end {
        End::No => Ok(Drive::Moved),
        End::Fin => Ok(Drive::Done(())),
        End::Cancelled(reason) => Err(Error::cancelled(reason).into()),
    }
}
