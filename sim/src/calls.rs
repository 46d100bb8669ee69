//! Which call of the API was made in which state of its end, how often it was accepted and how often refused.

use core::fmt;

use superpipe_core::{Phase, Receiving, Sending, State};

use crate::column::Column;

/// Columns of a state: all but connecting, in which there is nothing to call.
const STATES: usize = Column::ALL.len() - 1;

/// A call of the API: of the driver, or of its endpoint where streams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `try_send`
    TrySend,
    /// `drive_send`
    DriveSend,
    /// `cancel_send`: accepted where something had begun.
    CancelSend,
    /// `start`
    Start,
    /// `push`: refused if it takes nothing.
    Push,
    /// `reserve`
    Reserve,
    /// `commit`
    Commit,
    /// `finish`
    Finish,
    /// `cancel_stream`: accepted where it was open.
    CancelStream,
    /// `delivered`
    Delivered,
    /// `try_recv`
    TryRecv,
    /// `try_peek`
    TryPeek,
    /// `reject`
    Reject,
    /// `begin_receive`
    BeginReceive,
    /// `drive_receive`
    DriveReceive,
    /// `receive_part`
    ReceivePart,
    /// `cancel_receive`: accepted where something had begun.
    CancelReceive,
    /// `readable`
    Readable,
    /// `consume`: refused where nothing is shown.
    Consume,
    /// `pull`
    Pull,
    /// `progress`: refused if nothing was done.
    Progress,
    /// `look`: refused by deadline or silence.
    Look,
    /// `round`: refused if nothing will come any more.
    Round,
    /// `outside_round`
    Outside,
    /// `poll_event`
    PollEvent,
    /// `close`: refused where it changes nothing.
    Close,
    /// `drive_close`
    DriveClose,
    /// `drive_warm_up`
    WarmUp,
}

impl Call {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 28] = [
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
        Self::Look,
        Self::Round,
        Self::Outside,
        Self::PollEvent,
        Self::Close,
        Self::DriveClose,
        Self::WarmUp,
    ];

    /// Its name in reports.
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
            Self::BeginReceive => "begin_receive",
            Self::DriveReceive => "drive_receive",
            Self::ReceivePart => "receive_part",
            Self::CancelReceive => "cancel_receive",
            Self::Readable => "readable",
            Self::Consume => "consume",
            Self::Pull => "pull",
            Self::Progress => "progress",
            Self::Look => "look",
            Self::Round => "round",
            Self::Outside => "outside_round",
            Self::PollEvent => "poll_event",
            Self::Close => "close",
            Self::DriveClose => "drive_close",
            Self::WarmUp => "drive_warm_up",
        }
    }
}

/// Calls by state: refused, and accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls([[[u64; 2]; STATES]; Call::ALL.len()]);

impl Calls {
    /// A call was made by an end in this state.
    pub(crate) fn count(&mut self, call: Call, state: State, is_accepted: bool) {
        for column in Column::of(Some(state)) {
            self.0[call as usize][column.number() - 1][usize::from(is_accepted)] += 1;
        }
    }

    /// Adds what another run counted.
    pub fn add(&mut self, other: &Self) {
        let theirs = other.0.iter().flatten().flatten();
        self.0.iter_mut().flatten().flatten().zip(theirs).for_each(|(ours, theirs)| *ours += theirs);
    }

    /// How often a call was refused, and accepted, in a state.
    #[must_use]
    pub fn at(&self, call: Call, column: Column) -> [u64; 2] {
        column.number().checked_sub(1).map_or([0; 2], |state| self.0[call as usize][state])
    }
}

/// Says why a call cannot be accepted, or refused, in a state.
#[must_use]
pub const fn unreachable_because(call: Call, column: Column, is_accepted: bool) -> Option<&'static str> {
    let is_over = matches!(column, Column::Phase(Phase::ClosedHere | Phase::ClosedByPeer | Phase::Failed));
    let is_ended = matches!(column, Column::Phase(Phase::ClosedByPeer | Phase::Failed));
    let is_busy =
        matches!(column, Column::Sending(Sending::Started | Sending::AwaitingCts | Sending::Underway));
    let cancels = matches!(column, Column::Sending(Sending::Cancelling));
    let discards = matches!(column, Column::Receiving(Receiving::Discarding));
    match (call, is_accepted) {
        (
            Call::TrySend
            | Call::DriveSend
            | Call::Start
            | Call::Push
            | Call::Reserve
            | Call::Commit
            | Call::Finish
            | Call::WarmUp,
            true,
        ) if is_over => Some("a connection that is closed or has failed takes nothing to send"),
        (Call::TrySend | Call::Start, true) if is_busy => Some("one transfer is open at a time"),
        (Call::TrySend | Call::DriveSend | Call::Start | Call::Delivered, true) if cancels => {
            Some("the CANCEL that is due goes first")
        }
        (Call::CancelStream, true) if matches!(column, Column::Phase(Phase::ClosedHere)) => {
            Some("closing has given it up")
        }
        (Call::Push | Call::Reserve | Call::Commit | Call::Finish, true)
            if cancels || matches!(column, Column::Sending(Sending::Nothing)) =>
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
            | Call::Pull,
            true,
        ) if is_ended => {
            Some("all was taken before the peer counts as closed, and what failed delivers nothing")
        }
        (Call::ReceivePart | Call::Consume, true)
            if discards || matches!(column, Column::Receiving(Receiving::Nothing)) =>
        {
            Some("what is taken further was refused, or is gone")
        }
        (Call::BeginReceive, true)
            if discards || matches!(column, Column::Receiving(Receiving::Underway)) =>
        {
            Some("the short way is for a message that has not begun")
        }
        (Call::BeginReceive, true) if matches!(column, Column::Phase(Phase::PeerCloses)) => {
            Some("the short way is left once CLOSE is there")
        }
        (Call::TryPeek | Call::Reject, false) if matches!(column, Column::Receiving(Receiving::Underway)) => {
            Some("what is open is shown, and can be refused")
        }
        (Call::Close, false) if matches!(column, Column::Phase(Phase::Open | Phase::PeerCloses)) => {
            Some("what is open can be closed")
        }
        (Call::Close | Call::WarmUp, true) if is_over => Some("it is closed already"),
        (Call::Outside, true) if is_over && !matches!(column, Column::Phase(Phase::ClosedByPeer)) => {
            Some("it is closed already")
        }
        (Call::WarmUp, _) if cancels || discards || matches!(column, Column::Phase(Phase::PeerCloses)) => {
            Some("nobody cancels, rejects or closes while both warm the connection up")
        }
        _ => None,
    }
}

