//! Rows of copies and chunks: their number, and their size.

use superpipe_core::plan::Machine;
use superpipe_core::{Config, FlagPlace, Layout, Protocol};

use super::super::row::{Bound, Row, Source};
use super::{M, of_wire, on_graphene, superpipeline};
use crate::measured::connection::Buffers;
use crate::measured::experiment::{BLOCK_BYTES, Experiment};

pub(super) fn copy_large() -> Result<Row, String> {
    let copy = on_graphene(Protocol::Copy, Buffers::Unnamed, 64 * M);
    // The RTS, and all of the payload.
    let chunks = copy.chunks()?;
    if chunks != 2.0 {
        return Err(format!("a naive copy of 64 MiB has {chunks} chunks"));
    }
    let share = of_wire(64 * M, copy.ns()?);
    let what = ("naive copy, two copies, 64 MiB, graphene, of B_net", "57 %");
    Ok(Row::new(what, Source::FittedRun, " %", &[(share, Bound::About(57.0, 2.0))]))
}

/// Returns the experiment of a pipeline with this chunk.
pub(super) fn pipeline(bytes: u64, chunk_bytes: u32) -> Experiment {
    let config = Config { chunk_bytes, ..Config::default() };
    Experiment::on(&Machine::GRAPHENE, Protocol::Pipeline, Buffers::Unnamed, bytes, config)
}

/// Returns C_opt on `graphene`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred KiB")]
pub(super) fn optimal_chunk(bytes: u64) -> u32 {
    Machine::GRAPHENE.profile.optimal_chunk_bytes(bytes) as u32
}

/// Returns the largest size in KiB, of the multiples of 64 bytes up to 16 KiB, at which a naive copy is at least as fast as every pipeline of two to eight chunks.
fn naive_copy_best_kib(block_bytes: u32) -> Result<f64, String> {
    let ns = |experiment: Experiment| Experiment { block_bytes, ..experiment }.ns();
    for bytes in (1..=256).rev().map(|count| 64 * count) {
        let naive_ns = ns(on_graphene(Protocol::Copy, Buffers::Unnamed, bytes))?;
        let mut best_ns = f64::INFINITY;
        for count in 2..=8 {
            let chunk_bytes = u32::try_from(bytes.div_ceil(count)).map_err(|error| error.to_string())?;
            best_ns = best_ns.min(ns(pipeline(bytes, chunk_bytes))?);
        }
        if naive_ns <= best_ns {
            return Ok(bytes as f64 / 1024.0);
        }
    }
    Err("a pipeline is faster at all sizes".to_owned())
}

/// Denis says 16 KB, which would need a g of 0.8 to 1.5 µs. With g = 0.25 µs, which his Figure 6 asks for, equations 1 and 3 have the naive copy, 2 L / B_copy, and the best pipeline,
/// 2 √(2 L g / B_copy), cross at 2 g B_copy. B_copy is that of 32 KiB, assumed. In runs chunks are whole: two of them save L / B_copy and cost g, a header and what is left of a block. No chunk
/// of core is smaller than a block, so in blocks of 4 KiB there is no pipeline below.
pub(super) fn naive_copy_is_best() -> Result<Row, String> {
    let profile = Machine::GRAPHENE.profile;
    let by_equations = 2.0 * profile.gap_ns * profile.copy_bytes_per_ns(4096) / 1024.0;
    let values = [naive_copy_best_kib(BLOCK_BYTES)?, naive_copy_best_kib(512)?, by_equations];
    let what = (
        "naive copy at least as fast as the best pipeline, graphene, up to: blocks of 4 KiB; of 512 bytes; by equations 1 and 3 (2 g B_copy)",
        "16 KB (Figure 4)",
    );
    Ok(Row::new(what, Source::RunAndModel, " KiB", &values.map(|kib| (kib, Bound::Between(3.0, 6.0)))))
}

/// Returns the exponent by which the number of chunks grows from 16 to 64 MiB.
fn exponent(experiment: impl Fn(u64) -> Experiment) -> Result<f64, String> {
    let count = |bytes| experiment(bytes).chunks();
    Ok((count(64 * M)? / count(16 * M)?).log2() / 2.0)
}

pub(super) fn chunks_of_one_size() -> Result<Row, String> {
    let value = exponent(|bytes| pipeline(bytes, 64 << 10))?;
    let what = ("gaps: exponent of L, pipeline, chunks of 64 KiB, 16 to 64 MiB", "O(L)");
    Ok(Row::new(what, Source::Run, "", &[(value, Bound::About(1.0, 0.05))]))
}

pub(super) fn optimal_chunks() -> Result<Row, String> {
    let value = exponent(|bytes| pipeline(bytes, optimal_chunk(bytes)))?;
    let what = ("gaps: exponent of L, pipeline, chunks of C_opt", "O(√L)");
    Ok(Row::new(what, Source::Run, "", &[(value, Bound::About(0.5, 0.05))]))
}

pub(super) fn growing_chunks() -> Result<Row, String> {
    let more = superpipeline(64 * M).chunks()? - superpipeline(16 * M).chunks()?;
    let what = ("gaps: superpipeline, q = 1.5, chunks more in 64 MiB than in 16", "O(log L): log_q 4 = 3.4");
    Ok(Row::new(what, Source::Run, "", &[(more, Bound::About(3.4, 1.0))]))
}

pub(super) fn folded_chunks() -> Result<Row, String> {
    let folded = |bytes| {
        let experiment = superpipeline(bytes);
        let config = Config { folds: 8, ..experiment.config };
        Experiment { config, landing_bytes: Some(2 * M), ..experiment }
    };
    let value = exponent(folded)?;
    let what = ("gaps: exponent of L, superpipeline folded in 2 MiB, 8 folds", "L over the largest chunk");
    Ok(Row::new(what, Source::Run, "", &[(value, Bound::About(1.0, 0.1))]))
}

/// Half and twice the optimal chunk take longer.
pub(super) fn optimal_chunk_is_best() -> Result<Row, String> {
    let chunk = optimal_chunk(M);
    let ns = |chunk| pipeline(M, chunk).ns();
    let best = ns(chunk)?;
    let values = [ns(chunk / 2)? / best, ns(2 * chunk)? / best].map(|times| (times, Bound::AtLeast(1.0)));
    let what = ("pipeline, 1 MiB: half of C_opt, and twice, over C_opt", "equation 3 is the minimum");
    Ok(Row::new(what, Source::Run, "x", &values))
}

/// The flags of blocks alone. A chunk also has a header in a slot line of 64 bytes, flag included.
pub(super) fn flags() -> Result<Row, String> {
    let layout = Layout { block_bytes: BLOCK_BYTES, block_count: 64, flags: FlagPlace::Inside };
    let block = f64::from(layout.capacity(2) - layout.capacity(1));
    let share = 100.0 * (1.0 - block / f64::from(BLOCK_BYTES));
    let what = ("flag of a block of 4 KiB (a chunk has a header of 64 B besides)", "under 0.2 %");
    Ok(Row::new(what, Source::Layout, " %", &[(share, Bound::AtMost(0.2))]))
}
