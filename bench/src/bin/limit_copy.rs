//! The raw limit of a copy: memcpy on one core between two resident buffers, the same ones for every message.
//!
//! Where the core that posts does the work of the wire, it does copy and wire in turn, and both rates give the bound of a
//! program that copies: 1 / (1 / wire + 1 / copy).

use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use superpipe_bench::failure::Failure;
use superpipe_bench::kernels::Kernel;
use superpipe_bench::map;
use superpipe_bench::pattern;
use superpipe_bench::process::pin_to;
use superpipe_bench::size::Size;
use superpipe_bench::slices::SlicePlan;
use superpipe_bench::stats::Summary;

/// Time of each size.
const BUDGET_NS: u64 = 100_000_000;

/// The rate of a copy on one core; one JSON object per size
#[derive(Parser)]
#[command(name = "limit_copy", version)]
struct Options {
    /// Bytes of a copy
    #[arg(long, value_delimiter = ',', default_value = "16K,64K,256K,1M,4M")]
    sizes: Vec<Size>,
    /// The core
    #[arg(long, default_value_t = 0)]
    core: usize,
}

fn main() -> ExitCode {
    Failure::report(measure(&Options::parse()))
}

fn measure(options: &Options) -> Result<(), Failure> {
    pin_to(options.core)?;
    for &Size(bytes) in &options.sizes {
        let (mut from, mut to) = (map::resident(bytes, false)?, map::resident(bytes, false)?);
        let (from, to) = (&mut from[..bytes], &mut to[..bytes]);
        pattern::fill(1, from);
        let mut copy = || {
            // SAFETY: both are slices of `bytes` bytes, of two buffers of this process.
            unsafe { Kernel::Plain.copy(to.as_mut_ptr(), from.as_ptr(), bytes) };
            Ok(())
        };
        let seen =
            Summary::new(&SlicePlan::warm_up(bytes).time(&mut copy)?, SlicePlan::warm_up(bytes).messages, 1);
        let plan = SlicePlan::new(seen.p50_us * 1000.0, BUDGET_NS);
        let summary = Summary::new(&plan.time(&mut copy)?, plan.messages, 1);
        if let Some(at) = pattern::find_wrong_byte(1, to) {
            return Err(Failure::Integrity(format!("byte {at} of {bytes}")));
        }
        let gb_per_s = bytes as f64 / (summary.p50_us * 1000.0);
        println!(
            "{}",
            json!({ "kind": "copy", "bytes": bytes, "p50_us": summary.p50_us, "gb_per_s": gb_per_s })
        );
    }
    Ok(())
}
