//! Rows of current NICs: the planner's first choice, which rests on the cost model alone, against every other protocol.

use core::fmt::Write;

use superpipe_core::plan::{Machine, Memory, Plan, Planner, Reason, Terms, Way};
use superpipe_core::{Config, Protocol};

use super::super::row::{Bound, Row, Source};
use super::{K, M};
use crate::measured::connection::Buffers;
use crate::measured::experiment::{BLOCK_BYTES, Experiment};

const MACHINES: [Machine; 3] = [Machine::NIC_100G, Machine::NIC_200G, Machine::NIC_400G];

/// Sizes of the table of choices.
const SIZES_LOG2: core::ops::RangeInclusive<u32> = 16..=26;

/// Memory that is new for each message, and memory that is registered.
const MEMORIES: [Memory; 2] = [Memory::Fresh, Memory::Kept];

/// The landing buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// It holds a message.
    Message,
    /// The default, 512 KiB.
    Half,
}

impl Room {
    const ALL: [Self; 2] = [Self::Message, Self::Half];

    const fn name(self) -> &'static str {
        match self {
            Self::Message => "the message",
            Self::Half => "512 KiB",
        }
    }

    /// Returns the sizes that are run: powers of two from 64 KiB to 16 MiB, and one that is copied out of memory, since these take long.
    fn run_log2(self) -> impl Iterator<Item = u32> {
        let last = match self {
            Self::Message => 26,
            Self::Half => 25,
        };
        (16..=24).chain([last])
    }

    /// Returns its bytes. A block has a flag and may be nearly empty where a chunk ends.
    const fn landing_bytes(self, bytes: u64) -> u64 {
        let block = BLOCK_BYTES as u64;
        match self {
            Self::Message => (bytes / (block - 64) + 36) * block,
            Self::Half => 512 * K,
        }
    }
}

/// Messages of one size through such a landing buffer. Its three folds and C0 of 64 KiB at most are what the handshake agrees on.
#[derive(Clone, Copy, Debug)]
struct Cell {
    machine: Machine,
    room: Room,
    bytes: u64,
}

impl Cell {
    fn terms(&self) -> Terms {
        Terms { landing_bytes: self.room.landing_bytes(self.bytes), ..Terms::default() }
    }

    fn plan(&self, memory: Memory) -> Plan {
        Planner::new(self.machine.profile, self.terms()).plan(self.bytes, memory)
    }

    /// Returns the policy by which a message goes as planned.
    fn planned(&self, plan: &Plan) -> Config {
        let c0_bytes =
            if plan.reason == Reason::ShortMessage { self.terms().c0_bytes } else { plan.c0_bytes };
        let Plan { way, growth_q8, chunk_bytes, .. } = *plan;
        Config { protocol: way.protocol(), c0_bytes, growth_q8, chunk_bytes, ..Config::default() }
    }

    /// Returns the nanoseconds until the receiver has a message.
    fn ns(&self, config: Config) -> Result<f64, String> {
        let buffers = match config.protocol {
            Protocol::Register => Buffers::Lent,
            Protocol::RegisterCached => Buffers::Registered,
            Protocol::Eager
            | Protocol::Copy
            | Protocol::Pipeline
            | Protocol::Superpipeline
            | Protocol::Provision
            | Protocol::Auto => Buffers::Unnamed,
        };
        let on = Experiment::on(&self.machine, config.protocol, buffers, self.bytes, config);
        let config = Config { folds: self.terms().folds, ..on.config };
        Experiment { config, landing_bytes: Some(self.terms().landing_bytes), ..on }.ns()
    }

