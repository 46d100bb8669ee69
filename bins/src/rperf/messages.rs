//! What rperf and rperf serve say to each other beside HELLO and the reports. wire.md 8.2.
//!
//! ```text
//! rperf                                        rperf serve
//!   HELLO   ─────────────▶        ◀──────────  HELLO
//!   PLAN    ─────────────▶                                what holds for all sizes
//!                                 ◀──────────  READY      what the server makes of it
//!   RUN     ─────────────▶                                one sequence of messages, and how it is timed
//!                                 ◀──────────  GO         buffers are there: begin
//!   MESSAGE ═════════════▶  ..... ◀══════════  MESSAGE
//!                                 ◀──────────  DONE       the server's own figures
//!   RUN ...
//!   TRAILER ─────────────▶        ◀──────────  VERDICT    the end, or why there is one
//! ```
//!
//! Each has a fixed size, integers are little-endian, and what is reserved is zero, and checked. Whatever does not fit is
//! refused by name before anything is done about it.

use super::{BYTES_MAX, SAMPLES_MAX};
use crate::protocol::{Broken, word};
use superpipe::os::WaitStrategy;

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
/// Tag of the messages that are measured.
pub const TAG_MESSAGE: u64 = 10;

/// Bytes of a PLAN.
pub const PLAN_BYTES: usize = 32;
/// Bytes of a READY.
pub const READY_BYTES: usize = 16;
/// Bytes of a RUN.
pub const RUN_BYTES: usize = 40;
/// Bytes of a DONE.
pub const DONE_BYTES: usize = 80;

const VERSION: u8 = 1;
const NOT_PINNED: u32 = u32::MAX;
/// The longest batch, and the longest warm-up.
const BATCH_MAX: u32 = 1 << 10;
const WARMUP_MAX: u64 = 1 << 32;

/// Which memory messages are sent from and received into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Memory {
    /// the same resident buffers for every message
    Reused = 0,
    /// ordinary pages, new for every message
    Plain = 1,
    /// superpipe's own buffers, new for every message
    Superpipe = 2,
    /// ordinary pages, new for every message, of which superpipe is told so
    Advised = 3,
}

/// What holds for all sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// how both ends wait, where the client has a wish
    pub wait: Option<WaitStrategy>,
    /// which memory
    pub memory: Memory,
    /// whether contents are compared while they are timed, too
    pub is_verified: bool,
    /// the core that the client is pinned to
    pub core: Option<u32>,
    /// what contents are made from
    pub seed: u64,
    /// bytes of the largest message to come
    pub bytes_max: u64,
}

/// What the server makes of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// how both ends wait
    pub wait: WaitStrategy,
    /// the core that the server is pinned to
    pub core: Option<u32>,
}

/// What a sequence of messages is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Pattern {
    /// there and back once, compared at both ends; the first message of its size
    Check = 1,
    /// there and back, again and again
    Pingpong = 2,
    /// from the client to the server
    Stream = 3,
}

/// One sequence of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// what it is
    pub pattern: Pattern,
    /// whether it begins a connection of its own
    pub is_reconnected: bool,
    /// messages to a reading of the clock, where not every one has its own
    pub batch: u32,
    /// of each message
    pub bytes: u64,
    /// messages before those that are timed
    pub warmup: u64,
    /// readings of the clock: a batch and then as many single messages each, or a message each where the batch is 1
    pub samples: u64,
}

/// What one end measured, in picoseconds a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// the least
    pub min_ps: u64,
    /// the median
    pub p50_ps: u64,
    /// the average
    pub avg_ps: u64,
    /// 99 of 100 are no more
    pub p99_ps: u64,
    /// 999 of 1000 are no more
    pub p999_ps: u64,
    /// the most
    pub max_ps: u64,
}

/// A run as the server saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// of a stream, whose receiver times it; else zero
    pub figures: Figures,
    /// that the server's thread ran, of `wall_ns`
    pub cpu_ns: u64,
    /// from GO to the end
    pub wall_ns: u64,
}

impl Plan {
    /// Whether every message takes preparing.
    #[must_use]
    pub fn is_with_care(&self) -> bool {
        self.is_verified || self.memory != Memory::Reused
    }

    /// As it crosses.
    #[must_use]
    pub fn encode(&self) -> [u8; PLAN_BYTES] {
        let mut bytes = [0; PLAN_BYTES];
        bytes[0] = VERSION;
        bytes[1] = self.wait.map_or(0, wait_number);
        bytes[2] = self.memory as u8;
        bytes[3] = self.is_verified.into();
        bytes[4..8].copy_from_slice(&self.core.unwrap_or(NOT_PINNED).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seed.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.bytes_max.to_le_bytes());
        bytes
    }

