//! Check of the choice of copy kernels.

use superpipe_core::{Config, CopyKernel, FlagPlace, Layout};

use super::{Flow, alone, best_kernels, received_bytes};
use crate::nic::{DISTANCES_MAX, Distance, Distances};

/// Blocks after a change of the distance until the kernels must be right again. Where the chosen kernel takes as long as before, others have to be
/// tried, which is rare.
const LOST_BLOCKS: u64 = 600;
const LOST_BLOCKS_UNSEEN: u64 = 3500;

/// Share of what the best kernels would have moved since, that must be reached up to the end of each distance, in percent: on the average of all series, and in
/// each.
const SHARE_PERCENT: u64 = 90;
const SHARE_PERCENT_LEAST: u64 = 80;

/// Times that a check with noise is made, each with other noise: a single one passes or fails by chance.
const SERIES: u64 = 12;

/// Most changes of a kernel at each distance. Two ends choose for copies in and out, of one class of messages.
const CHANGES_MAX: u64 = 8;

/// Bytes and blocks of a message.
const MESSAGE_BYTES: u64 = 64 << 10;
const MESSAGE_BLOCKS: u64 = 16;

/// The machine is slower than real ones by eight, so that a run has fewer blocks; what kernels take beside each other is modelled on what was measured
/// (docs/performance.md, "The bare ring at each distance"). In the order of [`CopyKernel::ALL`].
const NEAR: Distance = Distance {
    copy_in_ns: [960, 987, 1440, 3200],
    copy_out_ns: [800, 813, 827, 2000],
    reuse_percent: [100; 3],
    lasts_ns: 6_000_000,
};
const APART: Distance = Distance {
    copy_in_ns: [2560, 2800, 1920, 4480],
    copy_out_ns: [1600, 1630, 1600, 2400],
    reuse_percent: [100; 3],
    lasts_ns: 14_000_000,
};
const FAR: Distance = Distance {
    copy_in_ns: [19_200, 19_700, 25_600, 4000],
    copy_out_ns: [3200, 3330, 3200, 4000],
    reuse_percent: [100; 3],
    lasts_ns: 50_000_000,
};
/// Nearer again, where streaming stores take as long as before, so that nothing but a trial of others shows it.
const NEARER_UNSEEN: Distance = Distance {
    copy_in_ns: [1200, 1230, 1500, 4000],
    copy_out_ns: [3200, 3330, 3200, 4000],
    reuse_percent: [100; 3],
    lasts_ns: 50_000_000,
};

/// The distances of the check, in their order, with the blocks that may be lost at each.
const STEPS: [(Distance, u64); DISTANCES_MAX] = [
    (NEAR, LOST_BLOCKS),
    (FAR, LOST_BLOCKS),
    (APART, LOST_BLOCKS),
    (FAR, LOST_BLOCKS),
    (NEARER_UNSEEN, LOST_BLOCKS_UNSEEN),
    (NEAR, LOST_BLOCKS),
];

fn flow() -> Flow {
    let flags = FlagPlace::Apart { group_blocks: 1 };
    Flow {
        layout: Layout { block_bytes: 4 << 10, block_count: 32, flags },
        config: Config { c0_bytes: 16 << 10, ..Config::default() },
        message_bytes: MESSAGE_BYTES,
    }
}

/// Returns the time of a block at a distance with this kernel for copies in, whichever end is the slower.
fn block_ns(distance: Distance, copy_in: CopyKernel) -> u64 {
    distance.copy_in_ns[copy_in as usize].max(distance.copy_out_ns[CopyKernel::Plain as usize])
}

