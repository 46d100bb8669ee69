//! Recordings of played connections hold the same bytes in and out, each once, in order of time;
//! and that recording changes nothing.

use std::collections::BTreeMap;

use superpipe_core::recorder::{CAPACITY, Record, Recorder, Step};
use superpipe_core::{Arrival, Config, Counters, FlagPlace, Layout, Origin, Protocol};
use superpipe_testkit::pair::{Content, ReceiveMethod, Script, SendMethod, Transfer};
use superpipe_testkit::{Direct, Pair, Posted, Setup, TestFabric};

/// Bytes of messages in lines, and of those in chunks.
const LINES: [usize; 5] = [0, 8, 40, 41, 104];
const CHUNKS: [usize; 5] = [105, 300, 2000, 4096, 20_000];

/// Returns the bytes of the messages in lines: in two lines where those lie apart.
fn in_lines(arrival: Arrival, flags: FlagPlace) -> &'static [usize] {
    if arrival == Arrival::Flag && flags != FlagPlace::Inside { &LINES } else { &LINES[..3] }
}

fn script(arrival: Arrival, flags: FlagPlace) -> Script {
    let layout = Layout { block_bytes: 512, block_count: 12, flags };
    let setup = Setup { order_inside_write: arrival == Arrival::Flag, ..Setup::new(layout, 11) };
    let config = Config { arrival, c0_bytes: 600, ..Config::default() };
    let ways = [
        (SendMethod::TrySend(2), ReceiveMethod::Pull(3000, 2)),
        (SendMethod::Push(1500, 3), ReceiveMethod::InPlace(900)),
        (SendMethod::Reserve(700), ReceiveMethod::Pull(50, 1)),
    ];
    let transfers = || {
        let mut transfers = Vec::new();
        for (send_method, receive_method) in ways {
            for bytes in in_lines(arrival, flags).iter().copied().chain(CHUNKS) {
                // Lines are sent at once; all else would make a chunk of them.
                let send_method = if bytes <= 104 { SendMethod::TrySend(2) } else { send_method };
                let (content, protocol) = (Content::Random, Protocol::Superpipeline);
                transfers.push(Transfer {
                    bytes,
                    stream: false,
                    content,
                    protocol,
                    send_method,
                    receive_method,
                    cancel_at: None,
                });
            }
        }
        transfers
    };
    let origin = Origin { sequence: u64::MAX - 20, blocks: u64::MAX - 30, ..Origin::default() };
    Script {
        setup,
        configs: [config; 2],
        origin,
        transfers: [transfers(), transfers()],
        slowness: [1, 3],
        windows: false,
    }
}

/// Plays it; what was recorded and counted at each end.
fn played<F: TestFabric>(script: &Script, recorded: bool) -> ([Vec<Record>; 2], [Counters; 2]) {
    let mut pair = Pair::<F>::new(script.clone());
    if recorded {
        *pair.fabric.recorders() = [Some(Box::new(Recorder::new())), Some(Box::new(Recorder::new()))];
    }
    pair.play();
    let records = pair.fabric.recorders().each_mut().map(|recorder| {
        let take = || recorder.as_mut().and_then(|recorder| recorder.take());
        core::iter::from_fn(take).collect::<Vec<_>>()
    });
    (records, [pair.ends[0].counters(), pair.ends[1].counters()])
}

/// The sum of `bytes` for each key that `find` gives.
fn sums<K: Ord>(records: &[Record], find: impl Fn(Step) -> Option<(K, usize)>) -> BTreeMap<K, usize> {
    let mut sums = BTreeMap::new();
    for (key, bytes) in records.iter().filter_map(|record| find(record.step)) {
        *sums.entry(key).or_insert(0) += bytes;
    }
    sums
}

/// Keys that come once, with their time.
fn times<K: Ord>(records: &[Record], find: impl Fn(Step) -> Option<K>) -> BTreeMap<K, Record> {
    let mut times = BTreeMap::new();
    for record in records {
        if let Some(key) = find(record.step) {
            assert!(times.insert(key, *record).is_none(), "twice: {record:?}");
        }
    }
    times
}

/// Returns the fields of the steps of this kind.
macro_rules! of {
    ($kind:pat => $what:expr) => {
        |step| if let $kind = step { Some($what) } else { None }
    };
}

