//! Receiving messages.

use superpipe_core::{End, Incoming, Length, Reason, TryRecv};

use super::cold::Cold;
use super::transport::Attempt;
use super::{Over, RecvOver};
use crate::api::connection::Received;
use crate::api::deadline::Deadline;
use crate::api::error::{Error, ErrorKind};
use crate::port::Port;

/// Looks for a message before anything else is done: a microsecond or two, the time of an answer from a near core.
const TRIES: u32 = 64;
/// The same, while it is waited for and other things are looked at, too.
const TRIES_IN_A_WAIT: u32 = 1;

impl<P: Port> Over<P> {
    /// Receives the next message whole, scattered into slices.
    #[inline]
    pub(in crate::api) fn recv_into(
        &mut self,
        slices: &mut [&mut [u8]],
        deadline: impl Into<Deadline>,
    ) -> Result<Received, Error> {
        let transport = self.transport();
        let begun = match transport.endpoint.try_recv(&mut transport.port, slices, TRIES) {
            TryRecv::Taken { tag, bytes } => return Ok(Received { tag, bytes }),
            TryRecv::Begun { tag, bytes } => Some(Received { tag, bytes }),
            TryRecv::Nothing | TryRecv::Other => None,
        };
        self.recv_slowly(slices, begun, deadline.into(), false)
    }

    /// Waits for the next message, and takes it block by block; into cold memory with care.
    #[cold]
    #[inline(never)]
    pub(super) fn recv_slowly(
        &mut self,
        slices: &mut [&mut [u8]],
        begun: Option<Received>,
        deadline: Deadline,
        is_cold: bool,
    ) -> Result<Received, Error> {
        let mut cold = None;
        let room = slices.iter().map(|slice| slice.len()).sum::<usize>() as u64;
        let mut tag = begun.map(|begun| begun.tag);
        let mut bytes = begun.map_or(0, |begun| begun.bytes);
        let transport = self.transport();
        let result = transport.wait(deadline, |endpoint, port| {
            if tag.is_none() {
                // Cold memory is prepared before it is written.
                let found =
                    if is_cold { TryRecv::Other } else { endpoint.try_recv(port, slices, TRIES_IN_A_WAIT) };
                match found {
                    TryRecv::Nothing => return Attempt::Idle,
                    TryRecv::Taken { tag: its, bytes: all } => {
                        (tag, bytes) = (Some(its), all);
                        return Attempt::Done(Ok(()));
                    }
                    TryRecv::Begun { tag: its, bytes: some } => {
                        (tag, bytes) = (Some(its), some);
                        return Attempt::Moved;
                    }
                    TryRecv::Other => {}
                }
                let Some(incoming) = endpoint.incoming(port) else { return Attempt::Idle };
                match incoming.length {
                    Length::Exact(length) if length <= room => {
                        tag = Some(incoming.tag);
                        cold = is_cold.then(|| Cold::new(usize::try_from(length).unwrap_or(usize::MAX)));
                    }
                    length => return Attempt::Done(Err(too_small(length, room))),
                }
            }
            let pulled = match &mut cold {
                None => endpoint.pull_from(port, slices, bytes),
                Some(cold) => cold.pull(endpoint, port, slices),
            };
            bytes += pulled.bytes;
            match pulled.end {
                End::No if pulled.bytes > 0 => Attempt::Moved,
                End::No => Attempt::Idle,
                End::Fin => Attempt::Done(Ok(())),
                End::Cancelled(reason) => Attempt::Done(Err(Error::cancelled(reason))),
            }
        });
        match result {
            Ok(Ok(())) => Ok(Received { tag: tag.unwrap_or_default(), bytes }),
            Ok(Err(error)) => Err(error),
            Err(error) => {
                if tag.is_some() {
                    transport.endpoint.reject(&mut transport.port, Reason::GIVEN_UP);
                }
                Err(error)
            }
        }
    }

    /// Waits for the next transfer, and leaves it there.
    pub(in crate::api) fn incoming(&mut self, deadline: Deadline) -> Result<Incoming, Error> {
        self.transport().wait(deadline, |endpoint, port| endpoint.incoming(port).into())
    }

    /// Waits for the next transfer, to be received as a stream.
    pub(in crate::api) fn recv_stream(&mut self, deadline: Deadline) -> Result<RecvOver<'_, P>, Error> {
        let incoming = self.incoming(deadline)?;
        Ok(RecvOver::new(self, incoming))
    }

    /// Refuses the transfer at the head. False if there is none.
    pub(in crate::api) fn reject(&mut self, reason: Reason) -> bool {
        let transport = self.transport();
        transport.endpoint.reject(&mut transport.port, reason)
    }
}

fn too_small(length: Length, room: u64) -> Error {
    let text = match length {
        Length::Exact(bytes) => {
            format!("the message has {bytes} bytes and the buffer {room}: receive it into a larger one")
        }
        Length::Stream => "a stream comes next, not a message: receive it with recv_stream".into(),
    };
    Error::new(ErrorKind::TooSmall, text)
}
