//! The parts of the measurement and their sizes: data only. Each part is measured by itself and has a file of its own.

const K: usize = 1 << 10;
const M: usize = 1 << 20;

/// Sizes of short messages, and of long ones.
const SMALL: [usize; 6] = [8, 64, 256, K, 4 * K, 8 * K];
const LARGE: [usize; 8] = [16 * K, 32 * K, 64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M];
/// Sizes of messages into memory that was never used.
const COLD: [usize; 6] = [64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M];

/// The range of the steps, and the factor of one step.
const STEPS: (usize, usize, f64) = (64, 64 * M, 1.05);

/// Steps that are measured in one visit, so that neighbours find the machine in the same state.
const STEPS_PER_VISIT: usize = 16;
/// The border between two visits moves by so many steps from round to round.
const STEPS_MOVED: usize = 5;

/// One part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Part {
    /// 8 B to 8 KiB, reused buffers
    Small,
    /// 16 KiB to 64 MiB, reused buffers
    Large,
    /// 64 KiB to 64 MiB, into memory that was never used
    Cold,
    /// superpipe alone, 64 B to 64 MiB in steps of 5 %
    Steps,
    /// superpipe alone, the first message of a connection
    First,
    /// superpipe's wait strategies
    Waiting,
    /// RDMA in a guest, measured by scripts/bench-vm.sh
    #[value(skip)]
    Rdma,
}

impl Part {
    /// Those that this program measures, in the order of the page.
    pub(crate) const LOCAL: [Self; 6] =
        [Self::Small, Self::Large, Self::Cold, Self::Steps, Self::First, Self::Waiting];

    /// The name of its file without `.jsonl`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
            Self::Cold => "cold",
            Self::Steps => "steps",
            Self::First => "first",
            Self::Waiting => "waiting",
            Self::Rdma => "rdma",
        }
    }

    /// Returns whether limits, superpipe and peers compete over shared memory.
    pub(crate) const fn is_contest(self) -> bool {
        matches!(self, Self::Small | Self::Large | Self::Cold)
    }

    /// Memory that peers receive into.
    pub(crate) const fn memory(self) -> &'static str {
        if matches!(self, Self::Cold) { PLAIN } else { REUSED }
    }

    /// The part's share of the time that is left, beside the shares of the parts after it.
    pub(crate) const fn share(self) -> u32 {
        match self {
            Self::Large => 5,
            Self::Small | Self::Cold | Self::Steps => 4,
            Self::First | Self::Waiting => 1,
            Self::Rdma => 0,
        }
    }

    /// The cells of a round, counted from 0, in units: every contestant is visited for one of them before the next one has its turn.
    pub(crate) fn units(self, round: usize, is_quick: bool) -> Vec<Vec<Cell>> {
        let cells = self.cells(is_quick);
        if self != Self::Steps {
            return cells.into_iter().map(|cell| vec![cell]).collect();
        }
        let first = STEPS_PER_VISIT - round * STEPS_MOVED % STEPS_PER_VISIT;
        let mut units = Vec::new();
        for steps in cells.chunk_by(|a, b| a.test == b.test) {
            let (begin, rest) = steps.split_at(first.min(steps.len()));
            units.push(begin.to_vec());
            units.extend(rest.chunks(STEPS_PER_VISIT).map(<[Cell]>::to_vec));
        }
        units
    }

    /// The work of every contestant in a round.
    pub(crate) fn cells(self, is_quick: bool) -> Vec<Cell> {
        let tests: &[&'static str] = match self {
            Self::First => &[LATENCY],
            Self::Waiting | Self::Rdma => &[],
            _ => &[LATENCY, STREAM],
        };
        let sizes = match self {
            Self::Small => SMALL.to_vec(),
            Self::Large => LARGE.to_vec(),
            Self::Cold => COLD.to_vec(),
            Self::Steps => steps(),
            Self::First => [&SMALL[..], &LARGE[..]].concat(),
            Self::Waiting | Self::Rdma => Vec::new(),
        };
        // A quick run shows that everything works, with few sizes and few messages.
        let sizes: Vec<usize> = if is_quick { few(&sizes) } else { sizes };
        let cell = |test, bytes| {
            let messages = match self {
                Self::Cold => cold_messages(bytes),
                Self::Steps | Self::First => messages(bytes).div_ceil(4).max(4),
                _ => messages(bytes),
            };
            Cell { test, bytes, messages: if is_quick { messages.min(20) } else { messages } }
        };
        tests.iter().flat_map(|&test| sizes.iter().map(move |&bytes| cell(test, bytes))).collect()
    }
}

