//! The tables of figures.

use core::fmt::Write;

use super::{Measured, text};
use crate::class::Class;
use crate::figures::{Contestant, Kind, Series};
use crate::plan::{ADVISED, CONNECTION, LATENCY, PLAIN, Part, REUSED, STREAM, SUPERPIPE};

/// Places that share a table, by what it is called.
type Group = (&'static str, &'static [&'static str]);

/// One column of a contest.
struct Column<'a> {
    title: String,
    contestant: &'a Contestant,
    place: &'static str,
}

impl Column<'_> {
    fn series<'a>(&'a self, test: &'a str, size: usize) -> Series<'a> {
        Series { test, who: &self.contestant.id, place: self.place, size }
    }
}

/// A contestant's title with what superpipe knows of the destination.
pub(super) fn title(contestant: &Contestant, place: &str) -> String {
    let suffix = match place {
        SUPERPIPE => ", its own",
        ADVISED => ", advised",
        PLAIN if contestant.kind == Kind::Superpipe => ", not told",
        _ => "",
    };
    format!("{}{suffix}", contestant.title)
}

/// Renders where a peer is ahead of superpipe over shared memory, or that none is.
pub(super) fn ahead(parts: &[Measured]) -> String {
    let mut rows = Vec::new();
    for measured in parts.iter().filter(|measured| measured.part.is_contest()) {
        for class in measured.figures.classes() {
            for test in [LATENCY, STREAM] {
                for (_, places) in groups(measured.part) {
                    for size in measured.figures.sizes(test, places) {
                        rows.extend(row_ahead(measured, class, test, places, size));
                    }
                }
            }
        }
    }
    let head = ["test", "size", "buffers", "rounds", "ahead", "its time", "superpipe's", "superpipe is"];
    let table = text::table(&head, &rows);
    let text = if rows.is_empty() { "Nowhere, of what was measured.\n" } else { &table };
    format!("## Where a peer is ahead\n\n{text}")
}

fn row_ahead(
    measured: &Measured,
    class: Class,
    test: &'static str,
    places: &'static [&'static str],
    size: usize,
) -> Option<Vec<String>> {
    let columns = columns(measured, test, places);
    let own = columns.iter().filter(|column| column.contestant.kind == Kind::Superpipe);
    let own = own.filter_map(|column| {
        let own = column.series(test, size);
        Some((own, measured.figures.spread(class, own)?))
    });
    let (own, own_us) = own.min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let (peer, peers) = measured.best_peer(class, own)?;
    let peer_us = measured.figures.spread(class, peers)?;
    if own_us.median <= peer_us.median {
        return None;
    }
    let speed = measured.speed(class, own, peers)?;
    Some(vec![
        text::test(test).to_owned(),
        text::size(size),
        text::place(own),
        text::rounds(class, own_us.count),
        format!("**{peer}**"),
        text::time(peer_us),
        text::time(own_us),
        format!("{:.2}x as fast ({:.2} to {:.2})", speed.median, speed.min, speed.max),
    ])
}

const fn groups(part: Part) -> &'static [Group] {
    match part {
        Part::Rdma => &[("rxe", &["rxe"]), ("siw", &["siw"])],
        Part::Cold => &[("cold destination", &[SUPERPIPE, ADVISED, PLAIN])],
        _ => &[("reused buffers", &[REUSED])],
    }
}

/// Renders every table of a contest: a row per size, a column per contestant.
pub(super) fn contest(measured: &Measured, level: &str) -> String {
    let mut section = String::new();
    let tests: &[(&str, &str)] = match measured.part {
        Part::Rdma => &[
            ("rate", "rate, MB/s"),
            (LATENCY, "half round trip"),
            (CONNECTION, "first message of a connection, half round trip"),
            ("first", "first message of a process, half round trip"),
            ("lossy", "rate between two hosts, 1 % of the packets lost, MB/s"),
        ],
        _ => &[(LATENCY, "half round trip"), (STREAM, "streaming, GB/s at the receiver")],
    };
    for class in measured.figures.classes() {
        for &(place, places) in groups(measured.part) {
            for &(test, what) in tests {
                let columns = columns(measured, test, places);
                let sizes = measured.figures.sizes(test, places);
                let rows: Vec<_> =
                    sizes.iter().map(|&size| row(measured, &columns, class, test, size)).collect();
                let head = ["size".to_owned(), "fastest".to_owned()].into_iter();
                let head: Vec<_> = head.chain(columns.into_iter().map(|column| column.title)).collect();
                let rounds = text::rounds(class, measured.figures.round_count(class));
                let table = text::table(&head, &rows);
                let _ = writeln!(section, "{level} {what}, {place}, {rounds}\n\n{table}");
            }
        }
    }
    section
}

