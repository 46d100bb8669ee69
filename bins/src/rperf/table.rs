//! The table on standard output: the settings, then one line per size.

use super::columns::{Columns, write_waiting};
use super::options::Test;
use super::row::Row;
use core::fmt::{self, Display};
use superpipe::os::Bytes;

/// Lines before the first size.
#[derive(Debug)]
pub struct Header<'a>(pub &'a Row);

/// Line of one size.
#[derive(Debug)]
pub struct Line<'a>(pub &'a Row);

/// Columns with their widths.
const COLUMNS: Columns<12> = Columns([
    ("#bytes", 10),
    ("#iterations", 11),
    ("t_first", 9),
    ("t_min", 9),
    ("t_typical", 9),
    ("t_avg", 9),
    ("t_99%", 9),
    ("t_99.9%", 9),
    ("t_max", 9),
    ("GB/s", 8),
    ("cpu%", 5),
    ("peer%", 5),
]);

/// A time in microseconds, with as many decimals as fit the column, and at most four (a tenth of a nanosecond).
struct Us(f64);

impl Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(row) = self;
        let what = match row.test {
            Test::Latency => "latency: half a round trip, in microseconds",
            Test::Stream => "stream: time from one message to the next at the receiver, in microseconds",
        };
        let buffers = match row.fresh {
            "none" => "reused and resident".to_owned(),
            kind => format!("new for each message ({kind})"),
        };
        let chunk = if row.chunk_bytes == 0 {
            "sized by the protocol".to_owned()
        } else {
            Bytes(row.chunk_bytes.into()).to_string()
        };
        let rule = COLUMNS.rule();
        writeln!(f, "{rule}")?;
        writeln!(f, " rperf {}, {what}", row.version)?;
        writeln!(
            f,
            " connection  {}{}, {}, arrival by {}, {} blocks of {}, chunks {chunk}, {} folds{}",
            row.fabric,
            row.device.as_ref().map_or_else(String::new, |device| format!(" on {device}")),
            row.protocol,
            row.arrival,
            row.block_count,
            Bytes(row.block_bytes.into()),
            row.folds,
            match row.reconnect {
                0 => String::new(),
                1 => ", a new connection for each size".to_owned(),
                count => format!(", {count} new connections for each size"),
            },
        )?;
        writeln!(
            f,
            " buffers     {buffers}; contents compared {}",
            match row.verified {
                "always" => "before and while timing",
                _ => "before timing",
            }
        )?;
        write_waiting(f, row.wait, [row.core, row.peer_core])?;
        writeln!(f, "\n{rule}")?;
        COLUMNS.write_names(f)
    }
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(row) = self;
        write!(f, "{:>10} {:>11}", row.bytes, row.iterations)?;
        for us in [row.first_us, row.min_us, row.p50_us, row.avg_us, row.p99_us, row.p999_us, row.max_us] {
            write!(f, " {}", Us(us))?;
        }
        write!(f, " {:>8.4} {:>5.1} {:>5.1}", row.gb_per_s, row.cpu_percent, row.peer_cpu_percent)
    }
}

impl Display for Us {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(us) = *self;
        let decimals = match us {
            ..1e3 => 4,
            ..1e5 => 2,
            _ => 0,
        };
        write!(f, "{us:>9.decimals$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_digits_and_their_width() {
        for (us, text) in [
            (0.030_21, "   0.0302"),
            (999.123_41, " 999.1234"),
            (12_345.678, " 12345.68"),
            (123_456_789.0, "123456789"),
        ] {
            assert_eq!(Us(us).to_string(), text);
        }
    }
}
