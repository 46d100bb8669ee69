//! What is played: plain data.

use superpipe_core::{Config, Origin, Protocol};

use crate::Setup;

/// What payload looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Anything.
    Random,
    /// Words that are the flags of the chunks to come.
    Flags,
    /// Lines that are chunk headers, with the flags of the chunks to come.
    Headers,
}

/// How a transfer is handed to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// At once, in so many slices; started and pushed where that is too long.
    TrySend(usize),
    /// In pushes of at most so many bytes, in so many slices.
    Push(usize, usize),
    /// Read into the blocks, at most so many bytes at a time; short reads happen.
    Reserve(u32),
    /// Now this, now that.
    Mixed(u32),
}

/// How a transfer is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Pulled into so many slices of so many bytes.
    Pull(usize, usize),
    /// Read in place, so many bytes at most, and often less is consumed.
    InPlace(u32),
    /// Rejected once so many bytes were taken out.
    Reject(usize),
}

/// One transfer.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Payload bytes.
    pub bytes: usize,
    /// Length unknown.
    pub stream: bool,
    /// What the payload looks like.
    pub content: Content,
    /// By which protocol.
    pub protocol: Protocol,
    /// How it is sent.
    pub how: How,
    /// How it is taken out.
    pub take: Take,
    /// Cancelled once so many bytes were sent, if it has not ended by then.
    pub cancel_at: Option<usize>,
}

/// A connection from beginning to end.
#[derive(Clone, Debug)]
pub struct Script {
    /// The fabric.
    pub setup: Setup,
    /// The policies of the two ends.
    pub configs: [Config; 2],
    /// Where counting starts.
    pub origin: Origin,
    /// What each end sends.
    pub transfers: [Vec<Transfer>; 2],
    /// One in so many chances to receive is taken.
    pub slowness: [usize; 2],
}
