//! Streams that a loop of the program's own receives: one piece per call, without waiting for the peer.

use std::io;

use superpipe_core::driver::Drive;
use superpipe_core::{End, Readable};

use super::Blocking;
use super::access::DriverAccess;
use super::host_driver::HostDriver;
use super::io_vectors::IoVectors;
use super::receiving::claimed;
use crate::error::{Error, ErrorKind, StreamError};
use crate::fabric::HostFabric;
use crate::io::{Digest, Sink, WriteOutcome};
use crate::recv_stream_operation::RecvStreamOperation;

/// Most bytes that a call writes: half of a default landing buffer, so that the sender fills one half while the other is written, and a few hundred µs of a disk's cache.
const PIECE_BYTES: u32 = 256 << 10;

impl<A: DriverAccess> Blocking<A> {
    /// Writes the next piece of a stream to a sink.
    pub(crate) fn drive_recv_stream(
        &mut self,
        receive: &mut RecvStreamOperation,
        sink: &mut Sink,
        digest: &mut Digest,
    ) -> Result<Drive<()>, StreamError> {
        let Some(mut held) = self.access().try_hold() else { return Ok(Drive::Idle) };
        let host = &mut *held;
        if !host.begin_stream(receive)? {
            host.count_idle_drive()?;
            return Ok(Drive::Idle);
        }
        let run = match host.driver.endpoint_mut().readable(&mut host.fabric, PIECE_BYTES) {
            Readable::Nothing => {
                host.count_idle_drive()?;
                return Ok(Drive::Idle);
            }
            Readable::Ended(end) => return receive.ended(end),
            Readable::Run(run) => run,
        };
        let mut spans = IoVectors::new();
        for (at, bytes) in run.spans() {
            let source = host.fabric.source_of(host.driver.endpoint().link(), run.memory, at, bytes);
            spans.push(source.cast_mut(), bytes);
        }
        // SAFETY: 1. the spans are blocks that have arrived and are ours until `consume`, valid while the link lives, which the connection owns, and nothing here drops.
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
                let end = host.driver.endpoint_mut().consume(&mut host.fabric, bytes);
                receive.ended(end)
            }
        }
    }
}

impl<F: HostFabric> HostDriver<F> {
    /// Claims the next transfer for an operation that has not begun. Returns false if there is nothing to take now.
    ///
    /// # Errors
    /// The operation cannot take what is there.
    fn begin_stream(&mut self, receive: &mut RecvStreamOperation) -> Result<bool, Error> {
        if receive.has_ended {
            return Err(not_open());
        }
        let Some((owner, incoming)) = receive.begun else {
            let Some(incoming) = self.driver.try_peek(&mut self.fabric) else { return Ok(false) };
            if !self.driver.claim(&incoming) {
                return Err(claimed());
            }
            receive.begun = Some((self.id, incoming));
            return Ok(true);
        };
        let endpoint = self.driver.endpoint();
        let is_head = endpoint.head().is_some_and(|(number, _)| number == incoming.transfer);
        if owner == self.id && is_head && self.driver.is_claimed(&incoming) {
            return Ok(true);
        }
        // The end of the connection, which a round of progress may find, is a more precise error.
        if owner == self.id {
            self.progress();
            self.check_ended()?;
        }
        receive.has_ended = true;
        Err(not_open())
    }
}

impl RecvStreamOperation {
    /// Returns the result of a call after which the stream is at this point.
    fn ended(&mut self, end: End) -> Result<Drive<()>, StreamError> {
        self.has_ended = end != End::No;
        match end {
            End::No => Ok(Drive::Moved),
            End::Fin => Ok(Drive::Done(())),
            End::Cancelled(reason) => Err(Error::cancelled(reason).into()),
        }
    }
}

fn not_open() -> Error {
    Error::new(ErrorKind::Usage, "the operation has ended, or its stream was rejected; begin another")
}
