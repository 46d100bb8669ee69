//! Rows that compare runs with the equations, from 64 KiB to 64 MiB where their assumptions hold. Equation 8 is of a superpipeline whose receiver copies whole chunks, which core has no
//! switch for.

use superpipe_core::plan::{Chunks, Machine, Pages, Start};
use superpipe_core::{Config, Protocol};

use super::super::connection::Buffers;
use super::super::experiment::Experiment;
use super::super::row::{Bound, Row, Source};
use super::chunks::{optimal_chunk, pipeline as pipeline_of};
use super::{K, M, superpipeline};

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

/// Equation 9, and the copy of C0, which has no rendezvous to hide behind.
pub(super) fn sub_blocks() -> Result<Row, String> {
    let pairs = SIZES.map(|bytes| {
        let c0_ns = MODEL.copy_ns(Chunks::HARDWIRED.c0_bytes, bytes);
        let expected = MODEL.sub_blocked_ns(bytes, Chunks::HARDWIRED, 4096.0) + c0_ns;
        Ok([superpipeline(bytes).ns()?, expected])
    });
    worst(
        (
            "runs off equation 9 and the copy of C0 (superpipeline, started at once) at worst, 64 KiB to 64 MiB",
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
