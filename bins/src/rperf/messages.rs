//! Messages between rperf and rperf serve, besides HELLO and the reports. wire.md 8.2.
//!
//! ```text
//! rperf                                        rperf serve
//!   HELLO   ─────────────▶        ◀──────────  HELLO
//!   PLAN    ─────────────▶                                settings of all sizes
//!                                 ◀──────────  READY      the server's answer
//!   JOIN    ─────────────▶                                on each further connection: whose it is
//!   RUN     ─────────────▶                                one sequence of messages, and how it is timed
//!                                 ◀──────────  GO         buffers are there: begin
//!   MESSAGE ═════════════▶  ..... ◀══════════  MESSAGE
//!   END     ─────────────▶  ..... ◀──────────  END        of runs by time, and of those over many connections
//!                                 ◀──────────  DONE       the server's own figures
//!                                 ◀──────────  COUNTS     what came over each of many connections
//!                                 ◀──────────  RECORDS    its events, if it was asked for them
//!   RUN ...
//!   TRAILER ─────────────▶                                code 0: the end
//! ```
//!
//! An end that fails sends a report and closes: the client a TRAILER, the server a VERDICT. All messages but MESSAGE, COUNTS and
//! RECORDS have a fixed size. Integers are little-endian; reserved bytes are zero, and checked. A message is checked whole before it has
//! any effect, and the error names the rule that it breaks.

use super::BYTES_MAX;
use crate::protocol::{Violation, word};
use superpipe::WaitStrategy;

/// Tag of PLAN.
pub const TAG_PLAN: u64 = 5;
/// Tag of READY.
pub const TAG_READY: u64 = 6;
/// Tag of RUN.
pub const TAG_RUN: u64 = 7;
/// Tag of GO, which has no bytes.
pub const TAG_GO: u64 = 8;
/// Tag of DONE.
pub const TAG_DONE: u64 = 9;
/// Tag of the measured messages.
pub const TAG_MESSAGE: u64 = 10;
/// Tag of RECORDS, whose size varies: see [`Track`](crate::trace::track::Track).
pub const TAG_RECORDS: u64 = 11;
/// Tag of JOIN.
pub const TAG_JOIN: u64 = 14;
/// Tag of END, which has no bytes.
pub const TAG_END: u64 = 15;
/// Tag of COUNTS: see [`Counts`](super::counts::Counts).
pub const TAG_COUNTS: u64 = 16;

/// Bytes of a PLAN.
pub const PLAN_BYTES: usize = 32;
/// Bytes of a READY.
pub const READY_BYTES: usize = 16;
/// Bytes of a JOIN.
pub const JOIN_BYTES: usize = 16;

/// Limit on the connections that a plan asks for beside the control connection.
pub const CONNECTIONS_MAX: u32 = 16 << 10;
/// Limit on the bytes of the messages that are under way at once over many connections: each has a buffer at the receiver.
pub const UNDER_WAY_MAX: u64 = 4 << 30;

const VERSION: u8 = 2;
const NOT_PINNED: u32 = u32::MAX;

/// Memory that messages are sent from and received into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Memory {
    /// the same resident buffers for every message
    Reused = 0,
    /// ordinary pages, new for every message
    Plain = 1,
    /// superpipe's own buffers, new for every message
    Superpipe = 2,
    /// ordinary pages, new for every message, received with the call for cold memory
    Advised = 3,
}

/// Settings of all sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// wait strategy of both ends, if the client asks for one
    pub wait: Option<WaitStrategy>,
    /// memory of the messages
    pub memory: Memory,
    /// contents are compared also while messages are timed
    pub is_verified: bool,
    /// messages go out of registered buffers, also by another protocol than register-cached
    pub is_registered: bool,
    /// core that the client is pinned to
    pub core: Option<u32>,
    /// seed of all contents
    pub seed: u64,
    /// size of the largest message
    pub bytes_max: u64,
    /// connections over which the messages are spread, all at once; 0: one after the other over the control connection, or over one that
    /// replaces it
    pub connections: u32,
    /// further connections, which are idle meanwhile
    pub idle: u32,
}

