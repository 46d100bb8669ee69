//! The raw limit of large messages out of memory that both processes map, beside that of a ring; no protocol.
//!
//! - `ring`: the sender copies from private memory into the blocks of a ring, the receiver copies out of them into private memory: two
//!   copies, which overlap. It is the ring of `limit_blocks`.
//! - `one`: the source is shared. The sender sets a flag, and the receiver copies out of the source into private memory.
//! - `split`: the destination is shared, too. The receiver copies the first half and the sender the second, at the same time; the
//!   message is complete when both have.
//! - `registered`, only if it is asked for: superpipe by the protocol register-cached, out of registered buffers. Its median has the ratio to `one`
//!   in the same round, too.
//! - `trusted`, only if it is asked for: the same into trusted buffers, which each end offers before the time begins. Compare it with `split`.
//!
//! Before each message both processes write every byte of their sources, so that the message is as an application leaves it: in the
//! caches of the sender's core as far as it fits. Then they meet, and only then the time begins. It ends when the answer, of the same
//! size, is complete; half of it counts. So the answer's source was written before the message, not directly before the answer.
//! Each process has two sources, and uses them in turn, and one destination.

mod client;
mod config;
mod end;
mod medians;
mod registered;
mod server;

use std::process::ExitCode;

use clap::Parser;
use superpipe_bench::connection::SocketDirectory;
use superpipe_bench::failure::Failure;
use superpipe_bench::map::SharedMapping;
use superpipe_bench::probe::Distance;
use superpipe_bench::process::Peer;
use superpipe_bench::report::{Pass, print};

use client::Client;
use config::{Config, Options};
use end::SharedState;
use medians::Medians;

fn main() -> ExitCode {
    Failure::report(measure(&Options::parse()))
}

fn measure(options: &Options) -> Result<(), Failure> {
    let common = &options.common;
    let visit_ns = common.visit_ns()?;
    let configs = Config::all(options)?;
    let map = SharedMapping::new(SharedState::bytes(options), options.huge)?;
    let directory = SocketDirectory::new()?;
    let address = directory.address();
    let shared = SharedState::new(&map, options, &address, &configs);
    let (_peer, timeout) = Peer::fork(common.cores, |timeout| server::serve(&shared, timeout))?;
    let mut client = Client::new(&shared, &timeout)?;
    let distances = [None].into_iter().chain(Distance::ALL.map(Some));
    let mut all: Vec<_> = distances.map(|at| Medians::new(&configs, at)).collect();
    for round in 1..=common.rounds {
        let before = if options.probe { Some(client.probe()?) } else { None };
        let mut halves_us = Vec::with_capacity(configs.len());
        for (index, config) in configs.iter().enumerate() {
            let summary = client.visit(*config, index, visit_ns)?;
            print(common.json, Pass::Round(round), config, &summary);
            halves_us.push(summary.p50_us);
        }
        let after = if options.probe { Some(client.probe()?) } else { None };
        if before != after {
            eprintln!("round {round} is left out of the medians: the distance of the cores changed in it");
        } else if let Some(medians) = all.iter_mut().find(|medians| medians.distance() == before) {
            medians.add(&halves_us);
        }
    }
    all.iter().for_each(|medians| medians.print(common.json));
    Ok(())
}
