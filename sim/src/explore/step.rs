//! What can happen next.

use core::fmt;

/// One step of one end, or of what is between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The application hands the next bytes over, or begins or ends a transfer.
    Send(usize),
    /// The application gives its open transfer up.
    Cancel(usize),
    /// The application looks for a transfer, or takes out what has come of the one that it knows.
    Receive(usize),
    /// The application refuses the transfer that it knows.
    Reject(usize),
    /// One round of `progress`, and the events that it gave.
    Progress(usize),
    /// So many rounds in which nothing is to be done that what is owed is acknowledged.
    Rest(usize),
    /// The endpoint looks at the peer's acknowledgements.
    Look(usize),
    /// A sign of life.
    ShowLife(usize),
    /// The application asks whether everything was delivered, and if so closes.
    Close(usize),
    /// The application closes with a reason that ends everything.
    Abort(usize),
    /// A piece of a write of this end becomes visible.
    Deliver { from: usize, write: usize, piece: usize },
    /// The oldest WR of this end is completed, and if that is signaled the end progresses: until it does, it cannot know.
    Complete(usize),
}

impl Step {
    /// Whether it may never happen: what must come to an end must do so without.
    pub(super) const fn is_optional(self) -> bool {
        matches!(self, Self::Cancel(_) | Self::Reject(_) | Self::Look(_) | Self::Abort(_))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (end, what) = match self {
            Self::Send(end) => (end, "sends"),
            Self::Cancel(end) => (end, "cancels its transfer"),
            Self::Receive(end) => (end, "receives"),
            Self::Reject(end) => (end, "rejects the transfer at the head"),
            Self::Progress(end) => (end, "progresses"),
            Self::Rest(end) => (end, "rests"),
            Self::Look(end) => (end, "looks at the acknowledgements"),
            Self::ShowLife(end) => (end, "shows life"),
            Self::Close(end) => (end, "asks whether all was delivered, to close"),
            Self::Abort(end) => (end, "closes with a reason"),
            Self::Deliver { from, .. } => (from, "has a piece of a write become visible"),
            Self::Complete(end) => (end, "has its oldest WR completed"),
        };
        write!(f, "end {end} {what}")
    }
}
