//! Rates: differences of two looks by the time between both copies of a line.

use std::collections::BTreeMap;
use superpipe::metrics::{ConnectionCounts, ConnectionLine, Snapshot};

/// Shortest time between two copies of which rates are made: processes copy no more often.
const PERIOD_MIN_NS: u64 = 50_000_000;

/// Rates of a connection, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// each counter, in the order of [`ConnectionCounts::named`]
    per_second: [f64; COUNTERS],
}

/// Number of counters.
const COUNTERS: usize = 30;

/// Lines of earlier looks.
#[derive(Debug, Default)]
pub struct Previous(BTreeMap<(u32, u64), Seen>);

/// The copy of a line that rates begin with, and the rates that were made last.
#[derive(Debug, Clone, Copy)]
struct Seen {
    line: ConnectionLine,
    rates: Rates,
}

impl Rates {
    /// Returns the rate of a counter, by its name.
    #[must_use]
    pub fn of(&self, name: &str) -> f64 {
        self.named().find(|(one, _)| *one == name).map_or(0.0, |(_, rate)| rate)
    }

    /// Returns each counter's rate with its name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let names = ConnectionCounts::default().named().map(|(name, _)| name);
        names.zip(self.per_second)
    }

    /// Returns the rates of what was counted in this time.
    fn over(now: &ConnectionCounts, before: &ConnectionCounts, ns: u64) -> Self {
        let mut rates = Self::default();
        if ns == 0 {
            return rates;
        }
        let counts = now.named().zip(before.named());
        for (rate, ((_, now), (_, before))) in rates.per_second.iter_mut().zip(counts) {
            // Counters wrap. A process that counts backwards is faulty, and its rates are as wrong as its counts.
            *rate = to_f64(now.wrapping_sub(before)) * 1e9 / to_f64(ns);
        }
        rates
    }
}

impl Previous {
    /// Returns the rates of all connections: since the copy that was seen before, or since they were made. Connections that are not there any more are forgotten.
    pub fn rates(&mut self, snapshots: &[Snapshot]) -> BTreeMap<(u32, u64), Rates> {
        let mut seen = BTreeMap::new();
        for snapshot in snapshots {
            for line in &snapshot.connections {
                let key = (snapshot.pid, line.number);
                // A pid that came again has other connections.
                let before = self.0.get(&key).filter(|before| before.line.made_at_ns == line.made_at_ns);
                seen.insert(key, Seen::after(before, line));
            }
        }
        let rates = seen.iter().map(|(key, seen)| (*key, seen.rates)).collect();
        self.0 = seen;
        rates
    }
}

impl Seen {
    fn after(before: Option<&Self>, line: &ConnectionLine) -> Self {
        let Some(before) = before else {
            let ns = line.copied_at_ns.saturating_sub(line.made_at_ns);
            return Self { line: *line, rates: Rates::over(&line.counts, &ConnectionCounts::default(), ns) };
        };
        let ns = line.copied_at_ns.saturating_sub(before.line.copied_at_ns);
        if ns < PERIOD_MIN_NS {
            // Nothing new: the rates are those of before, and the column AGE says how old.
            return *before;
        }
        Self { line: *line, rates: Rates::over(&line.counts, &before.line.counts, ns) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with three digits")]
const fn to_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_rate() {
        assert_eq!(ConnectionCounts::default().named().count(), COUNTERS);
        let rates = Rates { per_second: core::array::from_fn(|place| place as f64) };
        assert_eq!(rates.of("transfers_sent"), 0.0);
        assert_eq!(rates.of("registrations_failed"), 29.0);
        assert_eq!(rates.of("nothing"), 0.0);
    }

    #[test]
    fn rates_are_differences_by_the_time_between_the_copies() {
        let (mut now, mut before) = (ConnectionCounts::default(), ConnectionCounts::default());
        (now.bytes_sent, before.bytes_sent) = (1000, 700);
        // A counter that has wrapped goes on.
        (now.credit_waits, before.credit_waits) = (1, u64::MAX);
        let rates = Rates::over(&now, &before, 200_000_000);
        assert_eq!((rates.of("bytes_sent"), rates.of("credit_waits")), (1500.0, 10.0));
        assert_eq!(rates.of("bytes_received"), 0.0);
        assert_eq!(Rates::over(&now, &before, 0), Rates::default(), "no time has passed");
    }
}
