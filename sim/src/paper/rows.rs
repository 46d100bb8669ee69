//! The rows of the table: each a short experiment.

use superpipe_core::plan::{ChunkedCopy, Chunks, Machine, PageSize, Pages, Start};
use superpipe_core::{Config, FlagPlace, Layout, Protocol};

use super::machine::simulated;
use super::ping_pong::{Buffers, PingPong};
use super::row::{Bound, Row, Source};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// Bytes of a block in all rows: the papers' sub-blocks.
const BLOCK_BYTES: u32 = 4096;

/// Messages of a run, of which the best one counts: the first ones meet an empty landing buffer, as the others do.
const MESSAGES: u64 = 4;

/// Makes a row.
pub(super) type Experiment = fn() -> Result<Row, String>;

/// The rows, in the order of the table.
pub(super) const ROWS: [Experiment; 13] = [
    registration_64k,
    registration_large,
    copy_large,
    chunk_counts,
    first_superpipeline,
    first_cached,
    never_reused,
    pipelined_registration,
    flags,
    critical_sizes,
    inside_a_round_trip,
    parallel_registration,
    huge_pages,
];

/// A ping-pong on a machine of the papers.
#[derive(Clone, Copy)]
struct Experimental {
    machine: Machine,
    config: Config,
    buffers: Buffers,
    bytes: u64,
    /// Bytes of the landing buffer; `None`: as many as the message needs at once.
    landing_bytes: Option<u64>,
}

impl Experimental {
    const fn on_graphene(protocol: Protocol, buffers: Buffers, bytes: u64, config: Config) -> Self {
        let config = Config { protocol, folds: 1, ..config };
        Self { machine: Machine::GRAPHENE, config, buffers, bytes, landing_bytes: None }
    }

    fn ping_pong(self) -> Result<PingPong, String> {
        let blocks = match self.landing_bytes {
            Some(bytes) => bytes / u64::from(BLOCK_BYTES),
            // A block has a flag, and the first one of each chunk a slot line; one block is kept free.
            None => self.bytes / u64::from(BLOCK_BYTES - 64) + 4,
        };
        let block_count = u32::try_from(blocks).map_err(|error| error.to_string())?;
        Ok(PingPong {
            profile: simulated(&self.machine, self.bytes),
            config: self.config,
            layout: Layout { block_bytes: BLOCK_BYTES, block_count, flags: FlagPlace::Inside },
            buffers: self.buffers,
            bytes: usize::try_from(self.bytes).map_err(|error| error.to_string())?,
        })
    }

    /// Returns the nanoseconds of the first message, and of the best one.
    fn first_and_best_ns(self) -> Result<[f64; 2], String> {
        let times = self.ping_pong()?.play(MESSAGES)?;
        let first = times.first().copied().unwrap_or(0);
        let best = times.into_iter().min().unwrap_or(0);
        Ok([first, best].map(|ns| ns as f64))
    }

    fn best_ns(self) -> Result<f64, String> {
        self.first_and_best_ns().map(|[_, best]| best)
    }

    /// Returns the chunks that the sender of the first message has sent.
    fn chunks(self) -> Result<f64, String> {
        self.ping_pong()?.chunks().map(|count| count as f64)
    }
}

fn config() -> Config {
    Config::default()
}

/// A raw write out of registered memory, as core makes it: with a rendezvous, like those that it is compared with.
fn raw_ns(bytes: u64) -> Result<f64, String> {
    Experimental::on_graphene(Protocol::RegisterCached, Buffers::Registered, bytes, config()).best_ns()
}

fn registered_ns(bytes: u64) -> Result<f64, String> {
    Experimental::on_graphene(Protocol::Register, Buffers::Lent, bytes, config()).best_ns()
}

fn superpipeline(bytes: u64) -> Experimental {
    Experimental::on_graphene(Protocol::Superpipeline, Buffers::Unnamed, bytes, config())
}

/// Returns by how many percent a bandwidth is below another one.
fn below(ns: f64, raw_ns: f64) -> f64 {
    100.0 * (1.0 - raw_ns / ns)
}

/// Returns the bandwidth in percent of the wire of `graphene`.
fn of_wire(bytes: u64, ns: f64) -> f64 {
    100.0 * bytes as f64 / ns / Machine::GRAPHENE.profile.net_bytes_per_ns
}

