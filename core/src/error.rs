//! Errors by kind: the peer broke the protocol ([`ProtocolError`]), the device failed ([`WcError`]), there is no room right now
//! ([`RefusedSend`]). Bugs of core itself are assertions.

use core::fmt;

/// Reason of a cancel, reject or close: a number that the two applications agree on. Zero is the orderly end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reason(pub u32);

impl Reason {
    /// The orderly end of a connection.
    pub const DONE: Self = Self(0);
    /// The library gave up: a deadline passed, a stream was dropped before its end, or connecting failed.
    pub const GIVEN_UP: Self = Self(u32::MAX - 1);
    /// The other end broke the protocol, or its device failed.
    pub const PROTOCOL: Self = Self(u32::MAX);
}

/// Rule of the protocol that the peer broke. It closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProtocolError {
    /// wire.md 2.2: acknowledged more blocks than were sent.
    AckBeyondSent,
    /// wire.md 2.2: acknowledged more control messages than were sent.
    ControlAckBeyondSent,
    /// wire.md 3.4: took more notifications than were sent.
    NotificationsBeyondSent,
    /// wire.md 3.4: a notification of what does not come next.
    NotificationWrong,
    /// wire.md 3.4: a notified chunk or control message without its flag.
    NotificationWithoutFlag,
    /// wire.md 3.2: a combination of kind bits that has no meaning.
    HeaderKinds,
    /// wire.md 3.2: more inline bytes than fit a line.
    InlineTooLong,
    /// wire.md 3.2, 5: reserved words or bytes are not zero.
    ReservedNotZero,
    /// wire.md 3.2, 4.2: more payload than the blocks up to the end of the ring hold.
    ChunkTooLong,
    /// wire.md 4.2: right-aligned where that cannot be.
    ChunkShape,
    /// wire.md 4.2: a chunk without payload that neither starts nor ends anything.
    ChunkEmpty,
    /// wire.md 4.1: a transfer starts inside another.
    TransferOpen,
    /// wire.md 4.1: a chunk that continues no transfer.
    NoTransferOpen,
    /// wire.md 4.1: transfer numbers are consecutive, and a chunk carries its own.
    WrongTransfer,
    /// wire.md 4.3: a message runs over its length.
    LengthExceeded,
    /// wire.md 4.3: a message ends before its length, or has all its bytes and does not end.
    WrongEnd,
    /// wire.md 5: a control message of unknown kind.
    UnknownControl,
    /// wire.md 5.1: CTS for a transfer that was not started.
    CtsUnknownTransfer,
    /// wire.md 5.1: a second CTS for one transfer.
    CtsTwice,
    /// wire.md 5.1: a claim for a transfer whose payload comes in blocks.
    ClaimUnwanted,
    /// wire.md 5.1: a claim to other memory than the message needs.
    ClaimInvalid,
    /// wire.md 4.8: the end of remote writes that were not granted, or of a message that came in blocks.
    RemoteEndUngranted,
    /// wire.md 4.9, 5.6: a message in memory that is not mapped or was withdrawn, or beyond its end.
    SourceWrong,
    /// wire.md 4.10: a split message that was not offered memory, with a wrong head, or with other chunks than it has.
    SplitWrong,
    /// wire.md 5.2: REJECT of a transfer that was not started.
    RejectUnknownTransfer,
    /// wire.md 5.2: REJECT twice for one transfer.
    RejectTwice,
    /// wire.md 5.3: a transfer that is open after the last chunk that CLOSE named.
    CloseLeavesOpen,
    /// wire.md 5.3: CLOSE twice.
    CloseTwice,
    /// wire.md 5.3: a chunk after the last that CLOSE named.
    ChunkAfterClose,
    /// wire.md 5.4: a control message about growth on a connection whose landing buffers do not grow.
    GrowthNotAgreed,
    /// wire.md 5.4: a GROW while another is not answered.
    GrowTwice,
    /// wire.md 5.4: an answer to no GROW.
    GrowAnswer,
    /// wire.md 5.4: a granted epoch with the wrong number, or a layout that was not agreed.
    GrantInvalid,
    /// wire.md 5.5: a SHRINK of another epoch, or while an epoch is granted.
    ShrinkWrong,
    /// wire.md 5.5: an epoch retired that is not in use, or was retired before.
    RetiredUnknown,
    /// wire.md 5.5: an epoch retired with chunks in it that were not consumed.
    RetiredEarly,
    /// wire.md 5.6: a control message about memory to be mapped, on a connection that maps none.
    ExposeNotAgreed,
    /// wire.md 5.6: EXPOSE of a place that is taken, of no bytes, or before the last one was answered.
    ExposeWrong,
    /// wire.md 5.6: an answer to no EXPOSE.
    ExposeAnswer,
    /// wire.md 5.6: WITHDRAWN of a place that is not mapped, or was withdrawn before.
    WithdrawnUnknown,
    /// wire.md 5.6: WITHDRAWN of a place while a transfer may be written into it.
    WithdrawnOffered,
    /// wire.md 5.7: an OFFER of memory that is not mapped for writing, beyond its end, of a later transfer than the next, or twice for one transfer.
    OfferWrong,
}

