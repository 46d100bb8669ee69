//! Counts of the API calls by the state of their end, accepted and refused.

use core::fmt;

use superpipe_core::{Phase, Receiving, Sending, State};

use crate::faults::EndState;

/// States of an end without connecting, in which there is nothing to call.
const STATES: usize = EndState::ALL.len() - 1;

/// A call of the driver, or of its endpoint for streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `try_send`
    TrySend,
    /// `drive_send`
    DriveSend,
    /// `cancel_send`, accepted if the operation had begun.
    CancelSend,
    /// `start`
    Start,
    /// `push`, refused if it takes nothing.
    Push,
    /// `reserve`
    Reserve,
    /// `commit`
    Commit,
    /// `finish`
    Finish,
    /// `cancel_stream`, accepted if the stream was open.
    CancelStream,
    /// `delivered`
    Delivered,
    /// `try_recv`
    TryRecv,
    /// `try_peek`
    TryPeek,
    /// `reject`
    Reject,
    /// `begin_recv`
    BeginReceive,
    /// `drive_recv`
    DriveReceive,
    /// `recv_part`
    ReceivePart,
    /// `cancel_recv`, accepted if the operation had begun.
    CancelReceive,
    /// `readable`
    Readable,
    /// `consume`, refused if nothing is shown.
    Consume,
    /// `pull`
    Pull,
    /// `progress`, refused if there was nothing to do.
    Progress,
    /// `check_time`, refused by a deadline or an idle timeout.
    CheckTime,
    /// `round`, refused if nothing can arrive any more.
    Round,
    /// `descriptor_round`
    DescriptorRound,
    /// `poll_event`
    PollEvent,
    /// `close`, refused if it changes nothing.
    Close,
    /// `drive_close`
    DriveClose,
    /// `drive_warm_up`
    WarmUp,
    /// `try_recv_loan`
    TakeLoan,
    /// `give_back`, refused if it was given back before.
    GiveBack,
    /// `reserve_message`
    ReserveMessage,
    /// `commit_message`
    CommitMessage,
}

impl Call {
    /// All calls in the order of their numbers.
    pub const ALL: [Self; 32] = [
        Self::TrySend,
        Self::DriveSend,
        Self::CancelSend,
        Self::Start,
        Self::Push,
        Self::Reserve,
        Self::Commit,
        Self::Finish,
        Self::CancelStream,
        Self::Delivered,
        Self::TryRecv,
        Self::TryPeek,
        Self::Reject,
        Self::BeginReceive,
        Self::DriveReceive,
        Self::ReceivePart,
        Self::CancelReceive,
        Self::Readable,
        Self::Consume,
        Self::Pull,
        Self::Progress,
        Self::CheckTime,
        Self::Round,
        Self::DescriptorRound,
        Self::PollEvent,
        Self::Close,
        Self::DriveClose,
        Self::WarmUp,
        Self::TakeLoan,
        Self::GiveBack,
        Self::ReserveMessage,
        Self::CommitMessage,
    ];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TrySend => "try_send",
            Self::DriveSend => "drive_send",
            Self::CancelSend => "cancel_send",
            Self::Start => "start",
            Self::Push => "push",
            Self::Reserve => "reserve",
            Self::Commit => "commit",
            Self::Finish => "finish",
            Self::CancelStream => "cancel_stream",
            Self::Delivered => "delivered",
            Self::TryRecv => "try_recv",
            Self::TryPeek => "try_peek",
            Self::Reject => "reject",
            Self::BeginReceive => "begin_recv",
            Self::DriveReceive => "drive_recv",
            Self::ReceivePart => "recv_part",
            Self::CancelReceive => "cancel_recv",
            Self::Readable => "readable",
            Self::Consume => "consume",
            Self::Pull => "pull",
            Self::Progress => "progress",
            Self::CheckTime => "check_time",
            Self::Round => "round",
            Self::DescriptorRound => "descriptor_round",
            Self::PollEvent => "poll_event",
            Self::Close => "close",
            Self::DriveClose => "drive_close",
            Self::WarmUp => "drive_warm_up",
            Self::TakeLoan => "try_recv_loan",
            Self::GiveBack => "give_back",
            Self::ReserveMessage => "reserve_message",
            Self::CommitMessage => "commit_message",
        }
    }
}

/// Counts of refused and accepted calls by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCoverage([[[u64; 2]; STATES]; Call::ALL.len()]);

