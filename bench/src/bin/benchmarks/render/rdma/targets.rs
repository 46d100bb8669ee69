//! What is asked of the figures, and whether they give it.

use core::fmt::Write;

use super::super::causes::Causes;
use super::super::data::Spread;
use super::super::text;
use super::data::{BARE_LATENCY, BARE_RATE, MODES, Measured, Series, Test, UCX};

/// From this size on a first message is compared with UCX's.
const FIRST_BYTES: usize = 4 << 10;

/// One comparison: what was wanted, and what came out.
struct Verdict {
    /// names the cause in rdma-causes.json
    id: &'static str,
    wanted: &'static str,
    series: String,
    got: Spread,
    is_met: bool,
}

pub(super) fn render(measured: &Measured, causes: &Causes) -> String {
    let verdicts = judge(measured);
    let mut section = String::from("### Targets\n\n");
    for (title, is_met) in [("Missed", false), ("Met", true)] {
        let these: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.is_met == is_met).collect();
        if these.is_empty() {
            let _ = writeln!(section, "{title}: none.\n");
            continue;
        }
        let rows: Vec<Vec<String>> = these
            .iter()
            .map(|verdict| {
                let Spread { median, min, max, count } = verdict.got;
                let got = format!("{median:.2} ({min:.2} to {max:.2}), {count} rounds");
                vec![verdict.wanted.to_owned(), verdict.series.clone(), got]
            })
            .collect();
        let head = [title, "superpipe", "ratio"].map(str::to_owned);
        let _ = writeln!(section, "{}", text::table(&head, &rows));
    }
    for (id, cause) in causes {
        if verdicts.iter().any(|verdict| verdict.id == id && !verdict.is_met) {
            let _ = writeln!(section, "**{id}.** {} *Tried:* {}\n", cause.cause, cause.tried);
        }
    }
    section
}

fn judge(measured: &Measured) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for driver in measured.drivers() {
        for who in [MODES[0], MODES[1]] {
            let of = |test, bytes| Series { driver, test, who, bytes };
            for bytes in measured.sizes(driver, Test::Rate) {
                let (wanted, least) = match bytes {
                    ..=16_384 => ("16 KiB: at least 0.88 of the bound", 0.88),
                    _ => ("from 64 KiB on: at least 0.95 of the bound", 0.95),
                };
                at_least(
                    "bound",
                    wanted,
                    of(Test::Rate, bytes),
                    measured.of_bound(of(Test::Rate, bytes)),
                    least,
                    &mut verdicts,
                );
            }
            for bytes in [64 << 10, 1 << 20] {
                let first = of(Test::Connection, bytes);
                let steady = measured.ratio(of(Test::Latency, bytes), first);
                let wanted = "first message of a connection: at least 0.9 of the steady rate";
                at_least("first", wanted, first, steady, 0.9, &mut verdicts);
            }
            against_ucx(measured, driver, who, &mut verdicts);
            for bytes in measured.sizes(driver, Test::Lossy) {
                let bare = Series { who: BARE_RATE, ..of(Test::Lossy, bytes) };
                let got = measured.ratio(of(Test::Lossy, bytes), bare);
                let wanted = "two hosts, 1 % of packets lost: at least 0.8 of `ib_write_bw`";
                at_least("loss", wanted, of(Test::Lossy, bytes), got, 0.8, &mut verdicts);
            }
        }
        let flag = Series { driver, test: Test::Latency, who: MODES[1], bytes: 8 };
        if let Some(got) = measured.ratio(flag, Series { who: BARE_LATENCY, ..flag }) {
            let wanted = "8 B by flag: at most 1.15 times `ib_write_lat`";
            verdicts.push(Verdict {
                id: "latency",
                wanted,
                series: name(flag),
                got,
                is_met: got.median <= 1.15,
            });
        }
    }
    verdicts
}

/// As fast or faster with the first message; within 7 % afterwards.
fn against_ucx(measured: &Measured, driver: &str, who: &str, verdicts: &mut Vec<Verdict>) {
    for test in [Test::First, Test::Latency, Test::Rate] {
        for bytes in measured.sizes(driver, test) {
            let (own, other) =
                (Series { driver, test, who, bytes }, Series { driver, test, who: UCX, bytes });
            // how many times as fast
            let got =
                if test == Test::Rate { measured.ratio(own, other) } else { measured.ratio(other, own) };
            match test {
                Test::First if bytes < FIRST_BYTES => {}
                Test::First => at_least(
                    "ucx-first",
                    "first message of a process: as fast as UCX's",
                    own,
                    got,
                    1.0,
                    verdicts,
                ),
                _ => at_least("ucx", "at least 0.93 times as fast as UCX", own, got, 0.93, verdicts),
            }
        }
    }
}

fn at_least(
    id: &'static str,
    wanted: &'static str,
    series: Series<'_>,
    got: Option<Spread>,
    least: f64,
    verdicts: &mut Vec<Verdict>,
) {
    if let Some(got) = got {
        verdicts.push(Verdict { id, wanted, series: name(series), got, is_met: got.median >= least });
    }
}

/// `rxe, 64 KiB, rate, notify`
fn name(series: Series<'_>) -> String {
    let test = match series.test {
        Test::Rate | Test::Copy => "rate",
        Test::Latency => "half round trip",
        Test::First => "a process's first",
        Test::Connection => "a connection's first",
        Test::Lossy => "rate with loss",
    };
    let mode = series.who.trim_start_matches("superpipe, ");
    format!("{}, {}, {test}, {mode}", series.driver, text::size(series.bytes))
}