fn a_recording_is_consistent<F: TestFabric>(arrival: Arrival, flags: FlagPlace) {
    let script = script(arrival, flags);
    let (records, counters) = played::<F>(&script, true);
    assert_eq!(counters, played::<F>(&script, false).1, "recording changes nothing");
    for side in 0..2 {
        let (mine, theirs) = (&records[side], &records[1 - side]);
        assert!(mine.len() < CAPACITY, "nothing was pushed out");
        assert!(mine.iter().all(|record| record.begin <= record.end));
        assert!(mine.is_sorted_by_key(|record| record.end));
        every_byte_goes_in_once_and_out_once(mine, theirs, in_lines(arrival, flags));
        what_is_posted_is_completed(mine, if F::DIRECT { 0 } else { counters[side].chunks_sent });
        transfers_begin_and_end(mine, theirs);
        // A device may carry a newer acknowledgement than was posted: with direct store it is the one that was written.
        for record in mine.iter().filter(|_| F::DIRECT) {
            if let Step::AckIn { blocks } = record.step {
                let wrote =
                    |other: &Record| other.step == Step::AckOut { blocks } && other.begin < record.begin;
                assert!(theirs.iter().any(wrote), "{record:?}");
            }
        }
    }
}

/// For each chunk and each line; and no block is taken out before it was begun to be put in.
fn every_byte_goes_in_once_and_out_once(sent: &[Record], received: &[Record], lines: &[usize]) {
    let into_blocks = sums(sent, of!(Step::CopyIn { sequence, bytes, .. } => (sequence, bytes as usize)));
    let out_of_blocks =
        sums(received, of!(Step::CopyOut { sequence, bytes, .. } => (sequence, bytes as usize)));
    assert_eq!(into_blocks.values().sum::<usize>(), 3 * CHUNKS.iter().sum::<usize>());
    assert_eq!(into_blocks, out_of_blocks);
    let in_lines = sums(sent, of!(Step::LineOut { sequence, bytes } => (sequence, bytes)));
    let out_of_lines = sums(received, of!(Step::LineIn { sequence, bytes } => (sequence, bytes)));
    assert_eq!((in_lines.len(), in_lines.values().sum()), (3 * lines.len(), 3 * lines.iter().sum::<usize>()));
    assert_eq!(in_lines, out_of_lines);
    let begun = times(sent, of!(Step::CopyIn { block, .. } => block));
    for record in received {
        if let Step::CopyOut { block, .. } = record.step {
            // The last that begins there or before, also where the count has wrapped.
            let filled = begun.range(..=block).next_back().or_else(|| begun.last_key_value());
            assert!(filled.is_some_and(|(_, filled)| filled.begin < record.begin), "{record:?}");
        }
    }
}

fn what_is_posted_is_completed(sent: &[Record], expected: u64) {
    let posts = times(sent, of!(Step::Post { sequence, .. } => sequence));
    let completions = times(sent, of!(Step::Complete { sequence } => sequence));
    assert_eq!(posts.len() as u64, expected);
    assert!(posts.keys().eq(completions.keys()));
    assert!(posts.values().zip(completions.values()).all(|(post, done)| post.end < done.begin));
}

fn transfers_begin_and_end(sent: &[Record], received: &[Record]) {
    let begins = times(sent, of!(Step::SendBegin { transfer, .. } => transfer));
    let ends = times(sent, of!(Step::SendEnd { transfer } => transfer));
    assert_eq!(begins.len(), 3 * CHUNKS.len());
    assert!(begins.keys().eq(ends.keys()));
    assert!(begins.values().zip(ends.values()).all(|(begin, end)| begin.end < end.begin));
    let seen = times(received, of!(Step::ReceiveBegin { transfer, .. } => transfer));
    let taken = times(received, of!(Step::ReceiveEnd { transfer } => transfer));
    assert!(begins.keys().all(|transfer| seen.contains_key(transfer) && taken.contains_key(transfer)));
}

#[test]
fn direct() {
    a_recording_is_consistent::<Direct>(Arrival::Flag, FlagPlace::Apart { group_blocks: 1 });
    a_recording_is_consistent::<Direct>(Arrival::Flag, FlagPlace::Apart { group_blocks: 4 });
    a_recording_is_consistent::<Direct>(Arrival::CheckedFlag, FlagPlace::Apart { group_blocks: 2 });
    a_recording_is_consistent::<Direct>(Arrival::CheckedFlag, FlagPlace::Inside);
}

#[test]
fn posted() {
    a_recording_is_consistent::<Posted>(Arrival::Flag, FlagPlace::Inside);
    a_recording_is_consistent::<Posted>(Arrival::CheckedFlag, FlagPlace::Inside);
    a_recording_is_consistent::<Posted>(Arrival::Notify, FlagPlace::Inside);
}