impl ProtocolError {
    /// Returns the rule in words.
    #[must_use]
    pub const fn rule(self) -> &'static str {
        match self {
            Self::AckBeyondSent => "acknowledged blocks that were never sent (wire.md 2.2)",
            Self::ControlAckBeyondSent => "acknowledged control messages that were never sent (wire.md 2.2)",
            Self::NotificationsBeyondSent => "took notifications that were never sent (wire.md 3.4)",
            Self::NotificationWrong => "a notification of what does not come next (wire.md 3.4)",
            Self::NotificationWithoutFlag => "a notified write whose flag is not there (wire.md 3.4)",
            Self::HeaderKinds => "a chunk header with contradicting kind bits (wire.md 3.2)",
            Self::InlineTooLong => "an inline message longer than its line (wire.md 3.2)",
            Self::ReservedNotZero => "reserved words that are not zero (wire.md 3.2, 5)",
            Self::ChunkTooLong => "a chunk that runs over the end of the ring (wire.md 4.2)",
            Self::ChunkShape => "a right-aligned chunk of a size that cannot be (wire.md 4.2)",
            Self::ChunkEmpty => "an empty chunk inside a transfer (wire.md 4.2)",
            Self::TransferOpen => "a transfer that starts inside another (wire.md 4.1)",
            Self::NoTransferOpen => "a chunk that continues or cancels no transfer (wire.md 4.1)",
            Self::WrongTransfer => "a chunk of another transfer (wire.md 4.1)",
            Self::LengthExceeded => "a message longer than announced (wire.md 4.3)",
            Self::WrongEnd => "a message that does not end where announced (wire.md 4.3)",
            Self::UnknownControl => "an unknown control message (wire.md 5)",
            Self::CtsUnknownTransfer => "CTS for a transfer that was not started (wire.md 5.1)",
            Self::CtsTwice => "CTS twice for one transfer (wire.md 5.1)",
            Self::ClaimUnwanted => "a claim for a transfer whose payload comes in blocks (wire.md 5.1)",
            Self::ClaimInvalid => "a claim to other memory than the message needs (wire.md 5.1)",
            Self::RemoteEndUngranted => "the end of remote writes that were not granted (wire.md 4.8)",
            Self::SourceWrong => "a message in memory that is not mapped (wire.md 4.9)",
            Self::SplitWrong => {
                "a split message without an offer, or with other chunks than it has (wire.md 4.10)"
            }
            Self::RejectUnknownTransfer => "REJECT of a transfer that was not started (wire.md 5.2)",
            Self::RejectTwice => "REJECT twice for one transfer (wire.md 5.2)",
            Self::CloseLeavesOpen => "a CLOSE that leaves a transfer open (wire.md 5.3)",
            Self::CloseTwice => "CLOSE twice (wire.md 5.3)",
            Self::ChunkAfterClose => "a chunk after the last one that CLOSE named (wire.md 5.3)",
            Self::GrowthNotAgreed => "growth of a landing buffer that does not grow (wire.md 5.4)",
            Self::GrowTwice => "GROW before the last one was answered (wire.md 5.4)",
            Self::GrowAnswer => "an answer to no GROW (wire.md 5.4)",
            Self::GrantInvalid => "a grant with the wrong number or layout (wire.md 5.4)",
            Self::ShrinkWrong => "SHRINK of an epoch that cannot be left (wire.md 5.5)",
            Self::RetiredUnknown => "RETIRED of an epoch that is not in use (wire.md 5.5)",
            Self::RetiredEarly => "RETIRED of an epoch with unread chunks (wire.md 5.5)",
            Self::ExposeNotAgreed => "memory to be mapped where that was not agreed on (wire.md 5.6)",
            Self::ExposeWrong => "EXPOSE of a place that is taken, or before an answer (wire.md 5.6)",
            Self::ExposeAnswer => "an answer to no EXPOSE (wire.md 5.6)",
            Self::WithdrawnUnknown => "WITHDRAWN of memory that is not mapped (wire.md 5.6)",
            Self::WithdrawnOffered => "WITHDRAWN of memory that a transfer may be written into (wire.md 5.6)",
            Self::OfferWrong => {
                "OFFER of memory that this end cannot write, or of another transfer than the next (wire.md 5.7)"
            }
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the peer broke the protocol: {}", self.rule())
    }
}

