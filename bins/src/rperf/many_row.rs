//! Results of one size and direction over many connections.

use super::counts::Counts;
use super::histogram::Histogram;
use super::options::Test;
use serde::Serialize;

/// Result of one size and direction. The fields are the columns of `--csv` and the keys of `--json`, in this order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ManyRow {
    /// always "many"
    pub event: &'static str,
    /// test that was run
    pub test: Test,
    /// where the messages went
    pub direction: Direction,
    /// size of a message
    pub bytes: u64,
    /// connections over which messages went
    pub connections: u64,
    /// further connections that were idle
    pub idle: u32,
    /// messages, or round trips, over all connections
    pub messages: u64,
    /// time from the begin of the run to the last of them
    pub seconds: f64,
    /// messages, or round trips, per second
    pub messages_per_s: f64,
    /// their bytes, in 10^9 per second
    pub gb_per_s: f64,
    /// messages per second of the slowest connection
    pub connection_min_per_s: f64,
    /// of the median one
    pub connection_p50_per_s: f64,
    /// of the fastest one
    pub connection_max_per_s: f64,
    /// what the slowest connection had, of its fair share: the total divided by the connections
    pub least_share: f64,
    /// median of half a round trip; none of streams
    pub p50_us: Option<f64>,
    /// 99th percentile
    pub p99_us: Option<f64>,
    /// maximum
    pub max_us: Option<f64>,
    /// time of a connect, with those that were made beside it
    pub connect_us: f64,
    /// CPU time of the client's thread, of the elapsed time
    pub cpu_percent: f64,
    /// CPU time of the server's thread, of the elapsed time
    pub peer_cpu_percent: f64,
    /// negotiated protocol
    pub protocol: &'static str,
    /// wait strategy of both ends
    pub wait: &'static str,
    /// fabric: shm or verbs
    pub fabric: &'static str,
    /// core that the client is pinned to
    pub core: Option<u32>,
    /// core that the server is pinned to
    pub peer_core: Option<u32>,
    /// version of rperf
    pub version: &'static str,
}

/// Directions of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// each was answered
    RoundTrips,
    /// from the client
    ToServer,
    /// from the server
    ToClient,
    /// both at once
    Sum,
}

impl Direction {
    /// Returns the name, as in `--json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundTrips => "round-trips",
            Self::ToServer => "to-server",
            Self::ToClient => "to-client",
            Self::Sum => "sum",
        }
    }
}

impl ManyRow {
    /// Returns the result of these counts, without the properties of the ends.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    pub fn new(test: Test, direction: Direction, bytes: u64, counts: &Counts) -> Self {
        let (seconds, connections) = (counts.elapsed().as_secs_f64(), counts.messages.len() as u64);
        let per_s = |count: u64| if seconds > 0.0 { round(count as f64 / seconds, 1) } else { 0.0 };
        let [least, middle, most] = counts.spread();
        let messages = counts.total();
        let fair = messages as f64 / connections.max(1) as f64;
        Self {
            event: "many",
            test,
            direction,
            bytes,
            connections,
            idle: 0,
            messages,
            seconds: round(seconds, 6),
            messages_per_s: per_s(messages),
            gb_per_s: if seconds > 0.0 {
                round(messages as f64 * bytes as f64 / seconds / 1e9, 6)
            } else {
                0.0
            },
            connection_min_per_s: per_s(least),
            connection_p50_per_s: per_s(middle),
            connection_max_per_s: per_s(most),
            least_share: if fair > 0.0 { round(least as f64 / fair, 3) } else { 0.0 },
            p50_us: None,
            p99_us: None,
            max_us: None,
            connect_us: 0.0,
            cpu_percent: 0.0,
            peer_cpu_percent: 0.0,
            protocol: "",
            wait: "",
            fabric: "",
            core: None,
            peer_core: None,
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// Sets the times of half round trips.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "times for people")]
    pub fn with_trips(self, trips: &Histogram) -> Self {
        let half_us = |permille| Some(round(trips.percentile(permille) as f64 / 2000.0, 4));
        Self { p50_us: half_us(500), p99_us: half_us(990), max_us: half_us(1000), ..self }
    }
}

fn round(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_all_and_of_each() {
        let counts = Counts { elapsed_ns: 2_000_000_000, messages: vec![10, 20, 30, 20] };
        let row = ManyRow::new(Test::Stream, Direction::ToServer, 1_000_000, &counts);
        assert_eq!((row.connections, row.messages, row.seconds), (4, 80, 2.0));
        assert_eq!((row.messages_per_s, row.gb_per_s), (40.0, 0.04));
        let each = [row.connection_min_per_s, row.connection_p50_per_s, row.connection_max_per_s];
        assert_eq!((each, row.least_share), ([5.0, 10.0, 15.0], 0.5));
        let other = Counts { elapsed_ns: 4_000_000_000, messages: vec![20, 20, 20, 20] };
        assert_eq!(
            counts.beside(&other),
            Counts { elapsed_ns: 4_000_000_000, messages: vec![30, 40, 50, 40] }
        );
        let none = ManyRow::new(Test::Stream, Direction::Sum, 8, &Counts::default());
        assert_eq!((none.messages_per_s, none.gb_per_s, none.least_share), (0.0, 0.0, 0.0));
        let mut trips = Histogram::default();
        (0..100).for_each(|_| trips.push(100));
        assert_eq!(none.with_trips(&trips).max_us, Some(0.05));
    }
}
