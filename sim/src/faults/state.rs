//! States of an end, as rows and columns of the tables.

use core::fmt;

use superpipe_core::{Phase, Receiving, Sending, State};

/// Connecting, or one of the states of sending, of receiving, and of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndState {
    /// The end registers memory.
    Connecting,
    /// State of sending.
    Sending(Sending),
    /// State of receiving.
    Receiving(Receiving),
    /// Phase of the connection.
    Phase(Phase),
}

impl EndState {
    /// All states in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Connecting,
        Self::Sending(Sending::Nothing),
        Self::Sending(Sending::Started),
        Self::Sending(Sending::AwaitingCts),
        Self::Sending(Sending::Underway),
        Self::Sending(Sending::Cancelling),
        Self::Receiving(Receiving::Nothing),
        Self::Receiving(Receiving::Underway),
        Self::Receiving(Receiving::Discarding),
        Self::Phase(Phase::Open),
        Self::Phase(Phase::PeerCloses),
        Self::Phase(Phase::ClosedHere),
        Self::Phase(Phase::ClosedByPeer),
        Self::Phase(Phase::Failed),
    ];

    /// Returns the three states of an end. `None` is an end that connects.
    pub(crate) const fn of(state: Option<State>) -> [Self; 3] {
        match state {
            None => [Self::Connecting; 3],
            Some(State { sending, receiving, growth: _, phase }) => {
                [Self::Sending(sending), Self::Receiving(receiving), Self::Phase(phase)]
            }
        }
    }

    pub(crate) const fn number(self) -> usize {
        match self {
            Self::Connecting => 0,
            Self::Sending(sending) => 1 + sending as usize,
            Self::Receiving(receiving) => 6 + receiving as usize,
            Self::Phase(phase) => 9 + phase as usize,
        }
    }
}

impl fmt::Display for EndState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Connecting => "connecting",
            Self::Sending(Sending::Nothing) => "sends nothing",
            Self::Sending(Sending::Started) => "started",
            Self::Sending(Sending::AwaitingCts) => "awaits CTS",
            Self::Sending(Sending::Underway) => "sends",
            Self::Sending(Sending::Cancelling) => "cancels",
            Self::Receiving(Receiving::Nothing) => "receives nothing",
            Self::Receiving(Receiving::Underway) => "receives",
            Self::Receiving(Receiving::Discarding) => "discards",
            Self::Phase(Phase::Open) => "open",
            Self::Phase(Phase::PeerCloses) => "peer closes",
            Self::Phase(Phase::ClosedHere) => "closed here",
            Self::Phase(Phase::ClosedByPeer) => "closed by peer",
            Self::Phase(Phase::Failed) => "failed",
        })
    }
}
