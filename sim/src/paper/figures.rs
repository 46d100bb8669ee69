//! The figures of both papers, with their sizes in steps of 5 %. Those of Denis are from runs of the core and, beside them, from the model; those of Frey and Alonso
//! are from the model of their machine.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use superpipe_core::plan::{ChunkedCopy, Chunks, Machine, Pages, Start};
use superpipe_core::{Config, Protocol};

use super::experiment::Experiment;
use super::figure::{Curve, Figure, Values};
use super::connection::Buffers;

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureName {
    /// Denis, Figure 1: bandwidth of registration and of copies.
    Registration,
    /// Denis, Figure 2: what registration and copies cost a message.
    Naive,
    /// Denis, Figure 4: the pipeline with its optimal chunk.
    Pipeline,
    /// Denis, Figure 6, left: the superpipeline on `graphene`.
    SuperpipelineGraphene,
    /// Denis, Figure 6, right: the superpipeline on `infini`.
    SuperpipelineInfini,
    /// Denis, Figure 7: the first message and the best one.
    FirstAndBest,
    /// Frey and Alonso, Figure 5: registration and deregistration.
    RegistrationCosts,
    /// Frey and Alonso, Figure 8: registration and copies, resident.
    CriticalResident,
    /// Frey and Alonso, Figure 9: registration and copies, cold.
    CriticalCold,
    /// Frey and Alonso, Figure 10: registration by four cores.
    Parallel,
}

impl FigureName {
    /// Every figure.
    pub const ALL: [Self; 10] = [
        Self::Registration,
        Self::Naive,
        Self::Pipeline,
        Self::SuperpipelineGraphene,
        Self::SuperpipelineInfini,
        Self::FirstAndBest,
        Self::RegistrationCosts,
        Self::CriticalResident,
        Self::CriticalCold,
        Self::Parallel,
    ];

    /// Returns the name of its files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registration => "reg",
            Self::Naive => "fig2",
            Self::Pipeline => "fig4",
            Self::SuperpipelineGraphene => "fig6-graphene",
            Self::SuperpipelineInfini => "fig6-infini",
            Self::FirstAndBest => "fig7",
            Self::RegistrationCosts => "fig5",
            Self::CriticalResident => "fig8",
            Self::CriticalCold => "fig9",
            Self::Parallel => "fig10",
        }
    }

    /// Makes the figure, on all cores. `runs` has those of figures that were made before.
    ///
    /// # Errors
    /// The first run that fails.
    pub fn make(self, runs: &mut Runs) -> Result<Figure, String> {
        let (graphene, infini, t3) = (&Machine::GRAPHENE, &Machine::INFINI, &Machine::CHELSIO_T3);
        match self {
            Self::Registration => Ok(Figure {
                title: "Registration and copies, graphene (Denis, Figure 1; model)",
                values: Values::Bandwidth,
                curves: vec![
                    bandwidths("registration", |bytes| {
                        graphene.profile.registration.ns(bytes, Pages::RESIDENT)
                    }),
                    bandwidths("memcpy", |bytes| graphene.profile.copy_ns(bytes as f64, bytes)),
                ],
            }),
            Self::Naive => runs.figure(
                "Naive protocols, graphene (Denis, Figure 2; runs)",
                &[(graphene, RAW), (graphene, REGISTER), (graphene, COPY)],
            ),
            Self::Pipeline => {
                let figure = runs.figure(
                    "Pipeline with the optimal chunk, graphene (Denis, Figure 4; runs, and the model)",
                    &[(graphene, RAW), (graphene, PIPELINE), (graphene, COPY), (graphene, REGISTER)],
                );
                figure.map(|mut figure| {
                    let model = |bytes| {
                        let chunk = graphene.profile.optimal_chunk_bytes(bytes);
                        graphene.profile.pipeline_ns(bytes, chunk) + graphene.profile.rendezvous_ns()
                    };
                    figure.curves.push(bandwidths("pipeline by equations 1 and 3, with a rendezvous", model));
                    figure
                })
            }
            Self::SuperpipelineGraphene => superpipeline(
                runs,
                "Superpipeline, graphene (Denis, Figure 6, left; runs, and the model)",
                graphene,
            ),
            Self::SuperpipelineInfini => superpipeline(
                runs,
                "Superpipeline, infini, all assumed (Denis, Figure 6, right; runs, and the model)",
                infini,
            ),
            Self::FirstAndBest => runs.figure(
                "First message of a superpipeline and of a cache of registrations, and the best ones, graphene (Denis, Figure 7; runs)",
                &[(graphene, RAW), (graphene, SUPERPIPELINE), (graphene, REGISTER)],
            ),
            Self::RegistrationCosts => Ok(Figure {
                title: "Registration and deregistration, T3 (Frey and Alonso, Figure 5; model)",
                values: Values::Time,
                curves: vec![
                    times("registration, cold", |bytes| t3.profile.registration.ns(bytes, Pages::COLD)),
                    times("registration, resident", |bytes| {
                        t3.profile.registration.ns(bytes, Pages::RESIDENT)
                    }),
                    times("deregistration", |bytes| t3.profile.registration.deregistration_ns(bytes)),
                    times("round trip", |_| t3.profile.rendezvous_ns()),
                ],
            }),
            Self::CriticalResident => Ok(critical(
                "Registration and copies, resident, T3 (Frey and Alonso, Figure 8; model)",
                Pages::RESIDENT,
            )),
            Self::CriticalCold => Ok(critical(
                "Registration and copies, cold, T3 (Frey and Alonso, Figure 9; model)",
                Pages::COLD,
            )),
            Self::Parallel => {
                let registration = &t3.profile.registration;
                let with = |title, regions, pages, cores| {
                    times(title, move |bytes| registration.parallel_ns(regions, bytes, pages, cores))
                };
                Ok(Figure {
                    title: "Four regions on four cores and on one, T3 (Frey and Alonso, Figure 10; model)",
                    values: Values::Time,
                    curves: vec![
                        with("4 regions, 1 core, cold", 4, Pages::COLD, 1),
                        with("4 regions, 4 cores, cold", 4, Pages::COLD, 4),
                        with("1 region, cold", 1, Pages::COLD, 1),
                        with("4 regions, 1 core, resident", 4, Pages::RESIDENT, 1),
                        with("4 regions, 4 cores, resident", 4, Pages::RESIDENT, 4),
                        with("1 region, resident", 1, Pages::RESIDENT, 1),
                    ],
                })
            }
        }
    }
}

