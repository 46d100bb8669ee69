//! The report's tables: who took how long.

use core::fmt::Write;

use super::data::{LIMIT, Measured, SUPERPIPE, Series, Spread};
use super::text;
use crate::plan::{Memory, Part, Test};
use crate::raw::{Kind, State};

/// One column of a table of a contest.
struct Column<'a> {
    title: String,
    who: &'a str,
    memory: Memory,
    kind: Kind,
}

/// Where a peer is ahead of superpipe, or that none is.
pub(super) fn ahead(measured: &[Measured]) -> String {
    let mut rows = Vec::new();
    for measured in measured.iter().filter(|measured| measured.part.is_contest()) {
        for state in measured.states() {
            for test in [Test::Latency, Test::Stream] {
                for bytes in measured.sizes(test) {
                    rows.extend(row_ahead(measured, state, test, bytes));
                }
            }
        }
    }
    let head = ["test", "size", "buffers", "cores", "ahead", "its time", "superpipe's", "superpipe is"];
    let mut section = String::from("## Where a peer is ahead\n\n");
    if rows.is_empty() {
        section += "Nowhere, of what was measured.\n";
    } else {
        section += &text::table(&head.map(str::to_owned), &rows);
    }
    section
}

fn row_ahead(measured: &Measured, state: State, test: Test, bytes: usize) -> Option<Vec<String>> {
    let (peer, peer_us) = measured.best_peer(state, test, bytes)?;
    let best_own = columns(measured)
        .into_iter()
        .filter(|column| column.kind == Kind::Superpipe)
        .filter_map(|column| {
            let series = Series { who: column.who, memory: column.memory, test, bytes };
            Some((series, measured.us(state, series)?))
        })
        .min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let (own, own_us) = best_own;
    if own_us.median <= peer_us {
        return None;
    }
    let peers = Series { who: &peer.id, memory: measured.peers_memory(), test, bytes };
    let ratio = measured.ratio(state, peers, own)?;
    Some(vec![
        text::test(test).to_owned(),
        text::size(bytes),
        text::memory(own.memory).to_owned(),
        text::state(state).to_owned(),
        format!("**{}**", peer.title),
        text::time(measured.us(state, peers)?),
        text::time(own_us),
        format!("{:.2}x as fast ({:.2} to {:.2})", ratio.median, ratio.min, ratio.max),
    ])
}

/// Every table of a contest.
pub(super) fn contest(measured: &Measured) -> String {
    let mut section = String::new();
    for state in measured.states() {
        for test in [Test::Latency, Test::Stream] {
            let what = match test {
                Test::Latency => "half round trip",
                Test::Stream => "streaming, GB/s at the receiver",
            };
            let buffers = if measured.part == Part::Cold { "cold destination" } else { "reused buffers" };
            let cores = text::rounds(state, measured.round_count(state));
            let rows: Vec<_> =
                measured.sizes(test).into_iter().map(|bytes| row(measured, state, test, bytes)).collect();
            let _ = write!(
                section,
                "### {what}, {buffers}, cores {cores}\n\n{}\n",
                text::table(&head(measured), &rows)
            );
        }
    }
    section
}

fn columns(measured: &Measured) -> Vec<Column<'_>> {
    let mut columns = Vec::new();
    for contestant in &measured.contestants {
        let memories: &[Memory] = match contestant.kind {
            Kind::Superpipe if measured.part == Part::Cold => {
                &[Memory::Superpipe, Memory::Advised, Memory::Plain]
            }
            _ => &[measured.peers_memory()],
        };
        for &memory in memories {
            let title = match memory {
                Memory::Superpipe => format!("{}, its own", contestant.title),
                Memory::Advised => format!("{}, advised", contestant.title),
                Memory::Plain if contestant.kind == Kind::Superpipe => {
                    format!("{}, not told", contestant.title)
                }
                Memory::Plain | Memory::Reused => contestant.title.clone(),
            };
            columns.push(Column { title, who: &contestant.id, memory, kind: contestant.kind });
        }
    }
    columns
}

fn head(measured: &Measured) -> Vec<String> {
    let mut head = vec!["size".to_owned(), "fastest".to_owned()];
    head.extend(columns(measured).into_iter().map(|column| column.title));
    head
}

fn row(measured: &Measured, state: State, test: Test, bytes: usize) -> Vec<String> {
    let columns = columns(measured);
    let spread =
        |column: &Column| measured.us(state, Series { who: column.who, memory: column.memory, test, bytes });
    let competes = |column: &&Column| matches!(column.kind, Kind::Superpipe | Kind::Peer);
    let fastest = columns
        .iter()
        .filter(competes)
        .filter_map(|column| Some((&column.title, spread(column)?.median)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let shown = |spread: Spread| match test {
        Test::Latency => text::time(spread),
        Test::Stream => text::rate(bytes, spread),
    };
    let mut row =
        vec![text::size(bytes), fastest.map_or_else(String::new, |(title, _)| format!("**{title}**"))];
    row.extend(columns.iter().map(|column| spread(column).map_or_else(|| "-".to_owned(), shown)));
    row
}

/// The first message of a connection beside those that follow.
pub(super) fn first(measured: &Measured) -> String {
    let mut section = String::new();
    for state in measured.states() {
        let rows: Vec<Vec<String>> = measured
            .sizes(Test::Latency)
            .into_iter()
            .filter_map(|bytes| {
                let own = Series { who: SUPERPIPE, memory: Memory::Reused, test: Test::Latency, bytes };
                let first = measured.by_round(state, own, |figure| figure.first_us);
                let first = Spread::new(&first.into_values().collect::<Vec<_>>())?;
                let after = measured.us(state, own)?;
                let times = format!("{:.2}x", first.median / after.median);
                Some(vec![text::size(bytes), text::time(first), text::time(after), times])
            })
            .collect();
        let head = ["size", "first message", "median of those that follow", "first is"].map(str::to_owned);
        let cores = text::rounds(state, measured.round_count(state));
        let _ = write!(section, "### cores {cores}\n\n{}\n", text::table(&head, &rows));
    }
    section
}

/// How the limit was configured at each size, where it was in most rounds.
pub(super) fn limits(measured: &[Measured]) -> String {
    let mut rows = Vec::new();
    for measured in measured.iter().filter(|measured| measured.part.is_contest()) {
        for state in measured.states() {
            for test in [Test::Latency, Test::Stream] {
                for bytes in measured.sizes(test) {
                    let config = measured.figures.iter().rev().find(|figure| {
                        figure.contestant == LIMIT
                            && (figure.test, figure.bytes) == (test, bytes)
                            && measured
                                .rounds
                                .iter()
                                .any(|round| round.round == figure.round && round.state == state)
                    });
                    let Some(config) = config else { continue };
                    let cells = [
                        text::size(bytes),
                        text::test(test).into(),
                        text::state(state).into(),
                        config.config.clone(),
                    ];
                    rows.push(cells.into());
                }
            }
        }
    }
    text::table(&["size", "test", "cores", "best configuration"].map(str::to_owned), &rows)
}
