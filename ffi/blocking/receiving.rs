//! Receiving messages.

use superpipe_core::driver::{Drive, Received, RecvFailed, RecvOperation, RefusedRecv};
use superpipe_core::{Incoming, Length, Reason};

use super::access::DriverAccess;
use super::host_driver::HostDriver;
use super::lending::Lending;
use super::waiting::Waiting;
use super::{Blocking, BlockingRecvStream};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::{HostFabric, Way};
use crate::outcome::TryRecv;

/// Most bytes that are counted for the turn when a message is complete: C0 by default. A message of up to C0 mostly arrives in one attempt,
/// which no round counts. Of a longer message the rounds of the wait count the parts.
pub(super) const SHORT_BYTES: usize = 64 << 10;

impl<A: DriverAccess> Blocking<A> {
    /// Receives the next message, scattered into slices.
    #[inline]
    pub(crate) fn recv_into(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        let deadline = deadline.into();
        if deadline.is_poll() {
            return self.poll_recv(slices);
        }
        let mut receive = RecvOperation::new();
        // Polling for as long as a reply takes would keep the other half from its work.
        if !self.access().shares_core()
            && let Some(mut held) = self.access().try_hold()
        {
            let host = &mut *held;
            match host.driver.begin_recv(&mut host.fabric, &mut receive, slices) {
                Drive::Done(Ok(received)) => return Ok(received),
                Drive::Done(Err(failed)) => return Err(host.recv_failed(failed, slices)),
                Drive::Moved | Drive::Idle => {}
            }
        }
        let received = self.recv_slowly(receive, slices, deadline);
        if A::IS_SHARED
            && let Ok(Received { bytes, .. }) = received
        {
            self.yield_after_moving(bytes.min(SHORT_BYTES));
        }
        received
    }

    /// Waits for the next message, and receives it block by block.
    #[cold]
    #[inline(never)]
    pub(super) fn recv_slowly(
        &mut self,
        receive: RecvOperation,
        slices: &mut [&mut [u8]],
        deadline: Deadline,
    ) -> Result<Received, Error> {
        Lending::new(self.access(), Way::In).receive(receive, slices, deadline)
    }

    /// Receives a message that is complete and fits. Otherwise returns the error of a call whose deadline is now.
    #[cold]
    #[inline(never)]
    pub(super) fn poll_recv(&mut self, slices: &mut [&mut [u8]]) -> Result<Received, Error> {
        match self.try_recv(slices)? {
            TryRecv::Received(received) => Ok(received),
            TryRecv::Nothing => {
                // A program may call nothing but this. An end of the connection that `progress` finds is the next call's error, since
                // more may have come meanwhile.
                self.progress();
                Err(Error::deadline())
            }
            TryRecv::Incomplete(_) => {
                self.progress();
                Err(Error::new(
                    ErrorKind::Timeout,
                    "the message has not arrived completely: give it a deadline, or begin an operation",
                ))
            }
            TryRecv::TooSmall(incoming) => Err(too_small(incoming.length, room(slices))),
        }
    }