    /// Returns the policies that the choice is compared with, whatever the memory.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred KiB")]
    fn others(&self) -> [(&'static str, Config); 5] {
        let with = |protocol| Config { protocol, ..Config::default() };
        let chunk_bytes = self.machine.profile.optimal_chunk_bytes(self.bytes) as u32;
        [
            ("eager", with(Protocol::Eager)),
            ("copy", with(Protocol::Copy)),
            ("pipeline", Config { chunk_bytes, ..with(Protocol::Pipeline) }),
            ("superpipeline of 12 KiB", with(Protocol::Superpipeline)),
            ("superpipeline of 64 KiB", Config { c0_bytes: 64 << 10, ..with(Protocol::Superpipeline) }),
        ]
    }

    /// Returns by how many percent the choice takes longer than the fastest of the others, and that, for new memory and for registered memory.
    fn losses(&self) -> Result<[(f64, &'static str); 2], String> {
        let mut fastest = (f64::INFINITY, "");
        for (name, config) in self.others() {
            let ns = self.ns(config)?;
            if ns < fastest.0 {
                fastest = (ns, name);
            }
        }
        let configs = MEMORIES.map(|memory| self.planned(&self.plan(memory)));
        let fresh_ns = self.ns(configs[0])?;
        let kept_ns = if configs[1] == configs[0] { fresh_ns } else { self.ns(configs[1])? };
        let loss = |took_ns: f64, protocol: Protocol| {
            let ns = self.ns(Config { protocol, ..Config::default() })?;
            let (least_ns, name) = if ns < fastest.0 { (ns, protocol.name()) } else { fastest };
            Ok::<_, String>((100.0 * (took_ns / least_ns - 1.0), name))
        };
        Ok([loss(fresh_ns, Protocol::Register)?, loss(kept_ns, Protocol::RegisterCached)?])
    }
}

/// The choice and all other protocols, for new memory and for registered memory, through a landing buffer that holds the message and through one of 512 KiB.
fn choices(machine: Machine) -> Result<Row, String> {
    let mut worst = (f64::NEG_INFINITY, String::new());
    for (room, log2) in Room::ALL.into_iter().flat_map(|room| room.run_log2().map(move |log2| (room, log2))) {
        let cell = Cell { machine, room, bytes: 1 << log2 };
        for ((percent, name), memory) in cell.losses()?.into_iter().zip(MEMORIES) {
            let text = format!("{name}, {} KiB, {}, in {}", cell.bytes >> 10, memory.name(), room.name());
            // NaN must not pass.
            if percent.is_nan() || percent > worst.0 {
                worst = (percent, text);
            }
        }
    }
    let what = format!(
        "NIC of {} Gb/s: the planner's choice slower than the fastest other protocol at worst: fresh and kept, 64 KiB to 64 MiB in a landing buffer of the message, to 32 MiB in one of 512 KiB",
        machine.name.trim_end_matches('g')
    );
    let row = Row::new((&what, "not in the papers"), Source::Run, " %", &[(worst.0, Bound::AtMost(5.0))]);
    Ok(Row { got: format!("{} ({})", row.got, worst.1), ..row })
}

pub(super) fn choices_100g() -> Result<Row, String> {
    choices(Machine::NIC_100G)
}

pub(super) fn choices_200g() -> Result<Row, String> {
    choices(Machine::NIC_200G)
}

pub(super) fn choices_400g() -> Result<Row, String> {
    choices(Machine::NIC_400G)
}

/// Returns the ways that the planner chooses, as a table of Markdown.
pub(in crate::paper) fn choice_table() -> String {
    let mut text = String::from("| |");
    for (memory, room) in MEMORIES.into_iter().flat_map(|memory| Room::ALL.map(|room| (memory, room))) {
        let _ = write!(text, " {}, landing buffer of {} |", memory.name(), room.name());
    }
    text += "\n|---|---|---|---|---|\n";
    for machine in MACHINES {
        let _ = write!(text, "| {} |", machine.name);
        for (memory, room) in MEMORIES.into_iter().flat_map(|memory| Room::ALL.map(|room| (memory, room))) {
            let _ = write!(text, " {} |", ways_by_size(machine, memory, room));
        }
        text.push('\n');
    }
    text
}

/// Returns the way of the smallest message, and each other one with the size from which on it is chosen.
fn ways_by_size(machine: Machine, memory: Memory, room: Room) -> String {
    let mut text = String::new();
    let mut last: Option<Way> = None;
    for bytes in SIZES_LOG2.map(|log2| 1_u64 << log2) {
        let way = Cell { machine, room, bytes }.plan(memory).way;
        if last != Some(way) {
            let from =
                if bytes < M { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) };
            let _ = match last {
                None => write!(text, "{}", way.name()),
                Some(_) => write!(text, "; from {from} {}", way.name()),
            };
        }
        last = Some(way);
    }
    text
}
