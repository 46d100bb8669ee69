//! What superpipe aims at: data only.

use crate::plan::{Memory, Part, Test};

const K: usize = 1 << 10;
const M: usize = 1 << 20;
const LATENCY: &[Test] = &[Test::Latency];
const STREAM: &[Test] = &[Test::Stream];
const BOTH: &[Test] = &[Test::Latency, Test::Stream];
const REUSED: &[Memory] = &[Memory::Reused];

/// One aim, for some sizes.
pub(super) struct Target {
    /// by which causes.json names it
    pub(super) id: &'static str,
    pub(super) text: &'static str,
    pub(super) part: Part,
    pub(super) tests: &'static [Test],
    pub(super) memories: &'static [Memory],
    /// none: judged over all sizes of the part at once, or at each size there is
    pub(super) sizes: &'static [usize],
    pub(super) rule: Rule,
}

/// How it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// superpipe's time is at most so many times the rival's
    TimesAtMost(Rival, f64),
    /// superpipe is at least so many times as fast as the rival
    SpeedAtLeast(Rival, f64),
    /// superpipe is faster than the rival
    FasterThan(Rival),
    /// superpipe's time is at most so many nanoseconds more than the rival's
    NanosecondsMore(Rival, f64),
    /// from one size to the next, at least this share of the bandwidth remains
    StepKeeps(f64),
    /// the first message takes at most so many times the median
    FirstAtMost(f64),
}

/// Whom superpipe is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// the bare ring
    Limit,
    /// UCX itself, with the settings that are the best for it at that size
    Ucx,
    /// whichever peer is the fastest at that size
    BestPeer,
}

/// In the order of the report.
pub(super) const TARGETS: &[Target] = &[
    Target {
        id: "tiny-limit",
        text: "8 B half round trip: within 1.15x of the best bare ring of lines",
        part: Part::Small,
        tests: LATENCY,
        memories: REUSED,
        sizes: &[8],
        rule: Rule::TimesAtMost(Rival::Limit, 1.15),
    },
    Target {
        id: "tiny-ucx",
        text: "8 B half round trip: at most 0.75x UCX's",
        part: Part::Small,
        tests: LATENCY,
        memories: REUSED,
        sizes: &[8],
        rule: Rule::TimesAtMost(Rival::Ucx, 0.75),
    },
    Target {
        id: "small-peers",
        text: "64 B to 1 KiB, half round trip: at most 0.8x the best peer's",
        part: Part::Small,
        tests: LATENCY,
        memories: REUSED,
        sizes: &[64, 256, K],
        rule: Rule::TimesAtMost(Rival::BestPeer, 0.8),
    },
    Target {
        id: "medium-limit",
        text: "4 and 8 KiB, half round trip: within 1.2x of the bare ring",
        part: Part::Small,
        tests: LATENCY,
        memories: REUSED,
        sizes: &[4 * K, 8 * K],
        rule: Rule::TimesAtMost(Rival::Limit, 1.2),
    },
    Target {
        id: "medium-peers",
        text: "4 and 8 KiB, half round trip: ahead of every peer",
        part: Part::Small,
        tests: LATENCY,
        memories: REUSED,
        sizes: &[4 * K, 8 * K],
        rule: Rule::FasterThan(Rival::BestPeer),
    },
    Target {
        id: "large-limit-short",
        text: "16 and 32 KiB, half round trip: the bare ring and 100 ns",
        part: Part::Large,
        tests: LATENCY,
        memories: REUSED,
        sizes: &[16 * K, 32 * K],
        rule: Rule::NanosecondsMore(Rival::Limit, 100.0),
    },
    Target {
        id: "large-limit",
        text: "64 KiB to 64 MiB, half round trip: at least 85 % of the bare ring",
        part: Part::Large,
        tests: LATENCY,
        memories: REUSED,
        sizes: &[64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M],
        rule: Rule::SpeedAtLeast(Rival::Limit, 0.85),
    },
    Target {
        id: "stream-limit",
        text: "16 KiB to 64 MiB, streaming: at least 85 % of the bare ring",
        part: Part::Large,
        tests: STREAM,
        memories: REUSED,
        sizes: &[16 * K, 32 * K, 64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M],
        rule: Rule::SpeedAtLeast(Rival::Limit, 0.85),
    },
    Target {
        id: "large-peers",
        text: "16 KiB to 64 MiB, half round trip and streaming: at least 1.5x the best peer",
        part: Part::Large,
        tests: BOTH,
        memories: REUSED,
        sizes: &[16 * K, 32 * K, 64 * K, 256 * K, M, 4 * M, 16 * M, 64 * M],
        rule: Rule::SpeedAtLeast(Rival::BestPeer, 1.5),
    },
    Target {
        id: "cold-peers",
        text: "cold destination of 4 MiB and more, allocated by superpipe or advised: at least 3x every peer",
        part: Part::Cold,
        tests: BOTH,
        memories: &[Memory::Superpipe, Memory::Advised],
        sizes: &[4 * M, 16 * M, 64 * M],
        rule: Rule::SpeedAtLeast(Rival::BestPeer, 3.0),
    },
    Target {
        id: "no-cliff",
        text: "64 B to 64 MiB in steps of 5 %: no step loses more than 15 % of bandwidth",
        part: Part::Steps,
        tests: BOTH,
        memories: REUSED,
        sizes: &[],
        rule: Rule::StepKeeps(0.85),
    },
    Target {
        id: "first-message",
        text: "first message of a connection, resident buffers: at most 1.5x the median, at every size",
        part: Part::First,
        tests: LATENCY,
        memories: REUSED,
        sizes: &[],
        rule: Rule::FirstAtMost(1.5),
    },
];
