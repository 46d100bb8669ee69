//! RUN and DONE: one sequence of measured messages, and the server's figures for it. wire.md 8.2.

use super::SAMPLES_MAX;
use super::messages::{Plan, check_zero, number};
use crate::protocol::{Violation, word};

/// Bytes of a RUN.
pub const RUN_BYTES: usize = 48;
/// Bytes of a DONE.
pub const DONE_BYTES: usize = 80;

/// Limit on the messages of a batch.
const BATCH_MAX: u32 = 1 << 10;
/// Limit on the messages of a warm-up.
const WARMUP_MAX: u64 = 1 << 32;
/// Limit on the time of a run: a week.
pub const TIME_MAX_NS: u64 = 7 * 24 * 3600 * 1_000_000_000;

/// Kind of a sequence of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Pattern {
    /// one round trip, compared at both ends: the first message of its size
    Check = 1,
    /// round trips, one after the other
    Pingpong = 2,
    /// messages from the client to the server
    Stream = 3,
    /// messages from each end to the other at once, over many connections
    Both = 4,
}

/// One sequence of measured messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// kind of the sequence
    pub pattern: Pattern,
    /// the run begins with a new connection
    pub is_reconnected: bool,
    /// the server records the run, and sends RECORDS
    pub is_recorded: bool,
    /// messages per reading of the clock in a batch; 1: no batches
    pub batch: u32,
    /// size of each message
    pub bytes: u64,
    /// messages before the timed ones
    pub warmup: u64,
    /// timed batches, each followed by as many single messages; or timed messages, if the batch is 1; 0 if the run has a time
    pub samples: u64,
    /// time of the timed messages, which the client keeps; 0: as many as `samples` says
    pub time_ns: u64,
    /// connection of a check, 1 to N of the plan's; 0: the data connection, or all of the plan
    pub connection: u32,
}

/// Figures of one end, in picoseconds per message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// minimum
    pub min_ps: u64,
    /// median
    pub p50_ps: u64,
    /// average
    pub avg_ps: u64,
    /// 99th percentile
    pub p99_ps: u64,
    /// 99.9th percentile
    pub p999_ps: u64,
    /// maximum
    pub max_ps: u64,
}

/// The server's figures of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// figures of a stream, which the receiver times; otherwise zeros
    pub figures: Figures,
    /// CPU time of the server's thread within `wall_ns`
    pub cpu_ns: u64,
    /// time from the allocation of the server's buffers, before its first GO, to its last message
    pub wall_ns: u64,
    /// messages of a stream that were timed; otherwise zero
    pub messages: u64,
}

impl Run {
    /// Returns the number of messages that are timed one by one.
    #[must_use]
    pub const fn singles(&self) -> u64 {
        self.samples * self.batch as u64
    }

    /// Returns true if the client ends the run, once its time is over.
    #[must_use]
    pub const fn is_by_time(&self) -> bool {
        self.time_ns > 0
    }

