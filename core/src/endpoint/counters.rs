//! Counters of an endpoint, for reports.

/// Counts since the connection began, or [`reset_counters`](crate::Endpoint::reset_counters); they wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Messages that left in a slot line.
    pub inline_sent: u64,
    /// Messages that came in a slot line.
    pub inline_received: u64,
    /// Chunks sent.
    pub chunks_sent: u64,
    /// Chunks received.
    pub chunks_received: u64,
    /// Payload bytes sent in chunks.
    pub bytes_sent: u64,
    /// Payload bytes received in chunks.
    pub bytes_received: u64,
    /// Payload bytes among them that were written remotely, out of the application's memory into that of the peer's.
    pub remote_bytes_sent: u64,
    /// Payload bytes among those received that came so.
    pub remote_bytes_received: u64,
    /// Times that a sender found no free block, because the receiver has not consumed enough.
    pub credit_waits: u64,
    /// Times that a sender waited for a CTS.
    pub cts_waits: u64,
    /// Acknowledgements written.
    pub acks_sent: u64,
    /// Control messages sent.
    pub controls_sent: u64,
    /// Control messages received.
    pub controls_received: u64,
    /// Control messages about growth among them, of both directions.
    pub growth_controls: u64,
    /// Larger landing buffers of the peer that this end asked for.
    pub growths_asked: u64,
    /// Larger landing buffers that the peer refused, or that this end could not use.
    pub growths_refused: u64,
    /// Landing buffers of the peer that this end moved to: larger ones, and the base.
    pub moves: u64,
    /// Checked flags whose contents did not match yet.
    pub check_misses: u64,
    /// Work requests that found the send queue full, or no credit for their notification.
    pub sq_full: u64,
}
