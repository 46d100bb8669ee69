//! Figures of Denis, on `graphene` and `infini`.

use superpipe_core::Protocol;
use superpipe_core::plan::{ChunkedCopy, Chunks, Machine, Pages, Start};

use super::super::figure::{Curve, Figure, Values};
use super::super::rows::all_to_all_ns;
use super::runs::{Runs, Way, message_sizes};
use super::{bandwidth, curve, measured, sizes};
use crate::measured::connection::Buffers;
use crate::measured::system::System;

const GRAPHENE: &Machine = &Machine::GRAPHENE;
const INFINI: &Machine = &Machine::INFINI;

/// C0 with which short messages have a rendezvous, too, as the raw write has.
const ALWAYS_RENDEZVOUS: Option<u32> = Some(1);

const RAW: Way =
    Way::new("raw write out of registered memory", Protocol::RegisterCached, Buffers::Registered);
const REGISTER: Way = Way::new("registration for each message", Protocol::Register, Buffers::Lent);
const COPY: Way =
    Way { c0_bytes: ALWAYS_RENDEZVOUS, ..Way::new("naive copy", Protocol::Copy, Buffers::Unnamed) };
const PIPELINE: Way = Way {
    c0_bytes: ALWAYS_RENDEZVOUS,
    ..Way::new("pipeline with the optimal chunk", Protocol::Pipeline, Buffers::Unnamed)
};
const SUPERPIPELINE: Way =
    Way::new("superpipeline, C0 = 12 KiB, q = 1.5", Protocol::Superpipeline, Buffers::Unnamed);

/// Largest registration and copy that are measured alone.
const BUFFER_BYTES: [u64; 2] = [1 << 10, 16 << 20];

pub(super) fn registration() -> Result<Figure, String> {
    let system = System::of(GRAPHENE, Pages::RESIDENT);
    let curves = measured(["registration", "memcpy"], &sizes(BUFFER_BYTES), |bytes| {
        Ok([system.register(bytes, 1)?, system.copy(bytes)?].map(|took| bandwidth(bytes, took.ns)))
    })?;
    let title = "Registration and copies, graphene (Denis, Figure 1; jobs and copies of the machine)";
    Ok(Figure { title, of: "bytes of a buffer", values: Values::Bandwidth, curves })
}

pub(super) fn naive(runs: &mut Runs) -> Result<Figure, String> {
    let ways = [RAW, REGISTER, COPY].map(|way| (GRAPHENE, way));
    runs.bandwidths("Naive protocols, graphene (Denis, Figure 2; runs)", &ways)
}

pub(super) fn pipeline(runs: &mut Runs) -> Result<Figure, String> {
    let ways = [RAW, PIPELINE, COPY, REGISTER].map(|way| (GRAPHENE, way));
    let title = "Pipeline with the optimal chunk, graphene (Denis, Figure 4; runs, and the model)";
    let mut figure = runs.bandwidths(title, &ways)?;
    let profile = GRAPHENE.profile;
    figure.curves.push(curve(
        "pipeline by equations 1 and 3, with a rendezvous",
        &message_sizes(),
        |bytes| {
            let chunk = profile.optimal_chunk_bytes(bytes);
            bandwidth(bytes, profile.pipeline_ns(bytes, chunk) + profile.rendezvous_ns())
        },
    ));
    Ok(figure)
}

pub(super) fn superpipeline_graphene(runs: &mut Runs) -> Result<Figure, String> {
    let title = "Superpipeline, graphene (Denis, Figure 6, left; runs, and the model)";
    superpipeline(runs, title, GRAPHENE)
}

pub(super) fn superpipeline_infini(runs: &mut Runs) -> Result<Figure, String> {
    let title = "Superpipeline, infini, all assumed (Denis, Figure 6, right; runs, and the model)";
    superpipeline(runs, title, INFINI)
}

fn superpipeline(runs: &mut Runs, title: &'static str, machine: &Machine) -> Result<Figure, String> {
    let ways = [RAW, SUPERPIPELINE, REGISTER, COPY].map(|way| (machine, way));
    let mut figure = runs.bandwidths(title, &ways)?;
    figure.curves.push(curve("superpipeline by the model", &message_sizes(), |bytes| {
        let copied = ChunkedCopy::superpipeline(bytes, Chunks::HARDWIRED, Start::Optimistic);
        bandwidth(bytes, copied.ns(&machine.profile))
    }));
    Ok(figure)
}

/// Messages below 32 KB are copied, by all ways (Denis, section 5).
pub(super) fn first_and_best(runs: &mut Runs) -> Result<Figure, String> {
    let ways = [
        Way { title: "cache of registrations, best", ..RAW },
        Way { title: "superpipeline, first and best", ..SUPERPIPELINE },
        Way { title: "cache of registrations, first", ..REGISTER },
    ];
    let ways = ways.map(|way| (GRAPHENE, Way { c0_bytes: Some(32 << 10), ..way }));
    runs.bandwidths("First and best message, rendezvous from 32 KB, graphene (Denis, Figure 7; runs)", &ways)
}

pub(super) fn gaps(runs: &mut Runs) -> Result<Figure, String> {
    let flat = Way { title: "pipeline, 64 KiB", chunk_bytes: Some(64 << 10), ..PIPELINE };
    let folded = Way {
        title: "superpipeline, C0 = 12 KiB, q = 1.5, 8 folds of 2 MiB",
        folded: Some((2 << 20, 8)),
        ..SUPERPIPELINE
    };
    let ways = [flat, PIPELINE, folded, SUPERPIPELINE].map(|way| (GRAPHENE, way));
    let curves = runs.chunks(&ways)?;
    let title = "Gaps: chunks of a message, graphene (Denis, section 4; runs)";
    Ok(Figure { title, of: "bytes of a message", values: Values::Count, curves })
}

/// Buffers of the all-to-all.
const EXCHANGE_BYTES: [u64; 2] = [16 << 10, 1 << 20];

pub(super) fn all_to_all() -> Result<Figure, String> {
    let titles = [
        "superpipeline",
        "cache of registrations, never used again (IS)",
        "cache of registrations, used again (CG, SP)",
    ];
    let curves: Vec<Curve> = measured(titles, &sizes(EXCHANGE_BYTES), |bytes| {
        let times = [
            all_to_all_ns(Protocol::Superpipeline, Buffers::Unnamed, bytes, 1)?,
            all_to_all_ns(Protocol::RegisterCached, Buffers::Lent, bytes, 1)?,
            all_to_all_ns(Protocol::RegisterCached, Buffers::Registered, bytes, 1)?,
        ];
        Ok(times.map(|ns| ns / 1000.0))
    })?;
    let title = "All-to-all of 4 hosts, graphene (as NAS IS, and reusing; Denis, section 5; runs)";
    Ok(Figure { title, of: "bytes from each host to each", values: Values::Time, curves })
}
