//! Results of calls that never wait.

use superpipe_core::Incoming;
use superpipe_core::driver::Received;

/// Result of [`Connection::try_send`](crate::Connection::try_send).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrySend {
    /// The message is on its way, and the caller may use the slices again.
    Sent,
    /// There is no room now, or another transfer is open: try again.
    Full,
    /// It is too long to be sent at once: begin an operation ([`Connection::drive_send`](crate::Connection::drive_send)).
    Long,
}

/// Result of [`Connection::try_recv`](crate::Connection::try_recv).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecv {
    /// No message has come.
    Nothing,
    /// A message; it was taken.
    Received(Received),
    /// A message that is longer than the slices together, or a stream; it is still there.
    TooSmall(Incoming),
    /// A message that has not come whole: try again, or begin an operation ([`Connection::drive_receive`](crate::Connection::drive_receive)). One of more than 64 KiB
    /// never comes by itself, since its sender waits for an operation to answer.
    Long(Incoming),
}
