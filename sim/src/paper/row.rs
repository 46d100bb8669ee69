//! A row of the table: what the papers say, what is expected, and what is measured.

use core::fmt::Write;

/// Bound of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    /// An expected value, and its tolerance.
    About(f64, f64),
    /// Least and most.
    Between(f64, f64),
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::About(expected, tolerance) => (value - expected).abs() <= tolerance,
            Self::Between(least, most) => (least..=most).contains(&value),
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    fn text(self, unit: &str) -> String {
        match self {
            Self::About(expected, tolerance) => format!("{expected} ± {tolerance}{unit}"),
            Self::Between(least, most) => format!("{least} to {most}{unit}"),
            Self::AtLeast(least) => format!("at least {least}{unit}"),
            Self::AtMost(most) => format!("at most {most}{unit}"),
        }
    }
}

/// Source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A run of the core on a simulated machine.
    Run,
    /// A run, to whose result in the paper a cost of the machine was fitted.
    FittedRun,
    /// A run, and the cost model.
    RunAndModel,
    /// The cost model alone.
    Model,
    /// A job, copy or write on a simulated machine, without core.
    Machine,
    /// The same, to whose result in the paper a cost of the machine was fitted.
    FittedMachine,
    /// The layout of blocks.
    Layout,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::FittedRun => "run, fitted",
            Self::RunAndModel => "run; model",
            Self::Model => "model",
            Self::Machine => "machine",
            Self::FittedMachine => "machine, fitted",
            Self::Layout => "layout",
        }
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The comparison, with its machine.
    pub what: String,
    /// The papers' own words or numbers.
    pub paper: String,
    /// The bounds.
    pub expected: String,
    /// The values.
    pub got: String,
    /// The source of the values.
    pub source: &'static str,
    /// Each value is inside its bound.
    pub is_met: bool,
}

impl Row {
    /// Makes a row of values with a bound each.
    pub(super) fn new(
        (what, paper): (&str, &str),
        source: Source,
        unit: &str,
        values: &[(f64, Bound)],
    ) -> Self {
        let texts = values.iter().map(|(_, bound)| bound.text(unit));
        let got = values.iter().map(|(value, _)| format!("{}{unit}", digits(*value)));
        Self {
            what: what.to_owned(),
            paper: paper.to_owned(),
            expected: texts.collect::<Vec<_>>().join("; "),
            got: got.collect::<Vec<_>>().join("; "),
            source: source.name(),
            is_met: values.iter().all(|(value, bound)| bound.holds(*value)),
        }
    }
}

/// Returns three significant digits, or all of them before the point.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns the rows as a table of Markdown.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text =
        String::from("| | the papers | expected | measured | source | |\n|---|---|---|---|---|---|\n");
    for Row { what, paper, expected, got, source, is_met } in rows {
        let verdict = if *is_met { "holds" } else { "**fails**" };
        let _ = writeln!(text, "| {what} | {paper} | {expected} | {got} | {source} | {verdict} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_met_if_each_of_its_values_is() {
        let row = |values: &[(f64, Bound)]| Row::new(("a", "b"), Source::Run, " %", values);
        let one =
            row(&[(61.0, Bound::About(60.0, 1.0)), (5.0, Bound::AtLeast(5.0)), (5.0, Bound::AtMost(5.0))]);
        assert!(one.is_met);
        assert_eq!(one.expected, "60 ± 1 %; at least 5 %; at most 5 %");
        assert_eq!(one.got, "61.0 %; 5.00 %; 5.00 %");
        for (value, bound) in [
            (61.1, Bound::About(60.0, 1.0)),
            (58.9, Bound::About(60.0, 1.0)),
            (4.9, Bound::Between(5.0, 6.0)),
            (6.1, Bound::Between(5.0, 6.0)),
            (4.9, Bound::AtLeast(5.0)),
            (5.1, Bound::AtMost(5.0)),
            (f64::NAN, Bound::AtMost(5.0)),
            (f64::NAN, Bound::AtLeast(5.0)),
        ] {
            let row = row(&[(5.0, Bound::AtMost(5.0)), (value, bound)]);
            assert!(!row.is_met, "{value} {bound:?}");
            assert!(table(&[row]).ends_with("| run | **fails** |\n"));
        }
    }
}
