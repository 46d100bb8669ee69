//! Bugs that can be planted on purpose, to see that the simulator finds them; docs/testing.md says after how many runs.
//!
//! Each is a condition in the place where it could be made, and its variant says what it does. To every compiler but one
//! that is given `--cfg superpipe_planted` the condition is `false`. No feature sets that, so that no product has it; under it,
//! `choose` says at run time which bug is there.
#![cfg_attr(
    not(superpipe_planted),
    expect(unreachable_pub, reason = "exported where it can be chosen, and nowhere else")
)]

#[cfg(superpipe_planted)]
use core::sync::atomic::{AtomicUsize, Ordering};

/// A bug, and what it makes of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Blocks are free although the peer has not acknowledged them.
    AckNotAwaited,
    /// A block of the bounce buffer is free before its write has completed.
    CompletionNotAwaited,
    /// The last block that an acknowledgement gives back is counted twice.
    CreditTwice,
    /// A landing buffer is taken for a block longer than it is.
    BlockTooMany,
    /// Any flag but zero is the one that is awaited.
    FlagWithoutSequence,
    /// After the last sequence comes 0, as in memory that was never written.
    ZeroNotSkipped,
    /// Of a chunk with FIN, later blocks are taken without their flags.
    EndBeforeFlag,
    /// Of a message whose blocks are late, the first late one is taken without its flag.
    BegunTooFar,
    /// The CRC in a later block's checked flag is not compared.
    CheckNotCompared,
    /// The complements in the line of acknowledgements are not compared.
    AckNotProven,
    /// An acknowledgement that is older than the newest is taken for a new one.
    StaleAckTaken,
    /// The block at the head is acknowledged before it is copied out.
    AckBeforeCopy,
    /// The block of an inline message that is thrown away is acknowledged twice.
    BlockAckedTwice,
    /// A CTS that cannot be sent at once is never sent.
    CtsForgotten,
    /// A REJECT that cannot be sent at once is never sent.
    RejectForgotten,
    /// As many control messages are sent as are due, whether or not the peer has consumed those before.
    MailboxOverwritten,
    /// A CANCEL that cannot be sent at once is never sent.
    CancelForgotten,
    /// No block is kept for CANCEL.
    BlockNotKept,
    /// A CANCEL is believed although no transfer is open.
    CancelOfNone,
    /// The short way begins a message although a REJECT is due, so that the message cannot be rejected.
    ShortWayUngated,
    /// Reading in place does not see a message in a line.
    InlineHasNoPlace,
    /// A connection that failed, or was closed with a reason, goes on delivering.
    FailedDelivers,
    /// A message of 2^64 - 1 bytes is taken for a stream.
    LengthForStream,
    /// Writes are notified whether or not the peer has a receive for that.
    NoticeNotAwaited,
    /// The last credit for a notification that comes back is counted twice.
    NoticeCreditTwice,
    /// A notification of a control message is believed to be of the next chunk: neither kind nor sequence are compared.
    NoticeOfAnother,
    /// A flag is looked at before its notification was taken.
    NoticeNotRead,
    /// A wait looks at its deadline in rounds without work only.
    DeadlineWhenIdle,
    /// An operation that receives begins at the first of its slices again with each part.
    PlaceLost,
    /// An operation goes on that is of another connection, or a clone of one that has gone on.
    OperationOfAnother,
    /// A connection does not know that it was closed here.
    ClosingForgotten,
    /// A try takes the part of a message that has come.
    TryTakesPart,
    /// An operation that is given up rejects what is at the head although it has not begun to take it.
    CancelOfUnbegun,
}

/// Whether this bug is there.
#[cfg(not(superpipe_planted))]
#[inline(always)]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}

/// 0, or 1 and the number of the bug that is there.
#[cfg(superpipe_planted)]
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

#[cfg(superpipe_planted)]
impl Bug {
    /// All of them.
    pub const ALL: [Self; 33] = [
        Self::AckNotAwaited,
        Self::CompletionNotAwaited,
        Self::CreditTwice,
        Self::BlockTooMany,
        Self::FlagWithoutSequence,
        Self::ZeroNotSkipped,
        Self::EndBeforeFlag,
        Self::BegunTooFar,
        Self::CheckNotCompared,
        Self::AckNotProven,
        Self::StaleAckTaken,
        Self::AckBeforeCopy,
        Self::BlockAckedTwice,
        Self::CtsForgotten,
        Self::RejectForgotten,
        Self::MailboxOverwritten,
        Self::CancelForgotten,
        Self::BlockNotKept,
        Self::CancelOfNone,
        Self::ShortWayUngated,
        Self::InlineHasNoPlace,
        Self::FailedDelivers,
        Self::LengthForStream,
        Self::NoticeNotAwaited,
        Self::NoticeCreditTwice,
        Self::NoticeOfAnother,
        Self::NoticeNotRead,
        Self::DeadlineWhenIdle,
        Self::PlaceLost,
        Self::OperationOfAnother,
        Self::ClosingForgotten,
        Self::TryTakesPart,
        Self::CancelOfUnbegun,
    ];
}

/// From now on this bug is there, or none: in the whole process, so not while anything runs.
#[cfg(superpipe_planted)]
pub fn choose(bug: Option<Bug>) {
    CHOSEN.store(bug.map_or(0, |bug| bug as usize + 1), Ordering::Relaxed);
}

/// Whether this bug is there.
#[cfg(superpipe_planted)]
pub(crate) fn is_planted(bug: Bug) -> bool {
    CHOSEN.load(Ordering::Relaxed) == bug as usize + 1
}
