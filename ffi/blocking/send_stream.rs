//! The sending end of a stream over one fabric.

use std::io;

use superpipe_core::driver::DescriptorWait;
use superpipe_core::{Fabric, Reason, RefusedSend, Reservation, TransferId};

use super::Blocking;
use super::access::DriverAccess;
use super::descriptor_waiting::DescriptorWaiting;
use super::io_vectors::IoVectors;
use super::waiting::Waiting;
use crate::deadline::{ArmedDeadline, Deadline};
use crate::error::{Error, ErrorKind, StreamError};
use crate::fabric::HostFabric;
use crate::io::{Digest, ReadOutcome, Source};

/// Sending end of a stream. Dropping it before [`finish`](Self::finish) cancels the stream.
#[derive(Debug)]
pub(crate) struct BlockingSendStream<'a, A: DriverAccess> {
    connection: &'a mut Blocking<A>,
    id: TransferId,
    sent: u64,
    /// Deadline of each call that waits.
    deadline: Deadline,
    flip_at: Option<u64>,
    ended: bool,
    /// The receiver's reason, once it has rejected the stream.
    rejected: Option<Reason>,
}

impl<'a, A: DriverAccess> BlockingSendStream<'a, A> {
    pub(crate) const fn new(connection: &'a mut Blocking<A>, id: TransferId) -> Self {
        Self {
            connection,
            id,
            sent: 0,
            deadline: Deadline::NONE,
            flip_at: None,
            ended: false,
            rejected: None,
        }
    }

    /// Sets the deadline of each call that waits.
    pub(crate) const fn set_deadline(&mut self, deadline: Deadline) {
        self.deadline = deadline;
    }

    /// Reads once from a source, straight into blocks, and sends them.
    pub(crate) fn read_from(
        &mut self,
        source: &mut Source,
        max_bytes: usize,
        digest: &mut Digest,
    ) -> Result<usize, StreamError> {
        if max_bytes == 0 {
            return Err(Error::new(ErrorKind::Usage, "a read of at most 0 bytes: ask for 1 at least").into());
        }
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        let (id, mut armed) = (self.id, ArmedDeadline::Unarmed(self.deadline));
        loop {
            let reserved = self.connection.access().wait_armed(&mut armed, |driver, fabric| {
                let reserved = driver.endpoint_mut().reserve(fabric, id, max_bytes);
                (!matches!(reserved, Err(RefusedSend::NoCredit))).then_some(reserved).into()
            })?;
            let reserved = reserved.map_err(|refused| self.ended_by(refused))?;
            let spans = self.spans(&reserved);
            let blocks = source.may_block();
            // SAFETY: 1. the spans are blocks that are reserved for us until `commit`, valid while the link lives, which
            // the connection owns, or a half of it, and nothing here drops. 2. No reference to shared memory is ever made (`HostFabric`).
            let mut read = || unsafe { source.read_spans(spans.list()) };
            let outcome = if blocks { self.connection.keep_alive_while(read) } else { read() };
            if !matches!(outcome, Ok(ReadOutcome::Bytes(_))) {
                // The source may have nothing for long. The landing buffer may go meanwhile.
                self.connection.access().hold().driver.endpoint_mut().unreserve(id);
            }
            match outcome.map_err(StreamError::Local)? {
                ReadOutcome::End => return Ok(0),
                ReadOutcome::WouldBlock => {
                    if let Some(fd) = source.interest() {
                        self.connection.access().wait_for_fd(fd, DescriptorWait::source(id), &mut armed)?;
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

    /// Returns the addresses of reserved blocks.
    fn spans(&mut self, reserved: &Reservation<<A::Fabric as Fabric>::Remote>) -> IoVectors {
        let mut spans = IoVectors::new();
        let host = &*self.connection.access().hold();
        for (at, bytes) in reserved.spans() {
            let place = host.fabric.place_in(host.driver.endpoint().link(), reserved.memory, at, bytes);
            spans.push(place, bytes);
        }
        spans
    }

    fn commit(&mut self, bytes: u32) -> Result<(), RefusedSend> {
        let host = &mut *self.connection.access().hold();
        host.driver.endpoint_mut().commit(&mut host.fabric, self.id, bytes)
    }

    /// Flips one bit of the byte at this offset of the stream after it was counted into the digest.
    #[cfg(feature = "internals")]
    pub(crate) const fn inject_flip(&mut self, offset: u64) {
        self.flip_at = Some(offset);
    }

    fn flip(&self, spans: &IoVectors, bytes: usize) {
        let Some(offset) = self.flip_at.and_then(|at| at.checked_sub(self.sent)) else { return };
        if let Some(place) = spans.place_of(offset, bytes) {
            // SAFETY: it is inside a span, which is reserved for us, and nobody reads it before `commit`.
            unsafe { *place ^= 1 };
        }
    }

    /// Runs `work` while a helper thread sends keepalives.
    pub(crate) fn keep_alive_while<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.connection.keep_alive_while(work)
    }

    /// Ends the stream.
    pub(crate) fn finish(mut self, deadline: Deadline) -> Result<(), Error> {
        let id = self.id;
        let finished = self.connection.access().wait(deadline, |driver, fabric| {
            let finished = driver.endpoint_mut().finish(fabric, id);
            (finished != Err(RefusedSend::NoCredit)).then_some(finished).into()
        })?;
        finished.map_err(|refused| self.ended_by(refused))?;
        self.ended = true;
        Ok(())
    }

    /// Cancels the stream. The receiver gets the reason.
    pub(crate) fn cancel(mut self, reason: Reason) {
        self.ended = true;
        self.connection.give_up(self.id, reason);
    }

    /// Sends as many bytes as there is credit for, and waits for some. Returns the bytes taken, which may be fewer than given.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let id = self.id;
        let pushed = self.connection.access().wait(self.deadline, |driver, fabric| {
            let pushed = driver.endpoint_mut().push(fabric, id, &[bytes]);
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
        // A rejection is final.
        let refused = self.rejected.map_or(refused, RefusedSend::Rejected);
        self.connection.access().hold().refused(refused)
    }
}

impl<A: DriverAccess> Drop for BlockingSendStream<'_, A> {
    fn drop(&mut self) {
        if !self.ended && self.connection.is_ours() {
            self.connection.give_up(self.id, Reason::GIVEN_UP);
        }
    }
}
