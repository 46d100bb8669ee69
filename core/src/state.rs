//! State of an endpoint, for reports and for tests that count what was tried in which state.

/// State of the outgoing transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// No transfer is open, and no CANCEL is due.
    Nothing,
    /// A transfer was started, and nothing of it was sent.
    Started,
    /// A transfer waits for its CTS.
    AwaitingCts,
    /// A part of a transfer was sent, and only room for more is awaited.
    Underway,
    /// A transfer was cancelled or rejected, and its CANCEL is not in the ring yet.
    Cancelling,
}

/// State of the incoming transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    /// No transfer is open.
    Nothing,
    /// A transfer is being taken out.
    Underway,
    /// A transfer was rejected, and its rest is discarded.
    Discarding,
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Both ends may send.
    Open,
    /// The peer's CLOSE arrived, and what it sent before is still being taken out.
    PeerCloses,
    /// This end has closed.
    ClosedHere,
    /// The peer has closed.
    ClosedByPeer,
    /// The peer broke a rule, or the device failed.
    Failed,
}

/// State of growth as a sender: the larger landing buffer that it asks its peer for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requesting {
    /// None is asked for.
    #[default]
    Nothing,
    /// GROW is due, or was sent and is not answered. The image may be made meanwhile.
    Asking,
    /// It was granted, and the image of it is not ready.
    MakingImage,
    /// It is ready, and the sender has not moved yet.
    Ready,
    /// It was granted and cannot be used, and its RETIRED is due.
    GivingBack,
}

/// State of the landing buffer that a sender has left for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaving {
    /// There is none.
    #[default]
    Nothing,
    /// Chunks in it are not consumed, or not written.
    InUse,
    /// RETIRED was sent, and its write has not completed.
    Retired,
    /// The image of it is being released.
    Releasing,
}

/// State of growth as the owner of a landing buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Providing {
    /// Nothing is under way.
    #[default]
    Nothing,
    /// A larger landing buffer is being provisioned.
    Provisioning,
    /// It is granted, and no chunk was seen in it.
    Granted,
    /// The peer was asked to leave the current one for the base, and no chunk was seen there.
    Shrinking,
    /// The peer has moved, and the landing buffer that it left is not retired.
    Left,
    /// What was retired is being released.
    Releasing,
}

/// State of growth of both directions at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrowthState {
    /// What it asks its peer for.
    pub requesting: Requesting,
    /// The landing buffer of the peer that it has left.
    pub leaving: Leaving,
    /// What it provides.
    pub providing: Providing,
}

/// The state of both halves, of growth, and of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// State of the sending half.
    pub sending: Sending,
    /// State of the receiving half.
    pub receiving: Receiving,
    /// State of growth.
    pub growth: GrowthState,
    /// State of the connection.
    pub phase: Phase,
}
