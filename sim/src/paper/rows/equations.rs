//! Rows that compare runs with the equations, from 64 KiB to 64 MiB where their assumptions hold. Equations 8 and 9 have no rendezvous: their runs send without a CTS
//! ([`FirstChunk::WithoutCts`]).

use superpipe_core::plan::{Chunks, Machine, Pages, Start};
use superpipe_core::{Config, FirstChunk, Protocol};

use super::super::row::{Bound, Row, Source};
use super::chunks::{optimal_chunk, pipeline as pipeline_of};
use super::{K, M, superpipeline, whole};
use crate::measured::connection::Buffers;
use crate::measured::experiment::Experiment;

const MODEL: superpipe_core::plan::Profile = Machine::GRAPHENE.profile;
/// Sizes of messages, each four times the one before.
const SIZES: [u64; 6] = [64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M];

/// Returns what the rendezvous of core takes: two latencies, as in the papers, and a gap and a post for each of its messages.
fn rendezvous_ns() -> f64 {
    MODEL.rendezvous_ns() + 2.0 * (MODEL.gap_ns + MODEL.overhead_ns)
}

/// Returns a row of the deviation that is farthest from 0, in percent.
fn worst(
    (what, paper): (&str, &str),
    pairs: impl IntoIterator<Item = Result<[f64; 2], String>>,
) -> Result<Row, String> {
    let mut worst = 0.0_f64;
    for pair in pairs {
        let [got, expected] = pair?;
        let off = 100.0 * (got / expected - 1.0);
        // NaN must not pass.
        if off.is_nan() || off.abs() > worst.abs() {
            worst = off;
        }
    }
    Ok(Row::new((what, paper), Source::Run, " %", &[(worst, Bound::Between(-5.0, 5.0))]))
}

/// Equation 1, with chunks of C_opt and of 64 KiB.
pub(super) fn pipeline() -> Result<Row, String> {
    let pairs = SIZES.into_iter().flat_map(|bytes| {
        [optimal_chunk(bytes), 64 << 10].map(|chunk| {
            let expected = MODEL.pipeline_ns(bytes, f64::from(chunk)) + rendezvous_ns();
            Ok([pipeline_of(bytes, chunk).ns()?, expected])
        })
    });
    worst(
        (
            "runs off equation 1 (pipeline, with a rendezvous) at worst, C_opt and 64 KiB, 64 KiB to 64 MiB",
            "equation 1",
        ),
        pairs,
    )
}

/// Numbers of whole chunks of C0 = 12 KiB and q = 1.5: 97 KiB to 52 MiB.
const WHOLE_CHUNKS: [u32; 6] = [4, 6, 9, 12, 15, 19];

/// Returns the bytes of so many chunks that grow by `growth_q8` / 256 from 12 KiB. Each has whole bytes, as those of core.
fn whole_chunks_bytes(growth_q8: u32, count: u32) -> u64 {
    let chunks = core::iter::successors(Some(12 * K), |bytes| Some(bytes * u64::from(growth_q8) / 256));
    chunks.take(count as usize).sum()
}

/// Returns a superpipeline whose chunks follow each other without a rendezvous.
fn without_cts(bytes: u64, sub_blocks: bool) -> Experiment {
    let experiment = superpipeline(bytes);
    let config = Config { first_chunk: FirstChunk::WithoutCts, sub_blocks, ..experiment.config };
    Experiment { config, ..experiment }
}