/// The first message of a further connection: whose it is. The server has its HELLO sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Join {
    /// token of the READY
    pub token: u64,
    /// 1 to N for the connections of the plan, then those that are idle; 0 for one that replaces the data connection
    pub number: u32,
}

/// The server's answer to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// wait strategy of both ends
    pub wait: WaitStrategy,
    /// core that the server is pinned to
    pub core: Option<u32>,
    /// names this client in the JOIN of its further connections
    pub token: u64,
    /// a connection that replaces the data connection has to send a JOIN: the server cannot tell whose it is
    pub joins: bool,
}

impl Plan {
    /// Returns true if every message is prepared: its memory is new, or its contents are compared.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.is_verified || self.memory != Memory::Reused
    }

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; PLAN_BYTES] {
        let mut bytes = [0; PLAN_BYTES];
        bytes[0] = VERSION;
        bytes[1] = self.wait.map_or(0, wait_number);
        bytes[2] = self.memory as u8;
        bytes[3] = u8::from(self.is_verified) | u8::from(self.is_registered) << 1;
        bytes[4..8].copy_from_slice(&self.core.unwrap_or(NOT_PINNED).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seed.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.bytes_max.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.connections.to_le_bytes());
        bytes[28..].copy_from_slice(&self.idle.to_le_bytes());
        bytes
    }

    /// Returns the connections of the plan beside the control connection.
    #[must_use]
    pub const fn further(&self) -> u32 {
        self.connections.saturating_add(self.idle)
    }

    /// Returns true if messages are spread over many connections.
    #[must_use]
    pub const fn is_many(&self) -> bool {
        self.connections > 0
    }

    /// Decodes the message of a client.
    ///
    /// # Errors
    /// The first rule that the message breaks.
    pub fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let bytes: &[u8; PLAN_BYTES] =
            bytes.try_into().map_err(|_| Violation("sent a PLAN of the wrong length"))?;
        check_version(bytes[0])?;
        let memory = match bytes[2] {
            0 => Memory::Reused,
            1 => Memory::Plain,
            2 => Memory::Superpipe,
            3 => Memory::Advised,
            _ => return Err(Violation("asks for an unknown kind of memory")),
        };
        if bytes[3] > 3 {
            return Err(Violation("sent a PLAN with an unknown flag"));
        }
        let bytes_max = word(&bytes[16..24]);
        if bytes_max > BYTES_MAX {
            return Err(Violation("asks for messages of more than 1 GiB"));
        }
        let plan = Self {
            wait: if bytes[1] == 0 { None } else { Some(wait_of(bytes[1])?) },
            memory,
            is_verified: bytes[3] & 1 != 0,
            is_registered: bytes[3] & 2 != 0,
            core: core_of(&bytes[4..8]),
            seed: word(&bytes[8..16]),
            bytes_max,
            connections: number(&bytes[24..28]),
            idle: number(&bytes[28..]),
        };
        plan.check_connections()?;
        Ok(plan)
    }
}

impl Plan {
    fn check_connections(&self) -> Result<(), Violation> {
        if self.further() > CONNECTIONS_MAX {
            return Err(Violation("asks for more than 16384 connections"));
        }
        if self.idle > 0 && !self.is_many() {
            return Err(Violation("asks for idle connections beside none"));
        }
        if self.is_many() && (self.is_prepared() || self.is_registered) {
            return Err(Violation("asks for many connections with messages that take preparing"));
        }
        if self.bytes_max.saturating_mul(self.connections.into()) > UNDER_WAY_MAX {
            return Err(Violation("asks for messages over many connections of more than 4 GiB together"));
        }
        Ok(())
    }
}