impl fmt::Display for FigureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A way in which a message is sent, with the name of its curve. Each has a rendezvous but the superpipeline, whose first chunk goes at once.
#[derive(Clone, Copy)]
struct Way {
    title: &'static str,
    protocol: Protocol,
    buffers: Buffers,
}

const RAW: Way = Way {
    title: "raw write out of registered memory",
    protocol: Protocol::RegisterCached,
    buffers: Buffers::Registered,
};
const REGISTER: Way =
    Way { title: "registration for each message", protocol: Protocol::Register, buffers: Buffers::Lent };
const COPY: Way = Way { title: "naive copy", protocol: Protocol::Copy, buffers: Buffers::Unnamed };
const PIPELINE: Way =
    Way { title: "pipeline with the optimal chunk", protocol: Protocol::Pipeline, buffers: Buffers::Unnamed };
const SUPERPIPELINE: Way = Way {
    title: "superpipeline, C0 = 12 KiB, q = 1.5",
    protocol: Protocol::Superpipeline,
    buffers: Buffers::Unnamed,
};

/// Returns the nanoseconds of the first message, which is as fast as any later one by all these ways.
fn run_ns(machine: &Machine, way: Way, bytes: u64) -> Result<f64, String> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above 0, and less than the message"
    )]
    let chunk_bytes = match way.protocol {
        Protocol::Pipeline => machine.profile.optimal_chunk_bytes(bytes).min(bytes as f64) as u32,
        _ => 0,
    };
    let config = Config { chunk_bytes, ..Config::default() };
    Experiment::on(machine, way.protocol, way.buffers, bytes, config).ns()
}

/// Times of messages, by machine, way and size. Figures share many of them.
#[derive(Debug, Default)]
pub struct Runs(BTreeMap<(&'static str, &'static str, u64), f64>);

