//! OpenMetrics text (version 1.0) of what processes publish.

use core::fmt::{self, Write as _};

use super::connection_line::{ConnectionLine, State};
use super::poller_line::PollerLine;
use super::snapshot::Snapshot;
use crate::description::Peer;

/// Displays snapshots as OpenMetrics text, for Prometheus and other collectors. The content type is
/// `application/openmetrics-text; version=1.0.0; charset=utf-8`.
///
/// ```
/// # fn main() -> Result<(), superpipe::Error> {
/// # use superpipe::metrics::{OpenMetrics, PublishOptions, Reader, publish};
/// # let _publisher = publish(PublishOptions::default())?;
/// let snapshots = [Reader::open(std::process::id())?.read()?];
/// let text = OpenMetrics(&snapshots).to_string();
/// assert!(text.contains("# TYPE superpipe_connections_made counter"));
/// assert!(text.ends_with("# EOF\n"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OpenMetrics<'a>(pub &'a [Snapshot]);

/// A family of metrics about `T`: its name without a prefix, its help, and its value.
struct Family<T> {
    kind: Kind,
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> u64,
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    /// Nanoseconds, shown as seconds.
    Seconds,
}

/// Makes the tables of families below: kind, name, help, and the path of the field.
macro_rules! families {
    ($of:ty: $($kind:ident $name:literal $help:literal $($field:ident).+;)+) => {
        &[$(Family::<$of> { kind: Kind::$kind, name: $name, help: $help, value: |line| line.$($field).+ }),+]
    };
}

const OF_PROCESSES: &[Family<Snapshot>] = families! { Snapshot:
    Counter "connections_made" "Connections made since the process began to publish." process.connections_made;
    Counter "connections_ended" "Connections that have ended." process.connections_ended;
    Gauge "connections_unlisted" "Connections for which the page has no line." process.connections_unlisted;
    Counter "ended_transfers_sent" "Transfers sent by connections that have ended." process.ended_transfers_sent;
    Counter "ended_transfers_received" "Transfers received by connections that have ended." process.ended_transfers_received;
    Counter "ended_sent_bytes" "Payload sent by connections that have ended." process.ended_bytes_sent;
    Counter "ended_received_bytes" "Payload received by connections that have ended." process.ended_bytes_received;
    Gauge "registered_reserved_bytes" "Registered memory that connections began with." process.registered_reserved_bytes;
    Gauge "registered_grown_bytes" "Registered memory that connections have grown by." process.registered_grown_bytes;
    Gauge "registered_cached_bytes" "Registered buffers that are kept." process.registered_cached_bytes;
    Gauge "registered_max_bytes" "Limit of registered memory." process.registered_max_bytes;
    Gauge "shared_reserved_bytes" "Shared memory that connections began with." process.shared_reserved_bytes;
    Gauge "shared_grown_bytes" "Shared memory that connections have grown by." process.shared_grown_bytes;
    Gauge "shared_cached_bytes" "Registered and trusted buffers of both ends." process.shared_cached_bytes;
    Gauge "shared_max_bytes" "Limit of shared memory." process.shared_max_bytes;
    Gauge "unsettled_lines" "Lines that were being written at each look." unsettled;
};

const OF_POLLERS: &[Family<PollerLine>] = families! { PollerLine:
    Gauge "poller_connections" "Connections of the poller." connections;
    Gauge "poller_active" "Connections that are looked at in each round." active;
    Gauge "poller_armed" "Connections that wait for a wake-up." armed;
    Gauge "poller_listeners" "Listeners of the poller." listeners;
    Counter "poller_rounds" "Rounds of looks." rounds;
    Counter "poller_calls" "Calls of poll." calls;
    Counter "poller_wakeups" "Armed connections that were woken." wakeups;
    Counter "poller_sleeps" "Sleeps of the poller." sleeps;
    Counter "poller_accepted" "Connections accepted." accepted;
    Counter "poller_accept_failures" "Attempts of clients that failed." accept_failed;
    Counter "poller_connected" "Connects that succeeded." connected;
    Counter "poller_connect_failures" "Connects that failed." connect_failed;
};