impl Join {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; JOIN_BYTES] {
        let mut bytes = [0; JOIN_BYTES];
        bytes[0] = VERSION;
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..].copy_from_slice(&self.token.to_le_bytes());
        bytes
    }

    /// Decodes the message of a client.
    ///
    /// # Errors
    /// The first rule that the message breaks.
    pub fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let bytes: &[u8; JOIN_BYTES] =
            bytes.try_into().map_err(|_| Violation("sent a JOIN of the wrong length"))?;
        check_version(bytes[0])?;
        check_zero(&bytes[1..4], "sent a JOIN whose reserved bytes are not zero")?;
        Ok(Self { token: word(&bytes[8..]), number: number(&bytes[4..8]) })
    }
}

impl Ready {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; READY_BYTES] {
        let mut bytes = [0; READY_BYTES];
        bytes[0] = VERSION;
        bytes[1] = wait_number(self.wait);
        bytes[2] = self.joins.into();
        bytes[4..8].copy_from_slice(&self.core.unwrap_or(NOT_PINNED).to_le_bytes());
        bytes[8..].copy_from_slice(&self.token.to_le_bytes());
        bytes
    }

    /// Decodes a server's answer to `plan`.
    ///
    /// # Errors
    /// The first rule that the message breaks.
    pub fn decode(bytes: &[u8], plan: &Plan) -> Result<Self, Violation> {
        let bytes: &[u8; READY_BYTES] =
            bytes.try_into().map_err(|_| Violation("sent a READY of the wrong length"))?;
        check_version(bytes[0])?;
        if bytes[2] > 1 || bytes[3] != 0 {
            return Err(Violation("sent a READY whose reserved bytes are not zero"));
        }
        let wait = wait_of(bytes[1])?;
        if plan.wait.is_some_and(|wish| wish != wait) {
            return Err(Violation("uses another wait strategy than requested"));
        }
        Ok(Self { wait, core: core_of(&bytes[4..8]), token: word(&bytes[8..]), joins: bytes[2] == 1 })
    }
}

/// Chooses the wait strategy of both ends if the client names none. Two ends that spin on one core would hinder each other.
#[must_use]
pub fn default_wait(theirs: Option<u32>, ours: Option<u32>) -> WaitStrategy {
    match (theirs, ours) {
        (Some(theirs), Some(ours)) if theirs != ours => WaitStrategy::Spin,
        _ => WaitStrategy::Yield,
    }
}

fn check_version(version: u8) -> Result<(), Violation> {
    if version == VERSION {
        return Ok(());
    }
    Err(Violation(
        "uses another version of the measurement protocol; install the same superpipe-tools at both ends",
    ))
}

pub(super) fn check_zero(bytes: &[u8], otherwise: &'static str) -> Result<(), Violation> {
    if bytes.iter().all(|&byte| byte == 0) { Ok(()) } else { Err(Violation(otherwise)) }
}

fn core_of(bytes: &[u8]) -> Option<u32> {
    u32::try_from(word(bytes)).ok().filter(|&core| core != NOT_PINNED)
}

/// Reads four bytes.
pub(super) fn number(bytes: &[u8]) -> u32 {
    u32::try_from(word(bytes)).unwrap_or(u32::MAX)
}

const fn wait_number(wait: WaitStrategy) -> u8 {
    match wait {
        WaitStrategy::Spin => 1,
        WaitStrategy::Yield => 2,
        WaitStrategy::Sleep => 3,
    }
}

