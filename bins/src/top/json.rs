//! A look as a line of JSON.

use super::looks::Look;
use serde_json::{Map, Value, json};
use superpipe::Peer;
use superpipe::metrics::{ConnectionLine, Snapshot};

use super::rates::Rates;

/// Returns the line, with its end.
#[must_use]
pub fn line(look: &Look) -> String {
    let processes: Vec<_> = look.snapshots.iter().map(|snapshot| process(look, snapshot)).collect();
    format!("{}\n", json!({ "processes": processes, "gone": look.gone }))
}

fn process(look: &Look, snapshot: &Snapshot) -> Value {
    let [major, minor, patch] = snapshot.library;
    let connections = look.connections().filter(|(of, ..)| of.pid == snapshot.pid);
    json!({
        "pid": snapshot.pid,
        "program": snapshot.program,
        "library": format!("{major}.{minor}.{patch}"),
        "read_at_ns": snapshot.read_at_ns,
        "unsettled_lines": snapshot.unsettled,
        "process": named(snapshot.process.named()),
        "pollers": snapshot.pollers.iter().map(|line| named(line.named())).collect::<Vec<_>>(),
        "connections": connections.map(|(_, line, rates)| connection(line, &rates)).collect::<Vec<_>>(),
    })
}

fn connection(line: &ConnectionLine, rates: &Rates) -> Value {
    let peer = match line.peer {
        Peer::Process(cred) => json!({ "pid": cred.pid, "uid": cred.uid }),
        Peer::Host(address) => json!({ "address": address.to_string() }),
        _ => Value::Null,
    };
    let per_second: Map<_, _> = rates.named().map(|(name, rate)| (name.to_owned(), json!(rate))).collect();
    json!({
        "number": line.number,
        "fabric": line.fabric,
        "role": line.role.name(),
        "peer": peer,
        "state": line.state.name(),
        "protocol": line.protocol.name(),
        "made_at_ns": line.made_at_ns,
        "copied_at_ns": line.copied_at_ns,
        "active_at_ns": line.active_at_ns,
        "provisioned_bytes": line.provisioned_bytes,
        "landing_max_bytes": line.landing_max_bytes,
        "landing_bytes": line.landing_bytes,
        "landing_peak_bytes": line.landing_peak_bytes,
        "mapped_bytes": line.mapped_bytes,
        "window_bytes": line.window_bytes,
        "counts": named(line.counts.named()),
        "per_second": per_second,
    })
}

fn named(counts: impl Iterator<Item = (&'static str, u64)>) -> Map<String, Value> {
    counts.map(|(name, count)| (name.to_owned(), json!(count))).collect()
}
