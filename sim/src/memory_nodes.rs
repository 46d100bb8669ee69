//! Check of where registered memory should lie on hosts whose polling core and device are on different memory nodes: which choice is best under
//! which costs. docs/testing.md, "Memory nodes".

use superpipe_core::recorder::Step;
use superpipe_core::{Config, FlagPlace, Layout, Origin, Protocol};
use superpipe_testkit::Setup;
use superpipe_testkit::pair::{Script, Transfer};

use crate::case::Case;
use crate::nic::{CrossingCosts, MemoryNodes, NodeOf, Profile, TraceEntry, TraceEvent};
use crate::run::{RunOptions, run};

/// What is sent, and how often. Short messages are left out: an end of the simulator polls too seldom for a difference of 100 ns.
const MESSAGES: [(&str, usize, u64); 2] =
    [("64 KiB, one", 64 << 10, 1), ("256 KiB, 16 in a row", 256 << 10, 16)];

/// Costs, with the node that must be among the best for each of [`MESSAGES`], of landing buffers and images. Rates are bytes per microsecond; the
/// wire has 12,075. Estimates: no machine with two nodes was measured (docs/performance.md, "Memory nodes").
const MACHINES: [(&str, CrossingCosts, NodeOf); 3] = [
    (
        "devices cross at the rate of the wire, cores slower",
        CrossingCosts {
            device_write_ns: 70,
            device_read_ns: 140,
            device_bytes_per_us: 12_500,
            core_read_ns: 140,
            core_bytes_per_us: 8_000,
        },
        NodeOf::Core,
    ),
    (
        "both cross at one rate above the wire",
        CrossingCosts {
            device_write_ns: 70,
            device_read_ns: 140,
            device_bytes_per_us: 20_000,
            core_read_ns: 140,
            core_bytes_per_us: 20_000,
        },
        NodeOf::Core,
    ),
    (
        "devices cross slowly",
        CrossingCosts {
            device_write_ns: 140,
            device_read_ns: 280,
            device_bytes_per_us: 4_000,
            core_read_ns: 140,
            core_bytes_per_us: 10_000,
        },
        NodeOf::Device,
    ),
];

/// Times that differ by less than this many percent are equal.
const EQUAL_PERCENT: u64 = 3;

/// Returns the nanoseconds from the begin of the first of `count` messages of `bytes` bytes to the end of the last at the other end.
fn play(nodes: MemoryNodes, bytes: usize, count: u64) -> Result<u64, String> {
    let layout = Layout { block_bytes: 16 << 10, block_count: 32, flags: FlagPlace::Inside };
    let profile = Profile { memory_nodes: Some(nodes), ..Profile::roce_100g() };
    let message = Transfer::message(bytes, Protocol::Superpipeline);
    let script = Script {
        setup: Setup { send_queue: profile.send_queue, ..Setup::new(layout, 1) },
        configs: [Config::default(); 2],
        origin: Origin::default(),
        transfers: [(0..count).map(|_| message).collect(), Vec::new()],
        slowness: [1; 2],
        windows: false,
    };
    let outcome = run(&Case::of_script(script, false, profile), RunOptions { traced: true, turns_max: None });
    let trace = outcome.map_err(|failure| failure.to_string())?.trace.0;
    // Connecting and closing are no part of it.
    let begin = trace.iter().find_map(|entry| match entry.event {
        TraceEvent::Core { begin_ns, step: Step::SendBegin { .. }, .. } => Some(begin_ns),
        _ => None,
    });
    let ends =
        |entry: &&TraceEntry| matches!(entry.event, TraceEvent::Core { step: Step::ReceiveEnd { .. }, .. });
    let end = trace.iter().rev().find(ends).map(|entry| entry.at_ns);
    match (begin, end) {
        (Some(begin), Some(end)) if end > begin => Ok(end - begin),
        _ => Err(format!("a run of {count} messages of {bytes} bytes has no begin, or no end")),
    }
}

