//! The planner on machines that it does not know: each cost of a NIC of 100 Gb/s is multiplied by a factor from a half to two, and the planner has the costs without factors.

mod changes;

pub use changes::{ChangedPhase, check_changes};
use superpipe_core::plan::{Machine, Pages, Planner, Profile, Registration, Terms as PlanTerms};
use superpipe_core::{Config, FlagPlace, Layout, Protocol};
use superpipe_testkit::Rng;

use crate::measured::connection::{Buffers, Terms};
use crate::measured::machine::simulated;
use crate::measured::ping_pong::PingPong;
use crate::measured::workers;
use crate::nic::Profile as Simulated;

/// The profile that the planner begins with.
const KNOWN: Machine = Machine::NIC_100G;
/// The default landing buffer over RDMA.
const LAYOUT: Layout = Layout { block_bytes: 16 << 10, block_count: 32, flags: FlagPlace::Inside };
const C0_BYTES: u32 = 64 << 10;

const SIZES: [usize; 4] = [128 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Memory of the messages, and what its connection has agreed on. By default memory that is lent goes as slices do.
const CELLS: [(Buffers, Agreement); 5] = [
    (Buffers::Slices, Agreement::AllWays),
    (Buffers::Lent, Agreement::AllWays),
    (Buffers::Registered, Agreement::AllWays),
    (Buffers::Slices, Agreement::Default),
    (Buffers::Registered, Agreement::Default),
];

/// What the ends of a connection have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    /// All ways are allowed.
    AllWays,
    /// Nothing: protocol auto.
    Default,
}

/// Messages of each direction in which a choice must converge.
const CONVERGED: usize = 32;
/// Messages of each direction that are then measured.
const MEASURED: usize = 9;

/// Messages of one length and kind of memory, on one machine.
#[derive(Clone, Copy, Debug)]
struct Cell {
    seed: u64,
    bytes: usize,
    buffers: Buffers,
    agreement: Agreement,
}

/// What became of a cell.
#[derive(Clone, Debug)]
pub struct PlannedCell {
    /// Number of the machine.
    pub seed: u64,
    /// Bytes of a message.
    pub bytes: usize,
    /// How its memory is named.
    pub memory: &'static str,
    /// The protocol of the connection.
    pub agreed: Protocol,
    /// The best protocol, and its nanoseconds.
    pub best: (Protocol, u64),
    /// Median nanoseconds of planned messages.
    pub planned_ns: u64,
}

impl PlannedCell {
    /// Returns by how many percent planned messages take longer than by the best protocol.
    #[must_use]
    pub fn loss_percent(&self) -> f64 {
        100.0 * (self.planned_ns as f64 / self.best.1 as f64 - 1.0)
    }
}

/// Plays all cells of this many machines.
///
/// # Errors
/// A message that does not come, or comes changed.
pub fn check_planner(machines: u64) -> Result<Vec<PlannedCell>, String> {
    let mut cells = Vec::new();
    for bytes in SIZES.into_iter().rev() {
        for (buffers, agreement) in CELLS {
            cells.extend((0..machines).map(|seed| Cell { seed, bytes, buffers, agreement }));
        }
    }
    workers::map(&cells, |cell| cell.play())
}

impl Cell {
    fn play(&self) -> Result<PlannedCell, String> {
        let profile = simulated(&unknown(self.seed), self.bytes as u64, Pages::RESIDENT);
        let best = self.best(profile)?;
        let terms = PlanTerms {
            is_default: self.agreement == Agreement::Default,
            ..terms(self.buffers != Buffers::Slices)
        };
        let planner = Planner::new(KNOWN.profile, terms);
        let agreed = self.agreement.protocol();
        let mut times =
            self.ping_pong(profile, agreed, Some(planner)).done(2 * (CONVERGED + MEASURED) as u64)?;
        let planned_ns = median(times.split_off(2 * CONVERGED));
        let memory = self.memory();
        Ok(PlannedCell { seed: self.seed, bytes: self.bytes, memory, agreed, best, planned_ns })
    }

