//! Counters of an endpoint, for reports.

use crate::copying::{CopyKernel, SIZE_CLASSES, WindowReason};

/// Counts since the connection began, or [`reset_counters`](crate::Endpoint::reset_counters); they wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Transfers, messages and streams, of which this end has sent something.
    pub transfers_sent: u64,
    /// Transfers of which this end has received something.
    pub transfers_received: u64,
    /// Transfers of this end that ended by a CANCEL, since it gave them up or since the peer rejected them.
    pub cancels_sent: u64,
    /// Transfers of the peer that ended so.
    pub cancels_received: u64,
    /// Transfers of the peer that this end rejected.
    pub rejects_sent: u64,
    /// Transfers of this end that the peer rejected.
    pub rejects_received: u64,
    /// Keepalives sent.
    pub keepalives_sent: u64,
    /// Looks at the peer's acknowledgements that found another keepalive.
    pub keepalives_received: u64,
    /// Messages that left in a slot line.
    pub inline_sent: u64,
    /// Messages that came in a slot line.
    pub inline_received: u64,
    /// Chunks sent.
    pub chunks_sent: u64,
    /// Chunks received.
    pub chunks_received: u64,
    /// Payload bytes sent, by any way but in a line: in chunks, by remote writes, out of exposed memory, and into offered memory.
    pub bytes_sent: u64,
    /// Payload bytes received, by any way but in a line.
    pub bytes_received: u64,
    /// Payload bytes among them that were written remotely, out of the application's memory into that of the peer's.
    pub remote_bytes_sent: u64,
    /// Payload bytes among those received that came so.
    pub remote_bytes_received: u64,
    /// Payload bytes among those sent that the receiver copies straight out of memory that was exposed to it.
    pub exposed_bytes_sent: u64,
    /// Payload bytes among those received that were copied so.
    pub exposed_bytes_received: u64,
    /// Payload bytes among those sent that this end wrote into memory that the receiver had offered: the tails of split messages. Their heads count
    /// as copied out of exposed memory.
    pub split_bytes_sent: u64,
    /// Payload bytes among those received that the peer wrote so.
    pub split_bytes_received: u64,
    /// Bytes of the peer's memory that are mapped now, for messages out of it and into it. [`reset_counters`](crate::Endpoint::reset_counters) leaves
    /// them as they are.
    pub mapped_bytes: u64,
    /// Memories of the peer that were not mapped: no room in the budget; refused by the machine; not what the peer said.
    pub maps_refused: [u64; 3],
    /// Remote writes that this end posted.
    pub remote_writes: u64,
    /// Messages whose memory was registered before, at this end: sent out of it, or received into it. Over shared memory the host counts
    /// messages of [`Config::one_copy_bytes`](crate::Config::one_copy_bytes) and more out of registered buffers that the peer has mapped.
    pub registrations_hit: u64,
    /// Messages for which this end had to begin a registration, or went another way since the memory was not registered yet, or was
    /// refused. Over shared memory the host counts them, too.
    pub registrations_missed: u64,
    /// Those of them that failed: no room in the budget, or refused by the machine. Their messages went in blocks.
    pub registrations_failed: u64,
    /// Nanoseconds from the begin to the end of registrations and deregistrations for a message, as this end saw them. The sender's are hidden
    /// while RTS and CTS are under way, so this is not time lost.
    pub registration_ns: u64,
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
    /// Bytes of this end's landing buffers beside the base now: in use; granted, and not in use yet; left, and not released yet. A landing
    /// buffer that never grows counts as none. [`reset_counters`](crate::Endpoint::reset_counters) leaves them as they are.
    pub landing_bytes: [u64; 3],
    /// Most of these bytes at a time, since the connection began.
    pub landing_bytes_peak: u64,
    /// Larger landing buffers that this end provisioned for its peer.
    pub growths: u64,
    /// Growths that this end refused its peer: no room in the budget; refused by the machine; large enough already.
    pub refusals: [u64; 3],
    /// Times that this end asked its peer to leave a larger landing buffer.
    pub shrinks: u64,
    /// Times among them that it asked because others waited for the memory, or because there was no room for others and it was not used.
    pub reclaims: u64,
    /// Landing buffers that this end released.
    pub releases: u64,
    /// Jobs of the fabric that ended: memory of this end or of its application that was provisioned, registered, deregistered or released.
    pub jobs: u64,
    /// Jobs among them that failed.
    pub jobs_failed: u64,
    /// Nanoseconds from the begin of each job to its end as this end saw it. Jobs run beside each other and beside transfers.
    pub jobs_ns: u64,
    /// Nanoseconds among them that were visible; all others were hidden. Visible is the time of a job from the last movement in its direction
    /// to its end, while something waits for the job, and the time in which this end's own thread made steps of jobs. The value may
    /// be too small by at most the time of one round of progress. docs/architecture/memory.md, "The time of jobs".
    pub jobs_visible_ns: u64,
    /// Bytes of the peer's landing buffer that this end cycles through ([`Endpoint::set_window`](crate::Endpoint::set_window)). This and the next
    /// six say what was chosen; [`reset_counters`](crate::Endpoint::reset_counters) leaves them as they are.
    pub window_bytes: u64,
    /// Reason for this window.
    pub window_reason: WindowReason,
    /// Times that another window was chosen, since the connection began.
    pub window_changes: u32,
    /// Kernel of copies into blocks, for messages of each class of [`size_class_bytes`](crate::size_class_bytes). wire.md 4.12.
    pub copy_in: [CopyKernel; SIZE_CLASSES],
    /// Kernel of copies out of blocks.
    pub copy_out: [CopyKernel; SIZE_CLASSES],
    /// Copies that were timed, since the connection began: into blocks, and out of them.
    pub copies_timed: [u64; 2],
    /// Times that another kernel was chosen, since the connection began: for copies into blocks, and out of them.
    pub copy_changes: [u32; 2],
    /// Checked flags whose contents did not match yet.
    pub check_misses: u64,
    /// Work requests that found the send queue full, or no credit for their notification.
    pub sq_full: u64,
}
