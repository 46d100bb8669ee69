//! Texts of errors, to the letter: each with its value, its limit and its remedy.

use superpipe_core::driver::setup::{
    ArrivalReason, Bytes, Disagreement, PacketError, Proposal, arrival_name,
};
use superpipe_core::driver::{WaitFailed, WaitStrategyParseError};
use superpipe_core::{
    Arrival, BadLayout, ConfigError, Failure, FlagPlace, Layout, Protocol, ProtocolError, Reason,
    RefusedSend, WcError,
};

macro_rules! shows {
    ($($value:expr => $text:expr,)*) => { $(assert_eq!($value.to_string(), $text);)* };
}

#[test]
fn a_refused_send_says_what_to_do() {
    shows! {
        RefusedSend::NoCredit => "no room at the receiver yet; try again after progress",
        RefusedSend::Busy => "another transfer is open, or its CANCEL is due; finish or cancel it, and try again after progress",
        RefusedSend::TooLong => "too long to be sent at once; start a transfer",
        RefusedSend::NotOpen => "the transfer has ended or was cancelled; start another",
        RefusedSend::Rejected(Reason(7)) => "the receiver rejected the transfer (reason 7)",
        RefusedSend::WrongLength => "not the bytes that the transfer was started with, or that were reserved; pass the same slices to each call",
        RefusedSend::Closed => "the connection is closed; make another",
    }
}

#[test]
fn a_failure_names_the_rule_or_the_status() {
    let device = WcError { status: 12, vendor_err: 0x81 };
    shows! {
        device => "work completion status 12 (vendor error 0x81)",
        Failure::Device(device) => "work completion status 12 (vendor error 0x81)",
        ProtocolError::CloseTwice => "the peer broke the protocol: CLOSE twice (wire.md 5.3)",
        Failure::Protocol(ProtocolError::ChunkEmpty) => "the peer broke the protocol: an empty chunk inside a transfer (wire.md 4.2)",
    }
}

#[test]
fn a_configuration_that_cannot_be_says_why() {
    let layout = BadLayout(Layout { block_bytes: 100, block_count: 3, flags: FlagPlace::Inside });
    let divided = "cannot divide a landing buffer into 3 blocks of 100 bytes: a block is a multiple of 64, from 128 to \
                   1048576 bytes, there are 2 to 65536, and together they are less than 1 GiB";
    shows! {
        layout => divided,
        ConfigError::Layout(layout) => divided,
        ConfigError::Range { name: "folds", value: 0, least: 1, most: 255 } => "folds is 0; it must be 1 to 255",
        ConfigError::ApartNeedsDirectStore => "slot lines that lie apart need direct stores; use slot lines inside the blocks",
        ConfigError::FlagNeedsOrder => "plain flags need order inside a write, which this device does not promise; use checked flags or notify",
        ConfigError::NotifyNeedsPostedWrites => "stores that go direct cannot be notified; use flags or checked flags",
        ConfigError::NotifyNeedsReceives { receives: 3 } => "notify mode needs 4 posted receives, and this device keeps 3; use checked flags",
    }
}

#[test]
fn two_ends_that_disagree_say_over_what() {
    let wishes = |listening, connecting| Disagreement::Proposals { name: "it", listening, connecting };
    shows! {
        wishes(Proposal::Number(2), Proposal::Number(3)) => "the two ends disagree: it is 2 at the listening end and 3 at the connecting end; set it at one end only",
        wishes(Proposal::Protocol(Protocol::Copy), Proposal::Arrival(Arrival::CheckedFlag)) =>
            "the two ends disagree: it is copy at the listening end and checked-flag at the connecting end; set it at one end only",
        Disagreement::Config(ConfigError::FlagNeedsOrder) => ConfigError::FlagNeedsOrder.to_string(),
        Disagreement::Landing { bytes: 3 << 20, bytes_max: 1025, by: "listener" } =>
            "a landing buffer of 3 MiB is more than the 1025 bytes that the listener allows",
        Disagreement::FlagAtOneEnd => "plain flags need order inside a write, which a device of one of the two ends does not promise: set flag at both ends, or at none",
        Disagreement::Mode { said: Arrival::Notify, due: Arrival::Flag } => "the peer chose arrival mode notify, and the proposals give flag",
    }
    assert_eq!(
        [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify].map(arrival_name),
        ["flag", "checked-flag", "notify"]
    );
    shows! { Bytes(0) => "0 bytes", Bytes(1) => "1 byte", Bytes(1 << 10) => "1 KiB", Bytes(5 << 30) => "5 GiB", Bytes(7 << 40) => "7 TiB", }
}

#[test]
fn a_handshake_that_fails_says_why() {
    shows! {
        PacketError::Garbage => "what answers there does not speak superpipe",
        PacketError::Version { theirs: 9 } => format!(
            "the peer speaks version 9 of the protocol, this is version {}: use the same release on both ends",
            superpipe_core::driver::setup::VERSION
        ),
        PacketError::Malformed("an unknown choice") => "the peer broke the handshake: an unknown choice (wire.md 6, 10)",
        PacketError::from(Disagreement::FlagAtOneEnd) => Disagreement::FlagAtOneEnd.to_string(),
        PacketError::Refused { code: 0, text: "no".into() } => "the peer refused: no",
    }
}

#[test]
fn an_arrival_mode_has_its_reason() {
    for (why, text) in [
        (ArrivalReason::Ordered, "both devices promise order inside a write"),
        (ArrivalReason::Requested, "asked for"),
        (ArrivalReason::Asserted, "asked for at both ends, though a device promises no order inside a write"),
        (
            ArrivalReason::FastCrc,
            "a device promises no order inside a write, and both CPUs check faster than they copy",
        ),
        (ArrivalReason::Unordered, "a device promises no order inside a write"),
    ] {
        assert_eq!(why.text(), text);
    }
}

#[test]
fn a_wait_that_is_over_says_why() {
    shows! {
        WaitFailed::Deadline => "the deadline passed; set a later one, or find what the peer waits for",
        WaitFailed::Silent(1_500_000_000) => "the peer was silent for 1.5s, the idle timeout; raise it if the peer may be stopped or busy for longer",
        WaitFailed::Silent(700_000) => "the peer was silent for 700µs, the idle timeout; raise it if the peer may be stopped or busy for longer",
        WaitStrategyParseError => "unknown wait strategy; use spin, yield or sleep",
        Protocol::Superpipeline => "superpipeline",
    }
    let names =
        ["eager", "copy", "pipeline", "superpipeline", "provision", "register", "register-cached", "auto"];
    assert_eq!(Protocol::ALL.map(Protocol::name), names);
}