/// Half a round trip, as rperf, the peers' harness and the figures name it.
pub(crate) const LATENCY: &str = "latency";
/// One way, at the receiver.
pub(crate) const STREAM: &str = "stream";
/// The first message of a connection.
pub(crate) const CONNECTION: &str = "connection";
/// The same resident buffers for every message.
pub(crate) const REUSED: &str = "reused";
/// A destination that was never used.
pub(crate) const PLAIN: &str = "plain";
/// A destination that was never used, announced to superpipe as such.
pub(crate) const ADVISED: &str = "advised";
/// A destination that superpipe allocated.
pub(crate) const SUPERPIPE: &str = "superpipe";

/// The messages behind one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub(crate) test: &'static str,
    pub(crate) bytes: usize,
    /// messages that are timed
    pub(crate) messages: usize,
}

/// Messages that take every contestant some 10 to 100 ms.
const fn messages(bytes: usize) -> usize {
    match bytes {
        0..=2048 => 20_000,
        2049..=8192 => 8_000,
        8193..=16_384 => 4_000,
        16_385..=65_536 => 1_500,
        65_537..=262_144 => 400,
        262_145..=1_048_576 => 100,
        1_048_577..=4_194_304 => 25,
        4_194_305..=16_777_216 => 8,
        _ => 4,
    }
}

const fn cold_messages(bytes: usize) -> usize {
    match bytes {
        0..=1_048_576 => 64,
        1_048_577..=4_194_304 => 16,
        4_194_305..=16_777_216 => 4,
        _ => 2,
    }
}

/// The sizes of the steps.
fn steps() -> Vec<usize> {
    let (from, to, factor) = STEPS;
    let mut sizes = Vec::new();
    let mut exact = from as f64;
    while exact <= to as f64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 64 to 64 Mi")]
        sizes.push(exact.round() as usize);
        exact *= factor;
    }
    sizes
}

/// The first, the middle and the last one of those up to 1 MiB.
fn few(sizes: &[usize]) -> Vec<usize> {
    let short: Vec<usize> = sizes.iter().copied().filter(|&bytes| bytes <= M).collect();
    let chosen = [0, short.len() / 2, short.len().saturating_sub(1)];
    chosen.into_iter().filter_map(|at| short.get(at).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::{LATENCY, Part, STREAM, steps};

    #[test]
    fn steps_are_of_five_percent() {
        let sizes = steps();
        assert_eq!((sizes[0], sizes.len()), (64, 285));
        assert!(sizes.windows(2).all(|pair| pair[1] > pair[0] && pair[1] * 100 <= pair[0] * 106 + 100));
    }

    #[test]
    fn every_round_has_every_cell_once() {
        for part in Part::LOCAL {
            for round in 0..20 {
                let units = part.units(round, false);
                assert!(units.iter().all(|unit| !unit.is_empty()), "{part:?}");
                assert_eq!(units.concat(), part.cells(false), "{part:?}, round {round}");
            }
        }
    }

    #[test]
    fn most_rounds_measure_neighbouring_steps_together() {
        let cells = Part::Steps.cells(false);
        for pair in cells.windows(2).filter(|pair| pair[0].test == pair[1].test) {
            let together = (0..9).filter(|&round| {
                let has_both = |unit: &Vec<super::Cell>| pair.iter().all(|cell| unit.contains(cell));
                Part::Steps.units(round, false).iter().any(has_both)
            });
            assert!(together.count() >= 8, "{pair:?}");
        }
    }

    #[test]
    fn a_quick_run_has_every_test_of_a_part() {
        for part in Part::LOCAL {
            let tests = |cells: Vec<super::Cell>| {
                [LATENCY, STREAM].map(|test| cells.iter().any(|cell| cell.test == test))
            };
            assert_eq!(tests(part.cells(true)), tests(part.cells(false)), "{part:?}");
            assert!(part.cells(true).len() <= 6);
        }
    }
}
