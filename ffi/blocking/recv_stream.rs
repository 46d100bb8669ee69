//! The receiving end of a stream over one fabric.

use std::io;

use superpipe_core::driver::{DescriptorWait, Drive};
use superpipe_core::{End, Fabric, Incoming, Length, Readable, Reason, Run};

use super::Blocking;
use super::access::DriverAccess;
use super::descriptor_waiting::DescriptorWaiting;
use super::io_vectors::IoVectors;
use super::waiting::Waiting;
use crate::deadline::{ArmedDeadline, Deadline};
use crate::error::{Error, StreamError};
use crate::fabric::HostFabric;
use crate::io::{Digest, Sink, WriteOutcome};

/// Receiving end of a stream. Dropping it before the end rejects the rest.
#[derive(Debug)]
pub(crate) struct BlockingRecvStream<'a, A: DriverAccess> {
    connection: &'a mut Blocking<A>,
    incoming: Incoming,
    /// Deadline of each call that waits.
    deadline: Deadline,
    end: Option<Result<(), Reason>>,
}

impl<'a, A: DriverAccess> BlockingRecvStream<'a, A> {
    pub(crate) const fn new(connection: &'a mut Blocking<A>, incoming: Incoming) -> Self {
        Self { connection, incoming, deadline: Deadline::NONE, end: None }
    }

    /// Returns the sender's tag.
    pub(crate) const fn tag(&self) -> u64 {
        self.incoming.tag
    }

    /// Returns the length of the transfer, if the sender knew it.
    pub(crate) const fn length(&self) -> Length {
        self.incoming.length
    }

    /// Sets the deadline of each call that waits.
    pub(crate) const fn set_deadline(&mut self, deadline: Deadline) {
        self.deadline = deadline;
    }

    /// Runs `work` while a helper thread sends keepalives.
    pub(crate) fn keep_alive_while<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.connection.keep_alive_while(work)
    }

    /// Writes once to a sink, straight out of blocks that have arrived.
    pub(crate) fn write_to(&mut self, sink: &mut Sink, digest: &mut Digest) -> Result<usize, StreamError> {
        let mut armed = ArmedDeadline::Unarmed(self.deadline);
        loop {
            if let Some(end) = self.end {
                return end.map(|()| 0).map_err(|reason| Error::cancelled(reason).into());
            }
            let readable = self.connection.access().wait_armed(&mut armed, |driver, fabric| match driver
                .endpoint_mut()
                .readable(fabric, u32::MAX)
            {
                Readable::Nothing => Drive::Idle,
                readable => Drive::Done(readable),
            })?;
            let run = match readable {
                Readable::Nothing => continue,
                Readable::Ended(end) => {
                    self.note(end);
                    continue;
                }
                Readable::Run(run) => run,
            };
            let spans = self.spans(&run);
            let blocks = sink.may_block();
            // SAFETY: 1. the spans are blocks that have arrived and are ours until `consume`, valid while the link lives,
            // which the connection owns, or a half of it, and nothing here drops. 2. No reference to shared memory is ever made (`HostFabric`).
            let mut write = || unsafe { sink.write_spans(spans.list()) };
            let outcome = if blocks { self.connection.keep_alive_while(write) } else { write() };
            match outcome.map_err(StreamError::Local)? {
                WriteOutcome::WouldBlock => {
                    if let Some(fd) = sink.interest() {
                        self.connection.access().wait_for_fd(fd, DescriptorWait::sink(), &mut armed)?;
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
                    let end = self.consume(u32::try_from(bytes).unwrap_or(u32::MAX));
                    self.note(end);
                    return Ok(bytes);
                }
            }
        }
    }

    /// Returns the addresses of blocks that have arrived.
    fn spans(&mut self, run: &Run<<A::Fabric as Fabric>::Region>) -> IoVectors {
        let mut spans = IoVectors::new();
        let host = &*self.connection.access().hold();
        for (at, bytes) in run.spans() {
            let source = host.fabric.source_of(host.driver.endpoint().link(), run.memory, at, bytes);
            spans.push(source.cast_mut(), bytes);
        }
        spans
    }

    fn consume(&mut self, bytes: u32) -> End {
        let host = &mut *self.connection.access().hold();
        host.driver.endpoint_mut().consume(&mut host.fabric, bytes)
    }

    /// Copies out bytes that have arrived, and waits for some. Returns 0 at the stream's end.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        while self.end.is_none() {
            let pulled = self.connection.access().wait(self.deadline, |driver, fabric| {
                let pulled = driver.endpoint_mut().pull(fabric, &mut [&mut *bytes]);
                (pulled.bytes > 0 || pulled.end != End::No).then_some(pulled).into()
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

    fn note(&mut self, end: End) {
        self.end = match end {
            End::No => return,
            End::Fin => Some(Ok(())),
            End::Cancelled(reason) => Some(Err(reason)),
        };
    }

    /// Rejects the rest. The sender gets the reason.
    pub(crate) fn reject(mut self, reason: Reason) {
        if self.end.is_none() {
            self.end = Some(Ok(()));
            self.connection.reject(reason);
        }
    }
}

impl<A: DriverAccess> Drop for BlockingRecvStream<'_, A> {
    fn drop(&mut self) {
        if self.end.is_none() && self.connection.is_ours() {
            self.connection.reject(Reason::GIVEN_UP);
        }
    }
}
