//! Results of calls that never wait.

use superpipe_core::Incoming;
use superpipe_core::driver::Received;

use crate::loan::Loan;
use crate::reserved::Reserved;

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
    /// A message has arrived in part: begin an operation
    /// ([`Connection::drive_recv`](crate::Connection::drive_recv)), or try again, for a limited time: the peer may never send the rest, and the part is there meanwhile.
    /// One of more than [`Description::whole_bytes_max`](crate::Description::whole_bytes_max) bytes may never be complete without an operation: its sender waits for a CTS, or for room. A message out of a registered buffer that is mapped here is complete at
    /// once, whatever its length.
    Incomplete(Incoming),
}

/// Result of [`Connection::try_recv_loan`](crate::Connection::try_recv_loan).
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum TryRecvLoan {
    /// No message has arrived.
    Nothing,
    /// A message, in place.
    Loan(Loan),
    /// A message has arrived in part: try again.
    Incomplete(Incoming),
    /// What is next cannot be read in place, and is still there: receive it with another call, such as
    /// [`Connection::recv_into`](crate::Connection::recv_into). It is a stream, or a message that does not lie in the landing buffer as a whole: one whose
    /// sender waits for the CTS (more than 64 KiB, unless it was [reserved](crate::Connection::reserve)), one that is longer than the landing
    /// buffer, one in memory that is mapped here, or one that another call has begun to take.
    Elsewhere(Incoming),
    /// [`LOANS_MAX`](crate::LOANS_MAX) loans are held: give one back, or receive the message with another call. It is still there.
    Full(Incoming),
}

/// Result of [`Connection::try_reserve`](crate::Connection::try_reserve).
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum TryReserve {
    /// Space for the message.
    Reserved(Reserved),
    /// There is no room now, a larger landing buffer was asked for, or another transfer is open: try again.
    Pending,
}
