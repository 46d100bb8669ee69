//! The output: medians of rounds, and of ratios that were formed inside rounds.

use serde_json::{Map, Value, json};
use superpipe_bench::stats::{Spread, median};

use crate::way::Way;

const ICEORYX2: &str = "iceoryx2";

/// Microseconds of a message in each round, for one size.
pub(crate) struct Row {
    bytes: usize,
    ways_us: [Vec<f64>; Way::ALL.len()],
    iceoryx2_us: Vec<f64>,
}

impl Row {
    pub(crate) const fn new(bytes: usize) -> Self {
        Self { bytes, ways_us: [const { Vec::new() }; Way::ALL.len()], iceoryx2_us: Vec::new() }
    }

    pub(crate) fn add(&mut self, way: Way, us: f64) {
        self.ways_us[way as usize].push(us);
    }

    pub(crate) fn add_iceoryx2(&mut self, us: f64) {
        self.iceoryx2_us.push(us);
    }

    /// Returns the head of the table.
    pub(crate) fn header(has_iceoryx2: bool) -> String {
        let names = Way::ALL.map(Way::name).into_iter().chain(has_iceoryx2.then_some(ICEORYX2));
        let names: Vec<String> = names.map(|name| format!("{name:>24}")).collect();
        format!("{:>9} {}   (GB/s; rates over that of the ring)", "bytes", names.concat())
    }

    /// Prints the medians.
    pub(crate) fn print(&self, json: bool) {
        if json {
            println!("{}", self.to_json());
            return;
        }
        let columns = |of: &dyn Fn(&[f64]) -> Spread| -> String {
            self.all().map(|(_, us)| format!("{:>24}", of(us).to_text())).collect()
        };
        println!("{:>9} {}", self.bytes, columns(&|us| self.gb_per_s(us)));
        println!("{:>9} {}", "", columns(&|us| self.over_ring(us)));
    }

    fn to_json(&self) -> Value {
        let ways: Map<String, Value> = self
            .all()
            .map(|(name, us)| {
                let rates = json!({
                    "us": median(us), "gb_per_s": self.gb_per_s(us).to_json(), "over_ring": self.over_ring(us).to_json(),
                });
                (name.to_owned(), rates)
            })
            .collect();
        json!({"event": "median", "kind": "loans", "bytes": self.bytes, "ways": ways})
    }

    fn all(&self) -> impl Iterator<Item = (&'static str, &[f64])> {
        let iceoryx2 = (!self.iceoryx2_us.is_empty()).then_some((ICEORYX2, &self.iceoryx2_us[..]));
        Way::ALL.into_iter().zip(&self.ways_us).map(|(way, us)| (way.name(), &us[..])).chain(iceoryx2)
    }

    fn gb_per_s(&self, us: &[f64]) -> Spread {
        Spread::new(&us.iter().map(|us| self.bytes as f64 / us / 1000.0).collect::<Vec<_>>())
    }

    fn over_ring(&self, us: &[f64]) -> Spread {
        let ring = &self.ways_us[Way::Ring as usize];
        Spread::new(&us.iter().zip(ring).map(|(us, ring)| ring / us).collect::<Vec<_>>())
    }
}
