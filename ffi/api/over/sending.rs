//! Sending messages.

use superpipe_core::driver::{Drive, Send, SendFailed};
use superpipe_core::{Length, Reason, RefusedSend, TransferId};

use super::access::Access;
use super::transport::Transport;
use super::waiting::Waiting;
use super::{Over, SendOver};
use crate::api::deadline::Deadline;
use crate::api::error::{Error, ErrorKind};
use crate::api::outcome::TrySend;
use crate::port::Port;

impl<A: Access> Over<A> {
    /// Sends a message, gathered from slices.
    #[inline]
    pub(in crate::api) fn send(
        &mut self,
        tag: u64,
        slices: &[&[u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<(), Error> {
        let tried = match self.transport().try_hold() {
            Some(mut held) => {
                let transport = &mut *held;
                transport.driver.try_send(&mut transport.port, tag, slices)
            }
            None => Err(RefusedSend::Busy),
        };
        if let Err(refused) = tried {
            return self.send_slowly(tag, slices, refused, deadline.into());
        }
        if A::IS_SHARED {
            self.after_moving(bytes_of(slices));
        }
        Ok(())
    }

    #[cold]
    fn send_slowly(
        &mut self,
        tag: u64,
        slices: &[&[u8]],
        refused: RefusedSend,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let transport = self.transport();
        if deadline.is_poll() {
            return Err(match refused {
                RefusedSend::NoCredit | RefusedSend::Busy => {
                    // It may be all that its caller ever calls. What this finds, the next call tells.
                    let mut held = transport.hold();
                    let ended = held.after_empty_try().err();
                    held.progress();
                    ended.unwrap_or_else(Error::deadline)
                }
                RefusedSend::TooLong => Error::new(
                    ErrorKind::Timeout,
                    "the message is too long to be sent without waiting: give it a deadline, or begin an operation",
                ),
                refused => transport.hold().refused(refused),
            });
        }
        let mut send = Send::new(tag, bytes_of(slices));
        let sent = transport.wait(deadline, |driver, port| driver.drive_send(port, &mut send, slices));
        match sent {
            Ok(sent) => sent.map_err(|failed| transport.hold().send_failed(failed)),
            Err(error) => {
                let transport = &mut *transport.hold();
                transport.driver.cancel_send(&mut transport.port, &mut send, Reason::GIVEN_UP);
                Err(error)
            }
        }
    }

    /// Sends a message if that needs no waiting.
    #[inline]
    pub(in crate::api) fn try_send(&mut self, tag: u64, slices: &[&[u8]]) -> Result<TrySend, Error> {
        let Some(mut held) = self.transport().try_hold() else { return Ok(TrySend::Full) };
        let transport = &mut *held;
        match transport.driver.try_send(&mut transport.port, tag, slices) {
            Ok(_) => Ok(TrySend::Sent),
            Err(RefusedSend::NoCredit | RefusedSend::Busy) => {
                transport.after_empty_try()?;
                Ok(TrySend::Full)
            }
            Err(RefusedSend::TooLong) => Ok(TrySend::Long),
            Err(refused) => Err(transport.refused(refused)),
        }
    }

    /// Sends the next part of a message.
    pub(in crate::api) fn drive_send(
        &mut self,
        send: &mut Send,
        slices: &[&[u8]],
    ) -> Result<Drive<()>, Error> {
        let Some(mut held) = self.transport().try_hold() else { return Ok(Drive::Idle) };
        let transport = &mut *held;
        match transport.driver.drive_send(&mut transport.port, send, slices) {
            Drive::Done(sent) => sent.map(Drive::Done).map_err(|failed| transport.send_failed(failed)),
            Drive::Moved => Ok(Drive::Moved),
            Drive::Idle => {
                transport.after_idle_drive()?;
                Ok(Drive::Idle)
            }
        }
    }

    /// Gives a message up.
    pub(in crate::api) fn cancel_send(&mut self, send: &mut Send, reason: Reason) {
        let transport = &mut *self.transport().hold();
        transport.driver.cancel_send(&mut transport.port, send, reason);
    }

    /// Opens a stream, once the transfer before has been told to the peer.
    pub(in crate::api) fn send_stream(
        &mut self,
        tag: u64,
        deadline: Deadline,
    ) -> Result<SendOver<'_, A>, Error> {
        let started = self.transport().wait(deadline, |driver, _| {
            let started = driver.endpoint_mut().start(tag, Length::Stream);
            (started != Err(RefusedSend::Busy)).then_some(started).into()
        })?;
        let id = started.map_err(|refused| self.transport().hold().refused(refused))?;
        Ok(SendOver::new(self, id))
    }

    pub(super) fn give_up(&mut self, id: TransferId, reason: Reason) {
        let transport = &mut *self.transport().hold();
        transport.driver.cancel_stream(&mut transport.port, id, reason);
    }
}

impl<P: Port> Transport<P> {
    /// Error of a sending call that was refused for good.
    pub(super) fn refused(&self, refused: RefusedSend) -> Error {
        match (refused, self.driver.endpoint().closed()) {
            (RefusedSend::Rejected(reason), _) => Error::rejected(reason),
            (RefusedSend::Closed, Some(closed)) => Error::closed(closed),
            _ => Error::new(ErrorKind::Usage, refused.to_string()),
        }
    }

    fn send_failed(&self, failed: SendFailed) -> Error {
        self.refused(match failed {
            SendFailed::Rejected(reason) => RefusedSend::Rejected(reason),
            SendFailed::Closed => RefusedSend::Closed,
            SendFailed::WrongLength => RefusedSend::WrongLength,
            SendFailed::NotOpen => RefusedSend::NotOpen,
        })
    }
}

/// Bytes of all slices together; the most that can be counted where there are more.
fn bytes_of(slices: &[&[u8]]) -> usize {
    slices.iter().fold(0, |bytes: usize, slice| bytes.saturating_add(slice.len()))
}
