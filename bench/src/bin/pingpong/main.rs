//! superpipe's own figure: messages between two processes over its std API and shared memory.
//!
//! It is measured as the limits are: two pinned processes, the same buffers, plans and slices, contents compared
//! before anything is timed. Each process sends from one buffer and receives into another, the same for every
//! message. Messages of 8 bytes are numbered while they are timed, as those of `limit_lines` are. In ping-pong half
//! of the round trip is told; in streaming the receiver times what arrives.

mod client;
mod config;
mod end;
mod server;

use std::process::ExitCode;

use clap::Parser;
use superpipe_bench::best::find_best;
use superpipe_bench::failure::Failure;
use superpipe_bench::mailbox::MAILBOX_BYTES;
use superpipe_bench::map::SharedMapping;
use superpipe_bench::meeting::Place;
use superpipe_bench::process::Peer;
use superpipe_bench::report::{Pass, print};

use client::Client;
use config::{Config, Options};
use end::World;

fn main() -> ExitCode {
    Failure::report(measure(&Options::parse()))
}

fn measure(options: &Options) -> Result<(), Failure> {
    let common = &options.common;
    let visit_ns = common.visit_ns()?;
    let groups = Config::all(options)?;
    let map = SharedMapping::new(MAILBOX_BYTES, false)?;
    let place = Place::new()?;
    let world = World { map: &map, options, configs: groups.concat(), address: place.address() };
    let (_peer, patience) = Peer::fork(common.cores, |patience| server::serve(&world, patience))?;
    let mut client = Client::new(&world, &patience)?;
    // Both ends are connected: from here on nothing in the file system is left to be cleaned up.
    drop(place);
    let mut chosen = world.configs.clone();
    if common.best {
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