impl core::error::Error for ProtocolError {}

/// A work completion that is not a success (`ibv_poll_cq(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WcError {
    /// Status as a number, since devices report some that no header names.
    pub status: u32,
    /// Error number of the vendor.
    pub vendor_err: u32,
}

impl fmt::Display for WcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "work completion status {} (vendor error {:#x})", self.status, self.vendor_err)
    }
}

/// Failure that ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The peer broke a rule.
    Protocol(ProtocolError),
    /// The device failed a work request.
    Device(WcError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

/// End of an endpoint: why it moves nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// This side closed.
    Here(Reason),
    /// The peer closed, and all that it sent before was received.
    ByPeer(Reason),
    /// The peer broke a rule, or the device failed.
    Failed(Failure),
}

/// Refusal of a sending call. `NoCredit` and `Busy` are back-pressure; the others are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedSend {
    /// No room: call again after [`progress`](crate::Endpoint::progress).
    NoCredit,
    /// Another transfer is open, or its CANCEL is not in the ring yet: finish it first, or call again after progress.
    Busy,
    /// Too long to be sent at once: [`start`](crate::Endpoint::start) it.
    TooLong,
    /// The transfer is not, or no longer, open.
    NotOpen,
    /// The peer does not want this transfer.
    Rejected(Reason),
    /// More bytes than the transfer was started with, or than were reserved; or an end before its length.
    WrongLength,
    /// The connection is closed.
    Closed,
}

impl fmt::Display for RefusedSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCredit => f.write_str("no room at the receiver yet; try again after progress"),
            Self::Busy => f.write_str("another transfer is open, or its CANCEL is due; finish or cancel it, and try again after progress"),
            Self::TooLong => f.write_str("too long to be sent at once; start a transfer"),
            Self::NotOpen => f.write_str("the transfer has ended or was cancelled; start another"),
            Self::Rejected(Reason(reason)) => {
                write!(f, "the receiver rejected the transfer (reason {reason})")
            }
            Self::WrongLength => f.write_str("not the bytes that the transfer was started with, or that were reserved; pass the same slices to each call"),
            Self::Closed => f.write_str("the connection is closed; make another"),
        }
    }
}

impl core::error::Error for RefusedSend {}
