//! Messages that one end writes, word by word, and the other one reads, as a stream: where nothing is copied, and where it is. Wanted of 64 KiB and 1 MiB:
//! loans by slices reach at least 0.85 of the rate of the bare ring.
//!
//! - `ring`: the sender writes a message into its place in a shared ring, and the receiver reads it there. One flag per message, no protocol.
//! - `slices`: superpipe's loans. The sender writes a reserved message, and the receiver reads a loan, by the `unsafe` accessors, which give slices.
//! - `spans`: the same by volatile spans, for whoever does not trust the peer.
//! - `copy`: superpipe's `send` out of memory of the sender's own, and `recv_into` to memory of the receiver's.
//! - `iceoryx2`, only if it is asked for: the sender writes a sample, and the receiver reads it.
//!
//! The landing buffers of `slices` and `spans`, and the bare ring, have room for as many messages. `copy` has superpipe's defaults. Two processes spin, pinned to a core each.
//! The receiver measures, and compares every word of every message.

mod connections;
mod measure;
mod options;
mod peer;
mod report;
mod ring;
mod sender;
mod way;

use std::process::ExitCode;

use clap::Parser;
use superpipe_bench::connection::SocketDirectory;
use superpipe_bench::failure::Failure;
use superpipe_bench::map::SharedMapping;
use superpipe_bench::process::Peer;

use measure::Receiver;
use options::Options;
use peer::Iceoryx2;
use report::Row;
use ring::Layout;
use way::Way;

fn main() -> ExitCode {
    let mut options = Options::parse();
    options.slices.shorten(0);
    Failure::report(run(&options))
}

fn run(options: &Options) -> Result<(), Failure> {
    let sizes = options.sizes()?;
    let layouts: Vec<Layout> = sizes.iter().map(|&bytes| Layout::new(bytes)).collect();
    let map_bytes = layouts.iter().map(Layout::map_bytes).max().unwrap_or(0);
    let maps = sizes.iter().map(|_| SharedMapping::new(map_bytes, false)).collect::<Result<Vec<_>, _>>()?;
    let directory = SocketDirectory::new()?;
    let address = directory.address();
    let (_peer, timeout) = Peer::fork(options.slices.cores, |timeout| {
        sender::serve(&address, &sizes, &maps, timeout, options.flip_word)
    })?;
    let mut receiver = Receiver::connect(&address, &sizes, &maps, &timeout)?;
    // It has threads, and a process with threads cannot fork.
    let mut iceoryx2 =
        options.iceoryx2.as_deref().map(|path| Iceoryx2::start(path, options.slices.cores)).transpose()?;
    if !options.slices.json {
        println!("{}", Row::header(iceoryx2.is_some()));
    }
    for (index, &bytes) in sizes.iter().enumerate() {
        let mut row = Row::new(bytes);
        let counts = receiver.counts(index, options.slices.slice_ms)?;
        for round in 0..=usize::from(options.slices.rounds) {
            for turn in 0..Way::ALL.len() {
                let way = Way::ALL[(turn + round) % Way::ALL.len()];
                let us = receiver.slice(index, way, counts[way as usize])?;
                // The first round warms up.
                if round > 0 {
                    row.add(way, us);
                }
            }
            if let (Some(peer), 1..) = (&mut iceoryx2, round) {
                row.add_iceoryx2(peer.slice(bytes, counts[Way::Slices as usize])?);
            }
        }
        row.print(options.slices.json);
    }
    Ok(())
}