fn registration_64k() -> Result<Row, String> {
    let lost = below(registered_ns(64 * K)?, raw_ns(64 * K)?);
    let what = ("naive registration below a raw write, 64 KiB, graphene", "as much as 60 %");
    Ok(Row::new(what, Source::Run, " %", &[(lost, Bound::About(65.0, 5.0))]))
}

fn registration_large() -> Result<Row, String> {
    let share = of_wire(64 * M, registered_ns(64 * M)?);
    let what = ("the same, 64 MiB, of B_net", "91 %");
    Ok(Row::new(what, Source::Run, " %", &[(share, Bound::About(91.0, 1.0))]))
}

fn copy_large() -> Result<Row, String> {
    let copy = Experimental::on_graphene(Protocol::Copy, Buffers::Unnamed, 64 * M, config());
    let share = of_wire(64 * M, copy.best_ns()?);
    let what = ("naive copy, two copies, 64 MiB, graphene, of B_net", "57 %");
    Ok(Row::new(what, Source::Run, " %", &[(share, Bound::About(57.0, 2.0))]))
}

/// The exponent by which the number of chunks grows from 16 to 64 MiB, and what the superpipeline's grows by. A landing buffer of 2 MiB has eight folds.
fn chunk_counts() -> Result<Row, String> {
    let exponent = |count: &dyn Fn(u64) -> Result<f64, String>| {
        Ok::<_, String>((count(64 * M)? / count(16 * M)?).log2() / 2.0)
    };
    let pipeline = |bytes, chunk_bytes| {
        let config = Config { chunk_bytes, ..config() };
        Experimental::on_graphene(Protocol::Pipeline, Buffers::Unnamed, bytes, config).chunks()
    };
    let optimal = |bytes: u64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred KiB")]
        let chunk = Machine::GRAPHENE.profile.optimal_chunk_bytes(bytes) as u32;
        pipeline(bytes, chunk)
    };
    let folded = |bytes| {
        let mut folded = superpipeline(bytes);
        folded.landing_bytes = Some(2 * M);
        folded.config.folds = 8;
        folded.chunks()
    };
    let more = superpipeline(64 * M).chunks()? - superpipeline(16 * M).chunks()?;
    let values = [
        (exponent(&|bytes| pipeline(bytes, 64 << 10))?, Bound::About(1.0, 0.05)),
        (exponent(&optimal)?, Bound::About(0.5, 0.05)),
        // log_q 4.
        (more, Bound::About(3.4, 1.0)),
        (exponent(&folded)?, Bound::About(1.0, 0.1)),
    ];
    let what = (
        "gaps: exponent of L with chunks of one size, and of C_opt; chunks more in 64 than in 16 MiB by the superpipeline; exponent if it is folded",
        "O(L), O(√L), O(log L)",
    );
    Ok(Row::new(what, Source::Run, "", &values))
}

fn first_superpipeline() -> Result<Row, String> {
    let mut values = Vec::new();
    for bytes in [64 * K, 256 * K, M, 8 * M] {
        let [first, best] = superpipeline(bytes).first_and_best_ns()?;
        values.push((100.0 * best / first, Bound::AtLeast(98.0)));
    }
    let what = (
        "first message, of the best one: superpipeline, 64 and 256 KiB, 1 and 8 MiB, resident",
        "the best already at the first send",
    );
    Ok(Row::new(what, Source::Run, " %", &values))
}

fn first_cached() -> Result<Row, String> {
    let mut values = Vec::new();
    for (bytes, percent) in [(64 * K, 32.0), (256 * K, 62.0), (M, 81.0), (8 * M, 90.0)] {
        let share = 100.0 * raw_ns(bytes)? / registered_ns(bytes)?;
        values.push((share, Bound::About(percent, 5.0)));
    }
    let what =
        ("the same: a cache of registrations, a miss and a hit", "low performance because of registration");
    Ok(Row::new(what, Source::Run, " %", &values))
}

/// As NAS IS: buffers that are never used again. Deregistration is off the path.
fn never_reused() -> Result<Row, String> {
    let times = registered_ns(8 * M)? / superpipeline(8 * M).best_ns()?;
    let what = (
        "buffers that are never used again, 8 MiB: superpipeline over a cache of registrations",
        "IS as a whole 1.09x",
    );
    Ok(Row::new(what, Source::Run, "x", &[(times, Bound::AtLeast(1.09))]))
}