impl CallCoverage {
    /// Counts a call of an end in this state.
    pub(crate) fn count(&mut self, call: Call, state: State, is_accepted: bool) {
        for end_state in EndState::of(Some(state)) {
            self.0[call as usize][end_state.number() - 1][usize::from(is_accepted)] += 1;
        }
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        let theirs = other.0.iter().flatten().flatten();
        self.0.iter_mut().flatten().flatten().zip(theirs).for_each(|(ours, theirs)| *ours += theirs);
    }

    /// Returns how often a call was refused and accepted in a state.
    #[must_use]
    pub fn at(&self, call: Call, end_state: EndState) -> [u64; 2] {
        end_state.number().checked_sub(1).map_or([0; 2], |state| self.0[call as usize][state])
    }
}

/// Returns why a call cannot be accepted, or refused, in a state.
#[must_use]
pub const fn unreachable_because(call: Call, end_state: EndState, is_accepted: bool) -> Option<&'static str> {
    let is_over =
        matches!(end_state, EndState::Phase(Phase::ClosedHere | Phase::ClosedByPeer | Phase::Failed));
    let is_ended = matches!(end_state, EndState::Phase(Phase::ClosedByPeer | Phase::Failed));
    let is_busy =
        matches!(end_state, EndState::Sending(Sending::Started | Sending::AwaitingCts | Sending::Underway));
    let cancels = matches!(end_state, EndState::Sending(Sending::Cancelling));
    let discards = matches!(end_state, EndState::Receiving(Receiving::Discarding));
    match (call, is_accepted) {
        (
            Call::TrySend
            | Call::DriveSend
            | Call::Start
            | Call::Push
            | Call::Reserve
            | Call::Commit
            | Call::Finish
            | Call::ReserveMessage
            | Call::CommitMessage
            | Call::WarmUp,
            true,
        ) if is_over => Some("a closed or failed connection sends nothing"),
        (Call::TrySend | Call::Start | Call::ReserveMessage, true) if is_busy => {
            Some("one transfer is open at a time")
        }
        (Call::CommitMessage, true) if matches!(end_state, EndState::Sending(sending) if !matches!(sending, Sending::Started)) => {
            Some("nothing of it was sent before")
        }
        (Call::TrySend | Call::DriveSend | Call::Start | Call::Delivered | Call::ReserveMessage, true)
            if cancels =>
        {
            Some("a CANCEL that is due goes first")
        }
        (Call::CancelStream, true) if matches!(end_state, EndState::Phase(Phase::ClosedHere)) => {
            Some("closing has cancelled it")
        }
        (Call::Push | Call::Reserve | Call::Commit | Call::Finish, true)
            if cancels || matches!(end_state, EndState::Sending(Sending::Nothing)) =>
        {
            Some("nothing is open")
        }
        (
            Call::TryRecv
            | Call::TryPeek
            | Call::Reject
            | Call::BeginReceive
            | Call::DriveReceive
            | Call::ReceivePart
            | Call::Readable
            | Call::Consume
            | Call::TakeLoan
            | Call::Pull,
            true,
        ) if is_ended => Some(
            "everything was received before the peer counts as closed, and a failed connection delivers nothing",
        ),
        (Call::ReceivePart | Call::Consume, true)
            if discards || matches!(end_state, EndState::Receiving(Receiving::Nothing)) =>
        {
            Some("the rest was rejected, or is gone")
        }
        (Call::BeginReceive, true)
            if discards || matches!(end_state, EndState::Receiving(Receiving::Underway)) =>
        {
            Some("the fast path takes only messages that have not begun")
        }
        (Call::BeginReceive, true) if matches!(end_state, EndState::Phase(Phase::PeerCloses)) => {
            Some("after a CLOSE the fast path takes nothing")
        }
        (Call::TryPeek | Call::Reject, false)
            if matches!(end_state, EndState::Receiving(Receiving::Underway)) =>
        {
            Some("an open transfer is shown, and can be rejected")
        }
        (Call::Close, false) if matches!(end_state, EndState::Phase(Phase::Open | Phase::PeerCloses)) => {
            Some("an open connection can be closed")
        }
        (Call::Close | Call::WarmUp, true) if is_over => Some("it is closed already"),
        (Call::DescriptorRound, true)
            if is_over && !matches!(end_state, EndState::Phase(Phase::ClosedByPeer)) =>
        {
            Some("it is closed already")
        }
        (Call::WarmUp, _) if cancels || discards => Some("no end cancels or rejects during the warm-up"),
        _ => None,
    }
}

