//! The result of all rounds, by the distance of the cores: medians of times, and of ratios that were formed inside rounds.

use serde_json::json;
use superpipe_bench::probe::Distance;
use superpipe_bench::stats::Spread;

use crate::visit::{Visit, median_us};

/// What the page of a connection on demand holds at once (docs/architecture/memory.md, "Landing on demand").
const PAGE_HOLDS: usize = 2672;

/// Times of one size in one round, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) bytes: usize,
    pub(crate) today: f64,
    pub(crate) hidden: f64,
    pub(crate) plain: f64,
    pub(crate) transfer: f64,
    pub(crate) provision: f64,
    pub(crate) slab: f64,
}

impl Measured {
    pub(crate) fn new(bytes: usize, [today, hidden, plain]: [&Vec<Visit>; 3], slab: f64) -> Self {
        let first = |visits: &[Visit]| median_us(visits, |visit| visit.first_ns);
        Self {
            bytes,
            today: first(today),
            hidden: first(hidden),
            plain: first(plain),
            transfer: median_us(plain, |visit| visit.second_ns),
            provision: median_us(plain, |visit| visit.jobs_ns),
            slab,
        }
    }

    /// First message on demand over that of today. At most 1.1 is wanted up to what the page holds.
    fn over_today(&self) -> f64 {
        self.hidden / self.today
    }

    /// First message on demand over that of today and the provisioning of the first slab. At most 1 is wanted beyond the page.
    fn over_today_and_slab(&self) -> f64 {
        self.hidden / (self.today + self.slab)
    }

    /// Share of the shorter of provisioning and transfer that is hidden. At least 0.8 is wanted.
    fn hidden_share(&self) -> f64 {
        (self.plain - self.hidden) / self.provision.min(self.transfer)
    }
}

/// The rounds.
#[derive(Default)]
pub(crate) struct Figures {
    rounds: Vec<(Distance, Vec<Measured>)>,
}

impl Figures {
    pub(crate) fn add(&mut self, distance: Distance, measured: Vec<Measured>) {
        self.rounds.push((distance, measured));
    }

    pub(crate) fn print(&self, json: bool, wanted: u64) {
        for distance in Distance::ALL {
            let rounds: Vec<_> =
                self.rounds.iter().filter(|(at, _)| *at == distance).map(|(_, round)| round).collect();
            let sizes = rounds.first().map_or(0, |round| round.len());
            for index in 0..sizes {
                let of_size: Vec<_> = rounds.iter().filter_map(|round| round.get(index)).collect();
                print_size(json, distance, &of_size);
            }
        }
        let left_out = wanted.saturating_sub(self.rounds.len() as u64);
        if left_out > 0 {
            eprintln!(
                "{left_out} of {wanted} rounds are left out: the distance of the cores changed in them"
            );
        }
    }
}

fn print_size(json: bool, distance: Distance, rounds: &[&Measured]) {
    let Some(bytes) = rounds.first().map(|measured| measured.bytes) else { return };
    let spread = |value: &dyn Fn(&Measured) -> f64| {
        Spread::new(&rounds.iter().map(|measured| value(measured)).collect::<Vec<_>>())
    };
    let mut columns = vec![
        ("today_us", spread(&|it| it.today)),
        ("hidden_us", spread(&|it| it.hidden)),
        ("plain_us", spread(&|it| it.plain)),
        ("transfer_us", spread(&|it| it.transfer)),
        ("provision_us", spread(&|it| it.provision)),
        ("slab_us", spread(&|it| it.slab)),
        ("over_today", spread(&Measured::over_today)),
    ];
    if bytes > PAGE_HOLDS {
        columns.push(("over_today_and_slab", spread(&Measured::over_today_and_slab)));
        columns.push(("hidden_share", spread(&Measured::hidden_share)));
    }
    if json {
        let mut object = json!({
            "event": "median", "kind": "first-message", "distance": distance.name(), "rounds": rounds.len(), "bytes": bytes,
        });
        for (name, spread) in columns {
            object[name] = spread.to_json();
        }
        println!("{object}");
    } else {
        println!("{bytes} B, {}, median [min, max] of {} rounds", distance.name(), rounds.len());
        columns.iter().for_each(|(name, spread)| println!("  {name:<20} {}", spread.to_text()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_the_targets() {
        let measured = Measured {
            bytes: 1 << 20,
            today: 100.0,
            hidden: 110.0,
            plain: 250.0,
            transfer: 90.0,
            provision: 140.0,
            slab: 10.0,
        };
        assert_eq!((measured.over_today(), measured.over_today_and_slab()), (1.1, 1.0));
        assert_eq!(measured.hidden_share(), 140.0 / 90.0);
    }
}
