//! The figures themselves, and how they came about.

use core::fmt::Write;

use super::super::data::Spread;
use super::super::text;
use super::data::{BARE_LATENCY, BARE_RATE, COPY, MODES, Measured, Series, Test, UCX};

pub(super) fn render(measured: &Measured) -> String {
    let mut section = String::new();
    for driver in measured.drivers() {
        for (test, title) in [
            (Test::Rate, "rate, MB/s of 10^6 bytes"),
            (Test::Latency, "half round trip, µs"),
            (Test::Connection, "a connection's first message, half round trip, µs"),
            (Test::First, "a process's first message, half round trip, µs"),
            (Test::Lossy, "rate between two hosts, 1 % of the packets lost, MB/s of 10^6 bytes"),
        ] {
            if let Some(table) = table(measured, driver, test) {
                let _ = writeln!(section, "### {driver}: {title}\n\n{table}");
            }
        }
    }
    let rows = |pairs: &[(String, String)], code: &str| -> Vec<Vec<String>> {
        let row = |(name, value): &(String, String)| vec![name.clone(), format!("{code}{value}{code}")];
        pairs.iter().map(row).collect()
    };
    let head = |names: [&str; 2]| names.map(str::to_owned);
    section += "### Versions and commands\n\n";
    let _ = writeln!(section, "{}", text::table(&head(["what", ""]), &rows(&measured.facts, "")));
    section += &text::table(
        &head(["contestant and test", "the client's command, the first time"]),
        &rows(&measured.commands, "`"),
    );
    section
}

/// A row a size, a column for each contestant that has figures.
fn table(measured: &Measured, driver: &str, test: Test) -> Option<String> {
    let sizes = measured.sizes(driver, test);
    let contestants: Vec<&str> = [BARE_RATE, BARE_LATENCY]
        .into_iter()
        .chain(MODES)
        .chain([UCX])
        .filter(|who| sizes.iter().any(|&bytes| measured.of(Series { driver, test, who, bytes }).is_some()))
        .collect();
    if contestants.is_empty() {
        return None;
    }
    let mut head = vec!["size".to_owned()];
    head.extend(contestants.iter().map(|&who| who.to_owned()));
    if test == Test::Rate {
        head.extend([COPY.to_owned(), "bound".to_owned()]);
    }
    let rows: Vec<Vec<String>> = sizes
        .iter()
        .map(|&bytes| {
            let mut row = vec![text::size(bytes)];
            row.extend(contestants.iter().map(|who| told(measured.of(Series { driver, test, who, bytes }))));
            if test == Test::Rate {
                row.push(told(measured.of(Series { driver, test: Test::Copy, who: COPY, bytes })));
                row.push(told(measured.spread(|round| measured.bound(round, driver, bytes))));
            }
            row
        })
        .collect();
    Some(text::table(&head, &rows))
}

fn told(spread: Option<Spread>) -> String {
    let Some(Spread { median, min, max, .. }) = spread else { return "-".to_owned() };
    let [median, min, max] = [median, min, max].map(text::digits);
    format!("{median} ({min} to {max})")
}
