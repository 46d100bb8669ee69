//! Receiving messages.

use superpipe_core::driver::{Drive, Driver, Receive, ReceiveFailed, Received, RefusedRecv};
use superpipe_core::{Incoming, Length, Reason};

use super::access::Access;
use super::transport::Transport;
use super::waiting::Waiting;
use super::{Over, RecvOver};
use crate::api::deadline::Deadline;
use crate::api::error::{Error, ErrorKind};
use crate::api::outcome::TryRecv;
use crate::port::Port;

/// A message of which no part was counted while it came: C0 by default.
const SHORT_BYTES: usize = 64 << 10;

impl<A: Access> Over<A> {
    /// Receives the next message whole, scattered into slices.
    #[inline]
    pub(in crate::api) fn recv_into(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        let deadline = deadline.into();
        if deadline.is_poll() {
            return self.poll_recv(slices);
        }
        let mut receive = Receive::new();
        // Looks that take as long as an answer would keep the other half from its work.
        if !self.transport().shares_core()
            && let Some(mut held) = self.transport().try_hold()
        {
            let transport = &mut *held;
            match transport.driver.begin_receive(&mut transport.port, &mut receive, slices) {
                Drive::Done(Ok(received)) => return Ok(received),
                Drive::Done(Err(failed)) => return Err(transport.receive_failed(failed, slices)),
                Drive::Moved | Drive::Idle => {}
            }
        }
        let received = self.recv_slowly(receive, slices, deadline);
        if A::IS_SHARED
            && let Ok(Received { bytes, .. }) = received
        {
            self.after_moving(bytes.min(SHORT_BYTES));
        }
        received
    }

    /// Waits for the next message, and takes it block by block.
    #[cold]
    #[inline(never)]
    fn recv_slowly(
        &mut self,
        mut receive: Receive,
        slices: &mut [&mut [u8]],
        deadline: Deadline,
    ) -> Result<Received, Error> {
        let transport = self.transport();
        let drive = |driver: &mut Driver<A::Port>, port: &mut A::Port| {
            driver.drive_receive(port, &mut receive, slices)
        };
        let received = transport.wait(deadline, drive);
        transport.hold().received(received, receive, slices)
    }