/// The columns that have figures of a test.
fn columns<'a>(measured: &'a Measured, test: &str, places: &'static [&'static str]) -> Vec<Column<'a>> {
    let mut columns = Vec::new();
    for contestant in &measured.figures.contestants {
        for &place in places {
            let mut series = measured.figures.series(test);
            if series.any(|series| (series.who, series.place) == (contestant.id.as_str(), place)) {
                columns.push(Column { title: title(contestant, place), contestant, place });
            }
        }
    }
    columns
}

fn row(measured: &Measured, columns: &[Column<'_>], class: Class, test: &str, size: usize) -> Vec<String> {
    let spread = |column: &Column<'_>| measured.figures.spread(class, column.series(test, size));
    let competes = |column: &&Column<'_>| matches!(column.contestant.kind, Kind::Superpipe | Kind::Peer);
    let better = |median: f64| if text::is_rate(test) { -median } else { median };
    let fastest = columns
        .iter()
        .filter(competes)
        .filter_map(|column| Some((&column.title, better(spread(column)?.median))))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let mut row = vec![text::size(size)];
    row.push(fastest.map_or_else(String::new, |(title, _)| format!("**{title}**")));
    let cell =
        |column| spread(column).map_or_else(|| "-".to_owned(), |spread| text::cell(test, size, spread));
    row.extend(columns.iter().map(cell));
    row
}

/// Renders the first message of a connection beside those that follow.
pub(super) fn first(measured: &Measured) -> String {
    let mut section = String::new();
    for class in measured.figures.classes() {
        let sizes = measured.figures.sizes(CONNECTION, &[REUSED]);
        let rows: Vec<Vec<String>> = sizes
            .into_iter()
            .filter_map(|size| {
                let first = Series { test: CONNECTION, who: SUPERPIPE, place: REUSED, size };
                let later = measured.figures.spread(class, Series { test: LATENCY, ..first })?;
                let first = measured.figures.spread(class, first)?;
                let times = format!("{:.2}x", first.median / later.median);
                Some(vec![text::size(size), text::time(first), text::time(later), times])
            })
            .collect();
        let head = ["size", "first message", "median of those that follow", "first is"];
        let rounds = text::rounds(class, measured.figures.round_count(class));
        let _ = writeln!(section, "### {rounds}\n\n{}", text::table(&head, &rows));
    }
    section
}

/// Renders the wait strategies: a row per strategy, placement and measurement. Rounds of all classes count.
pub(super) fn waiting(measured: &Measured) -> String {
    let mut rows = Vec::new();
    for test in [LATENCY, "wake-up"] {
        let mut all: Vec<Series<'_>> = measured.figures.series(test).collect();
        all.sort_by_key(|series| (series.size, series.place));
        rows.extend(all.into_iter().filter_map(|series| {
            let what = match test {
                LATENCY => format!("{} half round trip", text::size(series.size)),
                _ => format!("wake-up after {} µs", series.size),
            };
            let spread = |suffix: &str| {
                let test = format!("{test}{suffix}");
                measured.figures.spread_of_all(Series { test: &test, ..series })
            };
            let percent = |suffix| Some(format!("{:.0} %", spread(suffix)?.median));
            let [median, p99] = [spread("")?, spread(" p99")?].map(text::time);
            let names = [what, series.place.to_owned(), series.who.to_owned()];
            Some(names.into_iter().chain([median, p99, percent(" client")?, percent(" server")?]).collect())
        }));
    }
    let head = ["what", "where", "strategy", "median", "99 %", "client's CPU", "server's CPU"];
    text::table(&head, &rows)
}

/// Renders the configuration of the bare ring at each size.
pub(super) fn limits(parts: &[Measured]) -> String {
    let bests = parts.iter().flat_map(|measured| &measured.figures.bests);
    let rows: Vec<Vec<String>> = bests
        .map(|best| {
            let [test, cores] = [text::test(&best.test), text::class(best.class)].map(str::to_owned);
            vec![text::size(best.size), test, cores, best.options.clone()]
        })
        .collect();
    text::table(&["size", "test", "cores", "best configuration"], &rows)
}
