//! A run: two endpoints on CPUs of their own, from the first transfer until both have closed and nothing is on its way.
//!
//! The CPU whose clock is behind acts next, after everything that is due by then. What it does sees the world as it was
//! when it began; what it causes comes later, by events. So the order of all things depends on nothing but the seed.

use core::fmt;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use superpipe_testkit::Pair;

use crate::case::Case;
use crate::fabric::Sim;
use crate::faults::{Chance, Faults};
use crate::nic::World;

/// Virtual time after which a run that is not over never will be: twenty times what the longest of the first 2500 seeds took.
const LIMIT_NS: u64 = 1_000_000_000;

/// Virtual time from one sign of life to the next. An application does so a few times a second; here more of them happen
/// in a run, and still far enough apart for nothing to be on its way in between.
const LIFE_NS: u64 = 100_000;

/// How a run ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Virtual time that it took.
    pub time_ns: u64,
    /// Turns that the two CPUs had.
    pub turns: u64,
    /// What happened, if that was asked for.
    pub trace: String,
}

/// A checker found something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed that finds it again.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
    /// What happened up to there, if that was asked for.
    pub trace: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.what.lines().next().unwrap_or_default();
        let short: String = first.chars().take(300).collect();
        write!(f, "superpipe-sim replay {}: {short}", self.seed)
    }
}

/// Runs a case.
///
/// # Errors
/// [`Failure`]: bytes differ, come twice, late or never, memory is used by who does not own it, or it never ends.
pub fn run(case: &Case, traced: bool) -> Result<Outcome, Failure> {
    if case.direct { play::<true>(case, traced) } else { play::<false>(case, traced) }
}

fn play<const DIRECT: bool>(case: &Case, traced: bool) -> Result<Outcome, Failure> {
    let mut world = World::new(2, case.profile, case.faults, case.seed);
    if traced {
        world.trace.start();
    }
    let mut fabric = Sim::<DIRECT>::new(world, &case.script.setup);
    if traced {
        fabric.recorders = [Some(Box::default()), Some(Box::default())];
    }
    let mut pair = Pair::over(fabric, case.script.clone());
    let mut turns = 0;
    // The pair is not used after a panic but for its trace.
    let ended = catch_unwind(AssertUnwindSafe(|| drive(&mut pair, &mut turns)));
    let trace = pair.fabric.world.trace.take();
    match ended {
        Ok(Ok(time_ns)) => Ok(Outcome { time_ns, turns, trace }),
        Ok(Err(what)) => Err(Failure { seed: case.seed, what, trace }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let what = text.unwrap_or_else(|| "a panic without words".to_owned());
            Err(Failure { seed: case.seed, what, trace })
        }
    }
}

/// From the first transfer to the last close; the virtual time that it took.
fn drive<const DIRECT: bool>(pair: &mut Pair<Sim<DIRECT>>, turns: &mut u64) -> Result<u64, String> {
    let mut is_closed = false;
    let mut life_ns = [0; 2];
    // Only an acknowledgement that was overtaken needs a sign of life (wire.md 7.3): elsewhere none may be needed.
    let Faults { torn_packet, overtaken_write, late_acknowledgement, .. } = pair.fabric.world.faults;
    let heals = [torn_packet, overtaken_write, late_acknowledgement] != [Chance(0); 3];
    loop {
        let clocks = [pair.fabric.world.clock_ns(0), pair.fabric.world.clock_ns(1)];
        let side = usize::from(clocks[1] < clocks[0]);
        let now = clocks[side];
        if now > LIMIT_NS {
            return Err(format!("not over after {LIMIT_NS} ns of virtual time: {}", pair.state()));
        }
        let world = &mut pair.fabric.world;
        world.settle(now);
        // Asking for work, and finding none.
        world.spend(side, world.profile.pause_ns);
        if world.faults.stalled_peer.happens(&mut world.rng) {
            let ns = world.late_ns();
            world.spend(side, ns);
            world.trace.line(now, side, "stall", format_args!("{ns} ns"));
        }
        pair.fabric.acting = side;
        pair.turn(side);
        if now >= life_ns[side] {
            life_ns[side] = now + LIFE_NS;
            pair.ends[side].look(&mut pair.fabric);
            if heals {
                pair.ends[side].show_life(&mut pair.fabric);
            }
        }
        *turns += 1;
        note_steps(&mut pair.fabric, side);
        if !is_closed && pair.is_exchanged() {
            pair.close();
            is_closed = true;
        } else if is_closed && pair.is_over() {
            return Ok(now);
        }
    }
}

/// What the endpoint recorded goes into the trace.
fn note_steps<const DIRECT: bool>(fabric: &mut Sim<DIRECT>, side: usize) {
    if !fabric.world.trace.is_on() {
        return;
    }
    let Some(recorder) = fabric.recorders[side].as_deref_mut() else { return };
    while let Some(record) = recorder.take() {
        fabric.world.trace.line(record.end.0, side, "core", format_args!("{:?}", record.step));
    }
}
