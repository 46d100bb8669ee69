//! The plan of a message of a run, and what it took.

use superpipe::{Connection, Planned};

/// The newest planned message of a run, at this end, whose end was seen in time, and how the next one would go.
#[derive(Debug, Clone)]
pub struct LastPlanned {
    /// name of the way that was chosen
    pub way: &'static str,
    /// name of the reason
    pub reason: &'static str,
    /// name of what the sender knew of the message's memory
    pub memory: &'static str,
    /// microseconds that were predicted
    pub predicted_us: f64,
    /// microseconds that it took, until it was acknowledged and its memory released
    pub took_us: f64,
    /// every way with its expected time, for people
    pub explanation: String,
}

impl LastPlanned {
    /// Returns the newest planned message of `bytes` bytes of a connection, unless it is the one that was the newest `before`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are months")]
    pub fn newest(connection: &mut Connection, bytes: u64, before: Option<Planned>) -> Option<Self> {
        let newest = connection.last_planned().filter(|planned| planned.bytes == bytes);
        let Planned { memory, way, reason, predicted_ns, took_ns, .. } =
            newest.filter(|_| newest != before)?;
        let explanation = connection.explain(bytes, memory)?.to_string();
        Some(Self {
            way: way.name(),
            reason: reason.name(),
            memory: memory.name(),
            predicted_us: us(predicted_ns),
            took_us: us(took_ns as f64),
            explanation,
        })
    }
}

/// Returns microseconds, rounded to a nanosecond.
fn us(ns: f64) -> f64 {
    ns.round() / 1e3
}