    /// Returns the best protocol on such a machine, and its median nanoseconds.
    fn best(&self, profile: Simulated) -> Result<(Protocol, u64), String> {
        let mut best = (Protocol::Superpipeline, u64::MAX);
        for protocol in self.protocols() {
            let took = median(self.ping_pong(profile, *protocol, None).done(6)?.split_off(2));
            if took < best.1 {
                best = (*protocol, took);
            }
        }
        Ok(best)
    }

    /// Returns how the planner calls its memory.
    const fn memory(&self) -> &'static str {
        match self.buffers {
            Buffers::Lent => "fresh",
            Buffers::Registered | Buffers::Cached => "kept",
            Buffers::Unnamed | Buffers::Slices => "unnamed",
        }
    }

    const fn protocols(&self) -> &'static [Protocol] {
        match self.buffers {
            Buffers::Registered | Buffers::Cached if matches!(self.agreement, Agreement::Default) => {
                &[Protocol::Superpipeline, Protocol::Pipeline, Protocol::RegisterCached]
            }
            _ if matches!(self.agreement, Agreement::Default) => {
                &[Protocol::Superpipeline, Protocol::Pipeline]
            }
            Buffers::Unnamed | Buffers::Slices => {
                &[Protocol::Superpipeline, Protocol::Pipeline, Protocol::Eager, Protocol::Copy]
            }
            Buffers::Lent => {
                &[Protocol::Superpipeline, Protocol::Pipeline, Protocol::Eager, Protocol::Register]
            }
            Buffers::Registered | Buffers::Cached => {
                &[Protocol::Superpipeline, Protocol::Pipeline, Protocol::Eager, Protocol::RegisterCached]
            }
        }
    }

    fn ping_pong(&self, profile: Simulated, protocol: Protocol, planner: Option<Planner>) -> PingPong {
        let config = Config { protocol, c0_bytes: C0_BYTES, ..Config::default() };
        // Memory that is named goes by remote writes if the protocol is one of those.
        let buffers =
            if planner.is_some() || matches!(protocol, Protocol::Register | Protocol::RegisterCached) {
                self.buffers
            } else {
                Buffers::Slices
            };
        PingPong { profile, terms: Terms { config, layout: LAYOUT, buffers, bytes: self.bytes, planner } }
    }
}

impl Agreement {
    const fn protocol(self) -> Protocol {
        match self {
            Self::AllWays => Protocol::RegisterCached,
            Self::Default => Protocol::Auto,
        }
    }
}

/// Returns the terms of a planner.
fn terms(has_zero_copy: bool) -> PlanTerms {
    PlanTerms {
        landing_bytes: LAYOUT.bytes().into(),
        c0_bytes: C0_BYTES,
        has_zero_copy,
        ..PlanTerms::default()
    }
}

/// Returns a machine with other costs.
fn unknown(seed: u64) -> Machine {
    let mut rng = Rng::new(seed);
    let mut factor = |value: f64| {
        let exponent = rng.below(2001) as f64 / 1000.0 - 1.0;
        value * exponent.exp2()
    };
    let Profile { latency_ns, net_bytes_per_ns, gap_ns, overhead_ns, copy, registration, .. } = KNOWN.profile;
    let registration = Registration {
        latency_ns: factor(registration.latency_ns),
        bytes_per_ns: factor(registration.bytes_per_ns),
        ..registration
    };
    let profile = Profile {
        latency_ns: factor(latency_ns),
        net_bytes_per_ns: factor(net_bytes_per_ns),
        gap_ns: factor(gap_ns),
        overhead_ns: factor(overhead_ns),
        copy: copy.map(|mut step| {
            step.bytes_per_ns = factor(step.bytes_per_ns);
            step
        }),
        registration,
        ..KNOWN.profile
    };
    Machine { name: "unknown", profile }
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}