    /// What a client sent.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode(bytes: &[u8]) -> Result<Self, Broken> {
        let bytes: &[u8; PLAN_BYTES] =
            bytes.try_into().map_err(|_| Broken("sent a PLAN of the wrong length"))?;
        check_version(bytes[0])?;
        check_zero(&bytes[24..], "sent a PLAN whose reserved bytes are not zero")?;
        let memory = match bytes[2] {
            0 => Memory::Reused,
            1 => Memory::Plain,
            2 => Memory::Superpipe,
            3 => Memory::Advised,
            _ => return Err(Broken("asks for a kind of memory that we do not know")),
        };
        if bytes[3] > 1 {
            return Err(Broken("sent a PLAN with a flag that we do not know"));
        }
        let bytes_max = word(&bytes[16..24]);
        if bytes_max > BYTES_MAX {
            return Err(Broken("asks for messages of more than 1 GiB"));
        }
        Ok(Self {
            wait: if bytes[1] == 0 { None } else { Some(wait_of(bytes[1])?) },
            memory,
            is_verified: bytes[3] == 1,
            core: core_of(&bytes[4..8]),
            seed: word(&bytes[8..16]),
            bytes_max,
        })
    }
}

impl Ready {
    /// As it crosses.
    #[must_use]
    pub fn encode(&self) -> [u8; READY_BYTES] {
        let mut bytes = [0; READY_BYTES];
        bytes[0] = VERSION;
        bytes[1] = wait_number(self.wait);
        bytes[4..8].copy_from_slice(&self.core.unwrap_or(NOT_PINNED).to_le_bytes());
        bytes
    }

    /// What a server sent in answer to `plan`.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode(bytes: &[u8], plan: &Plan) -> Result<Self, Broken> {
        let bytes: &[u8; READY_BYTES] =
            bytes.try_into().map_err(|_| Broken("sent a READY of the wrong length"))?;
        check_version(bytes[0])?;
        if bytes[2..4].iter().chain(&bytes[8..]).any(|&byte| byte != 0) {
            return Err(Broken("sent a READY whose reserved bytes are not zero"));
        }
        let wait = wait_of(bytes[1])?;
        if plan.wait.is_some_and(|wish| wish != wait) {
            return Err(Broken("waits in another way than it was asked to"));
        }
        Ok(Self { wait, core: core_of(&bytes[4..8]) })
    }
}

impl Run {
    /// Messages of which each has a time of its own.
    #[must_use]
    pub const fn singles(&self) -> u64 {
        self.samples * self.batch as u64
    }

    /// Messages that are timed, in batches or alone.
    #[must_use]
    pub const fn timed(&self) -> u64 {
        if self.batch > 1 { 2 * self.singles() } else { self.samples }
    }

    /// As it crosses.
    #[must_use]
    pub fn encode(&self) -> [u8; RUN_BYTES] {
        let mut bytes = [0; RUN_BYTES];
        bytes[0] = self.pattern as u8;
        bytes[1] = self.is_reconnected.into();
        bytes[4..8].copy_from_slice(&self.batch.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.warmup.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.samples.to_le_bytes());
        bytes
    }

    /// What a client of this plan sent.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode(bytes: &[u8], plan: &Plan) -> Result<Self, Broken> {
        let bytes: &[u8; RUN_BYTES] =
            bytes.try_into().map_err(|_| Broken("sent a RUN of the wrong length"))?;
        if bytes[2..4].iter().chain(&bytes[32..]).any(|&byte| byte != 0) {
            return Err(Broken("sent a RUN whose reserved bytes are not zero"));
        }
        let pattern = match bytes[0] {
            1 => Pattern::Check,
            2 => Pattern::Pingpong,
            3 => Pattern::Stream,
            _ => return Err(Broken("asks for a pattern of messages that we do not know")),
        };
        let batch = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let run = Self {
            pattern,
            is_reconnected: bytes[1] == 1,
            batch,
            bytes: word(&bytes[8..16]),
            warmup: word(&bytes[16..24]),
            samples: word(&bytes[24..32]),
        };
        if bytes[1] > 1 {
            return Err(Broken("sent a RUN with a flag that we do not know"));
        }
        if run.bytes > plan.bytes_max {
            return Err(Broken("asks for larger messages than its PLAN said"));
        }
        if !(1..=BATCH_MAX).contains(&batch) {
            return Err(Broken("asks for batches of no or more than 1024 messages"));
        }
        if batch > 1 && plan.is_with_care() {
            return Err(Broken("asks for batches of messages that are prepared one by one"));
        }
        if run.samples > SAMPLES_MAX || run.singles() > SAMPLES_MAX {
            return Err(Broken("asks for more samples than the 16777216 that there is room for"));
        }
        if run.warmup > WARMUP_MAX {
            return Err(Broken("asks for a longer warm-up than 4294967296 messages"));
        }
        if pattern == Pattern::Check && (run.warmup, run.samples, batch) != (0, 1, 1) {
            return Err(Broken("asks for a check that is not of one message"));
        }
        if pattern == Pattern::Stream && run.samples > 0 && run.warmup == 0 {
            return Err(Broken("asks for a stream without a message that starts the clock"));
        }
        Ok(run)
    }
}

