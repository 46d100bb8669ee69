//! Rows of the refinements of the superpipeline, each with a switch of its own: Denis, sections 4 and 5. All run on `graphene`.

use superpipe_core::plan::{Chunks, Machine, Profile};
use superpipe_core::{Config, FirstChunk};

use super::super::row::{Bound, Row, Source};
use super::{K, M, register_cached_ns, register_ns, superpipeline, whole};
use crate::measured::experiment::Experiment;

const MODEL: Profile = Machine::GRAPHENE.profile;

/// C0 of the tuned superpipeline, in blocks of 4 KiB, and its growth in 1/256: from 1 to 2.7, which is B_copy / B_net of memory without contention.
const TUNED_BLOCKS: [u32; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 32];
const TUNED_GROWTH: [u32; 7] = [256, 320, 384, 435, 512, 600, 691];

fn with(bytes: u64, change: impl FnOnce(Config) -> Config) -> Experiment {
    let experiment = superpipeline(bytes);
    Experiment { config: change(experiment.config), ..experiment }
}

/// Returns the experiment in which C0 is copied during the rendezvous, as in the paper.
fn overlapped(bytes: u64) -> Experiment {
    with(bytes, |config| Config { first_chunk: FirstChunk::DuringRendezvous, ..config })
}

/// Returns the time with the best C0, which is shorter than the message, and growth; and these.
fn tuned(experiment: Experiment) -> Result<(f64, [u32; 2]), String> {
    let mut best = (f64::INFINITY, [0; 2]);
    for c0_bytes in TUNED_BLOCKS.map(|blocks| blocks << 12) {
        if u64::from(c0_bytes) >= experiment.bytes {
            break;
        }
        for growth_q8 in TUNED_GROWTH {
            let config = Config { c0_bytes, growth_q8, ..experiment.config };
            let ns = Experiment { config, ..experiment }.ns()?;
            if ns < best.0 {
                best = (ns, [c0_bytes, growth_q8]);
            }
        }
    }
    Ok(best)
}

/// Returns a time, gap included, of a raw write without a rendezvous.
fn raw_ns(bytes: u64) -> f64 {
    MODEL.gap_ns + MODEL.net_ns(bytes)
}

/// Figure 6 of Denis: without a rendezvous, as the raw write there. C0 and q are the best for each size.
pub(super) fn tuned_for_each_size() -> Result<Row, String> {
    let (mut values, mut choices) = (Vec::new(), Vec::new());
    for (bytes, most) in [(16 * K, 15.0), (128 * K, 5.0), (256 * K, 5.0), (M, 5.0), (8 * M, 5.0)] {
        let no_cts = with(bytes, |config| Config { first_chunk: FirstChunk::WithoutCts, ..config });
        let (ns, [c0_bytes, growth_q8]) = tuned(no_cts)?;
        values.push((100.0 * (1.0 - raw_ns(bytes) / ns), Bound::AtMost(most)));
        choices.push(format!("{} KiB and {:.2}", c0_bytes >> 10, f64::from(growth_q8) / 256.0));
    }
    let what = (
        "superpipeline tuned for each size below raw, no rendezvous: 16, 128, 256 KiB, 1, 8 MiB",
        "15 % at 16 KB, less than 5 % above 64 KB",
    );
    let row = Row::new(what, Source::Run, " %", &values);
    Ok(Row { got: format!("{} (C0 and q: {})", row.got, choices.join(", ")), ..row })
}

/// Denis, section 5: C0 = 12 KB and q = 1.5 for all sizes. With the paper's overlap of the rendezvous.
pub(super) fn hardwired() -> Result<Row, String> {
    let mut worst = (0.0_f64, 0);
    let mut bytes = 16 * K;
    while bytes <= 8 * M {
        let (best, _) = tuned(overlapped(bytes))?;
        let loss = 100.0 * (overlapped(bytes).ns()? / best - 1.0);
        if loss.is_nan() || loss > worst.0 {
            worst = (loss, bytes);
        }
        bytes *= 2;
    }
    let what =
        ("C0 = 12 KiB and q = 1.5 slower than tuned for each size, 16 KiB to 8 MiB, at worst", "3 % or less");
    let row = Row::new(what, Source::Run, " %", &[(worst.0, Bound::AtMost(5.0))]);
    Ok(Row { got: format!("{} (at {} KiB)", row.got, worst.1 >> 10), ..row })
}

/// As NAS CG and SP, with 99 % hits: a cache of registrations has the same performance (Denis, section 5). Without the optimistic start.
pub(super) fn mostly_reused() -> Result<Row, String> {
    let mut values = Vec::new();
    for (bytes, most) in [(64 * K, 3.0), (256 * K, 1.5), (M, 0.5)] {
        let cached = 0.99 * register_cached_ns(bytes)? + 0.01 * register_ns(bytes)?;
        values.push((100.0 * (overlapped(bytes).ns()? / cached - 1.0), Bound::AtMost(most)));
    }
    let what = (
        "superpipeline slower than a cache with 99 % hits, as CG and SP: 64 KiB, 256 KiB, 1 MiB",
        "the same performance",
    );
    Ok(Row::new(what, Source::Run, " %", &values))
}

