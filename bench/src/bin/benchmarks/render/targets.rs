//! The aims of superpipe: data only. Each is judged in each class of distance by itself.

use superpipe_bench::probe::Distance;

use crate::plan::{ADVISED, CONNECTION, LATENCY, Part, REUSED, STREAM, SUPERPIPE};

const K: usize = 1 << 10;
const M: usize = 1 << 20;
const LARGE: &[usize] = &[16 * K, 32 * K, 64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M];
const BOTH: &[&str] = &[LATENCY, STREAM];
const OWN: &[&str] = &[SUPERPIPE];
const NOTIFY: &str = "superpipe, notify";
const FLAG: &str = "superpipe, flag";
const DRIVERS: &[&str] = &["rxe", "siw"];

/// One aim, for some sizes.
#[derive(Clone, Copy)]
pub(super) struct Target {
    /// its name in causes.json
    pub(super) id: &'static str,
    pub(super) text: &'static str,
    pub(super) part: Part,
    pub(super) tests: &'static [&'static str],
    /// superpipe's contestants
    pub(super) who: &'static [&'static str],
    pub(super) places: &'static [&'static str],
    /// those in which it is judged; rounds whose distance was not probed always count
    pub(super) distances: &'static [Distance],
    /// none: every size there is
    pub(super) sizes: &'static [usize],
    pub(super) rule: Rule,
}

/// The condition that a target sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// superpipe's time is at most so many times the rival's
    TimesAtMost(Rival, f64),
    /// superpipe is at least so many times as fast as the rival
    SpeedAtLeast(Rival, f64),
    /// superpipe is faster than the rival
    Faster(Rival),
    /// from one size to the next, at least this share of the bandwidth remains
    StepKeeps(f64),
}

/// The series that superpipe is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// the contestant with this id, or the fastest whose id begins so, with the settings that are best for it at that size
    Named(&'static str),
    /// the peer that is the fastest at that size
    BestPeer,
    /// superpipe itself in another test
    Own(&'static str),
}

const RING: Rival = Rival::Named("limit");

const fn shm(
    id: &'static str,
    text: &'static str,
    part: Part,
    tests: &'static [&'static str],
    sizes: &'static [usize],
    rule: Rule,
) -> Target {
    Target { id, text, part, tests, who: OWN, places: &[REUSED], distances: &Distance::ALL, sizes, rule }
}

const fn rdma(
    id: &'static str,
    text: &'static str,
    tests: &'static [&'static str],
    sizes: &'static [usize],
    rule: Rule,
) -> Target {
    let part = Part::Rdma;
    Target { part, who: &[NOTIFY, FLAG], places: DRIVERS, ..shm(id, text, part, tests, sizes, rule) }
}

