//! A look as a table for people.

use super::looks::Look;
use super::rates::Rates;
use core::fmt::Write;
use superpipe::Peer;
use superpipe::metrics::{ConnectionLine, Role, Snapshot};

const CONNECTIONS: &str = "    PID.CONN PEER              FABRIC PROTOCOL        STATE           AGE  OUT/s  IN/s   OUT B/s  IN B/s   STALL/s LANDING GROW SHRNK 1COPY CNCL  REJ  IDLE\n";
const POLLERS: &str = "  PID.POLLER   CONNS ACTIVE  ARMED LISTENERS ACCEPTED REFUSED CONNECTED FAILED  AGE\n";

/// Returns the table.
#[must_use]
pub fn of(look: &Look) -> String {
    let mut table = String::new();
    for snapshot in &look.snapshots {
        write_process(&mut table, snapshot);
    }
    if look.snapshots.is_empty() {
        table.push_str("no process of this user publishes metrics (superpipe::metrics::publish; rsend, rrecv, rperf: --metrics)\n");
    }
    if look.snapshots.iter().any(|snapshot| !snapshot.pollers.is_empty()) {
        table.push_str(POLLERS);
        for snapshot in &look.snapshots {
            write_pollers(&mut table, snapshot);
        }
    }
    table.push_str(CONNECTIONS);
    for (snapshot, line, rates) in look.connections() {
        write_connection(&mut table, snapshot, line, &rates);
    }
    table
}

fn write_process(table: &mut String, snapshot: &Snapshot) {
    let process = &snapshot.process;
    let unlisted = match process.connections_unlisted {
        0 => String::new(),
        count => format!(", {count} not listed"),
    };
    // Writing to a text cannot fail.
    let _ = writeln!(
        table,
        "{} {}: {} connections{unlisted}, {} ended; shared memory {} of {}, registered {} of {}",
        snapshot.pid,
        snapshot.program,
        snapshot.connections.len(),
        process.connections_ended,
        bytes(process.shared_bytes()),
        bytes(process.shared_max_bytes),
        bytes(process.registered_bytes()),
        bytes(process.registered_max_bytes),
    );
}

fn write_pollers(table: &mut String, snapshot: &Snapshot) {
    for line in &snapshot.pollers {
        let name = format!("{}.{}", snapshot.pid, line.number);
        let age = seconds(snapshot.read_at_ns.saturating_sub(line.copied_at_ns));
        let _ = writeln!(
            table,
            "{name:>12} {:>7} {:>6} {:>6} {:>9} {:>8} {:>7} {:>9} {:>6} {age:>4}",
            line.connections,
            line.active,
            line.armed,
            line.listeners,
            line.accepted,
            line.accept_failed,
            line.connected,
            line.connect_failed,
        );
    }
}

fn write_connection(table: &mut String, snapshot: &Snapshot, line: &ConnectionLine, rates: &Rates) {
    let counts = &line.counts;
    let way = if line.role == Role::Connected { '>' } else { '<' };
    let peer = match line.peer {
        Peer::Process(cred) => format!("{way}{}", cred.pid),
        Peer::Host(address) => format!("{way}{address}"),
        _ => format!("{way}?"),
    };
    let since = |at_ns: u64| seconds(snapshot.read_at_ns.saturating_sub(at_ns));
    let name = format!("{}.{}", snapshot.pid, line.number);
    let _ = writeln!(
        table,
        "{name:>12} {peer:<17} {:<6} {:<15} {:<14} {:>4} {:>6} {:>6} {:>8} {:>8} {:>8} {:>7} {:>4} {:>5} {:>5} {:>4} {:>4} {:>5}",
        line.fabric,
        line.protocol.name(),
        line.state.name(),
        since(line.copied_at_ns),
        rate(rates.of("transfers_sent")),
        rate(rates.of("transfers_received")),
        rate_of_bytes(rates.of("bytes_sent")),
        rate_of_bytes(rates.of("bytes_received")),
        rate(rates.of("credit_waits") + rates.of("cts_waits")),
        bytes(line.landing_bytes),
        counts.growths,
        counts.shrinks,
        one_copy(line),
        counts.cancels_sent.saturating_add(counts.cancels_received),
        counts.rejects_sent.saturating_add(counts.rejects_received),
        since(line.active_at_ns),
    );
}

/// Returns the share of the bytes that took one copy at most.
fn one_copy(line: &ConnectionLine) -> String {
    let counts = &line.counts;
    let all = counts.bytes_sent.saturating_add(counts.bytes_received);
    let few = [
        counts.remote_bytes_sent,
        counts.remote_bytes_received,
        counts.exposed_bytes_sent,
        counts.exposed_bytes_received,
        counts.split_bytes_sent,
        counts.split_bytes_received,
    ];
    let few = few.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
    match u128::from(few) * 100 / u128::from(all.max(1)) {
        _ if all == 0 => "-".to_owned(),
        percent => format!("{}%", percent.min(100)),
    }
}

/// Formats bytes with up to four digits and a unit.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "K", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 10_000 && unit + 1 < UNITS.len() {
        value = value.div_ceil(1024);
        unit += 1;
    }
    format!("{value}{}", UNITS[unit])
}

/// Formats a rate of things with three digits.
fn rate(per_second: f64) -> String {
    scaled(per_second, 1000.0)
}

/// Formats a rate of bytes with three digits.
fn rate_of_bytes(per_second: f64) -> String {
    scaled(per_second, 1024.0)
}

fn scaled(value: f64, step: f64) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (value, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= step;
        unit += 1;
    }
    let digits = match value {
        0.0 => 0,
        small if small < 9.95 => 2,
        small if small < 99.5 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{}", UNITS[unit])
}

/// Formats a time with up to three digits and a unit.
fn seconds(ns: u64) -> String {
    match ns / 1_000_000 {
        ms @ 0..1000 => format!(".{}s", ms / 100),
        ms if ms < 1_000_000 => format!("{}s", ms / 1000),
        ms if ms < 60_000_000 => format!("{}m", ms / 60_000),
        ms if ms < 3_600_000_000 => format!("{}h", ms / 3_600_000),
        ms => format!("{}d", ms / 86_400_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_their_columns() {
        for (value, shown) in [
            (0.0, "0"),
            (0.5, "0.50"),
            (9.9, "9.90"),
            (42.25, "42.2"),
            (999.4, "999"),
            (999.6, "1.00K"),
            (1.5e6, "1.50M"),
            (2.5e20, "250E"),
        ] {
            assert_eq!(rate(value), shown);
        }
        assert_eq!(rate_of_bytes(2_048_000.0), "1.95M");
        for (value, shown) in
            [(0, "0B"), (9999, "9999B"), (524_288, "512K"), (1 << 30, "1024M"), (u64::MAX, "16E")]
        {
            assert_eq!(bytes(value), shown);
        }
        const S: u64 = 1_000_000_000;
        for (ns, shown) in [
            (0, ".0s"),
            (S - 1, ".9s"),
            (S, "1s"),
            (999 * S, "999s"),
            (1000 * S, "16m"),
            (60_000 * S, "16h"),
            (3_600_000 * S, "41d"),
        ] {
            assert_eq!(seconds(ns), shown);
        }
    }
}
