//! The table of the wait strategies.

use std::collections::BTreeMap;

use super::data::{Measured, Spread};
use super::text;

/// One line for each strategy, placement and measurement: the medians of the rounds.
pub(super) fn table(measured: &Measured) -> String {
    let mut groups: BTreeMap<(String, usize, String, usize, String), Vec<usize>> = BTreeMap::new();
    // As the strategies come first in the file, so they do here.
    let mut order = Vec::new();
    for (index, row) in measured.waiting.iter().enumerate() {
        let at = order.iter().position(|wait| *wait == row.wait).unwrap_or_else(|| {
            order.push(row.wait.clone());
            order.len() - 1
        });
        let (amount, what) = match (row.bytes, row.pause_us) {
            (Some(bytes), _) => (bytes, format!("{} half round trip", text::size(bytes))),
            (None, Some(pause_us)) => {
                let pause_us = usize::try_from(pause_us).unwrap_or(usize::MAX);
                (pause_us, format!("wake-up after {pause_us} µs"))
            }
            (None, None) => (0, row.test.clone()),
        };
        groups.entry((row.test.clone(), amount, row.placement.clone(), at, what)).or_default().push(index);
    }
    let rows: Vec<Vec<String>> = groups
        .into_iter()
        .filter_map(|((_, _, placement, at, what), indices)| {
            let spread = |value: fn(&crate::raw::Waiting) -> f64| {
                Spread::new(&indices.iter().map(|&index| value(&measured.waiting[index])).collect::<Vec<_>>())
            };
            let percent = |spread: Spread| format!("{:.0} %", spread.median);
            Some(vec![
                what,
                placement,
                order[at].clone(),
                text::time(spread(|row| row.p50_us)?),
                text::time(spread(|row| row.p99_us)?),
                percent(spread(|row| row.client_cpu_percent)?),
                percent(spread(|row| row.server_cpu_percent)?),
            ])
        })
        .collect();
    let head = ["what", "where", "strategy", "median", "99 %", "client's CPU", "server's CPU"];
    text::table(&head.map(str::to_owned), &rows)
}
