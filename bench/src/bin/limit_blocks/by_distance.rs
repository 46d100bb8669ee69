//! A sweep whose every visit is tagged with the distance of the cores, since that changes while it runs. It ends when every configuration was visited
//! at the present distance; others are complete or not, as they were seen. The best configurations of each distance are visited again, in turn, beside
//! the reference.

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
/// Limit on the visits of a sweep, in visits that are wanted at one distance: the cores may move all the time.
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

    /// Visits configurations until each has `count` visits at the distance that the cores have then. Visits in which they move are not recorded, and
    /// those at another distance count for that one.
    fn visit(
        &mut self,
        client: &mut Client<'_>,
        visit_ns: u64,
        count: usize,
        mut print: impl FnMut(Config, Distance, &Summary),
    ) -> Result<(), Failure> {
        let mut before = client.probe()?;
        for _ in 0..ATTEMPTS * count * self.configs.len() {
            let Some(index) = self.next(before, count) else { break };
            let summary = client.visit(self.configs[index], visit_ns)?;
            let after = client.probe()?;
            if after == before {
                print(self.configs[index], before, &summary);
                self.us[before as usize][index].push(summary.p50_us);
            }
            before = after;
        }
        Ok(())
    }

    /// The configuration with the fewest visits at a distance, if it has fewer than `count`.
    fn next(&self, distance: Distance, count: usize) -> Option<usize> {
        let visits = self.us[distance as usize].iter().map(Vec::len).enumerate();
        visits.min_by_key(|&(_, visits)| visits).filter(|&(_, visits)| visits < count).map(|(index, _)| index)
    }

    /// Configurations that were visited at a distance.
    fn visited(&self, distance: Distance) -> usize {
        self.us[distance as usize].iter().filter(|us| !us.is_empty()).count()
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
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    for group in groups {
        let reference = reference(group[0]);
        let mut sweep = Visits::new(group);
        sweep.visit(client, visit_ns, count(options.common.rounds), |config, distance, summary| {
            if json {
                print(json, Pass::Sweep, &Visited { config, distance }, summary);
            }
        })?;
        let mut finalists = vec![reference];
        for distance in Distance::ALL {
            for (config, ..) in sweep.ranked(distance).into_iter().take(FINALISTS) {
                if !finalists.contains(&config) {
                    finalists.push(config);
                }
            }
        }
        let mut finals = Visits::new(finalists);
        finals.visit(client, visit_ns, count(options.final_visits), |_, _, _| ())?;
        for distance in Distance::ALL {
            let swept = (sweep.visited(distance), sweep.configs.len());
            print_ranking(json, distance, &finals.ranked(distance), reference, swept);
        }
    }
    Ok(())
}

/// Prints the configurations of a distance. `swept` of how many configurations were visited there in the sweep.
fn print_ranking(
    json: bool,
    distance: Distance,
    ranked: &[(Config, Spread, usize)],
    reference: Config,
    (swept, configurations): (usize, usize),
) {
    let reference_us = ranked.iter().find(|(config, ..)| *config == reference).map(|(_, us, _)| us.median);
    for (rank, &(config, us, visits)) in ranked.iter().enumerate() {
        let over_reference = reference_us.map(|reference_us| reference_us / us.median);
        let gb_per_s = config.bytes as f64 / (us.median * 1000.0);
        if json {
            let mut object = json!({
                "event": "median", "kind": Config::KIND, "distance": distance.name(), "bytes": config.bytes, "rank": rank + 1,
                "visits": visits, "us": us.to_json(), "gb_per_s": gb_per_s, "over_reference": over_reference,
                "swept": swept, "configurations": configurations,
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

#[cfg(test)]
mod tests {
    use super::{Distance, Kernel, Visits, reference};
    use crate::config::{Config, Flag};
    use crate::task::Pattern;

    #[test]
    fn a_sweep_is_complete_at_each_distance_by_itself() {
        let base = Config {
            bytes: 4096,
            pattern: Pattern::Stream,
            block: 4096,
            ring: 65_536,
            flag: Flag::End,
            copy_in: Kernel::Plain,
            copy_out: Kernel::Plain,
        };
        let mut visits = Visits::new(vec![base, reference(base)]);
        let mut order = Vec::new();
        for distance in [Distance::Near, Distance::Far, Distance::Near, Distance::Near, Distance::Far] {
            let next = visits.next(distance, 1);
            order.push(next);
            if let Some(index) = next {
                visits.us[distance as usize][index].push(1.0);
            }
        }
        assert_eq!(order, [Some(0), Some(0), Some(1), None, Some(1)]);
        assert_eq!(Distance::ALL.map(|distance| visits.visited(distance)), [2, 0, 2]);
        assert_eq!(visits.next(Distance::Near, 2), Some(0));
    }
}
