//! The receiving end of a stream over one fabric.

use std::io;

use superpipe_core::driver::{Drive, Outside};
use superpipe_core::{End, Fabric, Incoming, Length, Readable, Reason, Run};

use super::Over;
use super::access::Access;
use super::spans::Spans;
use super::waiting::Waiting;
use crate::api::deadline::{Armed, Deadline};
use crate::api::error::Error;
use crate::api::stream_error::StreamError;
use crate::io::{Digest, Sink, WriteOutcome};
use crate::port::Port;

/// The receiving end of a stream. Dropped before its end, the rest is rejected.
#[derive(Debug)]
pub(in crate::api) struct RecvOver<'a, A: Access> {
    over: &'a mut Over<A>,
    incoming: Incoming,
    /// Of each call that waits.
    deadline: Deadline,
    end: Option<Result<(), Reason>>,
}

impl<'a, A: Access> RecvOver<'a, A> {
    pub(in crate::api) const fn new(over: &'a mut Over<A>, incoming: Incoming) -> Self {
        Self { over, incoming, deadline: Deadline::NONE, end: None }
    }

    /// The sender's tag.
    pub(in crate::api) const fn tag(&self) -> u64 {
        self.incoming.tag
    }

    /// Its length, where the sender knew it.
    pub(in crate::api) const fn length(&self) -> Length {
        self.incoming.length
    }

    /// Bounds each call that waits.
    pub(in crate::api) const fn set_deadline(&mut self, deadline: Deadline) {
        self.deadline = deadline;
    }

    /// Writes once to a sink, straight out of blocks, what has arrived.
    pub(in crate::api) fn write_to(
        &mut self,
        sink: &mut Sink,
        digest: &mut Digest,
    ) -> Result<usize, StreamError> {
        let mut armed = Armed::Not(self.deadline);
        loop {
            if let Some(end) = self.end {
                return end.map(|()| 0).map_err(|reason| Error::cancelled(reason).into());
            }
            let readable = self.over.transport().wait_armed(&mut armed, |driver, port| {
                match driver.endpoint_mut().readable(port, u32::MAX) {
                    Readable::Nothing => Drive::Idle,
                    readable => Drive::Done(readable),
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
            let spans = self.spans(&run);
            let blocks = sink.may_block();
            // SAFETY: 1. the spans are blocks that have arrived and are ours until `consume`, valid while the link lives,
            // which the connection owns, or a half of it, and nothing here drops. 2. No reference to shared memory is ever made (`Port`).
            let mut write = || unsafe { sink.write_spans(spans.list()) };
            let outcome = if blocks { self.over.blocking(write) } else { write() };
            match outcome.map_err(StreamError::Local)? {
                WriteOutcome::WouldBlock => {
                    if let Some(fd) = sink.interest() {
                        self.over.transport().wait_for_fd(fd, Outside::sink(), &mut armed)?;
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

    /// Addresses of blocks that have arrived.
    fn spans(&mut self, run: &Run<<A::Port as Fabric>::Region>) -> Spans {
        let mut spans = Spans::new();
        let transport = &*self.over.transport().hold();
        for (at, bytes) in run.spans() {
            let source = transport.port.source_of(transport.driver.endpoint().link(), run.memory, at, bytes);
            spans.push(source.cast_mut(), bytes);
        }
        spans
    }

    fn consume(&mut self, bytes: u32) -> End {
        let transport = &mut *self.over.transport().hold();
        transport.driver.endpoint_mut().consume(&mut transport.port, bytes)
    }

    /// Copies out what has arrived, and waits for something. 0 at the stream's end.
    pub(in crate::api) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        while self.end.is_none() {
            let pulled = self.over.transport().wait(self.deadline, |driver, port| {
                let pulled = driver.endpoint_mut().pull(port, &mut [&mut *bytes]);
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

    /// Refuses the rest; the sender is told why.
    pub(in crate::api) fn reject(mut self, reason: Reason) {
        if self.end.is_none() {
            self.end = Some(Ok(()));
            self.over.reject(reason);
        }
    }
}

impl<A: Access> Drop for RecvOver<'_, A> {
    fn drop(&mut self) {
        if self.end.is_none() && self.over.is_ours() {
            self.over.reject(Reason::GIVEN_UP);
        }
    }
}
