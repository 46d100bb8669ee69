//! Loom models: every interleaving, within bounded preemptions, of two threads that drive the shipped
//! [`Endpoint`](superpipe_core::Endpoint) over loom's atomics. Flags and lines go through [`superpipe_core::word`]. Loom reports unordered
//! accesses to the cells with payload as races. `scripts/test-loom.sh` runs the models.
//!
//! And models of the budget, of sleeping and waking, and of the lines of metrics, whose numbers are loom's atomics.
//!
//! Models of the last two leave out one step each, and have to fail: they show that loom finds what that step prevents.
#![cfg(loom)]

mod budget;
mod fabric;
mod memory;
mod metrics;
mod number;
mod party;
mod sleeping;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use superpipe_core::{Config, FlagPlace, Layout, Protocol};

use crate::fabric::Loom;
use crate::memory::{BLOCK_BYTES, Memory};
use crate::party::Party;

/// Executions after which a model ends. 17 of the 20 models of endpoints and budgets need fewer than 90,000, and are explored completely; those of sleeping and of metrics need fewer than 10,000.
const EXECUTIONS_MAX: usize = 150_000;

/// Words of a thread's stack, which holds an endpoint.
const STACK: usize = 1 << 16;

/// Runs both ends in threads of their own, in every order.
fn explore<const DIRECT: bool>(
    block_count: u32,
    config: Config,
    a: fn(&mut Party<DIRECT>),
    b: fn(&mut Party<DIRECT>),
) {
    check(move || {
        let layout = Layout { block_bytes: BLOCK_BYTES, block_count, flags: FlagPlace::Inside };
        let shared = Arc::new([Memory::new(), Memory::new()]);
        let threads = [a, b].into_iter().enumerate().map(|(side, play)| {
            let shared = shared.clone();
            let run = move || {
                let fabric = Loom::new(shared);
                play(&mut Party { end: Box::new(fabric.end(side, layout, config)), fabric });
            };
            loom::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread")
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().expect("an end");
        }
    });
}

/// Runs a model in every order, within bounded preemptions.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 50_000;
    builder.max_permutations = Some(EXECUTIONS_MAX);
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = executions.clone();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{} executions", executions.load(Ordering::Relaxed));
}

fn eager() -> Config {
    Config { protocol: Protocol::Eager, ..Config::default() }
}

/// Inline messages go around the ring. Each slot is reused only after its acknowledgement.
fn lines_around_the_ring<const DIRECT: bool>() {
    explore::<DIRECT>(
        2,
        eager(),
        |a| (0..3).for_each(|message| a.send(message, 8)),
        |b| (0..3).for_each(|message| b.receive(message, 8)),
    );
}

/// Messages that open no transfer, of one block and of two, around a ring of three.
fn a_message_that_opens_no_transfer<const DIRECT: bool>() {
    explore::<DIRECT>(
        3,
        Config { c0_bytes: 200, ..eager() },
        |a| [60, 150, 60].into_iter().zip(0..).for_each(|(bytes, message)| a.send_at_once(message, bytes)),
        |b| [60, 150, 60].into_iter().zip(0..).for_each(|(bytes, message)| b.receive_at_once(message, bytes)),
    );
}

/// A message of more blocks than there are is folded: blocks are written again after they were read.
fn a_message_folded_over_two_blocks<const DIRECT: bool>() {
    explore::<DIRECT>(2, eager(), |a| a.send(1, 350), |b| b.receive(1, 350));
}

/// The same with three blocks, behind an inline message.
fn a_line_and_a_message_folded_over_three_blocks<const DIRECT: bool>() {
    explore::<DIRECT>(
        3,
        eager(),
        |a| {
            a.send(1, 40);
            a.send(2, 400);
        },
        |b| {
            b.receive(1, 40);
            b.receive(2, 400);
        },
    );
}

/// RTS, CTS, then the payload, received as a whole.
fn a_rendezvous<const DIRECT: bool>() {
    let config = Config { protocol: Protocol::Copy, c0_bytes: 1, folds: 1, ..Config::default() };
    explore::<DIRECT>(3, config, |a| a.send(1, 250), |b| b.receive(1, 250));
}

/// The first chunk goes with the RTS, the rest after the CTS.
fn an_optimistic_start<const DIRECT: bool>() {
    let config = Config { c0_bytes: 64, ..Config::default() };
    explore::<DIRECT>(2, config, |a| a.send(1, 200), |b| b.receive(1, 200));
}

/// Both directions at once.
fn both_ways<const DIRECT: bool>() {
    explore::<DIRECT>(
        2,
        eager(),
        |a| {
            a.send(1, 150);
            a.receive(2, 8);
        },
        |b| {
            b.send(2, 8);
            b.receive(1, 150);
        },
    );
}

/// Payload is read in place, and given back.
fn read_in_place<const DIRECT: bool>() {
    explore::<DIRECT>(2, eager(), |a| a.send(1, 300), |b| b.read_in_place(1, 300));
}

/// Runs every model over both fabrics.
macro_rules! models {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<true>(); })* }
        mod posted { $(#[test] fn $name() { super::$name::<false>(); })* }
    };
}

models! {
    lines_around_the_ring a_message_folded_over_two_blocks a_line_and_a_message_folded_over_three_blocks
    a_rendezvous an_optimistic_start both_ways read_in_place a_message_that_opens_no_transfer
}
