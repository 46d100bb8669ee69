//! Steps between states.

use core::fmt;

/// A step of one end or of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The application sends the next bytes, or begins or ends a transfer.
    Send(usize),
    /// The application cancels its open transfer.
    Cancel(usize),
    /// The application polls for a transfer, or receives more of the one that it knows.
    Receive(usize),
    /// The application rejects the transfer that it knows.
    Reject(usize),
    /// One round of `progress`, and its events.
    Progress(usize),
    /// A round without work, after which the end sends its outstanding acknowledgements.
    Rest(usize),
    /// The driver checks the time, and the endpoint reads the peer's acknowledgements.
    CheckTime(usize),
    /// A keepalive.
    SendKeepalive(usize),
    /// The application asks whether everything was delivered, and if so closes.
    Close(usize),
    /// The application closes with a reason that ends everything.
    Abort(usize),
    /// The application wishes to give its larger landing buffer back.
    Shrink(usize),
    /// An end chooses the window of its next laps, in blocks.
    SetWindow { side: usize, blocks: u32 },
    /// The application exposes a buffer.
    Expose(usize),
    /// The application withdraws the buffer that is exposed.
    Withdraw(usize),
    /// The application begins a message out of a buffer that was withdrawn.
    SendStale(usize),
    /// The application exposes a buffer that the peer may write.
    ExposeWritable(usize),
    /// The application withdraws that buffer.
    WithdrawWritable(usize),
    /// The application offers that buffer to the next transfer.
    Offer(usize),
    /// A job of this end is done, and the end progresses, since it cannot know before.
    FinishJob { side: usize, job: usize },
    /// A job of this end fails, and the end progresses.
    FailJob { side: usize, job: usize },
    /// The end of the last job of this end is reported once more, and the end progresses.
    RepeatJob(usize),
    /// The deadline of a receive of this end passes.
    GiveUp(usize),
    /// This end dies.
    Die(usize),
    /// This end learns that its link has ended, or that its peer is gone.
    LearnOfLoss(usize),
    /// A piece of a write of this end becomes visible.
    Deliver { from: usize, write: usize, piece: usize },
    /// The oldest WR of this end completes. If it is signaled, the end progresses, since it cannot know before.
    Complete(usize),
}

impl Step {
    /// Returns true if it may never happen, so that the wanted end must be reachable without it.
    pub(super) const fn is_optional(self) -> bool {
        matches!(
            self,
            Self::Cancel(_)
                | Self::Reject(_)
                | Self::CheckTime(_)
                | Self::Abort(_)
                | Self::Shrink(_)
                | Self::SetWindow { .. }
                | Self::Expose(_)
                | Self::Withdraw(_)
                | Self::SendStale(_)
                | Self::ExposeWritable(_)
                | Self::WithdrawWritable(_)
                | Self::Offer(_)
                | Self::FailJob { .. }
                | Self::RepeatJob(_)
                | Self::GiveUp(_)
                | Self::Die(_)
        )
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
            Self::CheckTime(end) => (end, "checks the time"),
            Self::SendKeepalive(end) => (end, "sends a keepalive"),
            Self::Close(end) => (end, "asks whether all was delivered, to close"),
            Self::Abort(end) => (end, "closes with a reason"),
            Self::Shrink(end) => (end, "wishes to shrink"),
            Self::SetWindow { side, .. } => (side, "chooses a window"),
            Self::Expose(end) => (end, "exposes a buffer"),
            Self::Withdraw(end) => (end, "withdraws its buffer"),
            Self::SendStale(end) => (end, "sends out of a buffer that was withdrawn"),
            Self::ExposeWritable(end) => (end, "exposes a buffer for writing"),
            Self::WithdrawWritable(end) => (end, "withdraws its buffer for writing"),
            Self::Offer(end) => (end, "offers its buffer"),
            Self::FinishJob { side, .. } => (side, "has a job done"),
            Self::FailJob { side, .. } => (side, "has a job fail"),
            Self::RepeatJob(end) => (end, "learns of the end of a job once more"),
            Self::GiveUp(end) => (end, "gives up a receive"),
            Self::Die(end) => (end, "dies"),
            Self::LearnOfLoss(end) => (end, "learns that its peer is gone"),
            Self::Deliver { from, .. } => (from, "has a piece of a write become visible"),
            Self::Complete(end) => (end, "has its oldest WR completed"),
        };
        write!(f, "end {end} {what}")
    }
}
