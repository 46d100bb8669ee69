//! A stream that a program with a loop of its own receives.

use superpipe_core::Incoming;

/// Stream that is received into a sink piece by piece, without waiting: see [`Connection::drive_recv_stream`](crate::Connection::drive_recv_stream).
///
/// Dropping it leaves the stream open, and nothing else can take its rest: drive it to its end, or [reject](crate::Connection::reject) the stream.
#[derive(Debug, Default)]
pub struct RecvStreamOperation {
    /// Number of the connection, and the stream that this takes.
    pub(crate) begun: Option<(u64, Incoming)>,
    pub(crate) has_ended: bool,
}

impl RecvStreamOperation {
    /// Begins to receive the next transfer, message or stream, of the connection that first drives it.
    #[must_use]
    pub const fn new() -> Self {
        Self { begun: None, has_ended: false }
    }
}
