//! Sending messages.

use superpipe_core::driver::{Drive, SendFailed, SendOperation};
use superpipe_core::{Length, Reason, RefusedSend, TransferId, bytes_of};

use super::access::DriverAccess;
use super::host_driver::HostDriver;
use super::lending::Lending;
use super::waiting::Waiting;
use super::{Blocking, BlockingSendStream};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::{HostFabric, Way};
use crate::outcome::TrySend;

impl<A: DriverAccess> Blocking<A> {
    /// Sends a message, gathered from slices: at once if it is short and there is room, else as an operation in a wait.
    #[inline]
    pub(crate) fn send(
        &mut self,
        tag: u64,
        slices: &[&[u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<(), Error> {
        match self.begin_send(tag, slices) {
            Some(mut send) => self.send_slowly(&mut send, slices, deadline.into()),
            None => Ok(()),
        }
    }

    /// Sends a message at once, and returns `None`, or else the operation that is to send it.
    #[inline]
    pub(super) fn begin_send(&mut self, tag: u64, slices: &[&[u8]]) -> Option<SendOperation> {
        let begun = match self.access().try_hold() {
            Some(mut held) => {
                let HostDriver { driver, fabric, .. } = &mut *held;
                driver.begin_send(fabric, tag, slices)
            }
            None => Some(SendOperation::new(tag, bytes_of(slices))),
        };
        if A::IS_SHARED && begun.is_none() {
            self.yield_after_moving(bytes_of(slices));
        }
        begun
    }

    /// Waits for room and sends the message part by part, unless the deadline is zero.
    #[cold]
    #[inline(never)]
    pub(super) fn send_slowly(
        &mut self,
        send: &mut SendOperation,
        slices: &[&[u8]],
        deadline: Deadline,
    ) -> Result<(), Error> {
        if deadline.is_poll() {
            return Err(self.not_sent_at_once(send));
        }
        Lending::new(self.access(), Way::Out).send(send, slices, deadline)
    }

    /// Returns the error of a message that was not sent at once, in a call whose deadline is zero.
    fn not_sent_at_once(&mut self, send: &SendOperation) -> Error {
        let Some(mut host) = self.access().try_hold() else { return Error::deadline() };
        if let Some(closed) = host.driver.endpoint().closed() {
            return Error::closed(closed);
        }
        // A program may call nothing but this. What `progress` finds, the next call reports.
        let ended = host.count_empty_try().err();
        host.progress();
        ended.unwrap_or_else(|| if send.needs_transfer() { too_long() } else { Error::deadline() })
    }

    /// Sends a message if that is possible without waiting.
    #[inline]
    pub(crate) fn try_send(&mut self, tag: u64, slices: &[&[u8]]) -> Result<TrySend, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(TrySend::Full) };
        let host = &mut *held;
        match host.driver.try_send(&mut host.fabric, tag, slices) {
            Ok(_) => Ok(TrySend::Sent),
            Err(RefusedSend::NoCredit | RefusedSend::Busy) => {
                host.count_empty_try()?;
                Ok(TrySend::Full)
            }
            Err(RefusedSend::TooLong) => Ok(TrySend::TooLong),
            Err(refused) => Err(host.refused(refused)),
        }
    }

    /// Sends the next part of a message.
    pub(crate) fn drive_send(
        &mut self,
        send: &mut SendOperation,
        slices: &[&[u8]],
    ) -> Result<Drive<()>, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(Drive::Idle) };
        let host = &mut *held;
        match host.driver.drive_send(&mut host.fabric, send, slices) {
            Drive::Done(sent) => sent.map(Drive::Done).map_err(|failed| host.send_failed(failed)),
            Drive::Moved => Ok(Drive::Moved),
            Drive::Idle => {
                host.count_idle_drive()?;
                Ok(Drive::Idle)
            }
        }
    }

    /// Cancels a message.
    pub(crate) fn cancel_send(&mut self, send: &mut SendOperation, reason: Reason) {
        let host = &mut *self.access().hold();
        host.driver.cancel_send(&mut host.fabric, send, reason);
    }

    /// Opens a stream, once the previous transfer has ended or its cancellation was sent.
    pub(crate) fn open_stream(
        &mut self,
        tag: u64,
        deadline: Deadline,
    ) -> Result<BlockingSendStream<'_, A>, Error> {
        let started = self.access().wait(deadline, |driver, _| {
            let started = driver.endpoint_mut().start(tag, Length::Stream);
            (started != Err(RefusedSend::Busy)).then_some(started).into()
        })?;
        let id = started.map_err(|refused| self.access().hold().refused(refused))?;
        Ok(BlockingSendStream::new(self, id))
    }

    pub(super) fn give_up(&mut self, id: TransferId, reason: Reason) {
        let host = &mut *self.access().hold();
        host.driver.cancel_stream(&mut host.fabric, id, reason);
    }
}

fn too_long() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "the message is too long to be sent without waiting: give it a deadline, or begin an operation",
    )
}

impl<F: HostFabric> HostDriver<F> {
    /// Returns the error of a sending call that was refused for good.
    pub(super) fn refused(&self, refused: RefusedSend) -> Error {
        match (refused, self.driver.endpoint().closed()) {
            (RefusedSend::Rejected(reason), _) => Error::rejected(reason),
            (RefusedSend::Closed, Some(closed)) => Error::closed(closed),
            _ => Error::new(ErrorKind::Usage, refused.to_string()),
        }
    }

    pub(super) fn send_failed(&self, failed: SendFailed) -> Error {
        self.refused(match failed {
            SendFailed::Rejected(reason) => RefusedSend::Rejected(reason),
            SendFailed::Closed => RefusedSend::Closed,
            SendFailed::WrongLength => RefusedSend::WrongLength,
            SendFailed::NotOpen => RefusedSend::NotOpen,
        })
    }
}
