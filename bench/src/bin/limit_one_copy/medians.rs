//! The result of all rounds: the median of each configuration, and its ratio to the ring in the same round.

use serde_json::{Value, json};
use superpipe_bench::report::Describe;
use superpipe_bench::stats::median;

use crate::config::{Config, Way};

/// The half round trips of all rounds.
pub(crate) struct Medians<'a> {
    configs: &'a [Config],
    /// per configuration, one value per round
    rounds_us: Vec<Vec<f64>>,
}

/// The median of some values, and the values that they lie between.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn new(values: &[f64]) -> Self {
        Self {
            median: median(values),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    fn to_json(self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }

    fn to_text(self) -> String {
        format!("{:>6.2} [{:>6.2}, {:>6.2}]", self.median, self.min, self.max)
    }
}

impl<'a> Medians<'a> {
    pub(crate) fn new(configs: &'a [Config]) -> Self {
        Self { configs, rounds_us: vec![Vec::new(); configs.len()] }
    }

    /// Adds the half round trip of the configuration at `index` in the next round.
    pub(crate) fn add(&mut self, index: usize, half_us: f64) {
        self.rounds_us[index].push(half_us);
    }

    /// Prints one line per configuration, if there was a round.
    pub(crate) fn print(&self, json: bool) {
        for (index, config) in self.configs.iter().enumerate() {
            if self.rounds_us[index].is_empty() {
                continue;
            }
            let rates: Vec<f64> =
                self.rounds_us[index].iter().map(|us| config.bytes as f64 / (us * 1000.0)).collect();
            let (rate, over_ring) = (Spread::new(&rates), self.over_ring(index));
            if json {
                println!("{}", to_json(config, rates.len(), rate, over_ring));
            } else {
                println!("{}", to_row(config, rates.len(), rate, over_ring));
            }
        }
    }

    /// Returns the rate over that of the ring with the same size and kernel, formed in each round.
    fn over_ring(&self, index: usize) -> Option<Spread> {
        let ring = Config { way: Way::Ring, ..self.configs[index] };
        let ring_at = self.configs.iter().position(|config| *config == ring)?;
        let rounds = self.rounds_us[ring_at].iter().zip(&self.rounds_us[index]);
        Some(Spread::new(&rounds.map(|(ring_us, us)| ring_us / us).collect::<Vec<_>>()))
    }
}

fn to_json(config: &Config, rounds: usize, rate: Spread, over_ring: Option<Spread>) -> Value {
    let mut object = json!({
        "event": "median", "kind": Config::KIND, "rounds": rounds, "bytes": config.bytes,
        "gb_per_s": rate.to_json(), "over_ring": over_ring.map(Spread::to_json),
    });
    for (name, value) in config.parts() {
        object[name] = value;
    }
    object
}

fn to_row(config: &Config, rounds: usize, rate: Spread, over_ring: Option<Spread>) -> String {
    let parts: Vec<String> = config.parts().iter().map(|(name, value)| format!("{name} {value}")).collect();
    let over_ring = over_ring.map_or(String::new(), |ratio| format!("  over ring {}", ratio.to_text()));
    format!(
        "median of {rounds}  {:>9} B  {:<50}  {} GB/s{over_ring}",
        config.bytes,
        parts.join("  ").replace('"', ""),
        rate.to_text()
    )
}

#[cfg(test)]
mod tests {
    use superpipe_bench::kernels::Kernel;

    use super::{Medians, Spread};
    use crate::config::{Config, Way};

    #[test]
    fn ratios_are_formed_inside_each_round() {
        let with = |bytes, way| Config { bytes, way, copy: Kernel::Plain, unwritten: false, read: false };
        let configs =
            [with(128, Way::One), with(256, Way::Ring), with(128, Way::Ring), with(256, Way::Split)];
        let mut medians = Medians::new(&configs);
        for round in [[1.0, 7.0, 2.0, 7.0], [10.0, 7.0, 30.0, 3.5], [2.0, 7.0, 2.0, 14.0]] {
            for (index, us) in round.into_iter().enumerate() {
                medians.add(index, us);
            }
        }
        assert_eq!(medians.over_ring(0), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(medians.over_ring(3), Some(Spread { median: 1.0, min: 0.5, max: 2.0 }));
        assert_eq!(medians.over_ring(2), Some(Spread { median: 1.0, min: 1.0, max: 1.0 }));
        assert_eq!(Medians::new(&configs[..1]).over_ring(0), None);
    }
}
