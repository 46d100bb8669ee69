//! Where an endpoint stands: for reports, and for tests that ask what has been tried in which state.

/// The transfer that goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// None, and no CANCEL is due.
    Nothing,
    /// It was started, and nothing of it was sent.
    Started,
    /// It needs a CTS to go on.
    AwaitingCts,
    /// Some of it was sent, and nothing but room for more is awaited.
    Underway,
    /// It was cancelled or rejected, and its CANCEL is not in the ring yet.
    Cancelling,
}

/// The transfer at the head of what comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    /// None.
    Nothing,
    /// It is being taken out.
    Underway,
    /// It was rejected: what comes of it is thrown away.
    Discarding,
}

/// The connection as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Both ends may send.
    Open,
    /// The peer has said that it closes, and what it sent before is still being taken out.
    PeerCloses,
    /// This end has closed.
    ClosedHere,
    /// The peer has closed.
    ClosedByPeer,
    /// Something failed.
    Failed,
}

/// The state of both halves, and of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// What goes out.
    pub sending: Sending,
    /// What comes in.
    pub receiving: Receiving,
    /// Whether anything may.
    pub phase: Phase,
}