fn wait_of(number: u8) -> Result<WaitStrategy, Violation> {
    match number {
        1 => Ok(WaitStrategy::Spin),
        2 => Ok(WaitStrategy::Yield),
        3 => Ok(WaitStrategy::Sleep),
        _ => Err(Violation("names an unknown wait strategy")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::rperf) const PLAN: Plan = Plan {
        wait: Some(WaitStrategy::Yield),
        memory: Memory::Plain,
        is_verified: true,
        is_registered: false,
        core: Some(3),
        seed: 0x0102_0304_0506_0708,
        bytes_max: 4096,
        connections: 0,
        idle: 0,
    };
    const MANY: Plan =
        Plan { memory: Memory::Reused, is_verified: false, connections: 1000, idle: 15_000, ..PLAN };
    /// Returns the error text for a message with one byte changed.
    pub(in crate::rperf) fn changed<const N: usize, T: core::fmt::Debug>(
        mut bytes: [u8; N],
        at: usize,
        value: u8,
        decode: impl Fn(&[u8]) -> Result<T, Violation>,
    ) -> &'static str {
        bytes[at] = value;
        decode(&bytes).unwrap_err().0
    }

    #[test]
    fn plans_round_trip_and_wrong_ones_are_distinguished() {
        for plan in [
            PLAN,
            Plan { is_registered: true, ..PLAN },
            Plan { wait: None, core: None, memory: Memory::Reused, is_verified: false, ..PLAN },
            MANY,
        ] {
            assert_eq!(Plan::decode(&plan.encode()), Ok(plan));
        }
        let wrong = |at, value| changed(PLAN.encode(), at, value, Plan::decode);
        assert!(wrong(0, 1).contains("another version") && wrong(0, 3).contains("another version"));
        assert!(wrong(1, 4).contains("unknown wait strategy"));
        assert!(wrong(2, 9).contains("kind of memory"));
        assert!(wrong(3, 4).contains("flag"));
        assert!(wrong(23, 1).contains("1 GiB") && wrong(19, 0x41).contains("1 GiB"));
        assert!(wrong(24, 1).contains("preparing") && wrong(28, 1).contains("beside none"));
        let wrong = |at, value| changed(MANY.encode(), at, value, Plan::decode);
        assert!((26..28).chain(30..32).all(|at| wrong(at, 1).contains("16384")));
        assert!((1..3).all(|flag| wrong(3, flag).contains("preparing")) && wrong(2, 1).contains("preparing"));
        assert!(wrong(19, 0x10).contains("4 GiB"));
        assert!(Plan::decode(&[]).is_err() && Plan::decode(&[0; 33]).is_err());
    }

    #[test]
    fn joins_round_trip_and_wrong_ones_are_refused() {
        for join in [Join { token: u64::MAX, number: 0 }, Join { token: 0, number: u32::MAX }] {
            assert_eq!(Join::decode(&join.encode()), Ok(join));
        }
        let wrong = |at, value| changed(Join { token: 1, number: 2 }.encode(), at, value, Join::decode);
        assert!(wrong(0, 1).contains("another version"));
        assert!((1..4).all(|at| wrong(at, 1).contains("reserved")));
        assert!(Join::decode(&[2; 15]).is_err());
    }

    #[test]
    fn ends_pinned_to_different_cores_spin() {
        assert_eq!(default_wait(Some(0), Some(1)), WaitStrategy::Spin);
        for (theirs, ours) in [(None, None), (Some(1), Some(1)), (Some(1), None), (None, Some(1))] {
            assert_eq!(default_wait(theirs, ours), WaitStrategy::Yield);
        }
    }

    #[test]
    fn a_ready_must_match_its_plan() {
        let ready = Ready { wait: WaitStrategy::Yield, core: Some(0), token: u64::MAX - 1, joins: true };
        assert_eq!(Ready::decode(&ready.encode(), &PLAN), Ok(ready));
        let ready = Ready { wait: WaitStrategy::Sleep, core: None, token: 0, joins: false };
        assert!(Ready::decode(&ready.encode(), &PLAN).unwrap_err().0.contains("another wait strategy"));
        assert_eq!(Ready::decode(&ready.encode(), &Plan { wait: None, ..PLAN }), Ok(ready));
        let ready = Ready { wait: WaitStrategy::Yield, core: None, token: 0, joins: false };
        let wrong = |at, value| changed(ready.encode(), at, value, |bytes| Ready::decode(bytes, &PLAN));
        assert!(wrong(0, 0).contains("another version"));
        assert!(wrong(1, 0).contains("unknown wait strategy"));
        assert!(wrong(2, 2).contains("reserved") && wrong(3, 1).contains("reserved"));
    }
}
