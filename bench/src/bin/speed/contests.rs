//! Who runs against whom: data only. A contest's first entrant is the limit that the others are compared with.
//!
//! An entrant is a program that lies beside this one. Besides its own arguments it is given `--cores A,B
//! --rounds 1 --seconds-per-config S --json`, and it prints JSON objects, of which the last with a `p50_us`
//! counts. One with `tuned` names is first run with `--best`; the values of these names in what it prints are
//! then its further arguments, so that each round is one fixed configuration.

/// One comparison.
pub(crate) struct Contest {
    /// what is measured
    pub(crate) name: &'static str,
    /// bytes of a message
    pub(crate) bytes: u32,
    /// the aim: how many times as long as the limit superpipe may take
    pub(crate) aim_times_limit: f64,
    /// the limit first
    pub(crate) entrants: &'static [Entrant],
}

/// One program in a contest.
pub(crate) struct Entrant {
    /// how the table calls it
    pub(crate) name: &'static str,
    /// its file name
    pub(crate) program: &'static str,
    /// its own arguments
    pub(crate) args: &'static [&'static str],
    /// options to be found by `--best`
    pub(crate) tuned: &'static [&'static str],
}

const LINES: &[&str] = &["slots", "stride", "pause"];
const BLOCKS: &[&str] = &["block", "ring", "flag", "copy"];

/// How far apart the cores are: 8 bytes through a fixed ring.
pub(crate) const DISTANCE: Entrant = Entrant {
    name: "distance",
    program: "limit_lines",
    args: &["--slots", "64", "--stride", "128", "--pause", "yes"],
    tuned: &[],
};

/// All of them.
pub(crate) const CONTESTS: &[Contest] = &[
    Contest {
        name: "8 B, half round trip",
        bytes: 8,
        aim_times_limit: 1.25,
        entrants: &[Entrant { name: "bare ring of lines", program: "limit_lines", args: &[], tuned: LINES }],
    },
    Contest {
        name: "64 KiB, half round trip",
        bytes: 64 << 10,
        aim_times_limit: 1.0 / 0.75,
        entrants: &[Entrant {
            name: "bare ring of blocks",
            program: "limit_blocks",
            args: &["--sizes", "64K", "--pattern", "pingpong"],
            tuned: BLOCKS,
        }],
    },
    Contest {
        name: "1 MiB, half round trip",
        bytes: 1 << 20,
        aim_times_limit: 1.0 / 0.75,
        entrants: &[Entrant {
            name: "bare ring of blocks",
            program: "limit_blocks",
            args: &["--sizes", "1M", "--pattern", "pingpong"],
            tuned: BLOCKS,
        }],
    },
];
