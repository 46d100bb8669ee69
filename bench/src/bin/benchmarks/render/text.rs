//! Figures and names as the page shows them.

use super::targets::Rule;
use crate::class::Class;
use crate::figures::{Series, Spread};
use crate::plan::{ADVISED, CONNECTION, LATENCY, PLAIN, STREAM, SUPERPIPE};

/// Returns whether more is better: 10^6 bytes per second, and not a time.
pub(super) fn is_rate(test: &str) -> bool {
    matches!(test, "rate" | "lossy")
}

/// A table's cell.
pub(super) fn cell(test: &str, size: usize, spread: Spread) -> String {
    match test {
        STREAM => rate(size, spread),
        _ if is_rate(test) => range([spread.median, spread.min, spread.max].map(digits)),
        _ => time(spread),
    }
}

/// `71 ns (70 to 75)`
pub(super) fn time(spread: Spread) -> String {
    let (divisor, unit) = match spread.median {
        us if us < 1.0 => (1e-3, "ns"),
        us if us < 1e3 => (1.0, "µs"),
        _ => (1e3, "ms"),
    };
    let [median, min, max] = [spread.median, spread.min, spread.max].map(|us| digits(us / divisor));
    format!("{median} {unit} ({min} to {max})")
}

/// `47.9 (44.1 to 50.2)`: bytes over times, so that the fastest round is the highest rate.
pub(super) fn rate(bytes: usize, spread: Spread) -> String {
    range([spread.median, spread.max, spread.min].map(|us| digits(gb_per_s(bytes, us))))
}

fn range([median, min, max]: [String; 3]) -> String {
    format!("{median} ({min} to {max})")
}

/// 10^9 bytes per second.
pub(super) fn gb_per_s(bytes: usize, us: f64) -> f64 {
    bytes as f64 / (us * 1e3)
}

/// The value that a rule limits, in its unit.
pub(super) fn got(rule: Rule, spread: Spread) -> String {
    let Spread { median, min, max, .. } = spread;
    match rule {
        Rule::StepKeeps(_) | Rule::SpeedAtLeast(_, ..1.0) => {
            format!("{:.0} % ({:.0} to {:.0})", median * 100.0, min * 100.0, max * 100.0)
        }
        Rule::TimesAtMost(..) => format!("{median:.3}x the time ({min:.3} to {max:.3})"),
        Rule::SpeedAtLeast(..) | Rule::Faster(_) => format!("{median:.2}x as fast ({min:.2} to {max:.2})"),
    }
}

/// Three significant digits.
pub(super) fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.0995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// `64 KiB`
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

pub(super) fn test(test: &str) -> &str {
    match test {
        LATENCY => "half round trip",
        STREAM => "streaming",
        CONNECTION => "first message of a connection",
        "first" => "first message of a process",
        "lossy" => "rate with 1 % of the packets lost",
        _ => test,
    }
}

/// `cold, advised`; over RDMA driver and arrival mode: `rxe, notify`
pub(super) fn place(of: Series<'_>) -> String {
    match of.place {
        PLAIN => "cold".to_owned(),
        ADVISED => "cold, advised".to_owned(),
        SUPERPIPE => "cold, superpipe's".to_owned(),
        place => of.who.split_once(", ").map_or(place.to_owned(), |(_, mode)| format!("{place}, {mode}")),
    }
}

/// The name of a class, where there is one.
pub(super) const fn class(class: Class) -> &'static str {
    match class {
        Class::At(_) | Class::Mixed => class.name(),
        Class::Unknown => "",
    }
}

/// `near, 7 rounds`
pub(super) fn rounds(of: Class, count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    let comma = if of == Class::Unknown { "" } else { ", " };
    format!("{}{comma}{count} round{plural}", class(of))
}

/// A table of a head and rows.
pub(super) fn table(head: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&head.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    text += &line(&vec!["---"; head.len()]);
    for row in rows {
        text += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Spread, digits, rate, size, time};

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(
            [0.0712, 0.99, 9.99, 9.999, 47.94, 512.3].map(digits),
            ["0.071", "0.99", "9.99", "10.0", "47.9", "512"]
        );
    }

    #[test]
    fn times_have_one_unit_and_rates_reverse_the_range() {
        let spread = Spread { median: 2.0, min: 1.0, max: 4.0, count: 3 };
        assert_eq!(time(spread), "2.00 µs (1.00 to 4.00)");
        assert_eq!(rate(8000, spread), "4.00 (2.00 to 8.00)");
        assert_eq!(
            time(Spread { median: 0.071, min: 0.07, max: 0.0754, count: 3 }),
            "71.0 ns (70.0 to 75.4)"
        );
    }

    #[test]
    fn sizes_have_the_largest_exact_unit() {
        assert_eq!(
            [8, 1024, 1536, 65_536, 64 << 20].map(size),
            ["8 B", "1 KiB", "1536 B", "64 KiB", "64 MiB"]
        );
    }
}