    /// Returns the number of timed messages, in batches or one by one.
    #[must_use]
    pub const fn timed(&self) -> u64 {
        if self.batch > 1 { 2 * self.singles() } else { self.samples }
    }

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; RUN_BYTES] {
        let mut bytes = [0; RUN_BYTES];
        bytes[0] = self.pattern as u8;
        bytes[1] = self.is_reconnected.into();
        bytes[2] = self.is_recorded.into();
        bytes[4..8].copy_from_slice(&self.batch.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.warmup.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.samples.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.connection.to_le_bytes());
        bytes
    }

    /// Decodes the message of a client with this plan.
    ///
    /// # Errors
    /// The first rule that the message breaks.
    pub fn decode(bytes: &[u8], plan: &Plan) -> Result<Self, Violation> {
        let bytes: &[u8; RUN_BYTES] =
            bytes.try_into().map_err(|_| Violation("sent a RUN of the wrong length"))?;
        if bytes[3..4].iter().chain(&bytes[44..]).any(|&byte| byte != 0) {
            return Err(Violation("sent a RUN whose reserved bytes are not zero"));
        }
        let pattern = match bytes[0] {
            1 => Pattern::Check,
            2 => Pattern::Pingpong,
            3 => Pattern::Stream,
            4 => Pattern::Both,
            _ => return Err(Violation("asks for an unknown pattern of messages")),
        };
        let batch = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let run = Self {
            pattern,
            is_reconnected: bytes[1] == 1,
            is_recorded: bytes[2] == 1,
            batch,
            bytes: word(&bytes[8..16]),
            warmup: word(&bytes[16..24]),
            samples: word(&bytes[24..32]),
            time_ns: word(&bytes[32..40]),
            connection: number(&bytes[40..44]),
        };
        if bytes[1] > 1 || bytes[2] > 1 {
            return Err(Violation("sent a RUN with an unknown flag"));
        }
        if run.bytes > plan.bytes_max {
            return Err(Violation("asks for larger messages than its PLAN allows"));
        }
        if !(1..=BATCH_MAX).contains(&batch) {
            return Err(Violation("asks for batches of 0 or of more than 1024 messages"));
        }
        if batch > 1 && plan.is_prepared() {
            return Err(Violation("asks for batches of messages that are prepared one by one"));
        }
        if run.samples > SAMPLES_MAX || run.singles() > SAMPLES_MAX {
            return Err(Violation("asks for more samples than the maximum of 16777216"));
        }
        if run.warmup > WARMUP_MAX {
            return Err(Violation("asks for a longer warm-up than 4294967296 messages"));
        }
        if pattern == Pattern::Check && (run.warmup, run.samples, batch) != (0, 1, 1) {
            return Err(Violation("asks for a check of more or less than one message"));
        }
        if run.time_ns > TIME_MAX_NS {
            return Err(Violation("asks for a run of more than a week"));
        }
        if run.is_by_time() && (pattern == Pattern::Check || run.samples > 0) {
            return Err(Violation("asks for a run by time and by count"));
        }
        let connections = if pattern == Pattern::Check { plan.connections } else { 0 };
        if run.connection > connections || (run.connection == 0 && connections > 0) {
            return Err(Violation("asks for a connection that its PLAN has not"));
        }
        if plan.is_many() {
            let is_plain = (run.is_reconnected, run.is_recorded, run.warmup, batch) == (false, false, 0, 1);
            return if is_plain {
                Ok(run)
            } else {
                Err(Violation("asks for too much over many connections"))
            };
        }
        if pattern == Pattern::Both {
            return Err(Violation("asks for both directions at once over one connection"));
        }
        if pattern == Pattern::Stream && (run.samples > 0 || run.is_by_time()) && run.warmup == 0 {
            return Err(Violation("asks for a stream without a message that starts the clock"));
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
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; DONE_BYTES] {
        let mut bytes = [0; DONE_BYTES];
        let words = self.figures.in_order().into_iter().chain([self.cpu_ns, self.wall_ns, self.messages]);
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes the message of a server.
    ///
    /// # Errors
    /// The first rule that the message breaks.
    pub fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let bytes: &[u8; DONE_BYTES] =
            bytes.try_into().map_err(|_| Violation("sent a DONE of the wrong length"))?;
        check_zero(&bytes[72..], "sent a DONE whose reserved bytes are not zero")?;
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
            return Err(Violation("sent inconsistent figures, such as a median above the maximum"));
        }
        Ok(Self { figures, cpu_ns: at(6), wall_ns: at(7), messages: at(8) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rperf::messages::Memory;
    use crate::rperf::messages::tests::{PLAN, changed};

    const RUN: Run = Run {
        pattern: Pattern::Stream,
        is_reconnected: false,
        is_recorded: true,
        batch: 64,
        bytes: 4096,
        warmup: 10,
        samples: 1000,
        time_ns: 0,
        connection: 0,
    };

    #[test]
    fn runs_round_trip_and_unbounded_ones_are_refused() {
        let plan = Plan { memory: Memory::Reused, is_verified: false, ..PLAN };
        let decode = |bytes: &[u8]| Run::decode(bytes, &plan);
        assert_eq!(decode(&RUN.encode()), Ok(RUN));
        assert_eq!((RUN.singles(), RUN.timed()), (64_000, 128_000));
        let check =
            Run { pattern: Pattern::Check, is_reconnected: true, batch: 1, warmup: 0, samples: 1, ..RUN };
        assert_eq!((decode(&check.encode()), check.timed()), (Ok(check), 1));
        let wrong = |at, value| changed(RUN.encode(), at, value, decode);
        assert!(wrong(0, 5).contains("pattern") && wrong(0, 4).contains("both directions"));
        assert!(wrong(1, 2).contains("flag") && wrong(2, 2).contains("flag"));
        assert!(wrong(3, 1).contains("reserved") && wrong(44, 1).contains("reserved"));
        assert!(wrong(4, 0).contains("batches") && wrong(7, 1).contains("batches"));
        assert!(wrong(8, 1).contains("larger messages"));
        assert!(wrong(31, 0xFF).contains("samples") && wrong(27, 1).contains("samples"));
        assert!(wrong(23, 1).contains("warm-up"));
        let refused = |run: Run| decode(&run.encode()).unwrap_err().0;
        assert!(refused(Run { samples: 2, ..check }).contains("one message"));
        assert!(refused(Run { warmup: 0, ..RUN }).contains("starts the clock"));
        assert!(refused(Run { samples: SAMPLES_MAX / 64 + 1, ..RUN }).contains("samples"));
        assert!(decode(&[1; 40]).is_err());
        let by_time = Run { samples: 0, time_ns: 5, ..RUN };
        assert_eq!(decode(&by_time.encode()), Ok(by_time));
        assert!(wrong(39, 1).contains("a week") && wrong(32, 1).contains("by time and by count"));
        assert!(refused(Run { time_ns: 5, ..check }).contains("by time and by count"));
        assert!(refused(Run { warmup: 0, ..by_time }).contains("starts the clock"));
        assert!(wrong(40, 1).contains("PLAN has not"));
        let many = Plan { connections: 3, ..plan };
        let spread = Run { batch: 1, warmup: 0, is_recorded: false, ..RUN };
        let decode = |run: Run| Run::decode(&run.encode(), &many);
        for pattern in [Pattern::Pingpong, Pattern::Stream, Pattern::Both] {
            let spread = Run { pattern, ..spread };
            assert_eq!(decode(spread), Ok(spread));
            assert!(decode(Run { connection: 1, ..spread }).unwrap_err().0.contains("PLAN has not"));
        }
        let one = Run { pattern: Pattern::Check, samples: 1, connection: 3, ..spread };
        assert_eq!(decode(one), Ok(one));
        for connection in [0, 4] {
            assert!(decode(Run { connection, ..one }).unwrap_err().0.contains("PLAN has not"));
        }
        for run in [
            Run { batch: 2, ..spread },
            Run { warmup: 1, ..spread },
            Run { is_reconnected: true, ..spread },
            Run { is_recorded: true, ..spread },
        ] {
            assert!(decode(run).unwrap_err().0.contains("too much"));
        }
        for plan in [Plan { is_verified: true, ..plan }, Plan { memory: Memory::Advised, ..plan }] {
            assert!(Run::decode(&RUN.encode(), &plan).unwrap_err().0.contains("one by one"));
            assert!(Run::decode(&Run { batch: 1, ..RUN }.encode(), &plan).is_ok());
        }
    }

    #[test]
    fn inconsistent_figures_are_refused() {
        let figures = Figures { min_ps: 1, p50_ps: 2, avg_ps: 30, p99_ps: 4, p999_ps: 5, max_ps: 60 };
        let done = Done { figures, cpu_ns: 7, wall_ns: 8, messages: 9 };
        assert_eq!(Done::decode(&done.encode()), Ok(done));
        assert_eq!(Done::decode(&Done::default().encode()), Ok(Done::default()));
        let wrong = |at, value| changed(done.encode(), at, value, Done::decode);
        for at in [0, 8, 16, 24, 32] {
            assert!(wrong(at, 99).contains("inconsistent"), "{at}");
        }
        assert!(wrong(40, 0).contains("inconsistent"));
        assert!((72..80).all(|at| wrong(at, 1).contains("reserved")));
        assert!(Done::decode(&[]).is_err());
    }
}
