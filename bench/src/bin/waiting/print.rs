//! The output: JSON, one object per line, or a table for people.

use serde_json::{Value, json};
use superpipe::WaitStrategy;

use crate::client::Measured;
use crate::options::Placement;

/// The fields that every line begins with.
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) round: u64,
    pub(crate) placement: Placement,
    pub(crate) wait: WaitStrategy,
}

impl Output {
    pub(crate) fn latency(&self, bytes: usize, measured: &Measured) {
        self.line("latency", ("bytes", bytes as u64), measured);
    }

    pub(crate) fn wake_up(&self, pause_us: u32, measured: &Measured) {
        self.line("wake-up", ("pause_us", u64::from(pause_us)), measured);
    }

    fn line(&self, test: &str, (name, value): (&str, u64), measured: &Measured) {
        let Self { round, placement, wait, .. } = self;
        let (placement, wait, summary) = (placement.name(), wait.name(), &measured.summary);
        let (client, server) = (measured.client_cpu_percent, measured.server_cpu_percent);
        if !self.json {
            println!(
                "round {round}  {test:<8}{value:>6} {name:<9}{placement:<10}{wait:<6} min {:>9.3}  p50 {:>9.3}  \
                 p99 {:>9.3}  max {:>9.3} us  cpu {client:>5.1} {server:>5.1} %",
                summary.min_us, summary.p50_us, summary.p99_us, summary.max_us
            );
            return;
        }
        let mut object = json!({
            "event": "result", "program": "waiting", "test": test, "round": round,
            "placement": placement, "wait": wait,
            "min_us": summary.min_us, "p50_us": summary.p50_us, "avg_us": summary.avg_us,
            "p99_us": summary.p99_us, "p999_us": summary.p999_us, "max_us": summary.max_us,
            "client_cpu_percent": client, "server_cpu_percent": server,
            "samples": summary.samples, "messages_per_sample": summary.messages_per_sample,
        });
        object[name] = Value::from(value);
        println!("{object}");
    }
}
