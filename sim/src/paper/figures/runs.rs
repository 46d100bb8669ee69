//! Runs of messages, which figures share.

use std::collections::BTreeMap;

use superpipe_core::plan::Machine;
use superpipe_core::{Config, Protocol};

use super::super::figure::{Curve, Figure, Values};
use super::{bandwidth, curve, sizes};
use crate::measured::connection::Buffers;
use crate::measured::experiment::Experiment;
use crate::measured::workers;

/// Smallest and largest message.
const MESSAGE_BYTES: [u64; 2] = [1 << 10, 64 << 20];

/// Returns the sizes of messages.
pub(super) fn message_sizes() -> Vec<u64> {
    sizes(MESSAGE_BYTES)
}

/// A way in which a message is sent, with the name of its curve. Each has a rendezvous but the superpipeline, whose first chunk goes at once.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) title: &'static str,
    pub(super) protocol: Protocol,
    pub(super) buffers: Buffers,
    /// Bytes of a chunk of a pipeline; `None`: C_opt.
    pub(super) chunk_bytes: Option<u32>,
    /// Largest message that is copied whatever the protocol; `None`: that of the experiment.
    pub(super) c0_bytes: Option<u32>,
    /// Bytes of the landing buffer, and its folds; `None`: it holds a message.
    pub(super) folded: Option<(u64, u8)>,
}

impl Way {
    pub(super) const fn new(title: &'static str, protocol: Protocol, buffers: Buffers) -> Self {
        Self { title, protocol, buffers, chunk_bytes: None, c0_bytes: None, folded: None }
    }

    fn experiment(&self, machine: &Machine, bytes: u64) -> Experiment {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "above 0, and less than the message"
        )]
        let optimal_bytes = || machine.profile.optimal_chunk_bytes(bytes).min(bytes as f64) as u32;
        let chunk_bytes = match self.protocol {
            Protocol::Pipeline => self.chunk_bytes.unwrap_or_else(optimal_bytes),
            _ => 0,
        };
        let config = Config { chunk_bytes, ..Config::default() };
        let made = Experiment::on(machine, self.protocol, self.buffers, bytes, config);
        let folds = self.folded.map_or(made.config.folds, |(_, folds)| folds);
        let c0_bytes = self.c0_bytes.unwrap_or(made.config.c0_bytes);
        let landing_bytes = self.folded.map(|(bytes, _)| bytes);
        Experiment { config: Config { c0_bytes, folds, ..made.config }, landing_bytes, ..made }
    }
}

/// Time and chunks of the first message, which is as fast as any later one by all these ways.
#[derive(Clone, Copy, Debug)]
struct Run {
    ns: f64,
    chunks: f64,
}

/// Runs, by machine, way and size. Figures share many of them.
#[derive(Debug, Default)]
pub struct Runs(BTreeMap<(&'static str, &'static str, u64), Run>);

impl Runs {
    /// Makes a figure of bandwidths.
    pub(super) fn bandwidths(
        &mut self,
        title: &'static str,
        ways: &[(&Machine, Way)],
    ) -> Result<Figure, String> {
        let curves = self.curves(ways, |bytes, run| bandwidth(bytes, run.ns))?;
        Ok(Figure { title, of: "bytes of a message", values: Values::Bandwidth, curves })
    }

    /// Makes curves of the number of chunks.
    pub(super) fn chunks(&mut self, ways: &[(&Machine, Way)]) -> Result<Vec<Curve>, String> {
        self.curves(ways, |_, run| run.chunks)
    }

    fn curves(
        &mut self,
        ways: &[(&Machine, Way)],
        value: impl Fn(u64, Run) -> f64,
    ) -> Result<Vec<Curve>, String> {
        let sizes = message_sizes();
        self.make(ways, &sizes)?;
        let run =
            |machine: &Machine, way: &Way, bytes| self.0.get(&(machine.name, way.title, bytes)).copied();
        let of_way = |(machine, way): &(&Machine, Way)| {
            let point = |bytes| run(machine, way, bytes).map_or(f64::NAN, |run| value(bytes, run));
            curve(way.title, &sizes, point)
        };
        Ok(ways.iter().map(of_way).collect())
    }

    /// Makes the runs that are missing, the longest first.
    fn make(&mut self, ways: &[(&Machine, Way)], sizes: &[u64]) -> Result<(), String> {
        let wanted =
            sizes.iter().rev().flat_map(|bytes| ways.iter().map(|(machine, way)| (*machine, *way, *bytes)));
        let missing: Vec<_> = wanted
            .filter(|(machine, way, bytes)| !self.0.contains_key(&(machine.name, way.title, *bytes)))
            .collect();
        let made = workers::map(&missing, |(machine, way, bytes)| {
            let [ns, chunks] = way.experiment(machine, *bytes).ns_and_chunks()?;
            Ok(((machine.name, way.title, *bytes), Run { ns, chunks }))
        });
        self.0.extend(made?);
        Ok(())
    }
}
