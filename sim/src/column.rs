//! States of an end, as tables of what struck or was called in them have them.

use core::fmt;

use superpipe_core::{Phase, Receiving, Sending, State};

/// What an end is in when a fault strikes: it connects, or is in one state each of sending, receiving and its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Memory is being registered.
    Connecting,
    /// What it sends.
    Sending(Sending),
    /// What it receives.
    Receiving(Receiving),
    /// How far its connection is.
    Phase(Phase),
}

impl Column {
    /// All of them.
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

    /// Those of an end in this state; `None` while it connects.
    pub(crate) const fn of(state: Option<State>) -> [Self; 3] {
        match state {
            None => [Self::Connecting; 3],
            Some(State { sending, receiving, phase }) => {
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

impl fmt::Display for Column {
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
