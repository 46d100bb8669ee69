//! A round: one connection, and how both ends use it. The seed and the round's number decide it, so both processes compute the
//! same round.

use core::fmt;
use core::time::Duration;

use superpipe::{Arrival, Options, Protocol, Tuning, WaitStrategy};

use crate::options::Overrides;
use crate::random::Random;

/// Bytes of the longest message.
pub(crate) const BYTES_MAX: usize = 1 << 20;
/// Bytes that fit a slot line.
pub(crate) const INLINE_BYTES_MAX: usize = 40;
/// C0 over shared memory: a message of up to this size is one chunk.
pub(crate) const C0_BYTES: usize = 64 << 10;
/// Default bytes of a landing buffer.
const LANDING_BYTES: usize = 512 << 10;

/// Protocols that a round proposes: those that shared memory has, which has no device for [`Protocol::Register`].
const PROTOCOLS: [Protocol; 6] = [
    Protocol::Eager,
    Protocol::Copy,
    Protocol::Pipeline,
    Protocol::Superpipeline,
    Protocol::Provision,
    Protocol::RegisterCached,
];

/// Shortest and longest deadline of a receiving call, in microseconds.
const RECV_US: [usize; 2] = [20, 2000];

/// Independent random streams of a round.
#[derive(Clone, Copy)]
pub(crate) enum RandomStream {
    Round = 1,
    Message,
    Send,
    Receive,
    Stop,
}

/// Parameters of a round.
pub(crate) struct Round {
    pub(crate) seed: u64,
    pub(crate) number: u64,
    pub(crate) block_bytes: usize,
    pub(crate) landing_bytes: usize,
    pub(crate) folds: u8,
    protocol: Protocol,
    arrival: Arrival,
    waits: [WaitStrategy; 2],
    /// Deadline of every receiving call, or `None` if each call draws its own.
    recv_deadline: Option<Duration>,
    /// Sends only messages of one chunk with many blocks, which a stop leaves unfinished most often.
    pub(crate) is_chunks: bool,
    /// Makes all stops short, in quick succession.
    pub(crate) is_quick: bool,
    pub(crate) is_sender_listening: bool,
}

impl Round {
    /// Draws a round. Each block size has four rounds. The first two have the library's defaults except for the block size, and
    /// the shortest deadlines. The other two draw everything. The first finds most failures that several unfinished messages in
    /// a row cause.
    pub(crate) fn new(seed: u64, number: u64, overrides: &Overrides) -> Self {
        let mut random = Random::new(&[seed, number, RandomStream::Round as u64]);
        let block_bytes = match number / 4 % 4 {
            0 => 1 << 10,
            1 => 4 << 10,
            2 => 256,
            _ => 16 << 10,
        };
        let mut round = Self {
            seed,
            number,
            block_bytes: overrides.block_bytes.unwrap_or(block_bytes),
            landing_bytes: LANDING_BYTES,
            folds: 3,
            protocol: Protocol::default(),
            arrival: Arrival::Flag,
            waits: [WaitStrategy::default(); 2],
            recv_deadline: Some(Duration::from_micros(RECV_US[0] as u64)),
            is_chunks: number.is_multiple_of(4),
            is_quick: number.is_multiple_of(4),
            is_sender_listening: random.chance(50),
        };
        if number % 4 >= 2 {
            let blocks = random.pick(&[2, 3, 4, 7, 16, 64, 256]);
            round.landing_bytes = (round.block_bytes * blocks).min(LANDING_BYTES);
            round.folds = random.pick(&[1, 2, 3, 8]);
            round.protocol = random.pick(&PROTOCOLS);
            round.arrival = random.pick(&[Arrival::Flag, Arrival::Flag, Arrival::CheckedFlag]);
            let strategies = [WaitStrategy::Spin, WaitStrategy::Yield, WaitStrategy::Sleep];
            round.waits = [random.pick(&strategies), random.pick(&strategies)];
            round.recv_deadline = None;
            round.is_chunks = random.chance(25);
            round.is_quick = random.chance(25);
        }
        if let Some(landing_bytes) = overrides.landing_bytes {
            round.landing_bytes = landing_bytes;
        }
        if let Some(us) = overrides.deadline_us {
            round.recv_deadline = Some(Duration::from_micros(us));
        }
        round
    }

    /// Returns the random stream of a kind and number.
    pub(crate) fn random(&self, draw: RandomStream, number: u64) -> Random {
        Random::new(&[self.seed, self.number, draw as u64, number])
    }

    /// Returns the deadline of the next receiving call.
    pub(crate) fn recv_deadline(&self, random: &mut Random) -> Duration {
        self.recv_deadline.unwrap_or_else(|| random.time(RECV_US[0], RECV_US[1]))
    }

    /// Returns the payload bytes that a landing buffer holds.
    pub(crate) const fn ring_bytes(&self) -> usize {
        self.landing_bytes - self.landing_bytes % self.block_bytes
    }

    /// Returns the options of the sending end, which proposes the tuning.
    pub(crate) fn sender_options(&self) -> Options {
        let tuning = Tuning {
            protocol: Some(self.protocol),
            arrival: Some(self.arrival),
            folds: Some(self.folds),
            block_bytes: u32::try_from(self.block_bytes).ok(),
            landing_bytes: u32::try_from(self.landing_bytes).ok(),
            ..Tuning::default()
        };
        Options { wait: self.waits[0], tuning, ..Options::default() }
    }

    /// Returns the options of the receiving end.
    pub(crate) fn receiver_options(&self) -> Options {
        Options { wait: self.waits[1], ..Options::default() }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            block_bytes,
            landing_bytes,
            folds,
            protocol,
            arrival,
            waits,
            is_chunks,
            is_quick,
            ..
        } = self;
        write!(
            f,
            "round {number}: blocks of {block_bytes}, landing {landing_bytes}, folds {folds}, {protocol}, "
        )?;
        write!(f, "{arrival:?}, {waits:?}, ")?;
        write!(
            f,
            "{}{}",
            if *is_chunks { "chunks only, " } else { "" },
            if *is_quick { "quick stops, " } else { "" }
        )?;
        match self.recv_deadline {
            Some(deadline) => write!(f, "deadlines of {deadline:?}"),
            None => write!(f, "deadlines of {} to {} µs", RECV_US[0], RECV_US[1]),
        }
    }
}