impl Runs {
    /// Makes a figure of bandwidths.
    fn figure(&mut self, title: &'static str, ways: &[(&Machine, Way)]) -> Result<Figure, String> {
        let sizes = sizes(MESSAGE_BYTES);
        self.make(ways, &sizes)?;
        let curve = |(machine, way): &(&Machine, Way)| {
            let point = |&bytes: &u64| {
                let ns = self.0.get(&(machine.name, way.title, bytes)).copied();
                (bytes, bandwidth(bytes, ns.unwrap_or(f64::NAN)))
            };
            Curve { title: way.title, points: sizes.iter().map(point).collect() }
        };
        Ok(Figure { title, values: Values::Bandwidth, curves: ways.iter().map(curve).collect() })
    }

    /// Makes the runs that are missing, the longest first.
    fn make(&mut self, ways: &[(&Machine, Way)], sizes: &[u64]) -> Result<(), String> {
        let wanted =
            sizes.iter().rev().flat_map(|bytes| ways.iter().map(|(machine, way)| (*machine, *way, *bytes)));
        let missing: Vec<_> = wanted
            .filter(|(machine, way, bytes)| !self.0.contains_key(&(machine.name, way.title, *bytes)))
            .collect();
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let run_next = || {
            let (machine, way, bytes) = *missing.get(next.fetch_add(1, Ordering::Relaxed))?;
            let ns = run_ns(machine, way, bytes);
            done.lock()
                .unwrap_or_else(|error| panic!("{error}"))
                .push(((machine.name, way.title, bytes), ns));
            Some(())
        };
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| while run_next().is_some() {});
            }
        });
        for (run, ns) in done.into_inner().unwrap_or_else(|error| panic!("{error}")) {
            self.0.insert(run, ns?);
        }
        Ok(())
    }
}

fn superpipeline(runs: &mut Runs, title: &'static str, machine: &Machine) -> Result<Figure, String> {
    let ways = [RAW, SUPERPIPELINE, REGISTER, COPY].map(|way| (machine, way));
    let mut figure = runs.figure(title, &ways)?;
    let model =
        |bytes| ChunkedCopy::superpipeline(bytes, Chunks::HARDWIRED, Start::Optimistic).ns(&machine.profile);
    figure.curves.push(bandwidths("superpipeline by the model", model));
    Ok(figure)
}

fn critical(title: &'static str, pages: Pages) -> Figure {
    let t3 = Machine::CHELSIO_T3.profile;
    Figure {
        title,
        values: Values::Time,
        curves: vec![
            times("registration", |bytes| t3.registration.ns(bytes, pages)),
            times("memcpy", |bytes| t3.refill_ns(bytes, pages)),
            times("round trip", |_| t3.rendezvous_ns()),
        ],
    }
}

/// Smallest and largest message, and buffer.
const MESSAGE_BYTES: [u64; 2] = [1 << 10, 64 << 20];
const BUFFER_BYTES: [u64; 2] = [1 << 10, 1 << 30];

/// Returns sizes in steps of 5 %, the first and the last one among them.
fn sizes([first, last]: [u64; 2]) -> Vec<u64> {
    let mut sizes = vec![first];
    let mut size = first;
    while size < last {
        size = (size + (size / 20).max(1)).min(last);
        sizes.push(size);
    }
    sizes
}

/// Returns MB/s.
fn bandwidth(bytes: u64, ns: f64) -> f64 {
    bytes as f64 / ns * 1000.0
}

fn bandwidths(title: &'static str, ns: impl Fn(u64) -> f64) -> Curve {
    let point = |bytes| (bytes, bandwidth(bytes, ns(bytes)));
    Curve { title, points: sizes(MESSAGE_BYTES).into_iter().map(point).collect() }
}

fn times(title: &'static str, ns: impl Fn(u64) -> f64) -> Curve {
    let point = |bytes| (bytes, ns(bytes) / 1000.0);
    Curve { title, points: sizes(BUFFER_BYTES).into_iter().map(point).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_steps_of_5_percent() {
        let sizes = sizes([1000, 2000]);
        assert_eq!(sizes[..3], [1000, 1050, 1102]);
        assert_eq!(sizes.last(), Some(&2000));
        assert!(sizes.windows(2).all(|pair| pair[1] > pair[0] && pair[1] * 100 <= pair[0] * 105));
    }
}