fn pipelined_registration() -> Result<Row, String> {
    let profile = Machine::GRAPHENE.profile;
    let mut values = Vec::new();
    for (bytes, registered, copied) in [(256 * K, 38.0, 3.0), (M, 13.0, 1.0), (8 * M, 2.0, 0.2)] {
        let raw = profile.register_cached_ns(bytes, Pages::RESIDENT, Start::Raw, 1.0);
        let ns = profile.pipelined_registration_ns(bytes, Pages::RESIDENT, Start::Raw);
        values.push((below(ns, raw), Bound::About(registered, 2.0)));
        let ns = ChunkedCopy::superpipeline(bytes, Chunks::HARDWIRED, Start::Raw).ns(&profile);
        values.push((below(ns, raw), Bound::About(copied, 2.0)));
    }
    let what = (
        "pipelined registration, and then the superpipeline, below a raw write: 256 KiB, 1 and 8 MiB",
        "pipelining copies is better",
    );
    Ok(Row::new(what, Source::Model, " %", &values))
}

fn flags() -> Result<Row, String> {
    let layout = Layout { block_bytes: BLOCK_BYTES, block_count: 64, flags: FlagPlace::Inside };
    let payload = f64::from(layout.capacity(32)) / f64::from(32 * BLOCK_BYTES);
    let what = ("bytes of flags and headers in a chunk of 32 blocks of 4 KiB", "flags: under 0.2 %");
    Ok(Row::new(what, Source::Model, " %", &[(100.0 * (1.0 - payload), Bound::AtMost(0.3))]))
}

/// Returns a size as a power of two over another one.
fn powers(bytes: u64, over: u64) -> f64 {
    (bytes as f64 / over as f64).log2()
}

fn critical_sizes() -> Result<Row, String> {
    let profile = Machine::CHELSIO_T3.profile;
    let critical = |pages, expected| {
        let bytes = profile.critical_bytes(pages).ok_or("no critical size")?;
        Ok::<_, String>((powers(bytes, expected), Bound::About(0.0, 1.0)))
    };
    let values = [critical(Pages::RESIDENT, 256 * K)?, critical(Pages::COLD, 32 * K)?];
    let what = (
        "critical size, T3, resident; source and destination cold: powers of two above the paper's",
        "256 KB; 32 KB",
    );
    Ok(Row::new(what, Source::Model, "", &values))
}

fn inside_a_round_trip() -> Result<Row, String> {
    let profile = Machine::CHELSIO_T3.profile;
    let values = [
        (profile.registered_in_round_trip_bytes(Pages::RESIDENT), 64 * K),
        (profile.registered_in_round_trip_bytes(Pages::COLD), 8 * K),
        (profile.deregistered_in_round_trip_bytes(), M),
    ]
    .map(|(bytes, expected)| (powers(bytes, expected), Bound::About(0.0, 1.0)));
    let what = (
        "inside one round trip, T3: registration resident, cold; deregistration: powers of two above the paper's",
        "64 KB, 8 KB; 1 MB",
    );
    Ok(Row::new(what, Source::Model, "", &values))
}

fn parallel_registration() -> Result<Row, String> {
    let registration = Machine::CHELSIO_T3.profile.registration;
    let gain = |pages| registration.parallel_ns(4, M, pages, 1) / registration.parallel_ns(4, M, pages, 4);
    let values = [(gain(Pages::RESIDENT), Bound::AtLeast(2.0)), (gain(Pages::COLD), Bound::AtMost(1.2))];
    let what = ("four regions of 1 MiB on four cores over one: resident; cold", "gains; almost as expensive");
    Ok(Row::new(what, Source::Model, "x", &values))
}

fn huge_pages() -> Result<Row, String> {
    let registration = Machine::CHELSIO_T3.profile.registration;
    let huge = Pages { size: PageSize::Huge, are_resident: true };
    let saved = 100.0 * (1.0 - registration.ns(256 * M, huge) / registration.ns(256 * M, Pages::RESIDENT));
    let what = ("registration in huge pages below that in pages of 4 KiB, 256 MiB", "up to 40 %");
    Ok(Row::new(what, Source::Model, " %", &[(saved, Bound::About(40.0, 5.0))]))
}