impl Figures {
    const fn in_order(&self) -> [u64; 6] {
        [self.min_ps, self.p50_ps, self.avg_ps, self.p99_ps, self.p999_ps, self.max_ps]
    }

    fn are_possible(&self) -> bool {
        let Self { min_ps, p50_ps, avg_ps, p99_ps, p999_ps, max_ps } = self;
        [min_ps, p50_ps, p99_ps, p999_ps, max_ps].is_sorted() && (min_ps..=max_ps).contains(&avg_ps)
    }
}

impl Done {
    /// As it crosses.
    #[must_use]
    pub fn encode(&self) -> [u8; DONE_BYTES] {
        let mut bytes = [0; DONE_BYTES];
        let words = self.figures.in_order().into_iter().chain([self.cpu_ns, self.wall_ns]);
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// What a server sent.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode(bytes: &[u8]) -> Result<Self, Broken> {
        let bytes: &[u8; DONE_BYTES] =
            bytes.try_into().map_err(|_| Broken("sent a DONE of the wrong length"))?;
        check_zero(&bytes[64..], "sent a DONE whose reserved bytes are not zero")?;
        let at = |index: usize| word(&bytes[index * 8..index * 8 + 8]);
        let figures = Figures {
            min_ps: at(0),
            p50_ps: at(1),
            avg_ps: at(2),
            p99_ps: at(3),
            p999_ps: at(4),
            max_ps: at(5),
        };
        if !figures.are_possible() {
            return Err(Broken("sent figures that cannot be: a median above the maximum, or the like"));
        }
        Ok(Self { figures, cpu_ns: at(6), wall_ns: at(7) })
    }
}

fn check_version(version: u8) -> Result<(), Broken> {
    if version == VERSION {
        return Ok(());
    }
    Err(Broken("measures by another version of the protocol; install the same superpipe-tools at both ends"))
}

fn check_zero(bytes: &[u8], otherwise: &'static str) -> Result<(), Broken> {
    if bytes.iter().all(|&byte| byte == 0) { Ok(()) } else { Err(Broken(otherwise)) }
}

fn core_of(bytes: &[u8]) -> Option<u32> {
    u32::try_from(word(bytes)).ok().filter(|&core| core != NOT_PINNED)
}

const fn wait_number(wait: WaitStrategy) -> u8 {
    match wait {
        WaitStrategy::Spin => 1,
        WaitStrategy::Yield => 2,
        WaitStrategy::Sleep => 3,
    }
}

