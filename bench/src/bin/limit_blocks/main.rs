//! The raw limit of large messages: a ring of flagged blocks per direction between two processes, no protocol.
//!
//! The sender copies a message into blocks and raises each block's flag; the receiver polls the flags and
//! copies out. Each process sends from one buffer and receives into another, the same for every message. The result
//! of ping-pong is half of the round trip; in streaming the receiver measures the time.

mod by_distance;
mod client;
mod config;
mod end;
mod server;
mod task;

use std::process::ExitCode;

use clap::Parser;
use superpipe_bench::best::find_best;
use superpipe_bench::failure::Failure;
use superpipe_bench::map::SharedMapping;
use superpipe_bench::process::Peer;
use superpipe_bench::report::{Pass, print};

use client::Client;
use config::{Config, Options};
use end::SharedState;

fn main() -> ExitCode {
    Failure::report(measure(&Options::parse()))
}

fn measure(options: &Options) -> Result<(), Failure> {
    let (common, limit) = (&options.common, &options.limit);
    let visit_ns = common.visit_ns()?;
    let mut groups = Config::all(options)?;
    if options.by_distance {
        groups = by_distance::with_references(groups);
    }
    let configs = groups.concat();
    let map = SharedMapping::new(SharedState::bytes(&configs), limit.huge)?;
    let shared = SharedState::new(&map, options, &configs);
    let (_peer, timeout) = Peer::fork(common.cores, |timeout| server::serve(&shared, timeout))?;
    let mut client = Client::new(&shared, &timeout)?;
    if options.by_distance {
        return by_distance::measure(&mut client, options, groups, visit_ns);
    }
    let mut chosen = configs.clone();
    if limit.best {
        chosen.clear();
        for group in &groups {
            chosen.push(find_best(group, |config| {
                let summary = client.visit(config, visit_ns)?;
                print(common.json, Pass::Sweep, &config, &summary);
                Ok(summary)
            })?);
        }
    }
    for round in 1..=common.rounds {
        for config in &chosen {
            print(common.json, Pass::Round(round), config, &client.visit(*config, visit_ns)?);
        }
    }
    Ok(())
}