const OF_CONNECTIONS: &[Family<ConnectionLine>] = families! { ConnectionLine:
    Counter "transfers_sent" "Messages and streams of which something was sent." counts.transfers_sent;
    Counter "transfers_received" "Messages and streams of which something was received." counts.transfers_received;
    Counter "inline_sent" "Messages that left in a slot line." counts.inline_sent;
    Counter "inline_received" "Messages that came in a slot line." counts.inline_received;
    Counter "sent_bytes" "Payload sent, without messages in a slot line." counts.bytes_sent;
    Counter "received_bytes" "Payload received, without messages in a slot line." counts.bytes_received;
    Counter "remote_sent_bytes" "Payload sent by remote writes." counts.remote_bytes_sent;
    Counter "remote_received_bytes" "Payload received by remote writes." counts.remote_bytes_received;
    Counter "exposed_sent_bytes" "Payload that the peer copies out of registered buffers." counts.exposed_bytes_sent;
    Counter "exposed_received_bytes" "Payload copied out of registered buffers of the peer." counts.exposed_bytes_received;
    Counter "split_sent_bytes" "Payload written into trusted buffers of the peer." counts.split_bytes_sent;
    Counter "split_received_bytes" "Payload that the peer wrote into trusted buffers." counts.split_bytes_received;
    Counter "remote_writes" "Remote writes posted." counts.remote_writes;
    Counter "credit_waits" "Times that a sender found no free block." counts.credit_waits;
    Counter "cts_waits" "Times that a sender waited for a CTS." counts.cts_waits;
    Counter "queue_full" "Work requests that found the send queue full." counts.queue_full;
    Counter "growths_asked" "Larger landing buffers asked for." counts.growths_asked;
    Counter "growths_refused" "Larger landing buffers not got." counts.growths_refused;
    Counter "growths" "Larger landing buffers provisioned for the peer." counts.growths;
    Counter "growth_refusals" "Growths refused to the peer." counts.refusals;
    Counter "shrinks" "Times that the peer was asked to leave a larger landing buffer." counts.shrinks;
    Counter "cancels_sent" "Transfers of this end that ended by a CANCEL." counts.cancels_sent;
    Counter "cancels_received" "Transfers of the peer that ended by a CANCEL." counts.cancels_received;
    Counter "rejects_sent" "Transfers that this end rejected." counts.rejects_sent;
    Counter "rejects_received" "Transfers that the peer rejected." counts.rejects_received;
    Counter "keepalives_sent" "Keepalives sent." counts.keepalives_sent;
    Counter "keepalives_received" "Looks that found another keepalive." counts.keepalives_received;
    Counter "registrations_hit" "Messages whose memory was registered before." counts.registrations_hit;
    Counter "registrations_missed" "Messages whose memory was not registered." counts.registrations_missed;
    Counter "registrations_failed" "Registrations that failed." counts.registrations_failed;
    Gauge "provisioned_bytes" "Budget that the connection took when it began." provisioned_bytes;
    Gauge "landing_max_bytes" "Bytes of the largest landing buffer." landing_max_bytes;
    Gauge "landing_bytes" "Bytes of larger landing buffers for the peer now." landing_bytes;
    Gauge "landing_peak_bytes" "Most of these bytes at a time." landing_peak_bytes;
    Gauge "mapped_bytes" "Bytes of the peer's memory that are mapped." mapped_bytes;
    Gauge "window_bytes" "Bytes of the peer's landing buffer that are cycled through." window_bytes;
    Seconds "copied_at_seconds" "Monotonic time at which the line was copied." copied_at_ns;
    Seconds "active_at_seconds" "Monotonic time of the peer's newest activity." active_at_ns;
};

