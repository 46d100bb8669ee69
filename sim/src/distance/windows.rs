//! Check of the choice of the window: a connection under which the distance of the two cores changes is soon about as fast as one whose window and kernels
//! were the best at each distance. docs/testing.md, "Distance".

use superpipe_core::{Config, CopyKernel, FlagPlace, Layout};

use super::{Flow, alone, best_kernels, received_bytes};
use crate::nic::{DISTANCES_MAX, Distance, Distances};

/// Nanoseconds after a change of the distance until the window must be right again.
const LOST_NS: u64 = 50_000_000;
/// Nanoseconds for which the rate is judged then.
const JUDGED_NS: u64 = 30_000_000;
const LASTS_NS: u64 = LOST_NS + JUDGED_NS;

/// Share of the best rate, in percent: on the average of all series, and in each.
const SHARE_PERCENT: u64 = 90;
const SHARE_PERCENT_LEAST: u64 = 80;

/// Series with noise: a run takes three times as long as one of the check of kernels.
const SERIES: u64 = 6;

/// Bytes of a message: 64 blocks, so that a class of messages fills every window but the largest.
const MESSAGE_BYTES: u64 = 256 << 10;

/// The landing buffer, and the smallest window: 512, 128 and 32 KiB are chosen among.
const LAYOUT: Layout =
    Layout { block_bytes: 4 << 10, block_count: 128, flags: FlagPlace::Apart { group_blocks: 4 } };
const WINDOWS: [u32; 3] = [512 << 10, 128 << 10, 32 << 10];

/// Most changes of the window at each distance.
const CHANGES_MAX: u64 = 4;

/// Cores that share a small cache: the smallest window is the best one. The machine is slower than real ones by eight, so that a run has fewer blocks.
const NEAR: Distance = Distance {
    copy_in_ns: [960, 987, 1440, 3200],
    copy_out_ns: [800, 813, 827, 2000],
    reuse_percent: [100, 120, 140],
    lasts_ns: LASTS_NS,
};
/// Lines that the other core still holds are slow to write: the largest window is the best one.
const APART: Distance = Distance {
    copy_in_ns: [1900, 2100, 1440, 3300],
    copy_out_ns: [1200, 1222, 1200, 1800],
    reuse_percent: [250, 160, 100],
    lasts_ns: LASTS_NS,
};
/// Between both.
const MIDDLE: Distance = Distance {
    copy_in_ns: [1500, 1540, 1900, 3300],
    copy_out_ns: [1200, 1230, 1250, 2200],
    reuse_percent: [140, 100, 160],
    lasts_ns: LASTS_NS,
};
/// Streaming stores are best, and the window makes no difference.
const FAR: Distance = Distance {
    copy_in_ns: [9600, 9850, 12_800, 2500],
    copy_out_ns: [1600, 1665, 1600, 2000],
    reuse_percent: [100; 3],
    lasts_ns: LASTS_NS,
};

/// The distances of the check, in their order.
const STEPS: [Distance; DISTANCES_MAX] = [NEAR, APART, MIDDLE, NEAR, FAR, APART];

fn flow(window_bytes: Option<u32>) -> Flow {
    let [.., least_window_bytes] = WINDOWS;
    let config = Config { window_bytes, least_window_bytes, c0_bytes: 16 << 10, ..Config::default() };
    Flow { layout: LAYOUT, config, message_bytes: MESSAGE_BYTES }
}

/// Returns the time of a message at a distance with these kernels and the window that is best, on the average of series of noise: the best of single ones
/// would be the one with the least noise.
fn best_ns(distances: Distances, [copy_in, copy_out]: [CopyKernel; 2]) -> Result<u64, String> {
    const MESSAGES: u64 = 150;
    let count = if distances.noise_percent == 0 { 1 } else { SERIES };
    let mut best = u64::MAX;
    for window in WINDOWS {
        let flow = flow(Some(window)).with_kernels(Some(copy_in), Some(copy_out));
        let mut sum = 0;
        for series in 0..count {
            sum += flow.message_ns(Distances { series, ..distances }, MESSAGES)?;
        }
        best = best.min(sum / count);
    }
    Ok(best)
}

