//! Checks of what is chosen while data flow, copy kernels and windows: a connection under which the distance of the two cores changes, several times, moves
//! about as much as one whose choices were the best at each distance. docs/testing.md, "Distance".

mod kernels;
mod windows;

pub use kernels::{check_kernel_outliers, check_kernels};
pub use windows::{check_window_outliers, check_windows};

use superpipe_core::{Config, CopyKernel, Layout, Origin, Protocol};
use superpipe_testkit::Setup;
use superpipe_testkit::pair::{Content, Script, Transfer};

use crate::case::Case;
use crate::nic::{DISTANCES_MAX, Distance, Distances, Profile};
use crate::run::{Outcome, RunOptions, SLICE_NS, run};

/// A stream of messages from one end to the other.
#[derive(Clone, Copy, Debug)]
struct Flow {
    layout: Layout,
    config: Config,
    message_bytes: u64,
}

impl Flow {
    /// Returns the flow with these kernels, or with kernels that are chosen.
    const fn with_kernels(self, copy_in: Option<CopyKernel>, copy_out: Option<CopyKernel>) -> Self {
        Self { config: Config { copy_in, copy_out, ..self.config }, ..self }
    }

    /// Sends so many messages over these distances.
    fn play(self, distances: Distances, messages: u64) -> Result<Outcome, String> {
        let bytes = usize::try_from(self.message_bytes).map_err(|error| error.to_string())?;
        let message =
            Transfer { content: Content::Repeated, ..Transfer::message(bytes, Protocol::Superpipeline) };
        let script = Script {
            setup: Setup::new(self.layout, 1),
            configs: [self.config; 2],
            origin: Origin::default(),
            transfers: [(0..messages).map(|_| message).collect(), Vec::new()],
            slowness: [1; 2],
            windows: false,
        };
        let profile = Profile { distances: Some(distances), ..Profile::roce_100g() };
        let outcome =
            run(&Case::of_script(script, true, profile), RunOptions { traced: false, turns_max: None });
        outcome.map_err(|failure| failure.to_string())
    }

    /// Returns the nanoseconds for a message over the last two thirds of so many: the first laps of a ring write places that were never written before.
    fn message_ns(self, distances: Distances, messages: u64) -> Result<u64, String> {
        let [first, all] = [messages / 3, messages].map(|messages| self.play(distances, messages));
        Ok(((all?.time_ns - first?.time_ns) / (messages - messages / 3)).max(1))
    }
}

/// Returns one distance alone.
const fn alone(distance: Distance, noise_percent: u64, outlier_one_in: u64) -> Distances {
    let mut steps = [None; DISTANCES_MAX];
    steps[0] = Some(distance);
    Distances { steps, noise_percent, outlier_one_in, series: 0 }
}

/// Returns the kernels that are best at a distance, for copies in and out. Neither depends on the other one.
fn best_kernels(distance: Distance) -> [CopyKernel; 2] {
    [distance.copy_in_ns, distance.copy_out_ns].map(|times| {
        let by_time = |kernel: &CopyKernel| times[*kernel as usize];
        CopyKernel::ALL.into_iter().min_by_key(by_time).unwrap_or_default()
    })
}

/// Returns the payload bytes that were received up to a time.
fn received_bytes(outcome: &Outcome, ns: u64) -> u64 {
    let slices = usize::try_from(ns / SLICE_NS).unwrap_or(usize::MAX).min(outcome.received_bytes.len());
    slices.checked_sub(1).and_then(|slice| outcome.received_bytes.get(slice)).copied().unwrap_or(0)
}
