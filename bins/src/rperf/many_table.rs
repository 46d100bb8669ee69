//! The table of many connections: the settings, then one line per size and direction.

use super::columns::{Columns, write_waiting};
use super::many_row::ManyRow;
use super::options::Test;
use core::fmt::{self, Display};

/// Lines before the first size.
#[derive(Debug)]
pub struct Header<'a>(pub &'a ManyRow);

/// Line of one size and direction.
#[derive(Debug)]
pub struct Line<'a>(pub &'a ManyRow);

/// Columns with their widths.
const COLUMNS: Columns<13> = Columns([
    ("#bytes", 10),
    ("direction", 11),
    ("#messages", 11),
    ("t_typical", 9),
    ("t_99%", 9),
    ("messages/s", 12),
    ("GB/s", 8),
    ("each min", 11),
    ("each median", 11),
    ("each max", 11),
    ("share%", 6),
    ("cpu%", 5),
    ("peer%", 5),
]);

impl Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(row) = self;
        let what = match row.test {
            Test::Latency => "round trips over many connections at once, half of each in microseconds",
            Test::Stream => "streams over many connections at once",
        };
        let rule = COLUMNS.rule();
        writeln!(f, "{rule}")?;
        writeln!(f, " rperf {}, {what}", row.version)?;
        writeln!(
            f,
            " connections {}, and {} idle ones; {}, {}; made in {:.1} us each",
            row.connections, row.idle, row.fabric, row.protocol, row.connect_us
        )?;
        write_waiting(f, row.wait, [row.core, row.peer_core])?;
        writeln!(f, "; contents compared before timing\n{rule}")?;
        COLUMNS.write_names(f)
    }
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(row) = self;
        let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.2}"));
        write!(f, "{:>10} {:>11} {:>11}", row.bytes, row.direction.name(), row.messages)?;
        write!(f, " {:>9} {:>9}", us(row.p50_us), us(row.p99_us))?;
        write!(f, " {:>12.0} {:>8.4}", row.messages_per_s, row.gb_per_s)?;
        for rate in [row.connection_min_per_s, row.connection_p50_per_s, row.connection_max_per_s] {
            write!(f, " {rate:>11.1}")?;
        }
        write!(f, " {:>6.1} {:>5.1} {:>5.1}", row.least_share * 100.0, row.cpu_percent, row.peer_cpu_percent)
    }
}