/// The bytes that the best kernels would have moved up to the end of each distance, less what may be lost after each change.
fn expected_bytes(noise_percent: u64, outlier_one_in: u64) -> Result<[u64; DISTANCES_MAX], String> {
    const MESSAGES: u64 = 1200;
    let (mut sum, mut before) = (0, None);
    let mut expected = [0; DISTANCES_MAX];
    for (expected, (distance, lost_blocks)) in expected.iter_mut().zip(STEPS) {
        let [copy_in, copy_out] = best_kernels(distance);
        // With the same noise and outliers: what one end loses, the other one waits for.
        let best = flow().with_kernels(Some(copy_in), Some(copy_out));
        let message_ns = best.message_ns(alone(distance, noise_percent, outlier_one_in), MESSAGES)?;
        // A lost block takes as long as with what was best before.
        let slower =
            |before| block_ns(distance, before) * message_ns / (MESSAGE_BLOCKS * block_ns(distance, copy_in));
        let right_ns = distance
            .lasts_ns
            .checked_sub(lost_blocks * before.map_or(0, slower))
            .ok_or("the distance is too short for this check")?;
        sum += right_ns * MESSAGE_BYTES / message_ns;
        (*expected, before) = (sum, Some(copy_in));
    }
    Ok(expected)
}

/// Checks that the choice follows the distance. Each copy takes up to `noise_percent` percent more or less, and one in `outlier_one_in` 20
/// times as long; 0: none. Without noise there is one run, and else one for each of 12 series of noise.
///
/// # Errors
/// The report, if it was too slow, or changed too often.
pub fn check_kernels(noise_percent: u64, outlier_one_in: u64) -> Result<String, String> {
    let expected = expected_bytes(noise_percent, outlier_one_in)?;
    let [.., most_bytes] = expected;
    let count = if noise_percent == 0 { 1 } else { SERIES };
    let (mut sums, mut least, mut changes) = ([0; DISTANCES_MAX], [u64::MAX; DISTANCES_MAX], 0);
    for series in 0..count {
        let steps = STEPS.map(|(distance, _)| Some(distance));
        let distances = Distances { steps, noise_percent, outlier_one_in, series };
        // More than the best kernels move, so that it lasts as long as the distances.
        let outcome = flow().play(distances, most_bytes / MESSAGE_BYTES * 3 / 2)?;
        let mut end_ns = 0;
        for (index, (distance, _)) in STEPS.into_iter().enumerate() {
            end_ns += distance.lasts_ns;
            let percent = received_bytes(&outcome, end_ns) * 100 / expected[index].max(1);
            sums[index] += percent;
            least[index] = least[index].min(percent);
        }
        changes = changes.max(outcome.copy_changes);
    }
    let average = sums.map(|sum| sum / count);
    let text = format!(
        "{average:?} % of the best kernels up to each distance, {least:?} at least, {changes} changes at most"
    );
    let is_slow = average.iter().any(|percent| *percent < SHARE_PERCENT)
        || least.iter().any(|percent| *percent < SHARE_PERCENT_LEAST);
    match (is_slow, changes > CHANGES_MAX * STEPS.len() as u64) {
        (true, _) => Err(format!("too slow: {text}")),
        (false, true) => Err(format!("it flaps: {text}")),
        (false, false) => Ok(text),
    }
}

/// Frequencies of outliers that change nothing while the cores stay where they are.
const OUTLIERS: [u64; 12] = [8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 25, 30];
/// Most changes of all these runs together.
const OUTLIER_CHANGES_MAX: u64 = 4;
/// Most time of all of them, in percent of the time with the best kernels.
const OUTLIER_PERCENT_MAX: u64 = 102;
/// Messages of each of these runs.
const OUTLIER_MESSAGES: u64 = 400;

/// Checks that outliers change nothing.
///
/// # Errors
/// The report, if outliers changed too many kernels or cost too much time.
pub fn check_kernel_outliers() -> Result<String, String> {
    let (mut took_ns, mut best_ns, mut changes) = (0, 0, 0);
    let [copy_in, copy_out] = best_kernels(NEAR);
    for outlier_one_in in OUTLIERS {
        let distances = alone(NEAR, 3, outlier_one_in);
        best_ns +=
            flow().with_kernels(Some(copy_in), Some(copy_out)).play(distances, OUTLIER_MESSAGES)?.time_ns;
        let outcome = flow().play(distances, OUTLIER_MESSAGES)?;
        (took_ns, changes) = (took_ns + outcome.time_ns, changes + outcome.copy_changes);
    }
    let percent = took_ns * 100 / best_ns.max(1);
    let text = format!("{percent} % of the best time, {changes} changes in {} runs", OUTLIERS.len());
    if percent > OUTLIER_PERCENT_MAX || changes > OUTLIER_CHANGES_MAX { Err(text) } else { Ok(text) }
}
