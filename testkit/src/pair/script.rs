//! Scripts, which are plain data.

use superpipe_core::{Config, Origin, Protocol};

use crate::Setup;

/// Content of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Random bytes.
    Random,
    /// Words that are flags of later chunks.
    Flags,
    /// Lines that are chunk headers, with flags of later chunks.
    Headers,
    /// Some 4 KiB of `Flags`, repeated: other ones in each message, and shifted in each block of it. Soon made.
    Repeated,
}

/// Call that sends a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMethod {
    /// `try_send` of this many slices; pushes if the transfer is too long for it.
    TrySend(usize),
    /// Pushes of at most this many bytes, in this many slices.
    Push(usize, usize),
    /// Reservations of at most this many bytes, with short reads.
    Reserve(u32),
    /// Pushes and reservations in turn.
    Mixed(u32),
}

/// Call that receives a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveMethod {
    /// `pull` into slices of this many bytes, and how many of them.
    Pull(usize, usize),
    /// Reads in place of at most this many bytes, often consuming less.
    InPlace(u32),
    /// Rejects once this many bytes were received.
    Reject(usize),
}

/// One transfer.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Payload bytes.
    pub bytes: usize,
    /// The length is unknown.
    pub stream: bool,
    /// Content of the payload.
    pub content: Content,
    /// Protocol.
    pub protocol: Protocol,
    /// Sending call.
    pub send_method: SendMethod,
    /// Receiving call.
    pub receive_method: ReceiveMethod,
    /// Cancels the transfer once this many bytes were sent, unless it has ended.
    pub cancel_at: Option<usize>,
}

impl Transfer {
    /// Returns a message of random bytes that each end moves by as large calls as it can.
    #[must_use]
    pub const fn message(bytes: usize, protocol: Protocol) -> Self {
        Self {
            bytes,
            stream: false,
            content: Content::Random,
            protocol,
            send_method: SendMethod::Push(usize::MAX, 1),
            receive_method: ReceiveMethod::Pull(usize::MAX, 1),
            cancel_at: None,
        }
    }
}

/// A connection from its begin to its end.
#[derive(Clone, Debug)]
pub struct Script {
    /// Parameters of the fabric.
    pub setup: Setup,
    /// Policies of the two ends.
    pub configs: [Config; 2],
    /// First values of the counters.
    pub origin: Origin,
    /// Transfers of each end.
    pub transfers: [Vec<Transfer>; 2],
    /// Each end takes one in this many chances to receive.
    pub slowness: [usize; 2],
    /// The ends change their windows now and then, over direct store.
    pub windows: bool,
}