/// Returns the time of each choice, of landing buffers and images in the order of [`NodeOf::ALL`].
fn times_ns(costs: CrossingCosts, bytes: usize, count: u64) -> Result<[[u64; 2]; 2], String> {
    let mut times = [[0; 2]; 2];
    for (landing, times) in NodeOf::ALL.into_iter().zip(&mut times) {
        for (image, time) in NodeOf::ALL.into_iter().zip(times) {
            *time = play(MemoryNodes { landing, image, costs }, bytes, count)?;
        }
    }
    Ok(times)
}

/// Checks that memory of the node that each machine's costs favour is best there, and prints what each choice takes.
///
/// # Errors
/// The report with the first choice that is not among the best.
pub fn check_memory_nodes() -> Result<String, String> {
    let mut text = String::new();
    for (machine, costs, favoured) in MACHINES {
        text += &format!("{machine}:\n");
        for (what, bytes, count) in MESSAGES {
            let times = times_ns(costs, bytes, count)?;
            let best = times.as_flattened().iter().copied().min().unwrap_or(0);
            text += &format!("  {what}: ");
            for (landing, times) in NodeOf::ALL.into_iter().zip(times) {
                for (image, ns) in NodeOf::ALL.into_iter().zip(times) {
                    text += &format!("landing {}, image {} {ns} ns; ", landing.name(), image.name());
                }
            }
            text.truncate(text.trim_end_matches("; ").len());
            text.push('\n');
            let at = favoured as usize;
            let taken = times[at][at];
            if taken * 100 > best * (100 + EQUAL_PERCENT) {
                return Err(format!(
                    "{text}  memory on the node of the {} takes {taken} ns there, and the best choice {best} ns",
                    favoured.name()
                ));
            }
        }
    }
    let crossing = check_rates()?;
    Ok(format!("{text}{crossing}"))
}

/// Rates of crossing that are tried.
const RATES: [u64; 4] = [4_000, 6_000, 8_000, 10_000];

/// Checks the rule for long messages. A device crosses beside all work of the core, so memory belongs on the core's node if devices cross at
/// least as fast as cores. If cores cross twice as fast, it belongs on the device's. In between either may be better.
fn check_rates() -> Result<String, String> {
    let (_, bytes, count) = MESSAGES[MESSAGES.len() - 1];
    let mut pairs = 0;
    for device_bytes_per_us in RATES {
        for core_bytes_per_us in RATES {
            let costs = CrossingCosts { device_bytes_per_us, core_bytes_per_us, ..MACHINES[0].1 };
            let [[core, _], [_, device]] = times_ns(costs, bytes, count)?;
            let is_right = if device_bytes_per_us >= core_bytes_per_us {
                core < device
            } else if core_bytes_per_us >= 2 * device_bytes_per_us {
                device < core
            } else {
                continue;
            };
            pairs += 1;
            if !is_right {
                return Err(format!(
                    "devices cross at {device_bytes_per_us} and cores at {core_bytes_per_us} MB/s: memory on the core's node takes \
                     {core} ns, on the device's {device} ns"
                ));
            }
        }
    }
    Ok(format!(
        "memory on the core's node is better if devices cross as fast as cores, on the device's if half as fast: {pairs} pairs of rates\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_favours_its_node() {
        check_memory_nodes().unwrap_or_else(|text| panic!("{text}"));
    }

    #[test]
    fn hosts_without_nodes_take_less_than_any_choice() {
        let costs = MACHINES[0].1;
        let free = CrossingCosts {
            device_write_ns: 0,
            device_read_ns: 0,
            device_bytes_per_us: 1 << 30,
            core_read_ns: 0,
            core_bytes_per_us: 1 << 30,
        };
        for (what, bytes, count) in MESSAGES {
            let without = times_ns(free, bytes, count).unwrap();
            assert!(without.as_flattened().iter().all(|ns| *ns == without[0][0]), "{what}: {without:?}");
            let with = times_ns(costs, bytes, count).unwrap();
            assert!(
                with.as_flattened().iter().all(|ns| *ns > without[0][0]),
                "{what}: {with:?}, {without:?}"
            );
        }
    }
}
