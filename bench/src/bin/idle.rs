//! What idle connections cost: time to connect, memory by the budget and by the kernel, and descriptors, of each landing mode. Both ends
//! are in this process, the kinds are measured in turn, and ratios are formed inside rounds. Wanted of 1,000 connections on demand: at most
//! 8 MiB over both ends together, connected in at most a third of the time that default ones take.

use std::process::ExitCode;
use std::time::Instant;
use std::{fs, panic, thread};

use clap::Parser;
use serde_json::json;
use superpipe::{Budget, Connection, LandingMode, Listener, Options as ConnectionOptions, Tuning};
use superpipe_bench::connection::{DEADLINE, SocketDirectory, fail};
use superpipe_bench::descriptors;
use superpipe_bench::failure::Failure;
use superpipe_bench::stats::Spread;

/// Descriptors of a connection, both ends together, with room for some that are closed late.
const DESCRIPTORS: u64 = 8;

/// Time, memory and descriptors of idle connections over shared memory, by landing mode
#[derive(Parser)]
#[command(name = "idle", version)]
struct Options {
    /// Connections of each kind
    #[arg(long, default_value_t = 1000)]
    connections: u32,
    /// Rounds, in which each kind is measured once
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Print the comparison as JSON, instead of a table
    #[arg(long)]
    json: bool,
    /// Only show that everything works: one round of few connections
    #[arg(long)]
    quick: bool,
}

/// Cost of the connections of one kind in one round.
struct Cost {
    connect_us: f64,
    budget_bytes: u64,
    resident_bytes: u64,
    descriptors: usize,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.quick {
        (options.connections, options.rounds) = (20, 1);
    }
    Failure::report(run(&options))
}

fn run(options: &Options) -> Result<(), Failure> {
    descriptors::allow(u64::from(options.connections) * DESCRIPTORS)?;
    Budget::set_shared_max(u64::MAX);
    let mut costs = [LandingMode::AtConnect, LandingMode::OnDemand].map(|mode| (mode, vec![]));
    for _ in 0..options.rounds {
        for (mode, costs) in &mut costs {
            costs.push(measure(*mode, options.connections)?);
        }
    }
    let over_default = compare(&costs);
    let [_, (_, on_demand)] = &costs;
    let bytes =
        |of: fn(&Cost) -> u64| Spread::new(&on_demand.iter().map(|cost| of(cost) as f64).collect::<Vec<_>>());
    let (budget, resident) = (bytes(|cost| cost.budget_bytes), bytes(|cost| cost.resident_bytes));
    if options.json {
        println!(
            "{}",
            json!({
                "event": "median", "kind": "idle", "connections": options.connections, "rounds": options.rounds,
                "connect_over_default": over_default.to_json(), "budget_bytes": budget.to_json(),
                "resident_bytes": resident.to_json(),
            })
        );
        return Ok(());
    }
    println!(
        "landing     connect/us (median, min, max)   budget/B   resident/B   descriptors   of a connection, both ends"
    );
    let count = f64::from(options.connections);
    for (mode, mut costs) in costs {
        costs.sort_by(|one, other| one.connect_us.total_cmp(&other.connect_us));
        let (Some(first), Some(middle), Some(last)) =
            (costs.first(), costs.get(costs.len() / 2), costs.last())
        else {
            return Err(Failure::Usage("no round".into()));
        };
        println!(
            "{:<11} {:>9.1} {:>9.1} {:>9.1} {:>14.0} {:>12.0} {:>13.2}",
            mode.name(),
            middle.connect_us,
            first.connect_us,
            last.connect_us,
            middle.budget_bytes as f64 / count,
            middle.resident_bytes as f64 / count,
            middle.descriptors as f64 / count,
        );
    }
    let mib = |spread: Spread| spread.max / f64::from(1 << 20);
    println!(
        "{} on demand: {:.2} MiB resident over both ends (both budgets together: {:.2}); connecting takes {} of the time of default ones",
        options.connections,
        mib(resident),
        mib(budget),
        over_default.to_text(),
    );
    Ok(())
}

/// Returns the time to connect on demand over that of default ones, formed in each round.
fn compare([(_, at_connect), (_, on_demand)]: &[(LandingMode, Vec<Cost>); 2]) -> Spread {
    let ratios: Vec<f64> =
        on_demand.iter().zip(at_connect).map(|(one, other)| one.connect_us / other.connect_us).collect();
    Spread::new(&ratios)
}

/// Makes so many connections, one after the other, and counts what they hold.
fn measure(landing: LandingMode, count: u32) -> Result<Cost, Failure> {
    let directory = SocketDirectory::new()?;
    let address = directory.address();
    let tuning = Tuning { landing: Some(landing), ..Tuning::default() };
    let options = ConnectionOptions { tuning, ..ConnectionOptions::default() };
    let mut listener = Listener::bind(&address, options).map_err(fail)?;
    let before = open_descriptors()?;
    let begun = Instant::now();
    let accept = move || (0..count).map(|_| listener.accept(DEADLINE)).collect::<Result<Vec<_>, _>>();
    let (connected, accepted) = thread::scope(|scope| {
        let accepting = scope.spawn(accept);
        let connect = |_| Connection::connect(&address, options, DEADLINE);
        let connected = (0..count).map(connect).collect::<Result<Vec<_>, _>>();
        let accepted = accepting.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        (connected, accepted)
    });
    let connect_us = begun.elapsed().as_secs_f64() * 1e6 / f64::from(count);
    let _ends = (connected.map_err(fail)?, accepted.map_err(fail)?);
    Ok(Cost {
        connect_us,
        budget_bytes: Budget::shared_bytes(),
        resident_bytes: resident_bytes()?,
        descriptors: open_descriptors()?.saturating_sub(before),
    })
}

fn open_descriptors() -> Result<usize, Failure> {
    let listed = fs::read_dir("/proc/self/fd").map_err(|error| Failure::Os("list descriptors", error))?;
    Ok(listed.count())
}

/// Returns the resident bytes of all segments, each page counted once for all mappings of it.
fn resident_bytes() -> Result<u64, Failure> {
    let smaps = fs::read_to_string("/proc/self/smaps")
        .map_err(|error| Failure::Os("read the process's mappings", error))?;
    let (mut kib, mut is_segment) = (0, false);
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Pss:") if is_segment => {
                kib += words.next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
            }
            Some(name) if name.ends_with(':') => {}
            _ => is_segment = line.contains("memfd:superpipe"),
        }
    }
    Ok(kib * 1024)
}
