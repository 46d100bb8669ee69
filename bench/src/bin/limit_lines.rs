//! The raw limit of small messages: two rings of cache lines between two processes, no protocol.
//!
//! A line carries 8 bytes of payload and, in its last word, the sequence number that is its flag. The client stores a line
//! (the flag with Release). The server polls the flag (with Acquire) and answers in a line of the other ring. The answer
//! also shows that the client's line is free again. The result is half of the round trip. The server's answer depends on
//! the payload, and the client compares every one, which costs a subtraction and an or per message.

use core::sync::atomic::{AtomicU64, Ordering};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use superpipe_bench::best::find_best;
use superpipe_bench::channel::{CHANNEL_BYTES, Channel};
use superpipe_bench::failure::Failure;
use superpipe_bench::map::{PAGE_BYTES, SharedMapping};
use superpipe_bench::options::{Common, Limit};
use superpipe_bench::pattern::{FLAG_BIT, word};
use superpipe_bench::process::Peer;
use superpipe_bench::report::{Describe, Pass, print};
use superpipe_bench::size::Size;
use superpipe_bench::slices::SlicePlan;
use superpipe_bench::spin::{Timeout, await_word};
use superpipe_bench::stats::Summary;

const MESSAGE_BYTES: usize = 8;
const LINE_BYTES: usize = 64;
/// The place of the flag in a line, in words.
const FLAG_AT: usize = LINE_BYTES / 8 - 1;
/// More than any ring of the sweep, and little enough to be resident.
const RING_BYTES_MAX: usize = 1 << 24;

/// The best half round trip of 8-byte messages over a bare ring of cache lines, between two pinned processes
#[derive(Parser)]
#[command(name = "limit_lines", version)]
struct Options {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    limit: Limit,
    /// Lines in a ring
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64,128,256")]
    slots: Vec<Size>,
    /// Bytes from one line to the next
    #[arg(long, value_delimiter = ',', default_value = "64,128,256")]
    stride: Vec<Size>,
    /// Whether the spin loop has the CPU's pause instruction
    #[arg(long, value_delimiter = ',', value_enum, default_value = "yes,no")]
    pause: Vec<Pause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pause {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug)]
struct Config {
    slots: usize,
    stride: usize,
    pause: Pause,
}

impl Config {
    const fn ring_bytes(self) -> usize {
        self.slots * self.stride
    }
}

impl Describe for Config {
    const KIND: &'static str = "lines";

    fn parts(&self) -> Vec<(&'static str, Value)> {
        let pause = if self.pause == Pause::Yes { "yes" } else { "no" };
        vec![("slots", json!(self.slots)), ("stride", json!(self.stride)), ("pause", json!(pause))]
    }

    fn message_bytes(&self) -> usize {
        MESSAGE_BYTES
    }
}

fn main() -> ExitCode {
    Failure::report(measure(&Options::parse()))
}

fn measure(options: &Options) -> Result<(), Failure> {
    let configs = all_configs(options)?;
    let visit_ns = options.common.visit_ns()?;
    let ring_bytes = configs.iter().map(|c| c.ring_bytes()).max().unwrap_or(0).next_multiple_of(PAGE_BYTES);
    // A page apart, so that the two directions share no pair of lines.
    let map = SharedMapping::new(
        CHANNEL_BYTES.next_multiple_of(PAGE_BYTES) + 2 * (ring_bytes + PAGE_BYTES),
        options.limit.huge,
    )?;
    let flip_byte = options.limit.flip_byte;
    let (_peer, timeout) =
        Peer::fork(options.common.cores, |timeout| serve(&map, ring_bytes, timeout, flip_byte))?;
    let mut client = Client { map: &map, channel: Channel::new(&map), ring_bytes, timeout, number: 0 };
    let json = options.common.json;
    let mut chosen = configs;
    if options.limit.best {
        let best = find_best(&chosen, |config| {
            let summary = client.visit(config, visit_ns)?;
            print(json, Pass::Sweep, &config, &summary);
            Ok(summary)
        })?;
        chosen = vec![best];
    }
    for round in 1..=options.common.rounds {
        for config in &chosen {
            let summary = client.visit(*config, visit_ns)?;
            print(json, Pass::Round(round), config, &summary);
        }
    }
    Ok(())
}

fn all_configs(options: &Options) -> Result<Vec<Config>, Failure> {
    let mut configs = Vec::new();
    for &Size(slots) in &options.slots {
        for &Size(stride) in &options.stride {
            if slots == 0 || stride < LINE_BYTES || !stride.is_multiple_of(LINE_BYTES) {
                return Err(Failure::Usage(format!(
                    "{slots} slots of stride {stride}: at least 1, and multiples of {LINE_BYTES}"
                )));
            }
            if slots.saturating_mul(stride) > RING_BYTES_MAX {
                return Err(Failure::Usage(format!("{slots} slots of stride {stride} are over 16 MiB")));
            }
            configs.extend(options.pause.iter().map(|&pause| Config { slots, stride, pause }));
        }
    }
    Ok(configs)
}

/// One end of the two rings, from one command to the next.
struct Ends<'a> {
    send: &'a [AtomicU64],
    receive: &'a [AtomicU64],
    stride_words: usize,
    ring_words: usize,
    at: usize,
    number: u64,
}

