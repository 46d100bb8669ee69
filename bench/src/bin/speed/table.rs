//! The table for people.

use core::fmt::Write;

use superpipe_bench::stats::median;

use crate::{Standing, range, times_limit};

/// One line an entrant: its rounds' medians in µs, the rate at their median, and how it compares with the limit.
pub(crate) fn render(standings: &[Standing]) -> String {
    let mut text = format!(
        "{:<26}{:<22}{:>11}{:>11}{:>11}{:>9}{:>9}{:>16}{:>8}  tuned\n",
        "contest", "entrant", "median us", "min us", "max us", "GB/s", "x limit", "min..max", "aim"
    );
    for standing in standings {
        let (min_us, max_us) = range(&standing.rounds_us);
        let ratios = times_limit(standing, standings);
        let (ratio_min, ratio_max) = range(&ratios);
        let aim = standing.contest.aim_times_limit.map_or_else(|| "-".to_owned(), |aim| format!("{aim:.3}"));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<26}{:<22}{:>11.4}{min_us:>11.4}{max_us:>11.4}{:>9.2}{:>9.3}{:>16}{aim:>8}  {}",
            standing.contest.name,
            standing.entrant.name,
            standing.median_us(),
            f64::from(standing.contest.bytes) / (standing.median_us() * 1000.0),
            median(&ratios),
            format!("{ratio_min:.3}..{ratio_max:.3}"),
            standing.tuned.join(" "),
        );
    }
    text
}