fn wait_of(number: u8) -> Result<WaitStrategy, Broken> {
    match number {
        1 => Ok(WaitStrategy::Spin),
        2 => Ok(WaitStrategy::Yield),
        3 => Ok(WaitStrategy::Sleep),
        _ => Err(Broken("waits in a way that we do not know")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        wait: Some(WaitStrategy::Yield),
        memory: Memory::Plain,
        is_verified: true,
        core: Some(3),
        seed: 0x0102_0304_0506_0708,
        bytes_max: 4096,
    };
    const RUN: Run = Run {
        pattern: Pattern::Stream,
        is_reconnected: false,
        batch: 64,
        bytes: 4096,
        warmup: 10,
        samples: 1000,
    };

    /// What is said of a message with one byte changed.
    fn changed<const N: usize, T: core::fmt::Debug>(
        mut bytes: [u8; N],
        at: usize,
        value: u8,
        decode: impl Fn(&[u8]) -> Result<T, Broken>,
    ) -> &'static str {
        bytes[at] = value;
        decode(&bytes).unwrap_err().0
    }

    #[test]
    fn plans_survive_and_wrong_ones_are_told_apart() {
        for plan in
            [PLAN, Plan { wait: None, core: None, memory: Memory::Reused, is_verified: false, ..PLAN }]
        {
            assert_eq!(Plan::decode(&plan.encode()), Ok(plan));
        }
        let wrong = |at, value| changed(PLAN.encode(), at, value, Plan::decode);
        assert!(wrong(0, 2).contains("another version"));
        assert!(wrong(1, 4).contains("waits in a way"));
        assert!(wrong(2, 9).contains("kind of memory"));
        assert!(wrong(3, 2).contains("flag"));
        assert!(wrong(23, 1).contains("1 GiB") && wrong(19, 0x41).contains("1 GiB"));
        assert!((24..32).all(|at| wrong(at, 1).contains("reserved")));
        assert!(Plan::decode(&[]).is_err() && Plan::decode(&[0; 33]).is_err());
    }

    #[test]
    fn a_server_does_as_it_was_asked() {
        let ready = Ready { wait: WaitStrategy::Yield, core: Some(0) };
        assert_eq!(Ready::decode(&ready.encode(), &PLAN), Ok(ready));
        let ready = Ready { wait: WaitStrategy::Sleep, core: None };
        assert!(Ready::decode(&ready.encode(), &PLAN).unwrap_err().0.contains("another way"));
        assert_eq!(Ready::decode(&ready.encode(), &Plan { wait: None, ..PLAN }), Ok(ready));
        let ready = Ready { wait: WaitStrategy::Yield, core: None };
        let wrong = |at, value| changed(ready.encode(), at, value, |bytes| Ready::decode(bytes, &PLAN));
        assert!(wrong(0, 0).contains("another version"));
        assert!(wrong(1, 0).contains("waits in a way"));
        assert!(wrong(2, 1).contains("reserved") && wrong(15, 1).contains("reserved"));
    }

    #[test]
    fn runs_survive_and_those_without_bounds_are_refused() {
        let plan = Plan { memory: Memory::Reused, is_verified: false, ..PLAN };
        let decode = |bytes: &[u8]| Run::decode(bytes, &plan);
        assert_eq!(decode(&RUN.encode()), Ok(RUN));
        assert_eq!((RUN.singles(), RUN.timed()), (64_000, 128_000));
        let check =
            Run { pattern: Pattern::Check, is_reconnected: true, batch: 1, warmup: 0, samples: 1, ..RUN };
        assert_eq!((decode(&check.encode()), check.timed()), (Ok(check), 1));
        let wrong = |at, value| changed(RUN.encode(), at, value, decode);
        assert!(wrong(0, 4).contains("pattern"));
        assert!(wrong(1, 2).contains("flag"));
        assert!(wrong(2, 1).contains("reserved") && wrong(39, 1).contains("reserved"));
        assert!(wrong(4, 0).contains("batches") && wrong(7, 1).contains("batches"));
        assert!(wrong(8, 1).contains("larger messages"));
        assert!(wrong(31, 0xFF).contains("samples") && wrong(27, 1).contains("samples"));
        assert!(wrong(23, 1).contains("warm-up"));
        let refused = |run: Run| decode(&run.encode()).unwrap_err().0;
        assert!(refused(Run { samples: 2, ..check }).contains("one message"));
        assert!(refused(Run { warmup: 0, ..RUN }).contains("starts the clock"));
        assert!(refused(Run { samples: SAMPLES_MAX / 64 + 1, ..RUN }).contains("samples"));
        assert!(decode(&[1; 39]).is_err());
        for plan in [Plan { is_verified: true, ..plan }, Plan { memory: Memory::Advised, ..plan }] {
            assert!(Run::decode(&RUN.encode(), &plan).unwrap_err().0.contains("one by one"));
            assert!(Run::decode(&Run { batch: 1, ..RUN }.encode(), &plan).is_ok());
        }
    }

    #[test]
    fn figures_that_cannot_be_are_refused() {
        let figures = Figures { min_ps: 1, p50_ps: 2, avg_ps: 30, p99_ps: 4, p999_ps: 5, max_ps: 60 };
        let done = Done { figures, cpu_ns: 7, wall_ns: 8 };
        assert_eq!(Done::decode(&done.encode()), Ok(done));
        assert_eq!(Done::decode(&Done::default().encode()), Ok(Done::default()));
        let wrong = |at, value| changed(done.encode(), at, value, Done::decode);
        for at in [0, 8, 16, 24, 32] {
            assert!(wrong(at, 99).contains("cannot be"), "{at}");
        }
        assert!(wrong(40, 0).contains("cannot be"));
        assert!((64..80).all(|at| wrong(at, 1).contains("reserved")));
        assert!(Done::decode(&[]).is_err());
    }
}