/// All of them, in the order of the page.
#[rustfmt::skip]
pub(super) const TARGETS: &[Target] = &[
    shm("tiny-limit", "8 B half round trip: within 1.15x of the best bare ring of lines",
        Part::Small, &[LATENCY], &[8], Rule::TimesAtMost(RING, 1.15)),
    shm("tiny-ucx", "8 B half round trip: at most 0.75x UCX's",
        Part::Small, &[LATENCY], &[8], Rule::TimesAtMost(Rival::Named("ucx"), 0.75)),
    shm("small-peers", "64 B to 1 KiB, half round trip: at most 0.8x the best peer's",
        Part::Small, &[LATENCY], &[64, 256, K], Rule::TimesAtMost(Rival::BestPeer, 0.8)),
    shm("medium-limit", "4 KiB, half round trip: within 1.15x of the bare ring",
        Part::Small, &[LATENCY], &[4 * K], Rule::TimesAtMost(RING, 1.15)),
    shm("medium-limit-long", "8 KiB, half round trip: within 1.2x of the bare ring",
        Part::Small, &[LATENCY], &[8 * K], Rule::TimesAtMost(RING, 1.2)),
    shm("medium-peers", "4 and 8 KiB, half round trip: ahead of every peer",
        Part::Small, &[LATENCY], &[4 * K, 8 * K], Rule::Faster(Rival::BestPeer)),
    shm("large-limit", "16 KiB to 64 MiB, half round trip: at least 90 % of the bare ring",
        Part::Large, &[LATENCY], LARGE, Rule::SpeedAtLeast(RING, 0.9)),
    shm("stream-limit", "16 KiB to 64 MiB, streaming: at least 90 % of the bare ring",
        Part::Large, &[STREAM], LARGE, Rule::SpeedAtLeast(RING, 0.9)),
    Target { distances: &[Distance::Near],
        ..shm("near-peers", "near, 16 KiB to 64 MiB, half round trip and streaming: at least 97 % of the best peer",
            Part::Large, BOTH, LARGE, Rule::SpeedAtLeast(Rival::BestPeer, 0.97)) },
    Target { distances: &[Distance::Apart, Distance::Far],
        ..shm("large-peers", "apart and far, 16 KiB to 64 MiB, half round trip and streaming: ahead of every peer",
            Part::Large, BOTH, LARGE, Rule::Faster(Rival::BestPeer)) },
    Target { distances: &[Distance::Far],
        ..shm("far-peers-short", "far, 64 KiB, half round trip and streaming: at least 2.5x the best peer",
            Part::Large, BOTH, &[64 * K], Rule::SpeedAtLeast(Rival::BestPeer, 2.5)) },
    Target { distances: &[Distance::Far],
        ..shm("far-peers", "far, 256 KiB to 4 MiB, half round trip and streaming: at least 3x the best peer",
            Part::Large, BOTH, &[256 * K, M, 4 * M], Rule::SpeedAtLeast(Rival::BestPeer, 3.0)) },
    Target { places: &[SUPERPIPE, ADVISED],
        ..shm("cold-peers", "cold destination of 4 MiB and more, allocated by superpipe or advised: at least 3x every peer",
            Part::Cold, &[LATENCY, STREAM], &[4 * M, 16 * M, 64 * M], Rule::SpeedAtLeast(Rival::BestPeer, 3.0)) },
    shm("no-cliff", "64 B to 64 MiB in steps of 5 %: no step loses more than 15 % of bandwidth",
        Part::Steps, &[LATENCY, STREAM], &[], Rule::StepKeeps(0.85)),
    shm("first-message-short", "first message of a connection below 1 KiB, resident buffers: at most 2x the median",
        Part::First, &[CONNECTION], &[8, 64, 256], Rule::TimesAtMost(Rival::Own(LATENCY), 2.0)),
    shm("first-message", "first message of a connection from 1 KiB on, resident buffers: at most 1.5x the median",
        Part::First, &[CONNECTION], &[K, 4 * K, 8 * K, 16 * K, 32 * K, 64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M],
        Rule::TimesAtMost(Rival::Own(LATENCY), 1.5)),
    rdma("rdma-bound-short", "16 KiB: at least 88 % of the bound",
        &["rate"], &[16 * K], Rule::SpeedAtLeast(Rival::Named("bound"), 0.88)),
    rdma("rdma-bound", "from 64 KiB on: at least 95 % of the bound",
        &["rate"], &[64 * K, 256 * K, M, 4 * M], Rule::SpeedAtLeast(Rival::Named("bound"), 0.95)),
    rdma("rdma-first", "first message of a connection: at least 90 % of the steady rate",
        &[CONNECTION], &[64 * K, M], Rule::SpeedAtLeast(Rival::Own(LATENCY), 0.9)),
    rdma("rdma-ucx-first", "first message of a process: as fast as UCX's",
        &["first"], &[4 * K, 16 * K, 64 * K, M], Rule::SpeedAtLeast(Rival::Named("UCX"), 1.0)),
    rdma("rdma-ucx", "half round trip and rate: at least 93 % of UCX's speed",
        &[LATENCY, "rate"], &[], Rule::SpeedAtLeast(Rival::Named("UCX"), 0.93)),
    rdma("rdma-loss", "two hosts, 1 % of packets lost: at least 80 % of `ib_write_bw`",
        &["lossy"], &[], Rule::SpeedAtLeast(Rival::Named("ib_write_bw"), 0.8)),
    Target { who: &[FLAG],
        ..rdma("rdma-latency", "8 B by flag: at most 1.15x `ib_write_lat`",
            &[LATENCY], &[8], Rule::TimesAtMost(Rival::Named("ib_write_lat"), 1.15)) },
];
