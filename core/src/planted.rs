//! Bugs that can be planted on purpose, to prove that the simulator finds them. docs/testing.md lists after how many runs.
//!
//! Each is one line, `planted!(Bug => effect)`, at the place where a programmer could make it. The effect is compiled out unless
//! the compiler is given `--cfg superpipe_planted`, which no feature sets; then `choose` selects a bug at run time.
#![cfg_attr(
    not(superpipe_planted),
    expect(unreachable_pub, reason = "exported where it can be chosen, and nowhere else")
)]

#[cfg(superpipe_planted)]
use core::sync::atomic::{AtomicUsize, Ordering};

/// Plants a bug: runs a statement where the bug was chosen, and is nothing in every build but the one that plants bugs.
macro_rules! planted {
    ($bug:ident => $($effect:tt)*) => {
        if $crate::planted::is_planted($crate::planted::Bug::$bug) {
            $($effect)*;
        }
    };
}

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
    /// Later blocks of a chunk with FIN are taken without their flags.
    EndBeforeFlag,
    /// The first late block of a message is taken without its flag.
    BegunTooFar,
    /// The flag of a group goes out before its last block is copied in.
    GroupFlaggedEarly,
    /// A group is taken for arrived by the flag of the group before.
    NextGroupTaken,
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
    /// Blocks of a message that is lent are acknowledged before it is given back.
    LoanAckedEarly,
    /// Blocks of a message that is lent are acknowledged once a newer loan was given back.
    LoanOutOfOrder,
    /// A move to another landing buffer acknowledges the blocks of a loan in the one before, and RETIRED does not wait for it.
    LoanLeftBehind,
    /// A stale loan is taken for the one in its place.
    StaleLoanTaken,
    /// A CTS that cannot be sent at once is never sent.
    CtsForgotten,
    /// A REJECT that cannot be sent at once is never sent.
    RejectForgotten,
    /// Control messages are sent although the mailbox has no free line.
    MailboxOverwritten,
    /// A CANCEL that cannot be sent at once is never sent.
    CancelForgotten,
    /// No block is kept for CANCEL.
    BlockNotKept,
    /// A CANCEL is believed although no transfer is open.
    CancelOfNone,
    /// The fast path begins a message although a REJECT is due, so that the message cannot be rejected.
    FastPathUngated,
    /// Reading in place does not see a message in a line.
    InlineHasNoPlace,
    /// A connection that failed, or was closed with a reason, goes on delivering.
    FailedDelivers,
    /// A message of 2^64 - 1 bytes is taken for a stream.
    LengthForStream,
    /// Writes are notified whether or not the peer has a receive for that.
    NotificationNotAwaited,
    /// The last credit for a notification that comes back is counted twice.
    NotificationCreditTwice,
    /// A notification of a control message is believed to be of the next chunk: neither kind nor sequence are compared.
    NotificationOfAnother,
    /// A flag is read before its notification was taken.
    NotificationNotRead,
    /// A wait checks its deadline in rounds without work only.
    DeadlineWhenIdle,
    /// An operation that receives begins at the first of its slices again with each part.
    PlaceLost,
    /// What was copied during the rendezvous does not count as taken.
    PreparedNotCounted,
    /// An operation goes on that is of another connection, or a clone of one that has gone on.
    OperationOfAnother,
    /// A connection does not know that it was closed here.
    ClosingForgotten,
    /// A try takes the part of a message that has come.
    TryTakesPart,
    /// Slices that are longer than their message are cut.
    LongSlicesCut,
    /// An operation that is given up rejects what is at the head although it has not begun to take it.
    CancelOfUnbegun,
    /// A ticket of a job that has finished is taken for that of the job in its place.
    StaleTicketTaken,
    /// RETIRED goes out although chunks of the epoch were not consumed.
    RetiredUnconsumed,
    /// RETIRED goes out although writes to the epoch have not completed.
    RetiredUnwritten,
    /// A larger landing buffer is used that was asked for and not granted yet.
    GrantNotAwaited,
    /// The image that was made for a landing buffer which was then refused is not released.
    UnusedImageKept,
    /// Acknowledgements of blocks of the epoch before free blocks of the current one.
    AckOfAnotherEpoch,
    /// The end of remote writes is not notified.
    RemoteEndNotNotified,
    /// The end of remote writes is believed before its notification.
    RemoteEndNotAwaited,
    /// A borrow of memory ends before the memory is deregistered.
    BorrowEndedEarly,
    /// Memory that the peer may write is deregistered at once if its receive is given up after a close.
    GrantForgotten,
    /// The claim of a CTS is used for the open transfer, whichever it names.
    ClaimOfAnother,
    /// The small landing buffer is not released once it was left.
    SmallBufferKept,
    /// Memory is said not to be shared although messages out of it are not acknowledged.
    ExposedNotShared,
    /// A handle of memory that was withdrawn is taken for that of the memory in its place.
    StaleExposed,
    /// A message names memory before the peer has mapped it.
    MappedNotAwaited,
    /// A place is used again before its messages and its WITHDRAWN are acknowledged.
    PlaceReused,
    /// Blocks beyond the length of the lap before are used while that lap is not acknowledged.
    LapBeforeForgotten,
    /// Blocks of the next lap are taken for free while nothing of the current one is acknowledged.
    LapEndForgotten,
    /// Blocks that became free behind the end of a lap are taken for free although its first one is not acknowledged.
    RefillWithoutRoom,
    /// The second line of a message in two lines is written after the flag.
    SecondLineLate,
    /// A single copy that took long says that the cores moved.
    OutlierTrusted,
    /// Once kernels are chosen, nothing is timed again.
    NeverTriesAgain,
    /// A kernel is chosen that is better by anything at all.
    ChoiceFlaps,
    /// Once windows were tried, none is tried again.
    WindowNeverTriesAgain,
    /// A window is chosen by one trial in which it is better by anything at all, and others are tried at any time.
    WindowFlaps,
    /// Memory is unmapped before the messages that name it are consumed.
    UnmappedEarly,
    /// An OFFER for a transfer that has begun is taken for one for the next.
    StaleOfferTaken,
    /// An offer is used for the transfers after its own.
    OfferOutlives,
    /// The tail of a split message is taken before its last chunk has come.
    TailBeforeFin,
    /// The last chunk of a split message goes out before the last part of the tail is written.
    FinBeforeTail,
    /// WITHDRAWN goes out while a transfer may be written into the memory.
    WithdrawnWhileOffered,
    /// The planner takes the way that takes longest.
    PlannerTakesWorst,
    /// A connection that is armed does not look once more after it has asked for a wake-up.
    ArmMissesByte,
    /// A key of what was removed from a poller names what is in its slot now.
    StaleKeyTaken,
    /// Each round of a poller begins with the same connection.
    RoundUnfair,
    /// All of the time for which this process was stopped counts as the peer's silence.
    StopIsSilence,
    /// A landing buffer that a job provisions holds what its place held before, of another layout. The explorer's fabric plants it.
    #[cfg(superpipe_planted)]
    EpochUnzeroed,
}