/// The optimistic start is superpipe's own. It gains the rendezvous, but for the copy of C0 that is hidden in it, and less a part of the copy of C1: core begins that when the CTS is
/// here, which comes when C0 has arrived, and the wire waits for it.
pub(super) fn optimistic_start() -> Result<Row, String> {
    let (mut values, mut gains) = (Vec::new(), Vec::new());
    for bytes in [64 * K, 256 * K, M] {
        let gain = overlapped(bytes).ns()? - superpipeline(bytes).ns()?;
        let expected = rendezvous_ns() - MODEL.copy_ns(Chunks::HARDWIRED.c0_bytes, bytes);
        values.push((gain / expected, Bound::Between(0.5, 1.1)));
        let [optimistic, overlapped] = [tuned(superpipeline(bytes))?.0, tuned(overlapped(bytes))?.0];
        gains.push(format!("{:.0} ns of {gain:.0}", overlapped - optimistic));
    }
    let what = (
        "optimistic start gains on the overlap of the rendezvous, over 2 λ - C0 / B_copy: 64 KiB, 256 KiB, 1 MiB",
        "not in the papers",
    );
    let row = Row::new(what, Source::Run, "x", &values);
    Ok(Row { got: format!("{} (with C0 tuned for each: {})", row.got, gains.join(", ")), ..row })
}

/// Returns what the rendezvous of core takes: two latencies, as in the papers, and a gap and a post for each of its messages.
fn rendezvous_ns() -> f64 {
    MODEL.rendezvous_ns() + 2.0 * (MODEL.gap_ns + MODEL.overhead_ns)
}

/// Returns what a message takes longer without a refinement.
fn cost_of(
    bytes: u64,
    base: impl FnOnce(u64) -> Experiment,
    change: impl FnOnce(Config) -> Config,
) -> Result<f64, String> {
    let base = base(bytes);
    let without = Experiment { config: change(base.config), ..base };
    Ok(without.ns()? - base.ns()?)
}

/// Sub-blocks off: the last chunk is copied out once it is whole. Messages of whole chunks, since a last chunk that is cut short arrives while the one before is
/// still copied out.
pub(super) fn without_sub_blocks() -> Result<Row, String> {
    let mut values = Vec::new();
    for count in [4.0, 6.0, 9.0, 12.0] {
        let [bytes, last] = [Chunks::HARDWIRED.sum(count), Chunks::HARDWIRED.bytes_of(count - 1.0)];
        let bytes = whole(bytes);
        let cost = cost_of(bytes, superpipeline, |config| Config { sub_blocks: false, ..config })?;
        values.push((cost / MODEL.copy_ns(last - 4096.0, bytes), Bound::About(1.0, 0.1)));
    }
    let what = (
        "sub-blocks off costs, over (C_last - b) / B_copy: messages of 4, 6, 9 and 12 chunks",
        "the copy of the last chunk is not hidden",
    );
    Ok(Row::new(what, Source::Run, "x", &values))
}

/// Overlap off: C0 is copied after the rendezvous.
pub(super) fn without_overlap() -> Result<Row, String> {
    let mut values = Vec::new();
    for (c0_bytes, bytes) in [(4 << 10, 256 * K), (12 << 10, 256 * K), (12 << 10, M), (64 << 10, M)] {
        let base = |bytes| {
            let experiment = overlapped(bytes);
            Experiment { config: Config { c0_bytes, ..experiment.config }, ..experiment }
        };
        let change = |config| Config { first_chunk: FirstChunk::AfterCts, ..config };
        let cost = cost_of(bytes, base, change)?;
        let expected = MODEL.copy_ns(f64::from(c0_bytes), bytes).min(rendezvous_ns());
        values.push((cost / expected, Bound::About(1.0, 0.1)));
    }
    let what = (
        "overlap off costs, over min(C0 / B_copy, 2 λ): C0 4 and 12 KiB of 256 KiB; 12 and 64 KiB of 1 MiB",
        "the copy of C0 is not hidden",
    );
    Ok(Row::new(what, Source::Run, "x", &values))
}

/// Growth off: chunks of C0, each with a gap; and triple buffering and two folds, through a landing buffer of 512 KiB.
pub(super) fn without_growth_and_with_folds() -> Result<Row, String> {
    let bytes = 8 * M;
    let flat = with(bytes, |config| Config { growth_q8: 256, chunk_bytes: config.c0_bytes, ..config });
    let [flat_ns, flat_chunks] = flat.ns_and_chunks()?;
    let [grown_ns, grown_chunks] = superpipeline(bytes).ns_and_chunks()?;
    // Each chunk has a gap, and a header of a line.
    let gaps_ns = (flat_chunks - grown_chunks) * (MODEL.gap_ns + 64.0 / MODEL.net_bytes_per_ns);
    let folded = |folds, triple_buffer| {
        let experiment = with(bytes, |config| Config { folds, triple_buffer, ..config });
        Experiment { landing_bytes: Some(512 * K), ..experiment }.ns()
    };
    let three = folded(3, false)?;
    let values = [
        ((flat_ns - grown_ns) / gaps_ns, Bound::About(1.0, 0.1)),
        (folded(3, true)? / three, Bound::AtLeast(0.98)),
        (folded(2, true)? / three, Bound::AtLeast(0.98)),
    ];
    let what = (
        "8 MiB: growth off costs, over its gaps and headers; in 512 KiB, the rule i - 2 with 3 folds, with 2, over free blocks with 3",
        "triple buffering: chunk i waits for chunk i - 2",
    );
    Ok(Row::new(what, Source::Run, "x", &values))
}
