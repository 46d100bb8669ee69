//! Many peers of one thread. Four questions, each with what is wanted:
//!
//! | kind | | wanted |
//! |---|---|---|
//! | `senders` | 64 connections that send at once to one receiver: all of them over one alone, and the least share of a fair one | 0.6, and 0.5 |
//! | `sending` | 1,000 connections that one poller sends 64 B messages over: messages a second over those of one alone | 0.5 |
//! | `connects` | 1,000 connects to one listener at once: all are served; time per connect | - |
//! | `mute` | the connect of an honest client beside clients that say nothing | ⌈mute / 16⌉ x 50 ms |
//!
//! Ends are two processes, on a core each, with a poller each. The 64 senders are one process whose poller drives them: they share a core in any case, and 64 threads there would measure how
//! the kernel switches between them. A connection sends where its landing buffer has room, so that one that the receiver neglects falls behind. One and many are measured by the same code, in slices in
//! turn.

mod connects;
mod group;
mod receiver;
mod sender;
mod server;

use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use superpipe::LandingMode;
use superpipe_bench::connection::SocketDirectory;
use superpipe_bench::descriptors;
use superpipe_bench::failure::Failure;
use superpipe_bench::options::Slices;
use superpipe_bench::process::Peer;
use superpipe_bench::size::Size;
use superpipe_bench::stats::Spread;

use connects::Connects;
use sender::{Client, Kind};

/// Half-open connections that a listener has, and the milliseconds after which a silent one gives way.
const TABLE: u32 = 16;
const EVICTED_MS: f64 = 50.0;

/// Many peers of one thread
#[derive(Parser)]
#[command(name = "many", version, mut_arg("slice_ms", |arg| arg.default_value("250")))]
struct Options {
    #[command(flatten)]
    slices: Slices,
    /// Message sizes of the senders
    #[arg(long, value_delimiter = ',', default_value = "64K,1M")]
    sizes: Vec<Size>,
    /// Senders at once
    #[arg(long, default_value_t = 64)]
    senders: u32,
    /// Connections that one poller sends short messages over
    #[arg(long, default_value_t = 1000)]
    sending: u32,
    /// Connects at once
    #[arg(long, default_value_t = 1000)]
    connects: u32,
    /// Clients that say nothing, beside an honest one
    #[arg(long, default_value_t = 64)]
    mute: u32,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.slices.shorten(10) {
        (options.senders, options.sending, options.connects, options.mute) = (8, 20, 20, 20);
    }
    Failure::report(run(&options))
}

fn run(options: &Options) -> Result<(), Failure> {
    let sizes: Vec<usize> = options.sizes.iter().map(|size| size.0).collect();
    let counts = [options.senders, options.sending, options.connects];
    if sizes.iter().any(|bytes| !(1..=16 << 20).contains(bytes))
        || counts.iter().chain([&options.mute]).any(|count| !(1..=10_000).contains(count))
    {
        return Err(Failure::Usage("messages have 1 B to 16 MiB, there are 1 to 10,000 of each kind".into()));
    }
    let most = counts.into_iter().max().unwrap_or(0);
    descriptors::allow(u64::from(most + options.senders) * 5 + u64::from(options.mute))?;
    let directories = [SocketDirectory::new()?, SocketDirectory::new()?];
    let addresses = [directories[0].address(), directories[1].address()];
    let (_peer, _) = Peer::fork(options.slices.cores, |_| server::serve(&addresses))?;
    let mut client = Client::connect(&addresses[0])?;
    let groups = [
        (Kind::Senders, options.senders, LandingMode::AtConnect, sizes),
        // so that a thousand need little memory
        (Kind::Sending, options.sending, LandingMode::OnDemand, vec![64]),
    ];
    for (kind, connections, landing, sizes) in groups {
        client.make_groups(&addresses[0], connections, landing)?;
        for bytes in sizes {
            let row =
                client.measure(kind, bytes, usize::from(options.slices.rounds), options.slices.slice_ms)?;
            print(options, &row.to_json(), &row);
        }
        client.drop_groups();
    }
    let mut connects = Connects::new(client.into_control(), addresses[1].clone());
    let us: Vec<f64> =
        (0..options.slices.rounds).map(|_| connects.at_once(options.connects)).collect::<Result<_, _>>()?;
    let us = Spread::new(&us);
    let text = format!("{} connects at once, all served: {} us each", options.connects, us.to_text());
    print(
        options,
        &json!({"event": "median", "kind": "connects", "connections": options.connects, "us": us.to_json()}),
        &text,
    );
    let ms: Vec<f64> =
        (0..options.slices.rounds).map(|_| connects.beside_mute(options.mute)).collect::<Result<_, _>>()?;
    let (ms, wanted) = (Spread::new(&ms), f64::from(options.mute.div_ceil(TABLE)) * EVICTED_MS);
    let text = format!(
        "a connect beside {} mute clients: {} ms, and at most {wanted} are wanted",
        options.mute,
        ms.to_text()
    );
    print(
        options,
        &json!({"event": "median", "kind": "mute", "mute": options.mute, "ms": ms.to_json(), "wanted_ms": wanted}),
        &text,
    );
    Ok(())
}

fn print(options: &Options, json: &serde_json::Value, text: &impl core::fmt::Display) {
    if options.slices.json {
        println!("{json}");
    } else {
        println!("{text}");
    }
}

/// Tags of messages.
pub(crate) const TAG: u64 = 3;
pub(crate) const TAG_END: u64 = 4;
/// Value of every byte of a message.
pub(crate) const BYTE: u8 = 7;
