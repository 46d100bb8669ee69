//! The output: JSON, one object per line, or a table for people.

use serde_json::{Map, Value, json};

use crate::stats::Summary;

/// A configuration that names its parts. The keys are also the options that run it again.
pub trait Describe {
    /// `lines` or `blocks`.
    const KIND: &'static str;
    /// Returns the configuration's parts, by name.
    fn parts(&self) -> Vec<(&'static str, Value)>;
    /// Returns the bytes of one message.
    fn message_bytes(&self) -> usize;
}

/// The pass over the configurations that a line belongs to.
#[derive(Clone, Copy, Debug)]
pub enum Pass {
    /// the search for the best
    Sweep,
    /// a round of the measurement, from 1
    Round(u64),
}

/// Prints the result of one visit.
pub fn print<C: Describe>(json: bool, pass: Pass, config: &C, summary: &Summary) {
    if json {
        println!("{}", to_json(pass, config, summary));
    } else {
        println!("{}", to_row(pass, config, summary));
    }
}

/// Returns bytes over the median time, in 10^9 bytes per second.
fn gb_per_s(bytes: usize, summary: &Summary) -> f64 {
    bytes as f64 / (summary.p50_us * 1000.0)
}

fn to_json<C: Describe>(pass: Pass, config: &C, summary: &Summary) -> Value {
    let (event, round) = match pass {
        Pass::Sweep => ("sweep", 0),
        Pass::Round(round) => ("limit", round),
    };
    let bytes = config.message_bytes();
    let mut object: Map<String, Value> =
        config.parts().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let rest = json!({
        "event": event, "kind": C::KIND, "round": round, "bytes": bytes,
        "min_us": summary.min_us, "p50_us": summary.p50_us, "avg_us": summary.avg_us,
        "p99_us": summary.p99_us, "p999_us": summary.p999_us, "max_us": summary.max_us,
        "gb_per_s": gb_per_s(bytes, summary),
        "samples": summary.samples, "messages_per_sample": summary.messages_per_sample,
    });
    if let Value::Object(rest) = rest {
        object.extend(rest);
    }
    Value::Object(object)
}

fn to_row<C: Describe>(pass: Pass, config: &C, summary: &Summary) -> String {
    let pass = match pass {
        Pass::Sweep => "sweep".to_owned(),
        Pass::Round(round) => format!("round {round}"),
    };
    let parts: Vec<String> = config.parts().iter().map(|(name, value)| format!("{name} {value}")).collect();
    format!(
        "{pass:>8}  {:>9} B  {:<70}  min {:>10.4}  p50 {:>10.4}  p99 {:>10.4}  max {:>10.4} us  {:>7.2} GB/s",
        config.message_bytes(),
        parts.join("  ").replace('"', ""),
        summary.min_us,
        summary.p50_us,
        summary.p99_us,
        summary.max_us,
        gb_per_s(config.message_bytes(), summary)
    )
}