/// Checks that the window follows the distance, and the kernels, unless `copies` gives one for all. Each copy takes up to `noise_percent`
/// percent more or less, and one in `outlier_one_in` 20 times as long; 0: none. Without noise there is one run, and else one for each of 6
/// series of noise.
///
/// # Errors
/// The report, if it was too slow, or changed too often.
pub fn check_windows(
    noise_percent: u64,
    outlier_one_in: u64,
    copies: Option<CopyKernel>,
) -> Result<String, String> {
    let mut best = [0; DISTANCES_MAX];
    for (best, distance) in best.iter_mut().zip(STEPS) {
        // An outlier of one end is felt by the other one, and more so in a smaller window: the best choice is the best one with outliers.
        let kernels = copies.map_or_else(|| best_kernels(distance), |kernel| [kernel; 2]);
        *best = best_ns(alone(distance, noise_percent, outlier_one_in), kernels)?;
    }
    // As many as the best choices would move, and a few more: the run lasts as long as the distances.
    let messages = best.iter().map(|best| LASTS_NS / best).sum::<u64>() * 5 / 4;
    let count = if noise_percent == 0 { 1 } else { SERIES };
    let (mut sums, mut least, mut changes) = ([0; DISTANCES_MAX], [u64::MAX; DISTANCES_MAX], 0);
    for series in 0..count {
        let distances = Distances { steps: STEPS.map(Some), noise_percent, outlier_one_in, series };
        let outcome = flow(None).with_kernels(copies, copies).play(distances, messages)?;
        for (index, best) in best.into_iter().enumerate() {
            let end = (index as u64 + 1) * LASTS_NS;
            let moved = received_bytes(&outcome, end) - received_bytes(&outcome, end - JUDGED_NS);
            let percent = moved * 100 * best / (JUDGED_NS * MESSAGE_BYTES);
            sums[index] += percent;
            least[index] = least[index].min(percent);
        }
        changes = changes.max(outcome.window_changes);
    }
    let average = sums.map(|sum| sum / count);
    let text = format!(
        "{average:?} % of the best rate, {least:?} at least, {changes} changes of the window at most"
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
const OUTLIERS: [u64; 6] = [8, 10, 12, 15, 20, 30];
/// Most changes of the window of all these runs together, and most time in percent of the time with the best choices.
const OUTLIER_CHANGES_MAX: u64 = 2;
const OUTLIER_PERCENT_MAX: u64 = 106;
/// Messages of each of these runs.
const OUTLIER_MESSAGES: u64 = 300;

/// Checks that outliers change no window.
///
/// # Errors
/// The report, if outliers changed too many windows or cost too much time.
pub fn check_window_outliers() -> Result<String, String> {
    let (mut took_ns, mut best_ns, mut changes) = (0, 0, 0);
    // The start is the best window, so each change is an error.
    let distance = Distance { reuse_percent: [150, 130, 100], ..NEAR };
    // The choice of windows sees changes of costs by itself then.
    let [copy_in, copy_out] = best_kernels(distance).map(Some);
    for outlier_one_in in OUTLIERS {
        let distances = alone(distance, 3, outlier_one_in);
        let [window, ..] = WINDOWS;
        let best = flow(Some(window)).with_kernels(copy_in, copy_out);
        best_ns += best.play(distances, OUTLIER_MESSAGES)?.time_ns;
        let outcome = flow(None).with_kernels(copy_in, copy_out).play(distances, OUTLIER_MESSAGES)?;
        (took_ns, changes) = (took_ns + outcome.time_ns, changes + outcome.window_changes);
    }
    let percent = took_ns * 100 / best_ns.max(1);
    let text =
        format!("{percent} % of the best time, {changes} changes of the window in {} runs", OUTLIERS.len());
    if percent > OUTLIER_PERCENT_MAX || changes > OUTLIER_CHANGES_MAX { Err(text) } else { Ok(text) }
}
