//! Measured messages that are sent in parts, without waiting, by a thread that serves other connections meanwhile.

use crate::rperf::link::MessageError;
use crate::rperf::messages::TAG_MESSAGE;
use superpipe::{Connection, Drive, SendOperation, TrySend};

/// Bytes of the messages of a turn, unless one message has more: all other connections wait meanwhile.
pub const TURN_BYTES: u64 = 256 << 10;
/// Longest message that is sent at once.
const SHORT_BYTES: usize = 64 << 10;

/// Sends a message, or the next part of it; `send` has its state between the parts.
///
/// # Errors
/// Of the library.
#[inline]
pub fn send_part(
    connection: &mut Connection,
    send: &mut Option<SendOperation>,
    message: &[u8],
) -> Result<Drive<()>, MessageError> {
    if send.is_none() && message.len() <= SHORT_BYTES {
        match connection.try_send(TAG_MESSAGE, &[message]).map_err(MessageError::Library)? {
            TrySend::Sent => return Ok(Drive::Done(())),
            TrySend::Full => return Ok(Drive::Idle),
            TrySend::TooLong => {}
        }
    }
    let operation = send.get_or_insert_with(|| SendOperation::new(TAG_MESSAGE, message.len()));
    let driven = connection.drive_send(operation, &[message]).map_err(MessageError::Library)?;
    if matches!(driven, Drive::Done(())) {
        *send = None;
    }
    Ok(driven)
}
