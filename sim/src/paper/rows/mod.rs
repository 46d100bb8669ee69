//! The rows of the table, by subject: each a short experiment. The docs of a row say what of it is from the text, fitted or assumed beyond what the docs of its machine do.

mod applications;
mod chunks;
mod equations;
mod first;
mod nics;
mod refinements;
mod registration;
mod t3;

pub(super) use applications::all_to_all_ns;
pub(super) use nics::choice_table;
pub(super) use t3::throughput;

use superpipe_core::plan::Machine;
use superpipe_core::{Config, Protocol};

use super::row::Row;
use crate::measured::connection::Buffers;
use crate::measured::experiment::Experiment;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// Makes a row.
pub(super) type MakeRow = fn() -> Result<Row, String>;

/// The rows, in the order of the table.
pub(super) const ROWS: &[MakeRow] = &[
    registration::registration_64k,
    registration::registration_large,
    chunks::copy_large,
    chunks::naive_copy_is_best,
    chunks::chunks_of_one_size,
    chunks::optimal_chunks,
    chunks::growing_chunks,
    chunks::folded_chunks,
    chunks::optimal_chunk_is_best,
    first::superpipeline_at_once,
    registration::first_register_cached,
    first::round_trips,
    first::round_trips_of_short_messages,
    applications::never_reused,
    applications::all_to_all,
    applications::all_to_all_reused,
    applications::short_messages,
    registration::pipelined_registration,
    chunks::flags,
    equations::pipeline,
    equations::numbers_of_chunks,
    equations::whole_chunks,
    equations::sub_blocks,
    equations::registration,
    refinements::tuned_for_each_size,
    refinements::hardwired,
    refinements::mostly_reused,
    refinements::optimistic_start,
    refinements::without_sub_blocks,
    refinements::without_overlap,
    refinements::without_growth_and_with_folds,
    nics::choices_100g,
    nics::choices_200g,
    nics::choices_400g,
    t3::critical_sizes,
    t3::huge_pages_and_critical_size,
    t3::slow_processor,
    t3::load,
    t3::inside_a_round_trip,
    t3::parallel_registration,
    t3::huge_pages,
    t3::writes,
    t3::first_byte,
];

fn on_graphene(protocol: Protocol, buffers: Buffers, bytes: u64) -> Experiment {
    Experiment::on(&Machine::GRAPHENE, protocol, buffers, bytes, Config::default())
}

/// Returns the time of a message out of memory that is registered into memory that is registered: the raw write of the papers, after the rendezvous that tells the
/// sender where to write.
fn register_cached_ns(bytes: u64) -> Result<f64, String> {
    on_graphene(Protocol::RegisterCached, Buffers::Registered, bytes).ns()
}

fn register_ns(bytes: u64) -> Result<f64, String> {
    on_graphene(Protocol::Register, Buffers::Lent, bytes).ns()
}

fn superpipeline(bytes: u64) -> Experiment {
    on_graphene(Protocol::Superpipeline, Buffers::Unnamed, bytes)
}

/// Returns a number of bytes, to whole ones.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few megabytes")]
const fn whole(bytes: f64) -> u64 {
    bytes.round() as u64
}

/// Returns by how many percent a bandwidth is below another one.
fn below(ns: f64, raw_ns: f64) -> f64 {
    100.0 * (1.0 - raw_ns / ns)
}

/// Returns the bandwidth in percent of the wire of `graphene`.
fn of_wire(bytes: u64, ns: f64) -> f64 {
    100.0 * bytes as f64 / ns / Machine::GRAPHENE.profile.net_bytes_per_ns
}

/// Returns the smallest multiple of a step from which on a condition holds, up to a limit of as many steps. It must not cease to hold above.
fn first_that(step: u64, count_max: u64, holds: impl Fn(u64) -> Result<bool, String>) -> Result<u64, String> {
    let (mut below, mut from) = (0, count_max);
    if !holds(from * step)? {
        return Err(format!("it holds for no size up to {}", from * step));
    }
    while from - below > 1 {
        let middle = u64::midpoint(below, from);
        if holds(middle * step)? {
            from = middle;
        } else {
            below = middle;
        }
    }
    Ok(from * step)
}
