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
    /// the aim, if there is one: how many times as long as the limit superpipe may take
    pub(crate) aim_times_limit: Option<f64>,
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

/// superpipe, as it comes; the other process spins, as the limits' do.
const fn superpipe(args: &'static [&'static str]) -> Entrant {
    Entrant { name: "superpipe", program: "pingpong", args, tuned: &[] }
}

/// A size in ping-pong through blocks.
macro_rules! blocks {
    ($name:literal, $bytes:expr, $size:literal, $aim:expr) => {
        Contest {
            name: $name,
            bytes: $bytes,
            aim_times_limit: $aim,
            entrants: &[
                Entrant {
                    name: "bare ring of blocks",
                    program: "limit_blocks",
                    args: &["--sizes", $size, "--pattern", "pingpong"],
                    tuned: BLOCKS,
                },
                superpipe(&["--sizes", $size]),
            ],
        }
    };
}

/// Three quarters of the limit's rate.
const THREE_QUARTERS: Option<f64> = Some(1.0 / 0.75);

/// All of them; those without an aim inform.
pub(crate) const CONTESTS: &[Contest] = &[
    Contest {
        name: "8 B, half round trip",
        bytes: 8,
        aim_times_limit: Some(1.25),
        entrants: &[
            Entrant { name: "bare ring of lines", program: "limit_lines", args: &[], tuned: LINES },
            superpipe(&["--sizes", "8"]),
        ],
    },
    blocks!("4 KiB, half round trip", 4 << 10, "4K", None),
    blocks!("16 KiB, half round trip", 16 << 10, "16K", None),
    blocks!("64 KiB, half round trip", 64 << 10, "64K", THREE_QUARTERS),
    blocks!("256 KiB, half round trip", 256 << 10, "256K", None),
    blocks!("1 MiB, half round trip", 1 << 20, "1M", THREE_QUARTERS),
];
