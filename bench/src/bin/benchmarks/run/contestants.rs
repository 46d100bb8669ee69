//! The contestants of a part, and a visit to each.

use superpipe_bench::failure::Failure;
use superpipe_bench::probe::Distance;
use superpipe_bench::resident::Resident;

use super::Timing;
use super::environment::Environment;
use super::limits::{self, Limits};
use super::peers::{self, PEERS, Peer};
use super::rperf;
use crate::figures::{self, Figures, Kind, Series};
use crate::plan::{ADVISED, CONNECTION, Cell, PLAIN, Part, REUSED, SUPERPIPE};

/// A contestant, with the memory that it receives into.
pub(crate) struct Contestant {
    who: Who,
    place: &'static str,
    /// as it prints itself
    version: String,
}

enum Who {
    Limit(Limits),
    Superpipe,
    /// with its processes, from its first visit on
    Peer(&'static Peer, Option<Resident>),
}

impl Contestant {
    /// Lists all that take part, the limit first.
    pub(crate) fn all(part: Part, with_peers: bool) -> Vec<Self> {
        let new = |who, place| Self { who, place, version: env!("CARGO_PKG_VERSION").to_owned() };
        let superpipe = |place| new(Who::Superpipe, place);
        let mut all = match part {
            Part::Small | Part::Large => {
                vec![new(Who::Limit(Limits::default()), REUSED), superpipe(REUSED)]
            }
            Part::Cold => [SUPERPIPE, ADVISED, PLAIN].map(superpipe).into(),
            Part::Steps | Part::First => vec![superpipe(REUSED)],
            Part::Waiting | Part::Rdma => Vec::new(),
        };
        if with_peers && part.is_contest() {
            all.extend(PEERS.iter().map(|peer| new(Who::Peer(peer, None), part.memory())));
        }
        all
    }

    /// Prepares for cells at a distance. Returns whether that took time, in which the cores may have moved.
    pub(crate) fn prepare(
        &mut self,
        environment: &Environment,
        cells: &[Cell],
        distance: Distance,
    ) -> Result<bool, Failure> {
        match &mut self.who {
            Who::Limit(limits) => limits.tune(environment, cells, distance),
            Who::Peer(peer, resident @ None) => {
                let started = resident.insert(peer.start(environment)?);
                self.version = peers::version(started);
                Ok(true)
            }
            Who::Superpipe | Who::Peer(..) => Ok(false),
        }
    }

    /// Measures cells. It was prepared for them.
    pub(crate) fn visit(
        &mut self,
        environment: &Environment,
        part: Part,
        cells: &[Cell],
        distance: Distance,
    ) -> Result<Vec<Timing>, Failure> {
        match &mut self.who {
            Who::Limit(limits) => limits.run(environment, cells, distance),
            Who::Superpipe => rperf::run(environment, cells, self.place, part == Part::First),
            Who::Peer(peer, resident) => {
                let mut running = match resident.take() {
                    Some(running) => running,
                    None => peer.start(environment)?,
                };
                let mut timings = peers::run(&mut running, cells, self.place);
                if let Err(failure) = &timings {
                    eprintln!("warning: {failure}; it is started again");
                    // The names of its pipes are free once it has ended.
                    drop(running);
                    running = peer.start(environment)?;
                    timings = peers::run(&mut running, cells, self.place);
                }
                let timings = timings?;
                *resident = Some(running);
                Ok(timings)
            }
        }
    }

    /// Adds what a visit took to the figures of a part.
    pub(crate) fn add(&self, figures: &mut Figures, round: usize, part: Part, timings: &[Timing]) {
        for timing in timings {
            let Cell { test, bytes: size, .. } = timing.cell;
            let of = Series { test, who: self.id(), place: self.place, size };
            figures.add(round, of, timing.us);
            if let (Part::First, Some(first_us)) = (part, timing.first_us) {
                figures.add(round, Series { test: CONNECTION, ..of }, first_us);
            }
        }
    }

    /// Adds the configurations that were found to be the best, if it is the limit.
    pub(crate) fn add_bests(&self, figures: &mut Figures, cells: &[Cell]) {
        if let Who::Limit(limits) = &self.who {
            figures.bests.extend(limits.bests(cells));
        }
    }

    /// Describes it for the page.
    pub(crate) fn describe(
        &self,
        environment: &Environment,
        part: Part,
        cells: &[Cell],
    ) -> Result<figures::Contestant, Failure> {
        let first = cells.first().copied();
        let (title, kind, settings, command) = match &self.who {
            Who::Limit(_) => {
                let example = cells.last().map(|&cell| limits::sweep(environment, cell)).transpose()?;
                let settings = "the best of the configurations swept, for each size".to_owned();
                ("bare ring", Kind::Limit, settings, example)
            }
            Who::Superpipe => {
                let command = rperf::client(environment, first.as_slice(), self.place, part == Part::First)?;
                (SUPERPIPE, Kind::Superpipe, String::new(), Some(command))
            }
            Who::Peer(peer, _) => {
                let command = peer.command(environment, first.as_slice(), self.place);
                (peer.title, peer.kind, peer.settings(), Some(command))
            }
        };
        Ok(figures::Contestant {
            id: self.id().to_owned(),
            title: title.to_owned(),
            kind,
            version: self.version.clone(),
            settings,
            command: command.map(|command| environment.shown(&command)).unwrap_or_default(),
        })
    }

    const fn id(&self) -> &'static str {
        match &self.who {
            Who::Limit(_) => "limit",
            Who::Superpipe => SUPERPIPE,
            Who::Peer(peer, _) => peer.id,
        }
    }
}
