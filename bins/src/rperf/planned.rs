//! The plan of a message of a run, and what it took.

use superpipe::{Connection, Planned};

/// The newest planned message of a run whose time counts, at this end, and how the next one would go.
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
    /// Returns that of a connection, if it was a message of `bytes` bytes.
    #[must_use]
    pub fn of(connection: &mut Connection, bytes: u64) -> Option<Self> {
        let Planned { memory, way, reason, predicted_ns, took_ns, .. } =
            connection.last_planned().filter(|planned| planned.bytes == bytes)?;
        let explanation = connection.explain(bytes, memory)?.to_string();
        Some(Self {
            way: way.name(),
            reason: reason.name(),
            memory: memory.name(),
            predicted_us: predicted_ns.round() / 1e3,
            took_us: took_us(took_ns),
            explanation,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time for people")]
fn took_us(ns: u64) -> f64 {
    ns as f64 / 1e3
}