/// Returns true if this bug is planted.
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
    /// Every bug.
    pub const ALL: [Self; 78] = [
        Self::AckNotAwaited,
        Self::CompletionNotAwaited,
        Self::CreditTwice,
        Self::BlockTooMany,
        Self::FlagWithoutSequence,
        Self::ZeroNotSkipped,
        Self::EndBeforeFlag,
        Self::BegunTooFar,
        Self::GroupFlaggedEarly,
        Self::NextGroupTaken,
        Self::CheckNotCompared,
        Self::AckNotProven,
        Self::StaleAckTaken,
        Self::AckBeforeCopy,
        Self::BlockAckedTwice,
        Self::LoanAckedEarly,
        Self::LoanOutOfOrder,
        Self::LoanLeftBehind,
        Self::StaleLoanTaken,
        Self::CtsForgotten,
        Self::RejectForgotten,
        Self::MailboxOverwritten,
        Self::CancelForgotten,
        Self::BlockNotKept,
        Self::CancelOfNone,
        Self::FastPathUngated,
        Self::InlineHasNoPlace,
        Self::FailedDelivers,
        Self::LengthForStream,
        Self::NotificationNotAwaited,
        Self::NotificationCreditTwice,
        Self::NotificationOfAnother,
        Self::NotificationNotRead,
        Self::DeadlineWhenIdle,
        Self::PlaceLost,
        Self::PreparedNotCounted,
        Self::OperationOfAnother,
        Self::ClosingForgotten,
        Self::TryTakesPart,
        Self::LongSlicesCut,
        Self::CancelOfUnbegun,
        Self::StaleTicketTaken,
        Self::RetiredUnconsumed,
        Self::RetiredUnwritten,
        Self::GrantNotAwaited,
        Self::UnusedImageKept,
        Self::AckOfAnotherEpoch,
        Self::RemoteEndNotNotified,
        Self::RemoteEndNotAwaited,
        Self::BorrowEndedEarly,
        Self::GrantForgotten,
        Self::ClaimOfAnother,
        Self::SmallBufferKept,
        Self::ExposedNotShared,
        Self::StaleExposed,
        Self::MappedNotAwaited,
        Self::PlaceReused,
        Self::UnmappedEarly,
        Self::StaleOfferTaken,
        Self::OfferOutlives,
        Self::TailBeforeFin,
        Self::FinBeforeTail,
        Self::WithdrawnWhileOffered,
        Self::LapBeforeForgotten,
        Self::LapEndForgotten,
        Self::RefillWithoutRoom,
        Self::SecondLineLate,
        Self::OutlierTrusted,
        Self::NeverTriesAgain,
        Self::ChoiceFlaps,
        Self::WindowNeverTriesAgain,
        Self::WindowFlaps,
        Self::PlannerTakesWorst,
        Self::ArmMissesByte,
        Self::StaleKeyTaken,
        Self::RoundUnfair,
        Self::StopIsSilence,
        Self::EpochUnzeroed,
    ];
}

/// From now on this bug is there, or none: in the whole process, so not while anything runs.
#[cfg(superpipe_planted)]
pub fn choose(bug: Option<Bug>) {
    CHOSEN.store(bug.map_or(0, |bug| bug as usize + 1), Ordering::Relaxed);
}

/// Returns true if this bug is planted.
#[cfg(superpipe_planted)]
#[must_use]
pub fn is_planted(bug: Bug) -> bool {
    CHOSEN.load(Ordering::Relaxed) == bug as usize + 1
}
