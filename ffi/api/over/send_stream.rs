//! The sending end of a stream over one fabric.

use std::io;

use superpipe_core::driver::Outside;
use superpipe_core::{Fabric, Reason, RefusedSend, Reservation, TransferId};

use super::Over;
use super::access::Access;
use super::spans::Spans;
use super::waiting::Waiting;
use crate::api::deadline::{Armed, Deadline};
use crate::api::error::{Error, ErrorKind};
use crate::api::stream_error::StreamError;
use crate::io::{Digest, ReadOutcome, Source};
use crate::port::Port;

/// The sending end of a stream. Dropped before [`finish`](Self::finish), the stream is cancelled.
#[derive(Debug)]
pub(in crate::api) struct SendOver<'a, A: Access> {
    over: &'a mut Over<A>,
    id: TransferId,
    sent: u64,
    /// Of each call that waits.
    deadline: Deadline,
    flip_at: Option<u64>,
    ended: bool,
    /// The receiver's reason, once it was told.
    rejected: Option<Reason>,
}

impl<'a, A: Access> SendOver<'a, A> {
    pub(in crate::api) const fn new(over: &'a mut Over<A>, id: TransferId) -> Self {
        Self { over, id, sent: 0, deadline: Deadline::NONE, flip_at: None, ended: false, rejected: None }
    }

    /// Bounds each call that waits.
    pub(in crate::api) const fn set_deadline(&mut self, deadline: Deadline) {
        self.deadline = deadline;
    }

    /// Reads once from a source, straight into blocks, and sends them.
    pub(in crate::api) fn read_from(
        &mut self,
        source: &mut Source,
        max_bytes: usize,
        digest: &mut Digest,
    ) -> Result<usize, StreamError> {
        if max_bytes == 0 {
            return Err(Error::new(ErrorKind::Usage, "a read of at most 0 bytes: ask for 1 at least").into());
        }
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        let (id, mut armed) = (self.id, Armed::Not(self.deadline));
        loop {
            let reserved = self.over.transport().wait_armed(&mut armed, |driver, port| {
                let reserved = driver.endpoint_mut().reserve(port, id, max_bytes);
                (!matches!(reserved, Err(RefusedSend::NoCredit))).then_some(reserved).into()
            })?;
            let reserved = reserved.map_err(|refused| self.ended_by(refused))?;
            let spans = self.spans(&reserved);
            let blocks = source.may_block();
            // SAFETY: 1. the spans are blocks that are reserved for us until `commit`, valid while the link lives, which
            // the connection owns, or a half of it, and nothing here drops. 2. No reference to shared memory is ever made (`Port`).
            let mut read = || unsafe { source.read_spans(spans.list()) };
            let outcome = if blocks { self.over.blocking(read) } else { read() };
            match outcome.map_err(StreamError::Local)? {
                ReadOutcome::End => return Ok(0),
                ReadOutcome::WouldBlock => {
                    if let Some(fd) = source.interest() {
                        self.over.transport().wait_for_fd(fd, Outside::source(id), &mut armed)?;
                    }
                }
                ReadOutcome::Bytes(bytes) => {
                    spans.each(bytes, |place, bytes| {
                        // SAFETY: the span was valid for the read above, and still is.
                        unsafe { digest.update_shared(place, bytes) };
                    });
                    self.flip(&spans, bytes);
                    let committed = self.commit(u32::try_from(bytes).unwrap_or(u32::MAX));
                    committed.map_err(|refused| self.ended_by(refused))?;
                    self.sent += bytes as u64;
                    return Ok(bytes);
                }
            }
        }
    }

    /// Addresses of reserved blocks.
    fn spans(&mut self, reserved: &Reservation<<A::Port as Fabric>::Remote>) -> Spans {
        let mut spans = Spans::new();
        let transport = &*self.over.transport().hold();
        for (at, bytes) in reserved.spans() {
            let place =
                transport.port.place_in(transport.driver.endpoint().link(), reserved.memory, at, bytes);
            spans.push(place, bytes);
        }
        spans
    }

    fn commit(&mut self, bytes: u32) -> Result<(), RefusedSend> {
        let transport = &mut *self.over.transport().hold();
        transport.driver.endpoint_mut().commit(&mut transport.port, self.id, bytes)
    }

    /// Flips one bit of the byte at this offset of the stream after it was counted into the digest.
    pub(in crate::api) const fn inject_flip(&mut self, offset: u64) {
        self.flip_at = Some(offset);
    }

    fn flip(&self, spans: &Spans, bytes: usize) {
        let Some(offset) = self.flip_at.and_then(|at| at.checked_sub(self.sent)) else { return };
        if let Some(place) = spans.place_of(offset, bytes) {
            // SAFETY: it is inside a span, which is reserved for us, and nobody reads it before `commit`.
            unsafe { *place ^= 1 };
        }
    }

    /// Runs what may take long, while another thread shows the peer life.
    pub(in crate::api) fn blocking<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.over.blocking(work)
    }

    /// Ends the stream.
    pub(in crate::api) fn finish(mut self, deadline: Deadline) -> Result<(), Error> {
        let id = self.id;
        let finished = self.over.transport().wait(deadline, |driver, port| {
            let finished = driver.endpoint_mut().finish(port, id);
            (finished != Err(RefusedSend::NoCredit)).then_some(finished).into()
        })?;
        finished.map_err(|refused| self.ended_by(refused))?;
        self.ended = true;
        Ok(())
    }

    /// Gives the stream up; the receiver is told why.
    pub(in crate::api) fn cancel(mut self, reason: Reason) {
        self.ended = true;
        self.over.give_up(self.id, reason);
    }

    /// Sends what there is room for, and waits for some.
    pub(in crate::api) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let id = self.id;
        let pushed = self.over.transport().wait(self.deadline, |driver, port| {
            let pushed = driver.endpoint_mut().push(port, id, &[bytes]);
            (pushed != Ok(0)).then_some(pushed).into()
        })?;
        let pushed = pushed.map_err(|refused| self.ended_by(refused))?;
        self.sent += pushed as u64;
        Ok(pushed)
    }

    fn ended_by(&mut self, refused: RefusedSend) -> Error {
        if let RefusedSend::Rejected(reason) = refused {
            (self.ended, self.rejected) = (true, Some(reason));
        }
        // Rejected once, it stays so.
        let refused = self.rejected.map_or(refused, RefusedSend::Rejected);
        self.over.transport().hold().refused(refused)
    }
}

impl<A: Access> Drop for SendOver<'_, A> {
    fn drop(&mut self) {
        if !self.ended && self.over.is_ours() {
            self.over.give_up(self.id, Reason::GIVEN_UP);
        }
    }
}