/// Least count of accepted, and of refused, calls of each kind in each state in which they are possible.
pub(crate) const ENOUGH: u64 = 100;

/// Least count for calls that need several coincidences in a state that is over in a moment.
const SELDOM: u64 = 10;

/// Least count of a cell that is possible.
const fn least(call: Call, column: Column, is_accepted: bool) -> u64 {
    let is_short = matches!(
        column,
        Column::Sending(Sending::Cancelling)
            | Column::Receiving(Receiving::Discarding)
            | Column::Phase(Phase::PeerCloses | Phase::ClosedHere | Phase::Failed)
    );
    match (call, column, is_accepted) {
        // A transfer that the peer refused, whose sender was not told, while its CANCEL waits for room.
        (Call::CancelSend | Call::CancelStream, Column::Sending(Sending::Cancelling), true) => 0,
        // A message that has come whole by the plain way, behind a close or while a CANCEL waits; and one that was begun cold when all failed.
        (
            Call::BeginReceive,
            Column::Phase(Phase::ClosedHere) | Column::Sending(Sending::Cancelling),
            true,
        )
        | (Call::ReceivePart, Column::Phase(Phase::Failed), false)
        // A descriptor that was ready when the peer's CLOSE was found.
        | (Call::Outside, Column::Phase(Phase::ClosedByPeer), true) => 0,
        // An operation that has begun, and is given up before it is told what its end knows.
        (Call::CancelSend | Call::CancelReceive, Column::Phase(Phase::ClosedByPeer), true)
        | (Call::CancelSend, Column::Sending(Sending::Nothing), true) => SELDOM,
        // One that was begun, or is stale, in such a state.
        (
            Call::CancelSend
            | Call::CancelStream
            | Call::CancelReceive
            | Call::BeginReceive
            | Call::ReceivePart
            | Call::Finish
            | Call::Close
            | Call::Progress,
            ..,
        ) if is_short => SELDOM,
        _ => ENOUGH,
    }
}

/// Defect of a cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is too rare: its count, and the least count.
    Rare(u64, u64),
    /// It is impossible, for this reason, and yet has this count.
    Impossible(&'static str, u64),
}

impl Calls {
    /// The cells that are not as they must be: call, state, whether it was accepted, and why.
    #[must_use]
    pub fn wrong(&self) -> Vec<(Call, Column, bool, Wrong)> {
        let cells = Call::ALL.into_iter().flat_map(|call| {
            Column::ALL[1..].iter().flat_map(move |column| [false, true].map(|is| (call, *column, is)))
        });
        let judge = |(call, column, is_accepted): (Call, Column, bool)| {
            let count = self.at(call, column)[usize::from(is_accepted)];
            let wrong = match unreachable_because(call, column, is_accepted) {
                Some(_) if count == 0 => return None,
                Some(reason) => Wrong::Impossible(reason, count),
                None if count >= least(call, column, is_accepted) => return None,
                None => Wrong::Rare(count, least(call, column, is_accepted)),
            };
            Some((call, column, is_accepted, wrong))
        };
        cells.filter_map(judge).collect()
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rare(count, least) => write!(f, "{count} times, and must be {least} times"),
            Self::Impossible(reason, count) => write!(f, "{count} times, and cannot be: {reason}"),
        }
    }
}

impl fmt::Display for Calls {
    /// A row a call and state: accepted/refused; what cannot be is a dash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = &Column::ALL[1..];
        write!(f, "{:<15}", "")?;
        for column in columns {
            write!(f, " {column:>16}")?;
        }
        writeln!(f)?;
        for call in Call::ALL {
            write!(f, "{:<15}", call.name())?;
            for column in columns {
                let cell = |is_accepted: bool| {
                    let count = self.at(call, *column)[usize::from(is_accepted)];
                    match unreachable_because(call, *column, is_accepted) {
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
