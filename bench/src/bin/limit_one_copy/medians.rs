//! The result of all rounds: the median of each configuration, and its ratios to the bare ways in the same round.

use serde_json::{Value, json};
use superpipe_bench::probe::Distance;
use superpipe_bench::report::Describe;
use superpipe_bench::stats::Spread;

use crate::config::{Config, Way};

/// The half round trips of all rounds.
pub(crate) struct Medians<'a> {
    configs: &'a [Config],
    /// where the cores were; `None` if that was not probed
    distance: Option<Distance>,
    /// per configuration, one value per round
    rounds_us: Vec<Vec<f64>>,
}

impl<'a> Medians<'a> {
    pub(crate) fn new(configs: &'a [Config], distance: Option<Distance>) -> Self {
        Self { configs, distance, rounds_us: vec![Vec::new(); configs.len()] }
    }

    pub(crate) const fn distance(&self) -> Option<Distance> {
        self.distance
    }

    /// Adds the half round trips of all configurations in the next round.
    pub(crate) fn add(&mut self, halves_us: &[f64]) {
        for (rounds_us, half_us) in self.rounds_us.iter_mut().zip(halves_us) {
            rounds_us.push(*half_us);
        }
    }

    /// Prints one line per configuration, if there was a round.
    pub(crate) fn print(&self, json: bool) {
        for (index, config) in self.configs.iter().enumerate() {
            if self.rounds_us[index].is_empty() {
                continue;
            }
            let rates: Vec<f64> =
                self.rounds_us[index].iter().map(|us| config.bytes as f64 / (us * 1000.0)).collect();
            let ratios = [Way::Ring, Way::One, Way::Split].map(|way| self.over(index, way));
            let rate = Spread::new(&rates);
            if json {
                let mut object = to_json(config, rates.len(), rate, ratios);
                object["distance"] = json!(self.distance.map(Distance::name));
                println!("{object}");
            } else {
                let distance = self.distance.map_or("", Distance::name);
                println!("{}  {distance}", to_row(config, rates.len(), rate, ratios));
            }
        }
    }

    /// Returns the rate over that of another way with the same size and kernel, formed in each round.
    fn over(&self, index: usize, way: Way) -> Option<Spread> {
        let other = Config { way, ..self.configs[index] };
        let other_at = self.configs.iter().position(|config| *config == other)?;
        let rounds = self.rounds_us[other_at].iter().zip(&self.rounds_us[index]);
        Some(Spread::new(&rounds.map(|(other_us, us)| other_us / us).collect::<Vec<_>>()))
    }
}

fn to_json(
    config: &Config,
    rounds: usize,
    rate: Spread,
    [over_ring, over_one, over_split]: [Option<Spread>; 3],
) -> Value {
    let mut object = json!({
        "event": "median", "kind": Config::KIND, "rounds": rounds, "bytes": config.bytes,
        "gb_per_s": rate.to_json(), "over_ring": over_ring.map(Spread::to_json),
        "over_one": over_one.map(Spread::to_json), "over_split": over_split.map(Spread::to_json),
    });
    for (name, value) in config.parts() {
        object[name] = value;
    }
    object
}

fn to_row(config: &Config, rounds: usize, rate: Spread, ratios: [Option<Spread>; 3]) -> String {
    let parts: Vec<String> = config.parts().iter().map(|(name, value)| format!("{name} {value}")).collect();
    let ratio = |name: &str, ratio: Option<Spread>| {
        ratio.map_or(String::new(), |ratio| format!("  over {name} {}", ratio.to_text()))
    };
    let [over_ring, over_one, over_split] = ratios;
    let ratios = ratio("ring", over_ring) + &ratio("one", over_one) + &ratio("split", over_split);
    format!(
        "median of {rounds}  {:>9} B  {:<50}  {} GB/s{ratios}",
        config.bytes,
        parts.join("  ").replace('"', ""),
        rate.to_text()
    )
}

#[cfg(test)]
mod tests {
    use superpipe_bench::kernels::Kernel;
    use superpipe_bench::stats::Spread;

    use super::Medians;
    use crate::config::{Config, Way};

    #[test]
    fn ratios_are_formed_inside_each_round() {
        let with = |bytes, way| Config { bytes, way, copy: Kernel::Plain, unwritten: false, read: false };
        let configs =
            [with(128, Way::One), with(256, Way::Ring), with(128, Way::Ring), with(256, Way::Split)];
        let mut medians = Medians::new(&configs, None);
        for round in [[1.0, 7.0, 2.0, 7.0], [10.0, 7.0, 30.0, 3.5], [2.0, 7.0, 2.0, 14.0]] {
            medians.add(&round);
        }
        assert_eq!(medians.over(0, Way::Ring), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(medians.over(3, Way::Ring), Some(Spread { median: 1.0, min: 0.5, max: 2.0 }));
        assert_eq!(medians.over(2, Way::One), Some(Spread { median: 0.5, min: 1.0 / 3.0, max: 1.0 }));
        assert_eq!(medians.over(2, Way::Ring), Some(Spread { median: 1.0, min: 1.0, max: 1.0 }));
        assert_eq!(Medians::new(&configs[..1], None).over(0, Way::Ring), None);
    }
}
