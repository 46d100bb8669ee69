//! A round: one connection, and how both ends use it. A function of the seed and the round's number, so that the two
//! processes need not tell each other.

use core::fmt;
use core::time::Duration;

use superpipe::{Arrival, Options, Protocol, Tuning, WaitStrategy};

use crate::options::Wishes;
use crate::random::Random;

/// Bytes of the largest message.
pub(crate) const BYTES_MAX: usize = 1 << 20;
/// Bytes that travel in a slot line.
pub(crate) const INLINE_BYTES_MAX: usize = 40;
/// C0 over shared memory: a message up to this size is one chunk.
pub(crate) const C0_BYTES: usize = 64 << 10;
/// Bytes of a landing buffer where nobody wishes otherwise.
const LANDING_BYTES: usize = 512 << 10;

/// The least and the most that a receiving call waits, in microseconds.
const RECV_US: [usize; 2] = [20, 2000];

/// Tells the draws of a round apart.
#[derive(Clone, Copy)]
pub(crate) enum Draw {
    Round = 1,
    Message,
    Send,
    Receive,
    Stop,
}

/// One connection.
pub(crate) struct Round {
    pub(crate) seed: u64,
    pub(crate) number: u64,
    pub(crate) block_bytes: usize,
    pub(crate) landing_bytes: usize,
    pub(crate) folds: u8,
    protocol: Protocol,
    arrival: Arrival,
    waits: [WaitStrategy; 2],
    /// The deadline of every receiving call, where it is not drawn for each.
    recv_deadline: Option<Duration>,
    /// Only messages that are one chunk of many blocks: those that a stop leaves unfinished most often.
    pub(crate) is_chunks: bool,
    /// All stops are short, and follow each other quickly.
    pub(crate) is_quick: bool,
    pub(crate) is_sender_listening: bool,
}

impl Round {
    /// Each size of blocks has four rounds. The first two have the defaults of the library but for the blocks, and the
    /// shortest deadlines; in the other two everything is drawn. The first makes most of what goes wrong when several
    /// messages in a row are left unfinished.
    pub(crate) fn new(seed: u64, number: u64, wishes: &Wishes) -> Self {
        let mut random = Random::new(&[seed, number, Draw::Round as u64]);
        let block_bytes = match number / 4 % 4 {
            0 => 1 << 10,
            1 => 4 << 10,
            2 => 256,
            _ => 16 << 10,
        };
        let mut round = Self {
            seed,
            number,
            block_bytes: wishes.block_bytes.unwrap_or(block_bytes),
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
            round.protocol = random.pick(&Protocol::ALL);
            round.arrival = random.pick(&[Arrival::Flag, Arrival::Flag, Arrival::CheckedFlag]);
            let strategies = [WaitStrategy::Spin, WaitStrategy::Yield, WaitStrategy::Sleep];
            round.waits = [random.pick(&strategies), random.pick(&strategies)];
            round.recv_deadline = None;
            round.is_chunks = random.chance(25);
            round.is_quick = random.chance(25);
        }
        if let Some(landing_bytes) = wishes.landing_bytes {
            round.landing_bytes = landing_bytes;
        }
        if let Some(us) = wishes.deadline_us {
            round.recv_deadline = Some(Duration::from_micros(us));
        }
        round
    }

    /// The draws of one kind, the `number`th of their kind.
    pub(crate) fn random(&self, draw: Draw, number: u64) -> Random {
        Random::new(&[self.seed, self.number, draw as u64, number])
    }

    /// Deadlines of receiving calls.
    pub(crate) fn recv_deadline(&self, random: &mut Random) -> Duration {
        self.recv_deadline.unwrap_or_else(|| random.time(RECV_US[0], RECV_US[1]))
    }

    /// Bytes of payload that a landing buffer holds.
    pub(crate) const fn ring_bytes(&self) -> usize {
        self.landing_bytes - self.landing_bytes % self.block_bytes
    }

    /// The options of the sending end, which has the wishes.
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

    /// The options of the receiving end.
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
