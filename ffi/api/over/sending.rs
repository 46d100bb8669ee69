//! Sending messages.

use superpipe_core::{Length, Reason, RefusedSend, TransferId};

use super::transport::Attempt;
use super::{Over, SendOver};
use crate::api::deadline::Deadline;
use crate::api::error::{Error, ErrorKind};
use crate::port::Port;

impl<P: Port> Over<P> {
    /// Sends a message, gathered from slices.
    #[inline]
    pub(in crate::api) fn send(
        &mut self,
        tag: u64,
        slices: &[&[u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<(), Error> {
        let transport = self.transport();
        match transport.endpoint.try_send(&mut transport.port, tag, slices) {
            Ok(_) => Ok(()),
            Err(refused) => self.send_slowly(tag, slices, refused, deadline.into()),
        }
    }

    #[cold]
    fn send_slowly(
        &mut self,
        tag: u64,
        slices: &[&[u8]],
        mut refused: RefusedSend,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let transport = self.transport();
        if matches!(refused, RefusedSend::NoCredit | RefusedSend::Busy) {
            refused = match transport.wait(deadline, |endpoint, port| {
                let sent = endpoint.try_send(port, tag, slices);
                (!matches!(sent, Err(RefusedSend::NoCredit | RefusedSend::Busy))).then_some(sent).into()
            })? {
                Ok(_) => return Ok(()),
                Err(refused) => refused,
            };
        }
        if refused != RefusedSend::TooLong {
            return Err(self.refused(refused));
        }
        let bytes = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let id = self.start(tag, Length::Exact(bytes as u64), deadline)?;
        let transport = self.transport();
        let mut sent = 0;
        let result =
            transport.wait(deadline, |endpoint, port| match endpoint.push_from(port, id, slices, sent) {
                Ok(0) if bytes > 0 => Attempt::Idle,
                Ok(pushed) => {
                    sent += pushed;
                    if sent == bytes { Attempt::Done(Ok(())) } else { Attempt::Moved }
                }
                Err(refused) => Attempt::Done(Err(refused)),
            });
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(refused)) => Err(self.refused(refused)),
            Err(error) => {
                self.give_up(id, Reason::GIVEN_UP);
                Err(error)
            }
        }
    }

    /// Opens a stream.
    pub(in crate::api) fn send_stream(&mut self, tag: u64) -> Result<SendOver<'_, P>, Error> {
        let id = self.start(tag, Length::Stream, Deadline::NONE)?;
        Ok(SendOver::new(self, id))
    }

    /// Starts a transfer, once the one before has been told to the peer.
    pub(super) fn start(
        &mut self,
        tag: u64,
        length: Length,
        deadline: Deadline,
    ) -> Result<TransferId, Error> {
        let started = self.transport().wait(deadline, |endpoint, _| {
            let started = endpoint.start(tag, length);
            (started != Err(RefusedSend::Busy)).then_some(started).into()
        })?;
        started.map_err(|refused| self.refused(refused))
    }

    pub(super) fn give_up(&mut self, id: TransferId, reason: Reason) {
        let transport = self.transport();
        // It may have ended meanwhile: then there is nothing to give up.
        let _ = transport.endpoint.cancel(&mut transport.port, id, reason);
    }

    /// Why a sending call was refused for good.
    pub(super) fn refused(&mut self, refused: RefusedSend) -> Error {
        let transport = self.transport();
        match (refused, transport.endpoint.closed()) {
            (RefusedSend::Rejected(reason), _) => Error::rejected(reason),
            (RefusedSend::Closed, Some(closed)) => Error::closed(closed),
            _ => Error::new(ErrorKind::Usage, refused.to_string()),
        }
    }
}
