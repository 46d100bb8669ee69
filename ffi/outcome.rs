//! Results of calls that never wait.

use superpipe_core::Incoming;
use superpipe_core::driver::Received;

/// Result of [`Connection::try_send`](crate::Connection::try_send).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrySend {
    /// The message is on its way. The caller may use the slices again.
    Sent,
    /// There is no credit now, or another transfer is open: try again.
    Full,
    /// The message is too long to be sent at once: begin an operation ([`Connection::drive_send`](crate::Connection::drive_send)). With
    /// landing on demand that depends on what the landing buffer has grown to: one that has not grown holds 2,672 bytes.
    TooLong,
}

/// Result of [`Connection::try_recv`](crate::Connection::try_recv).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecv {
    /// No message has arrived.
    Nothing,
    /// A message was received.
    Received(Received),
    /// A message that is longer than the slices together, or a stream, is next. It is still there.
    TooSmall(Incoming),
    /// A message has arrived in part: try again, or begin an operation
    /// ([`Connection::drive_recv`](crate::Connection::drive_recv)). A message of more than 64 KiB never completes without an
    /// operation, since its sender waits for the CTS (unless its protocol is eager). Nor does one that is longer than the landing buffer was
    /// when it began: with landing on demand, of more than 2,672 bytes. A message out of a registered buffer that is mapped here is complete at
    /// once, whatever its length.
    Incomplete(Incoming),
}
