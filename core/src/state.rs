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

/// The state of both halves, and of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// State of the sending half.
    pub sending: Sending,
    /// State of the receiving half.
    pub receiving: Receiving,
    /// State of the connection.
    pub phase: Phase,
}
