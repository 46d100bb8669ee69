//! Who takes part in a part, and how a round of each is run.

use superpipe_bench::failure::Failure;

use super::limits::{self, Limits};
use super::peers::{PEERS, Peer};
use super::rperf::{self, Rperf};
use super::world::World;
use crate::plan::{Cell, Memory, Part};
use crate::raw::{self, Figure, Kind, State};

const SUPERPIPE: &str = "superpipe";
/// How many connections have a first message of each size in a round.
const CONNECTIONS: usize = 3;

/// One of them.
pub(crate) struct Contestant {
    who: Who,
    memory: Memory,
    /// as it says itself
    version: String,
}

enum Who {
    Limit(Limits),
    Superpipe,
    Peer(&'static Peer),
}

impl Contestant {
    /// All that take part, the limit first.
    pub(crate) fn all(part: Part, with_peers: bool) -> Vec<Self> {
        let new = |who, memory| Self { who, memory, version: env!("CARGO_PKG_VERSION").to_owned() };
        let superpipe = |memory| new(Who::Superpipe, memory);
        let mut all = match part {
            Part::Small | Part::Large => {
                vec![new(Who::Limit(Limits::default()), Memory::Reused), superpipe(Memory::Reused)]
            }
            Part::Cold => [Memory::Superpipe, Memory::Advised, Memory::Plain].map(superpipe).into(),
            Part::Steps | Part::First => vec![superpipe(Memory::Reused)],
            Part::Waiting => Vec::new(),
        };
        if with_peers && part.is_contest() {
            let memory = if part == Part::Cold { Memory::Plain } else { Memory::Reused };
            all.extend(PEERS.iter().map(|peer| new(Who::Peer(peer), memory)));
        }
        all
    }

    /// Gets ready for cores that are so far apart.
    pub(crate) fn tune(&mut self, world: &World, cells: &[Cell], state: State) -> Result<(), Failure> {
        match &mut self.who {
            Who::Limit(limits) => limits.tune(world, cells, state),
            Who::Superpipe | Who::Peer(_) => Ok(()),
        }
    }

    /// One round.
    pub(crate) fn run(
        &mut self,
        world: &World,
        server: &Rperf,
        part: Part,
        cells: &[Cell],
        state: State,
    ) -> Result<Vec<Figure>, Failure> {
        let mut figures = match &self.who {
            Who::Limit(limits) => limits.run(world, cells, state)?,
            Who::Superpipe if part == Part::First => {
                let mut figures = Vec::new();
                for _ in 0..CONNECTIONS {
                    figures.extend(server.run(world, cells, self.memory, true)?);
                }
                figures
            }
            Who::Superpipe => server.run(world, cells, self.memory, false)?,
            Who::Peer(peer) => {
                let (figures, version) = peer.run(world, cells, self.memory)?;
                self.version = version;
                figures
            }
        };
        for figure in &mut figures {
            figure.contestant = self.id().to_owned();
        }
        Ok(figures)
    }

    /// What the report says of it.
    pub(crate) fn describe(
        &self,
        world: &World,
        part: Part,
        cells: &[Cell],
    ) -> Result<raw::Contestant, Failure> {
        let first = cells.first().copied();
        let (title, kind, settings, command) = match &self.who {
            Who::Limit(_) => {
                let example = cells.last().map(|&cell| limits::sweep(world, cell)).transpose()?;
                let settings = "the best of the configurations swept, for each size".to_owned();
                ("bare ring", Kind::Limit, settings, example)
            }
            Who::Superpipe => {
                let command = rperf::client(world, first.as_slice(), self.memory, part == Part::First)?;
                (SUPERPIPE, Kind::Superpipe, String::new(), Some(command))
            }
            Who::Peer(peer) => {
                let command = peer.command(world, first.as_slice(), self.memory);
                (peer.title, peer.kind, peer.settings(), Some(command))
            }
        };
        Ok(raw::Contestant {
            id: self.id().to_owned(),
            title: title.to_owned(),
            kind,
            version: self.version.clone(),
            settings,
            command: command.map(|command| world.shown(&command)).unwrap_or_default(),
        })
    }

    const fn id(&self) -> &'static str {
        match &self.who {
            Who::Limit(_) => "limit",
            Who::Superpipe => SUPERPIPE,
            Who::Peer(peer) => peer.id,
        }
    }
}