impl fmt::Display for OpenMetrics<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshots = self.0;
        write_families(f, OF_PROCESSES, |write| {
            snapshots.iter().try_for_each(|snapshot| write(snapshot, &of_process(snapshot)))
        })?;
        write_families(f, OF_POLLERS, |write| {
            for snapshot in snapshots {
                for line in &snapshot.pollers {
                    write(line, &format!("{},poller=\"{}\"", of_process(snapshot), line.number))?;
                }
            }
            Ok(())
        })?;
        write_families(f, OF_CONNECTIONS, |write| {
            for snapshot in snapshots {
                for line in &snapshot.connections {
                    write(line, &format!("{},connection=\"{}\"", of_process(snapshot), line.number))?;
                }
            }
            Ok(())
        })?;
        write_states(f, snapshots)?;
        write_connections(f, snapshots)?;
        f.write_str("# EOF\n")
    }
}

/// Writes families, each with the samples of all lines that `each` passes on with their labels.
fn write_families<T>(
    f: &mut fmt::Formatter<'_>,
    families: &[Family<T>],
    each: impl Fn(&mut dyn FnMut(&T, &str) -> fmt::Result) -> fmt::Result,
) -> fmt::Result {
    for Family { kind, name, help, value } in families {
        let shown = if matches!(kind, Kind::Counter) { "counter" } else { "gauge" };
        writeln!(f, "# TYPE superpipe_{name} {shown}")?;
        // A unit is the end of the name.
        for unit in ["bytes", "seconds"] {
            if name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')) {
                writeln!(f, "# UNIT superpipe_{name} {unit}")?;
            }
        }
        writeln!(f, "# HELP superpipe_{name} {help}")?;
        each(&mut |line, labels| match kind {
            Kind::Counter => writeln!(f, "superpipe_{name}_total{{{labels}}} {}", value(line)),
            Kind::Gauge => writeln!(f, "superpipe_{name}{{{labels}}} {}", value(line)),
            Kind::Seconds => {
                let ns = value(line);
                let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
                writeln!(f, "superpipe_{name}{{{labels}}} {seconds}.{rest:09}")
            }
        })?;
    }
    Ok(())
}

/// Writes the state of each connection: one sample per state, of which one is 1.
fn write_states(f: &mut fmt::Formatter<'_>, snapshots: &[Snapshot]) -> fmt::Result {
    const NAME: &str = "superpipe_connection_state";
    writeln!(f, "# TYPE {NAME} stateset\n# HELP {NAME} State of a connection.")?;
    for snapshot in snapshots {
        for line in &snapshot.connections {
            for state in State::ALL {
                let (of, is_one) = (of_process(snapshot), u8::from(state == line.state));
                writeln!(
                    f,
                    "{NAME}{{{of},connection=\"{}\",{NAME}=\"{}\"}} {is_one}",
                    line.number,
                    state.name()
                )?;
            }
        }
    }
    Ok(())
}

/// Writes what does not change, as labels of a sample that is always 1: so the samples above have few labels.
fn write_connections(f: &mut fmt::Formatter<'_>, snapshots: &[Snapshot]) -> fmt::Result {
    f.write_str("# TYPE superpipe_connection info\n# HELP superpipe_connection What a connection is.\n")?;
    for snapshot in snapshots {
        for line in &snapshot.connections {
            let peer = match line.peer {
                Peer::Process(cred) => format!("process {} of uid {}", cred.pid, cred.uid),
                Peer::Host(address) => address.to_string(),
                Peer::Unknown => "unknown".to_owned(),
            };
            writeln!(
                f,
                "superpipe_connection_info{{{},connection=\"{}\",fabric=\"{}\",role=\"{}\",protocol=\"{}\",peer=\"{}\"}} 1",
                of_process(snapshot),
                line.number,
                line.fabric,
                line.role.name(),
                line.protocol.name(),
                escaped(&peer)
            )?;
        }
    }
    Ok(())
}

fn of_process(snapshot: &Snapshot) -> String {
    format!("pid=\"{}\",program=\"{}\"", snapshot.pid, escaped(&snapshot.program))
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    let mut shown = String::with_capacity(value.len());
    for char in value.chars() {
        match char {
            '\\' => shown.push_str("\\\\"),
            '"' => shown.push_str("\\\""),
            '\n' => shown.push_str("\\n"),
            char => {
                let _ = shown.write_char(char);
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests;
