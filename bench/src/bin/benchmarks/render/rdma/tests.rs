//! Figures that are made up, and what is said of them.

use super::super::causes::{Cause, Causes};
use super::data::Measured;
use super::render;

/// Three rounds over rxe, each twice as fast as the one before: a wire of 100 and a copy of 300, so a bound of 75.
fn measured(own_rate: f64, own_first: f64) -> Measured {
    let mut text = String::from(
        "{\"event\":\"fact\",\"name\":\"kernel\",\"value\":\"6.1\"}\n{\"event\":\"command\",\"who\":\"ib_write_bw, rate\",\"line\":\"ib_write_bw -R\"}\n",
    );
    for (round, factor) in [(1, 1.0), (2, 2.0), (3, 4.0)] {
        for (driver, test, who, bytes, value) in [
            ("none", "copy", "memcpy", 65_536, 300.0),
            ("rxe", "rate", "ib_write_bw", 65_536, 100.0),
            ("rxe", "rate", "superpipe, notify", 65_536, own_rate),
            ("rxe", "rate", "UCX", 65_536, 70.0),
            ("rxe", "latency", "ib_write_lat", 8, 10.0),
            ("rxe", "latency", "superpipe, flag", 8, 11.0),
            ("rxe", "latency", "superpipe, notify", 65_536, 90.0),
            ("rxe", "connection", "superpipe, notify", 65_536, own_first),
            ("rxe", "first", "superpipe, notify", 65_536, 200.0),
            ("rxe", "first", "UCX", 65_536, 240.0),
            ("rxe", "lossy", "ib_write_bw", 1_048_576, 50.0),
            ("rxe", "lossy", "superpipe, notify", 1_048_576, 39.0),
        ] {
            text += &format!(
                "{{\"event\":\"figure\",\"round\":{round},\"driver\":\"{driver}\",\"test\":\"{test}\",\"who\":\"{who}\",\"bytes\":{bytes},\"value\":{}}}\n",
                value * factor
            );
        }
    }
    Measured::parse(&text).unwrap()
}

/// The rows of the targets that are missed, and those that are met.
fn verdicts(page: &str) -> (&str, &str) {
    let met = page.find("| Met |").unwrap();
    let targets = page.find("### Targets").unwrap();
    (&page[targets..met], &page[met..page.find("### rxe").unwrap()])
}

#[test]
fn ratios_are_formed_inside_rounds() {
    let page = render(&measured(72.0, 95.0), &Causes::new());
    let (missed, met) = verdicts(&page);
    assert!(met.contains("rxe, 64 KiB, rate, notify | 0.96 (0.96 to 0.96), 3 rounds"), "{page}");
    assert!(met.contains("rxe, 64 KiB, rate, notify | 1.03 (1.03 to 1.03)"), "{page}");
    assert!(met.contains("rxe, 64 KiB, a connection's first, notify | 0.95"), "{page}");
    assert!(met.contains("rxe, 64 KiB, a process's first, notify | 1.20"), "{page}");
    assert!(met.contains("rxe, 8 B, half round trip, flag | 1.10"), "{page}");
    assert!(missed.contains("rxe, 1 MiB, rate with loss, notify | 0.78"), "{page}");
    assert!(page.contains("| 64 KiB | 200 (100 to 400) | 144 (72.0 to 288) | 140 (70.0 to 280) | 600 (300 to 1200) | 150 (75.0 to 300) |"), "{page}");
    assert!(page.contains("| kernel | 6.1 |") && page.contains("| `ib_write_bw -R` |"), "{page}");
}

#[test]
fn what_is_missed_is_told_with_its_cause() {
    let cause = Cause { cause: "the moon".into(), tried: "waiting".into() };
    let causes = Causes::from([("bound".to_owned(), cause.clone()), ("latency".to_owned(), cause)]);
    let page = render(&measured(71.0, 101.0), &causes);
    let (missed, met) = verdicts(&page);
    assert!(missed.contains("at least 0.95 of the bound | rxe, 64 KiB, rate, notify | 0.95"), "{page}");
    assert!(missed.contains("rxe, 64 KiB, a connection's first, notify | 0.89"), "{page}");
    assert!(met.contains("rxe, 64 KiB, rate, notify | 1.01"), "{page}");
    assert!(
        page.contains("**bound.** the moon *Tried:* waiting") && !page.contains("**latency.**"),
        "{page}"
    );
}

#[test]
fn a_line_that_is_no_figure_is_an_error() {
    assert!(Measured::parse("{\"event\":\"figure\",\"round\":1}").is_err());
}