    /// Receives the next message if it is complete and fits.
    #[inline]
    pub(crate) fn try_recv(&mut self, slices: &mut [&mut [u8]]) -> Result<TryRecv, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(TryRecv::Nothing) };
        let host = &mut *held;
        match host.driver.try_recv(&mut host.fabric, slices) {
            Ok(Some(received)) => Ok(TryRecv::Received(received)),
            Ok(None) => {
                host.count_empty_try()?;
                Ok(TryRecv::Nothing)
            }
            Err(RefusedRecv::TooSmall(incoming)) => {
                host.count_try_that_left_transfer();
                Ok(TryRecv::TooSmall(incoming))
            }
            Err(RefusedRecv::Long(incoming)) => {
                host.count_try_that_left_part()?;
                Ok(TryRecv::Incomplete(incoming))
            }
        }
    }

    /// Returns the next transfer, if its begin has arrived, and leaves it there.
    pub(crate) fn try_peek(&mut self) -> Result<Option<Incoming>, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(None) };
        let host = &mut *held;
        let incoming = host.driver.try_peek(&mut host.fabric);
        if incoming.is_some() {
            host.count_try_that_left_transfer();
        } else {
            host.count_empty_try()?;
        }
        Ok(incoming)
    }

    /// Receives the next part of a message.
    pub(crate) fn drive_recv(
        &mut self,
        receive: &mut RecvOperation,
        slices: &mut [&mut [u8]],
    ) -> Result<Drive<Received>, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(Drive::Idle) };
        let host = &mut *held;
        match host.driver.drive_recv(&mut host.fabric, receive, slices) {
            Drive::Done(Ok(received)) => Ok(Drive::Done(received)),
            Drive::Done(Err(failed)) => Err(host.recv_failed(failed, slices)),
            Drive::Moved => Ok(Drive::Moved),
            Drive::Idle => {
                host.count_idle_drive()?;
                Ok(Drive::Idle)
            }
        }
    }

    /// Gives a message up.
    pub(crate) fn cancel_recv(&mut self, receive: &mut RecvOperation, reason: Reason) {
        let host = &mut *self.access().hold();
        host.driver.cancel_recv(&mut host.fabric, receive, reason);
    }

    /// Waits for the next transfer, and leaves it there.
    pub(crate) fn peek(&mut self, deadline: Deadline) -> Result<Incoming, Error> {
        self.access().wait(deadline, |driver, fabric| driver.try_peek(fabric).into())
    }

    /// Waits for the next transfer, and receives it as a stream.
    pub(crate) fn accept_stream(&mut self, deadline: Deadline) -> Result<BlockingRecvStream<'_, A>, Error> {
        let incoming = self.peek(deadline)?;
        if !self.access().hold().driver.claim(&incoming) {
            return Err(claimed());
        }
        Ok(BlockingRecvStream::new(self, incoming))
    }

    /// Rejects the next transfer. Returns false if there is none.
    pub(crate) fn reject(&mut self, reason: Reason) -> bool {
        let host = &mut *self.access().hold();
        host.driver.reject(&mut host.fabric, reason)
    }
}

impl<F: HostFabric> HostDriver<F> {
    /// Returns the result of a wait for a message. If the wait failed after a part was taken, rejects the rest.
    pub(super) fn received(
        &mut self,
        received: Result<Result<Received, RecvFailed>, Error>,
        receive: &mut RecvOperation,
        slices: &[&mut [u8]],
    ) -> Result<Received, Error> {
        match received {
            Ok(received) => received.map_err(|failed| self.recv_failed(failed, slices)),
            Err(error) => {
                self.driver.release_recv(&mut self.fabric, receive, Reason::GIVEN_UP);
                Err(error)
            }
        }
    }

    fn recv_failed(&self, failed: RecvFailed, slices: &[&mut [u8]]) -> Error {
        match failed {
            RecvFailed::TooSmall(incoming) => too_small(incoming.length, room(slices)),
            RecvFailed::Cancelled(reason) => Error::cancelled(reason),
            RecvFailed::Busy => claimed(),
            RecvFailed::WrongLength => Error::new(
                ErrorKind::Usage,
                "the slices have less room than the message, and were larger when it began: pass the same slices to each call",
            ),
            RecvFailed::NotOpen => Error::new(
                ErrorKind::Usage,
                "the receive operation has ended or was cancelled; begin another",
            ),
        }
    }
}

/// Returns the bytes of all slices together.
fn room(slices: &[&mut [u8]]) -> u64 {
    slices.iter().map(|slice| slice.len() as u64).sum()
}

/// Returns the error of a call for a message that another operation or stream takes.
pub(super) fn claimed() -> Error {
    Error::new(
        ErrorKind::Usage,
        "another operation or stream takes the message: drive it to its end, cancel it, or reject the message",
    )
}

/// Returns the error of a call whose memory has `room` bytes, for a transfer that does not fit.
pub(super) fn too_small(length: Length, room: u64) -> Error {
    let text = match length {
        Length::Exact(bytes) => {
            format!("the message has {bytes} bytes and the buffer {room}: receive it into a larger one")
        }
        Length::Stream => "a stream comes next, not a message: receive it with accept_stream".into(),
    };
    Error::new(ErrorKind::TooSmall, text)
}