impl<'a> Ends<'a> {
    /// The first ring is the client's to write, the second the server's.
    fn new(map: &'a SharedMapping, ring_bytes: usize, is_client: bool, config: Config, number: u64) -> Self {
        let first = CHANNEL_BYTES.next_multiple_of(PAGE_BYTES);
        let second = first + ring_bytes + PAGE_BYTES;
        let (send, receive) = if is_client { (first, second) } else { (second, first) };
        Self {
            send: map.words(send, config.ring_bytes()),
            receive: map.words(receive, config.ring_bytes()),
            stride_words: config.stride / 8,
            ring_words: config.ring_bytes() / 8,
            at: 0,
            number,
        }
    }

    #[inline]
    fn put(&self, payload: u64) {
        self.send[self.at].store(payload, Ordering::Relaxed);
        // Pairs with the Acquire in `take`.
        self.send[self.at + FLAG_AT].store(FLAG_BIT | self.number, Ordering::Release);
    }

    #[inline]
    fn take<const PAUSE: bool>(&self, timeout: &Timeout) -> Result<u64, Failure> {
        await_word::<PAUSE>(&self.receive[self.at + FLAG_AT], FLAG_BIT | self.number, timeout)?;
        Ok(self.receive[self.at].load(Ordering::Relaxed))
    }

    #[inline]
    const fn advance(&mut self) {
        self.number += 1;
        self.at += self.stride_words;
        if self.at == self.ring_words {
            self.at = 0;
        }
    }

    /// One round trip in the client; returns the bits in which the answer is wrong.
    #[inline]
    fn ping<const PAUSE: bool>(&mut self, payload: u64, timeout: &Timeout) -> Result<u64, Failure> {
        self.put(payload);
        let wrong_bits = self.take::<PAUSE>(timeout)? ^ answer_to(payload);
        self.advance();
        Ok(wrong_bits)
    }

    #[inline]
    fn pong<const PAUSE: bool>(&mut self, flip: u64, timeout: &Timeout) -> Result<(), Failure> {
        let payload = self.take::<PAUSE>(timeout)?;
        self.put(answer_to(payload) ^ flip);
        self.advance();
        Ok(())
    }
}

/// The answer of the server, which it computes from the payload.
const fn answer_to(payload: u64) -> u64 {
    payload.wrapping_add(1) & !FLAG_BIT
}

struct Client<'a> {
    map: &'a SharedMapping,
    channel: Channel<'a>,
    ring_bytes: usize,
    timeout: Timeout,
    number: u64,
}

impl Client<'_> {
    /// Checks every slot with changing contents, warms up, and times.
    fn visit(&mut self, config: Config, visit_ns: u64) -> Result<Summary, Failure> {
        let check = SlicePlan { messages: 2 * config.slots as u64 + 1, slices: 1 };
        self.run(config, check)?;
        let warm_up = SlicePlan::warm_up(MESSAGE_BYTES);
        let guess = Summary::new(&self.run(config, warm_up)?, warm_up.messages, 1);
        let plan = SlicePlan::new(guess.p50_us * 1000.0, visit_ns);
        Ok(Summary::new(&self.run(config, plan)?, plan.messages, 2))
    }

    fn run(&mut self, config: Config, plan: SlicePlan) -> Result<Vec<u64>, Failure> {
        match config.pause {
            Pause::Yes => self.run_with::<true>(config, plan),
            Pause::No => self.run_with::<false>(config, plan),
        }
    }

    fn run_with<const PAUSE: bool>(&mut self, config: Config, plan: SlicePlan) -> Result<Vec<u64>, Failure> {
        let pause = u64::from(PAUSE);
        self.channel.post([config.slots as u64, config.stride as u64, pause, plan.total(), self.number, 0]);
        let mut ends = Ends::new(self.map, self.ring_bytes, true, config, self.number);
        let mut wrong_bits = 0;
        let timeout = &self.timeout;
        let slices_ns = plan.time(|| {
            wrong_bits |= ends.ping::<PAUSE>(word(ends.number, 0), timeout)?;
            Ok(())
        })?;
        self.number = ends.number;
        self.channel.wait_done(0, &self.timeout)?;
        if wrong_bits != 0 {
            return Err(Failure::Integrity(format!("{config:?}, bits {wrong_bits:#x}")));
        }
        Ok(slices_ns)
    }
}

fn serve(map: &SharedMapping, ring_bytes: usize, timeout: &Timeout, flip: bool) -> Result<(), Failure> {
    let mut channel = Channel::new(map);
    let mut flip = u64::from(flip);
    loop {
        let [slots, stride, pause, total, number, _] = channel.take(timeout)?;
        let [slots, stride] = [slots, stride].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let pause = if pause == 1 { Pause::Yes } else { Pause::No };
        let mut ends = Ends::new(map, ring_bytes, false, Config { slots, stride, pause }, number);
        for _ in 0..total {
            match pause {
                Pause::Yes => ends.pong::<true>(flip, timeout)?,
                Pause::No => ends.pong::<false>(flip, timeout)?,
            }
            flip = 0;
        }
        channel.answer(&[]);
    }
}