    /// Takes a message that is here whole and fits. Otherwise the error of a call whose deadline is now.
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
            TryRecv::Long(_) => {
                self.progress();
                Err(Error::new(
                    ErrorKind::Timeout,
                    "the message has not come whole: give it a deadline, or begin an operation",
                ))
            }
            TryRecv::TooSmall(incoming) => Err(too_small(incoming.length, slices)),
        }
    }

    /// Takes the next message if it has come whole, and fits.
    #[inline]
    pub(in crate::api) fn try_recv(&mut self, slices: &mut [&mut [u8]]) -> Result<TryRecv, Error> {
        let Some(mut held) = self.transport().try_hold() else { return Ok(TryRecv::Nothing) };
        let transport = &mut *held;
        match transport.driver.try_recv(&mut transport.port, slices) {
            Ok(Some(received)) => Ok(TryRecv::Received(received)),
            Ok(None) => {
                transport.after_empty_try()?;
                Ok(TryRecv::Nothing)
            }
            Err(RefusedRecv::TooSmall(incoming)) => {
                transport.after_untaken();
                Ok(TryRecv::TooSmall(incoming))
            }
            Err(RefusedRecv::Long(incoming)) => {
                transport.after_long()?;
                Ok(TryRecv::Long(incoming))
            }
        }
    }

    /// The next transfer, if it has come; it is left there.
    pub(in crate::api) fn try_peek(&mut self) -> Result<Option<Incoming>, Error> {
        let Some(mut held) = self.transport().try_hold() else { return Ok(None) };
        let transport = &mut *held;
        let incoming = transport.driver.try_peek(&mut transport.port);
        if incoming.is_some() {
            transport.after_untaken();
        } else {
            transport.after_empty_try()?;
        }
        Ok(incoming)
    }

    /// Takes the next part of a message.
    pub(in crate::api) fn drive_receive(
        &mut self,
        receive: &mut Receive,
        slices: &mut [&mut [u8]],
    ) -> Result<Drive<Received>, Error> {
        let Some(mut held) = self.transport().try_hold() else { return Ok(Drive::Idle) };
        let transport = &mut *held;
        match transport.driver.drive_receive(&mut transport.port, receive, slices) {
            Drive::Done(Ok(received)) => Ok(Drive::Done(received)),
            Drive::Done(Err(failed)) => Err(transport.receive_failed(failed, slices)),
            Drive::Moved => Ok(Drive::Moved),
            Drive::Idle => {
                transport.after_idle_drive()?;
                Ok(Drive::Idle)
            }
        }
    }

    /// Gives a message up.
    pub(in crate::api) fn cancel_receive(&mut self, receive: &mut Receive, reason: Reason) {
        let transport = &mut *self.transport().hold();
        transport.driver.cancel_receive(&mut transport.port, receive, reason);
    }

    /// Waits for the next transfer, and leaves it there.
    pub(in crate::api) fn incoming(&mut self, deadline: Deadline) -> Result<Incoming, Error> {
        self.transport().wait(deadline, |driver, port| driver.try_peek(port).into())
    }

    /// Waits for the next transfer, to be received as a stream.
    pub(in crate::api) fn recv_stream(&mut self, deadline: Deadline) -> Result<RecvOver<'_, A>, Error> {
        let incoming = self.incoming(deadline)?;
        if !self.transport().hold().driver.claim(&incoming) {
            return Err(claimed());
        }
        Ok(RecvOver::new(self, incoming))
    }

    /// Refuses the transfer at the head. False if there is none.
    pub(in crate::api) fn reject(&mut self, reason: Reason) -> bool {
        let transport = &mut *self.transport().hold();
        transport.driver.reject(&mut transport.port, reason)
    }
}

impl<P: Port> Transport<P> {
    /// Result of a wait for a message. If the wait failed, the rest of a message of which a part was taken is rejected.
    pub(super) fn received(
        &mut self,
        received: Result<Result<Received, ReceiveFailed>, Error>,
        mut receive: Receive,
        slices: &[&mut [u8]],
    ) -> Result<Received, Error> {
        match received {
            Ok(received) => received.map_err(|failed| self.receive_failed(failed, slices)),
            Err(error) => {
                self.driver.release_receive(&mut self.port, &mut receive, Reason::GIVEN_UP);
                Err(error)
            }
        }
    }

    fn receive_failed(&self, failed: ReceiveFailed, slices: &[&mut [u8]]) -> Error {
        match failed {
            ReceiveFailed::TooSmall(incoming) => too_small(incoming.length, slices),
            ReceiveFailed::Cancelled(reason) => Error::cancelled(reason),
            ReceiveFailed::Busy => claimed(),
            ReceiveFailed::WrongLength => Error::new(
                ErrorKind::Usage,
                "the slices have less room than the message, which was begun with enough: give the same ones each time",
            ),
            ReceiveFailed::NotOpen => {
                Error::new(ErrorKind::Usage, "the message is not being received any more")
            }
        }
    }
}

fn claimed() -> Error {
    Error::new(
        ErrorKind::Usage,
        "an operation or a stream has begun to take the message: drive it to its end, cancel it, or reject the message",
    )
}

fn too_small(length: Length, slices: &[&mut [u8]]) -> Error {
    let room = slices.iter().map(|slice| slice.len() as u64).sum::<u64>();
    let text = match length {
        Length::Exact(bytes) => {
            format!("the message has {bytes} bytes and the buffer {room}: receive it into a larger one")
        }
        Length::Stream => "a stream comes next, not a message: receive it with recv_stream".into(),
    };
    Error::new(ErrorKind::TooSmall, text)
}