/// Equations 5 to 7: a message of n whole chunks has n, of a byte more n + 1, and one of any size as many as equation 7 has, rounded up.
pub(super) fn numbers_of_chunks() -> Result<Row, String> {
    let mut worst = 0.0_f64;
    for growth_q8 in [256, 384, 512] {
        let chunks = Chunks { growth: f64::from(growth_q8) / 256.0, ..Chunks::HARDWIRED };
        let whole = (1..=8).map(f64::from).flat_map(|count| {
            let bytes = whole(chunks.sum(count));
            [(bytes, count), (bytes + 1, count + 1.0)]
        });
        let others = SIZES.into_iter().map(|bytes| (bytes, chunks.count(bytes).ceil()));
        for (bytes, expected) in whole.chain(others) {
            let experiment = superpipeline(bytes);
            // Chunks that do not grow are many, for which the landing buffer needs room.
            let chunk_bytes = if growth_q8 == 256 { experiment.config.c0_bytes } else { 0 };
            let config = Config { growth_q8, chunk_bytes, ..experiment.config };
            let more = Experiment { config, ..experiment }.chunks()? - expected;
            if more.is_nan() || more.abs() > worst.abs() {
                worst = more;
            }
        }
    }
    let what = (
        "chunks of runs off equations 5 to 7 at worst: q 1, 1.5 and 2; 1 to 8 whole chunks, a byte more, 64 KiB to 64 MiB",
        "equations 5, 6, 7",
    );
    Ok(Row::new(what, Source::Run, "", &[(worst, Bound::About(0.0, 0.5))]))
}

/// Equation 8, of a receiver that copies whole chunks. Messages of whole chunks, since equation 8 has a real number of them; a last one that is cut short arrives while the one before
/// is still copied out.
pub(super) fn whole_chunks() -> Result<Row, String> {
    let pairs = WHOLE_CHUNKS.map(|count| {
        let bytes = whole_chunks_bytes(384, count);
        let got = without_cts(bytes, false).ns()?;
        Ok([got, MODEL.superpipeline_ns(bytes, Chunks::HARDWIRED)])
    });
    worst(
        (
            "runs off equation 8 (superpipeline, whole chunks, no rendezvous) at worst, 4 to 19 whole chunks, 97 KiB to 52 MiB",
            "equation 8",
        ),
        pairs,
    )
}

/// Equation 9. C0 is free there because it is copied during a rendezvous, whose time is left out: so a run without a rendezvous takes the copy of C0 more, and one that copies C0
/// during the rendezvous takes the rendezvous more.
pub(super) fn sub_blocks() -> Result<Row, String> {
    let pairs = SIZES.into_iter().flat_map(|bytes| {
        let equation_ns = MODEL.sub_blocked_ns(bytes, Chunks::HARDWIRED, 4096.0);
        let experiment = superpipeline(bytes);
        let config = Config { first_chunk: FirstChunk::DuringRendezvous, ..experiment.config };
        let c0_ns = MODEL.copy_ns(Chunks::HARDWIRED.c0_bytes, bytes);
        [
            (without_cts(bytes, true), equation_ns + c0_ns),
            (Experiment { config, ..experiment }, equation_ns + rendezvous_ns()),
        ]
        .map(|(experiment, expected)| Ok([experiment.ns()?, expected]))
    });
    worst(
        (
            "runs off equation 9 at worst, 64 KiB to 64 MiB: and the copy of C0, no rendezvous; and a rendezvous, during which C0 is copied",
            "equation 9",
        ),
        pairs,
    )
}

/// T_reg and T_net, with a rendezvous, on both machines, in resident and in cold pages.
pub(super) fn registration() -> Result<Row, String> {
    let cases = [
        (Machine::GRAPHENE, Pages::RESIDENT),
        (Machine::CHELSIO_T3, Pages::RESIDENT),
        (Machine::CHELSIO_T3, Pages::COLD),
    ];
    let pairs = cases.into_iter().flat_map(|(machine, pages)| {
        SIZES.map(|bytes| {
            let config = Config::default();
            let on = Experiment::on(&machine, Protocol::Register, Buffers::Lent, bytes, config);
            let got = Experiment { pages, ..on }.ns()?;
            Ok([got, machine.profile.register_ns(bytes, pages, Start::Rendezvous)])
        })
    });
    worst(
        (
            "register off T_reg + T_net (with a rendezvous) at worst, graphene, T3 resident and cold, 64 KiB to 64 MiB",
            "T_reg = λ_reg + L / B_reg",
        ),
        pairs,
    )
}
