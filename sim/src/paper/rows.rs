//! The rows of the table: each a short experiment.

use superpipe_core::plan::{ChunkedCopy, Chunks, Machine, PageSize, Pages, Start};
use superpipe_core::{Config, FlagPlace, Layout, Protocol};

use super::experiment::{BLOCK_BYTES, Experiment};
use super::ping_pong::Buffers;
use super::row::{Bound, Row, Source};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// Makes a row.
pub(super) type MakeRow = fn() -> Result<Row, String>;

/// The rows, in the order of the table.
pub(super) const ROWS: [MakeRow; 17] = [
    registration_64k,
    registration_large,
    copy_large,
    chunks_of_one_size,
    optimal_chunks,
    growing_chunks,
    folded_chunks,
    optimal_chunk_is_best,
    first_superpipeline,
    first_register_cached,
    never_reused,
    pipelined_registration,
    flags,
    critical_sizes,
    inside_a_round_trip,
    parallel_registration,
    huge_pages,
];

fn on_graphene(protocol: Protocol, buffers: Buffers, bytes: u64) -> Experiment {
    Experiment::on(&Machine::GRAPHENE, protocol, buffers, bytes, Config::default())
}

/// Returns the time of a message out of memory that is registered into memory that is registered: the raw write of the papers, after the rendezvous that tells the
/// sender where to write.
fn register_cached_ns(bytes: u64) -> Result<f64, String> {
    on_graphene(Protocol::RegisterCached, Buffers::Registered, bytes).ns()
}

fn register_ns(bytes: u64) -> Result<f64, String> {
    on_graphene(Protocol::Register, Buffers::Lent, bytes).ns()
}

fn superpipeline(bytes: u64) -> Experiment {
    on_graphene(Protocol::Superpipeline, Buffers::Unnamed, bytes)
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
    let lost = below(register_ns(64 * K)?, register_cached_ns(64 * K)?);
    let what = ("register below register-cached with hits, 64 KiB, graphene", "as much as 60 %");
    Ok(Row::new(what, Source::Run, " %", &[(lost, Bound::About(65.0, 5.0))]))
}

fn registration_large() -> Result<Row, String> {
    let share = of_wire(64 * M, register_ns(64 * M)?);
    let what = ("register, 64 MiB, graphene, of B_net", "91 %");
    Ok(Row::new(what, Source::FittedRun, " %", &[(share, Bound::About(91.0, 1.0))]))
}

