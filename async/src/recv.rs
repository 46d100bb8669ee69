//! Receiving messages: into memory that is borrowed for one poll, or into a buffer of the connection.

use superpipe::{Drive, Error, ErrorKind, Incoming, Length, Received, RecvOperation, TryRecv};

use crate::message::{Message, RecvError};
use crate::shared::{Attempt, Inner, WaitFor};

/// A message that is received into a buffer of the connection.
#[derive(Debug)]
pub(crate) struct Receiving {
    incoming: Incoming,
    operation: RecvOperation,
    buffer: Vec<u8>,
}

/// Tries to take a whole message. One of up to `whole_bytes_max` becomes whole by itself.
pub(crate) fn take(
    inner: &mut Inner,
    slices: &mut [&mut [u8]],
    whole_bytes_max: u64,
) -> Result<Attempt<Received>, RecvError> {
    if let Some(Receiving { incoming, .. }) = inner.receiving {
        return Err(RecvError::NeedsOwnedBuffer(incoming));
    }
    match inner.connection().try_recv(slices)? {
        TryRecv::Received(received) => Ok(Attempt::Done(received)),
        TryRecv::Nothing => Ok(Attempt::Wait(WaitFor::Readable)),
        TryRecv::TooSmall(incoming) => Err(RecvError::TooSmall(incoming)),
        TryRecv::Incomplete(incoming) => match incoming.length {
            Length::Exact(bytes) if bytes <= whole_bytes_max => Ok(Attempt::Wait(WaitFor::Rest)),
            _ => Err(RecvError::NeedsOwnedBuffer(incoming)),
        },
    }
}

/// Continues to receive a message into a buffer of the connection, or begins.
pub(crate) fn continue_message(inner: &mut Inner, bytes_max: usize) -> Result<Attempt<Message>, RecvError> {
    let mut receiving = match inner.receiving.take() {
        Some(receiving) => receiving,
        None => match inner.connection().try_peek()? {
            Some(incoming) => begin(inner, incoming, bytes_max)?,
            None => return Ok(Attempt::Wait(WaitFor::Readable)),
        },
    };
    let Receiving { operation, buffer, .. } = &mut receiving;
    // An error is the end of the message.
    let driven = inner.connection().drive_recv(operation, &mut [buffer])?;
    match driven {
        Drive::Done(Received { tag, bytes }) => {
            let Receiving { mut buffer, .. } = receiving;
            buffer.truncate(bytes);
            Ok(Attempt::Done(Message { tag, bytes: buffer }))
        }
        Drive::Moved => {
            inner.receiving = Some(receiving);
            Ok(Attempt::Moved)
        }
        Drive::Idle => {
            inner.receiving = Some(receiving);
            Ok(Attempt::Wait(WaitFor::Readable))
        }
    }
}

fn begin(inner: &mut Inner, incoming: Incoming, bytes_max: usize) -> Result<Receiving, RecvError> {
    let bytes = match incoming.length {
        Length::Exact(bytes) => usize::try_from(bytes).ok().filter(|bytes| *bytes <= bytes_max),
        Length::Stream => None,
    };
    let Some(bytes) = bytes else { return Err(RecvError::TooSmall(incoming)) };
    // The length is the peer's word.
    if Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
        let text =
            format!("there is no memory for a message of {bytes} bytes: reject it, or allow shorter ones");
        return Err(Error::new(ErrorKind::Limit, text).into());
    }
    let mut buffer = core::mem::take(&mut inner.spare);
    if buffer.capacity() < bytes {
        // Fresh pages are zero already, and are touched as the message arrives.
        buffer = vec![0; bytes];
    } else {
        buffer.resize(bytes, 0);
    }
    Ok(Receiving { incoming, operation: RecvOperation::new(), buffer })
}
