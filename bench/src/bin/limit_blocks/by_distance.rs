//! A sweep whose every visit is tagged with the distance of the cores, since that changes while it runs. The best configurations of each distance
//! are visited again, in turn, beside the reference.

use serde_json::json;
use superpipe_bench::failure::Failure;
use superpipe_bench::kernels::Kernel;
use superpipe_bench::probe::Distance;
use superpipe_bench::report::{Describe, Pass, print};
use superpipe_bench::stats::{Spread, Summary};

use crate::client::Client;
use crate::config::{Config, Flag, Options};

/// Configurations of a size, pattern and distance that are visited again, beside the reference.
const FINALISTS: usize = 4;
/// Further visits to each of them, at whatever distance the cores have then.
const FINAL_ROUNDS: usize = 9;
/// Attempts at a visit during which the distance does not change.
const ATTEMPTS: usize = 5;

/// The half round trips of configurations at each distance.
struct Visits {
    configs: Vec<Config>,
    /// by distance and configuration, one value per visit
    us: [Vec<Vec<f64>>; Distance::ALL.len()],
}

impl Visits {
    fn new(configs: Vec<Config>) -> Self {
        let us = Distance::ALL.map(|_| vec![Vec::new(); configs.len()]);
        Self { configs, us }
    }

    /// Records one visit to each configuration, or none if the distance changed during all attempts.
    fn add_round(
        &mut self,
        client: &mut Client<'_>,
        visit_ns: u64,
        mut print: impl FnMut(Config, Distance, &Summary),
    ) -> Result<(), Failure> {
        for (index, &config) in self.configs.iter().enumerate() {
            for _ in 0..ATTEMPTS {
                let before = client.probe()?;
                let summary = client.visit(config, visit_ns)?;
                if client.probe()? == before {
                    print(config, before, &summary);
                    self.us[before as usize][index].push(summary.p50_us);
                    break;
                }
            }
        }
        Ok(())
    }

    /// The configurations visited at a distance, with their spreads, the one with the lowest median first.
    fn ranked(&self, distance: Distance) -> Vec<(Config, Spread, usize)> {
        let visited = self.configs.iter().zip(&self.us[distance as usize]).filter(|(_, us)| !us.is_empty());
        let mut ranked: Vec<_> = visited.map(|(&config, us)| (config, Spread::new(us), us.len())).collect();
        ranked.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
        ranked
    }
}

/// The ring of superpipe's defaults: other choices are compared with it.
fn reference(of: Config) -> Config {
    Config {
        block: 16 << 10,
        ring: 512 << 10,
        flag: Flag::Apart,
        copy_in: Kernel::Plain,
        copy_out: Kernel::Plain,
        ..of
    }
}

/// All configurations of the options, with the reference of each group.
pub(crate) fn with_references(mut groups: Vec<Vec<Config>>) -> Vec<Vec<Config>> {
    for group in &mut groups {
        let reference = reference(group[0]);
        if !group.contains(&reference) {
            group.push(reference);
        }
    }
    groups
}

/// Sweeps, visits the best again, and prints them.
pub(crate) fn measure(
    client: &mut Client<'_>,
    options: &Options,
    groups: Vec<Vec<Config>>,
    visit_ns: u64,
) -> Result<(), Failure> {
    let json = options.common.json;
    for group in groups {
        let reference = reference(group[0]);
        let mut sweep = Visits::new(group);
        for round in 1..=options.common.rounds {
            sweep.add_round(client, visit_ns, |config, distance, summary| {
                if json {
                    print(json, Pass::Round(round), &Visited { config, distance }, summary);
                }
            })?;
        }
        let mut finalists = vec![reference];
        for distance in Distance::ALL {
            for (config, ..) in sweep.ranked(distance).into_iter().take(FINALISTS) {
                if !finalists.contains(&config) {
                    finalists.push(config);
                }
            }
        }
        let mut finals = Visits::new(finalists);
        for _ in 0..FINAL_ROUNDS {
            finals.add_round(client, visit_ns, |_, _, _| ())?;
        }
        for distance in Distance::ALL {
            print_ranking(json, distance, &finals.ranked(distance), reference);
        }
    }
    Ok(())
}

fn print_ranking(json: bool, distance: Distance, ranked: &[(Config, Spread, usize)], reference: Config) {
    let reference_us = ranked.iter().find(|(config, ..)| *config == reference).map(|(_, us, _)| us.median);
    for (rank, &(config, us, visits)) in ranked.iter().enumerate() {
        let over_reference = reference_us.map(|reference_us| reference_us / us.median);
        let gb_per_s = config.bytes as f64 / (us.median * 1000.0);
        if json {
            let mut object = json!({
                "event": "median", "kind": Config::KIND, "distance": distance.name(), "bytes": config.bytes, "rank": rank + 1,
                "visits": visits, "us": us.to_json(), "gb_per_s": gb_per_s, "over_reference": over_reference,
            });
            for (name, value) in config.parts() {
                object[name] = value;
            }
            println!("{object}");
        } else {
            let parts: Vec<String> =
                config.parts().iter().map(|(name, value)| format!("{name} {value}")).collect();
            println!(
                "{:<5} {:>9} B  {:<84} {} us, {visits} visits  {gb_per_s:>6.2} GB/s  {} x the reference's speed",
                distance.name(),
                config.bytes,
                parts.join("  ").replace('"', ""),
                us.to_text(),
                over_reference.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
            );
        }
    }
}

/// A configuration at a distance, as a visit is printed.
struct Visited {
    config: Config,
    distance: Distance,
}

impl Describe for Visited {
    const KIND: &'static str = Config::KIND;

    fn parts(&self) -> Vec<(&'static str, serde_json::Value)> {
        let mut parts = self.config.parts();
        parts.push(("distance", json!(self.distance.name())));
        parts
    }

    fn message_bytes(&self) -> usize {
        self.config.bytes
    }
}