fn copy_large() -> Result<Row, String> {
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
fn pipeline(bytes: u64, chunk_bytes: u32) -> Experiment {
    let config = Config { chunk_bytes, ..Config::default() };
    Experiment::on(&Machine::GRAPHENE, Protocol::Pipeline, Buffers::Unnamed, bytes, config)
}

/// Returns C_opt on `graphene`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred KiB")]
fn optimal_chunk(bytes: u64) -> u32 {
    Machine::GRAPHENE.profile.optimal_chunk_bytes(bytes) as u32
}

/// Returns the exponent by which the number of chunks grows from 16 to 64 MiB.
fn exponent(experiment: impl Fn(u64) -> Experiment) -> Result<f64, String> {
    let count = |bytes| experiment(bytes).chunks();
    Ok((count(64 * M)? / count(16 * M)?).log2() / 2.0)
}

fn chunks_of_one_size() -> Result<Row, String> {
    let value = exponent(|bytes| pipeline(bytes, 64 << 10))?;
    let what = ("gaps: exponent of L, pipeline, chunks of 64 KiB, 16 to 64 MiB", "O(L)");
    Ok(Row::new(what, Source::Run, "", &[(value, Bound::About(1.0, 0.05))]))
}

fn optimal_chunks() -> Result<Row, String> {
    let value = exponent(|bytes| pipeline(bytes, optimal_chunk(bytes)))?;
    let what = ("gaps: exponent of L, pipeline, chunks of C_opt", "O(√L)");
    Ok(Row::new(what, Source::Run, "", &[(value, Bound::About(0.5, 0.05))]))
}

fn growing_chunks() -> Result<Row, String> {
    let more = superpipeline(64 * M).chunks()? - superpipeline(16 * M).chunks()?;
    let what = ("gaps: superpipeline, q = 1.5, chunks more in 64 MiB than in 16", "O(log L): log_q 4 = 3.4");
    Ok(Row::new(what, Source::Run, "", &[(more, Bound::About(3.4, 1.0))]))
}

fn folded_chunks() -> Result<Row, String> {
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
fn optimal_chunk_is_best() -> Result<Row, String> {
    let chunk = optimal_chunk(M);
    let ns = |chunk| pipeline(M, chunk).ns();
    let best = ns(chunk)?;
    let values = [ns(chunk / 2)? / best, ns(2 * chunk)? / best].map(|times| (times, Bound::AtLeast(1.0)));
    let what = ("pipeline, 1 MiB: half of C_opt, and twice, over C_opt", "equation 3 is the minimum");
    Ok(Row::new(what, Source::Run, "x", &values))
}

/// Twenty messages through a landing buffer of 512 KiB, so that the later ones begin at any block of it.
fn first_superpipeline() -> Result<Row, String> {
    let mut values = Vec::new();
    for bytes in [64 * K, 256 * K, M, 8 * M] {
        let experiment = superpipeline(bytes);
        let config = Config { folds: 3, ..experiment.config };
        let folded = Experiment { config, landing_bytes: Some(512 * K), ..experiment };
        let times = folded.times(20)?;
        let [first, best] = [times[0], times.into_iter().fold(f64::INFINITY, f64::min)];
        values.push((100.0 * best / first, Bound::AtLeast(98.0)));
    }
    let what = (
        "superpipeline, first message of 20 against the best: 64 KiB, 256 KiB, 1 MiB, 8 MiB, resident",
        "the best already at the first send",
    );
    Ok(Row::new(what, Source::Run, " %", &values))
}

fn first_register_cached() -> Result<Row, String> {
    let mut values = Vec::new();
    for (bytes, percent) in [(64 * K, 32.0), (256 * K, 62.0), (M, 81.0), (8 * M, 90.0)] {
        let share = 100.0 * register_cached_ns(bytes)? / register_ns(bytes)?;
        values.push((share, Bound::About(percent, 5.0)));
    }
    let what = (
        "register-cached, a miss (which is register) against a hit, the same sizes",
        "first send: low performance because of registration",
    );
    Ok(Row::new(what, Source::Run, " %", &values))
}

/// As NAS IS: buffers that are never used again. Deregistration is off the path. The share of its time in which an application must communicate so that this
/// makes it 1.09 times as fast.
fn never_reused() -> Result<Row, String> {
    let times = register_ns(8 * M)? / superpipeline(8 * M).ns()?;
    let share = 100.0 * (1.0 - 1.0 / 1.09) / (1.0 - 1.0 / times);
    let what = ("register over superpipeline, 8 MiB, buffers never used again", "IS as a whole: 1.09x");
    let ratio = Row::new(what, Source::Run, "x", &[(times, Bound::AtLeast(1.09))]);
    let share = Row::new(("", ""), Source::Run, " % of its time", &[(share, Bound::AtMost(100.0))]);
    Ok(Row {
        got: format!("{}; IS gains 1.09x if it communicates for {}", ratio.got, share.got),
        is_met: ratio.is_met && share.is_met,
        ..ratio
    })
}

/// What is expected is from this model: Denis gives no numbers.
fn pipelined_registration() -> Result<Row, String> {
    let profile = Machine::GRAPHENE.profile;
    let mut values = Vec::new();
    for (bytes, registered, copied) in [(256 * K, 38.0, 3.0), (M, 13.0, 1.0), (8 * M, 2.0, 0.2)] {
        let raw = profile.register_cached_ns(bytes, Pages::RESIDENT, Start::Raw, 1.0);
        let ns = profile.pipelined_registration_ns(bytes, Pages::RESIDENT, Start::Raw);
        values.push((below(ns, raw), Bound::About(registered, 2.0)));
        let ns = ChunkedCopy::superpipeline(bytes, Chunks::HARDWIRED, Start::Raw).ns(&profile);
        values.push((below(ns, raw), Bound::About(copied, 0.5)));
    }
    let what = (
        "pipelined registration, and then superpipeline, below a raw write: 256 KiB, 1 MiB, 8 MiB",
        "pipelining copies is better",
    );
    Ok(Row::new(what, Source::Model, " %", &values))
}

/// The flags of blocks alone. A chunk also has a header in a slot line of 64 bytes, flag included.
fn flags() -> Result<Row, String> {
    let layout = Layout { block_bytes: BLOCK_BYTES, block_count: 64, flags: FlagPlace::Inside };
    let block = f64::from(layout.capacity(2) - layout.capacity(1));
    let share = 100.0 * (1.0 - block / f64::from(BLOCK_BYTES));
    let what = ("flag of a block of 4 KiB (a chunk has a header of 64 B besides)", "under 0.2 %");
    Ok(Row::new(what, Source::Layout, " %", &[(share, Bound::AtMost(0.2))]))
}

/// Returns a size in KiB, which must be that of the paper within a power of two.
fn within_a_power(bytes: u64, paper: u64) -> (f64, Bound) {
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    (kib(bytes), Bound::Between(kib(paper / 2), kib(paper * 2)))
}

fn critical_sizes() -> Result<Row, String> {
    let critical = |pages| Machine::CHELSIO_T3.profile.critical_bytes(pages).ok_or("no critical size");
    let values =
        [within_a_power(critical(Pages::RESIDENT)?, 256 * K), within_a_power(critical(Pages::COLD)?, 32 * K)];
    let what = ("critical size, T3: resident; source and destination cold", "256 KB; 32 KB");
    Ok(Row::new(what, Source::FittedModel, " KiB", &values))
}

fn inside_a_round_trip() -> Result<Row, String> {
    let profile = Machine::CHELSIO_T3.profile;
    let values = [
        within_a_power(profile.registered_in_round_trip_bytes(Pages::RESIDENT), 64 * K),
        within_a_power(profile.registered_in_round_trip_bytes(Pages::COLD), 8 * K),
        within_a_power(profile.deregistered_in_round_trip_bytes(), M),
    ];
    let what =
        ("inside one round trip, T3: registration resident, cold; deregistration", "64 KB, 8 KB; 1 MB");
    Ok(Row::new(what, Source::FittedModel, " KiB", &values))
}

fn parallel_registration() -> Result<Row, String> {
    let registration = Machine::CHELSIO_T3.profile.registration;
    let gain = |pages| registration.parallel_ns(4, M, pages, 1) / registration.parallel_ns(4, M, pages, 4);
    let values = [(gain(Pages::RESIDENT), Bound::AtLeast(2.0)), (gain(Pages::COLD), Bound::AtMost(1.2))];
    let what = (
        "four regions of 1 MiB registered by four cores, over one: resident; cold",
        "gains; almost as expensive",
    );
    Ok(Row::new(what, Source::FittedModel, "x", &values))
}

fn huge_pages() -> Result<Row, String> {
    let registration = Machine::CHELSIO_T3.profile.registration;
    let huge = Pages { size: PageSize::Huge, are_resident: true };
    let saved = 100.0 * (1.0 - registration.ns(256 * M, huge) / registration.ns(256 * M, Pages::RESIDENT));
    let what = ("registration in huge pages below that in pages of 4 KiB, 256 MiB", "up to 40 %");
    Ok(Row::new(what, Source::FittedModel, " %", &[(saved, Bound::About(40.0, 5.0))]))
}