/// Least count of a possible cell in 100,000 runs, so that other seeds reach the cell as well.
const COUNT_MIN: u64 = 100;

/// Least count of a cell that needs several coincidences in a short state.
const RARE_COUNT_MIN: u64 = 10;

/// Returns the least count of a cell that is possible.
const fn least(call: Call, end_state: EndState, is_accepted: bool) -> u64 {
    let is_short = matches!(
        end_state,
        EndState::Sending(Sending::Cancelling)
            | EndState::Receiving(Receiving::Discarding)
            | EndState::Phase(Phase::PeerCloses | Phase::ClosedHere | Phase::Failed)
    );
    match (call, end_state, is_accepted) {
        // The peer rejected the transfer, its sender does not know yet, and its CANCEL waits for credit.
        (Call::CancelSend | Call::CancelStream, EndState::Sending(Sending::Cancelling), true) => 0,
        // A message arrived by the fast path behind a close or while a CANCEL waits; or a cold one had begun when the connection failed.
        (
            Call::BeginReceive,
            EndState::Phase(Phase::ClosedHere) | EndState::Sending(Sending::Cancelling),
            true,
        )
        | (Call::ReceivePart, EndState::Phase(Phase::Failed), false)
        // A descriptor was ready when the end saw the peer's CLOSE.
        | (Call::DescriptorRound, EndState::Phase(Phase::ClosedByPeer), true)
        // The peer is over with the warm-up, and closes at once.
        | (Call::WarmUp, EndState::Phase(Phase::PeerCloses), _) => 0,
        // An operation is cancelled before it reports what its end knows.
        (Call::CancelSend | Call::CancelReceive, EndState::Phase(Phase::ClosedByPeer), true)
        | (Call::CancelSend, EndState::Sending(Sending::Nothing), true) => RARE_COUNT_MIN,
        // The operation, stream or loan began before this state, or is stale.
        (
            Call::CancelSend
            | Call::CancelStream
            | Call::CancelReceive
            | Call::BeginReceive
            | Call::ReceivePart
            | Call::Finish
            | Call::GiveBack
            | Call::Close
            | Call::Progress,
            ..,
        ) if is_short => RARE_COUNT_MIN,
        _ => COUNT_MIN,
    }
}

/// Defect of a cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellDefect {
    /// The cell is too rare: its count, and the least count.
    Rare(u64, u64),
    /// The cell is impossible for this reason, but has this count.
    Impossible(&'static str, u64),
}

impl CallCoverage {
    /// Returns the defective cells: call, state, whether it was accepted, and the defect.
    #[must_use]
    pub fn defects(&self) -> Vec<(Call, EndState, bool, CellDefect)> {
        let cells = Call::ALL.into_iter().flat_map(|call| {
            EndState::ALL[1..]
                .iter()
                .flat_map(move |end_state| [false, true].map(|is| (call, *end_state, is)))
        });
        let judge = |(call, end_state, is_accepted): (Call, EndState, bool)| {
            let count = self.at(call, end_state)[usize::from(is_accepted)];
            let defect = match unreachable_because(call, end_state, is_accepted) {
                Some(_) if count == 0 => return None,
                Some(reason) => CellDefect::Impossible(reason, count),
                None if count >= least(call, end_state, is_accepted) => return None,
                None => CellDefect::Rare(count, least(call, end_state, is_accepted)),
            };
            Some((call, end_state, is_accepted, defect))
        };
        cells.filter_map(judge).collect()
    }
}

impl fmt::Display for CellDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rare(count, least) => write!(f, "{count} times, and must be {least} times"),
            Self::Impossible(reason, count) => write!(f, "{count} times, and cannot be: {reason}"),
        }
    }
}

impl fmt::Display for CallCoverage {
    /// Prints one row per call and one column per state, as accepted/refused. A dash is an impossible cell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end_states = &EndState::ALL[1..];
        write!(f, "{:<17}", "")?;
        for end_state in end_states {
            write!(f, " {end_state:>16}")?;
        }
        writeln!(f)?;
        for call in Call::ALL {
            write!(f, "{:<17}", call.name())?;
            for end_state in end_states {
                let cell = |is_accepted: bool| {
                    let count = self.at(call, *end_state)[usize::from(is_accepted)];
                    match unreachable_because(call, *end_state, is_accepted) {
                        Some(_) if count == 0 => "-".to_owned(),
                        _ => count.to_string(),
                    }
                };
                write!(f, " {:>16}", format!("{}/{}", cell(true), cell(false)))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
