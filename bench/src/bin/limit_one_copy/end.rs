//! The shared state of both processes, and the state of each: its buffers, and its part in a message.
//!
//! ```text
//! client  begin n, writes source, awaits ready n  |  time: sent n ... awaits the answer's sent n
//! server  awaits begin n, writes source, ready n  |        awaits sent n, copies, answers: sent n
//! ```
//!
//! Neither process touches a buffer of message n before both have begun it, and the client begins it after message n - 1 and its
//! answer are complete.

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

use memmap2::MmapMut;
use superpipe::Address;
use superpipe_bench::channel::CHANNEL_BYTES;
use superpipe_bench::failure::Failure;
use superpipe_bench::map::{self, PAGE_BYTES, SharedMapping};
use superpipe_bench::pattern;
use superpipe_bench::probe::PROBE_BYTES;
use superpipe_bench::ring::{DirectionOffset, Ring};
use superpipe_bench::spin::{Timeout, await_word};

use crate::config::{Config, Options, Way};
use crate::registered::Registered;

/// The flags of both processes, each alone in a pair of lines.
const FLAGS_AT: usize = CHANNEL_BYTES.next_multiple_of(PAGE_BYTES);
const FLAG_STRIDE: usize = 128;
const FLAGS_OF_A_SIDE: usize = 3;
const _: () = assert!(2 * FLAGS_OF_A_SIDE * FLAG_STRIDE <= PAGE_BYTES);
/// The lines of the probe, behind the flags.
pub(crate) const PROBE_AT: usize = FLAGS_AT + 2 * FLAGS_OF_A_SIDE * FLAG_STRIDE;
const _: () = assert!(PROBE_AT + PROBE_BYTES <= FLAGS_AT + PAGE_BYTES);
const RINGS_AT: usize = FLAGS_AT + PAGE_BYTES;
/// Buffers begin at huge pages, which they may consist of.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Shared buffers of a process: two sources and a destination.
const SHARED_BUFFERS: usize = 3;

/// The state that both processes share, made before the fork.
pub(crate) struct SharedState<'a> {
    pub(crate) map: &'a SharedMapping,
    pub(crate) options: &'a Options,
    /// where the two processes connect for `registered` and `trusted`
    pub(crate) address: &'a Address,
    /// a command names a configuration by its index
    pub(crate) configs: &'a [Config],
}

impl<'a> SharedState<'a> {
    /// Bytes of the mapping.
    pub(crate) fn bytes(options: &Options) -> usize {
        buffers_at(options) + 2 * SHARED_BUFFERS * buffer_bytes(options)
    }

    /// Lays the state out in `map`, which has [`SharedState::bytes`].
    pub(crate) const fn new(
        map: &'a SharedMapping,
        options: &'a Options,
        address: &'a Address,
        configs: &'a [Config],
    ) -> Self {
        Self { map, options, address, configs }
    }

    const fn ring_at(&self, side: Side) -> DirectionOffset {
        DirectionOffset(RINGS_AT + side.index() * self.options.layout().direction_bytes())
    }

    fn buffer_at(&self, side: Side, index: usize) -> usize {
        let index = side.index() * SHARED_BUFFERS + index;
        buffers_at(self.options) + index * buffer_bytes(self.options)
    }

    fn flag(&self, side: Side, index: usize) -> &'a AtomicU64 {
        &self.map.words(FLAGS_AT + (side.index() * FLAGS_OF_A_SIDE + index) * FLAG_STRIDE, 8)[0]
    }
}

const fn buffers_at(options: &Options) -> usize {
    (RINGS_AT + 2 * options.layout().direction_bytes()).next_multiple_of(HUGE_PAGE_BYTES)
}

fn buffer_bytes(options: &Options) -> usize {
    options.bytes_max().next_multiple_of(HUGE_PAGE_BYTES)
}

/// One of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    const fn index(self) -> usize {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// The contents of this side's message `number`. Those of an answer differ, so that an echo of the wrong buffer shows.
    const fn contents(self, number: u64) -> u64 {
        match self {
            Self::Client => number,
            Self::Server => !number,
        }
    }
}

/// The flags that one side stores: numbers of messages.
struct Flags<'a> {
    /// the client begins a message, or the server has written its source
    ready: &'a AtomicU64,
    /// the source may be read
    sent: &'a AtomicU64,
    /// the sender's half is copied
    half: &'a AtomicU64,
}

impl<'a> Flags<'a> {
    fn new(shared: &SharedState<'a>, side: Side) -> Self {
        Self { ready: shared.flag(side, 0), sent: shared.flag(side, 1), half: shared.flag(side, 2) }
    }
}

/// The state of one process.
pub(crate) struct End<'a> {
    pub(crate) shared: &'a SharedState<'a>,
    pub(crate) timeout: &'a Timeout,
    side: Side,
    mine: Flags<'a>,
    peers: Flags<'a>,
    /// what this side sends, and receives, by `ring`
    out: Ring<'a>,
    incoming: Ring<'a>,
    /// the two sources of `ring`
    from: MmapMut,
    /// the destination of all ways but `split` and `trusted`
    to: MmapMut,
    /// the connection of `registered` and `trusted`
    registered: Option<Registered>,
}

impl<'a> End<'a> {
    /// Makes the private buffers, resident.
    pub(crate) fn new(
        shared: &'a SharedState<'a>,
        side: Side,
        timeout: &'a Timeout,
    ) -> Result<Self, Failure> {
        let options = shared.options;
        let is_asked_for = options.way.iter().any(|way| matches!(way, Way::Registered | Way::Trusted));
        let registered = is_asked_for.then(|| match side {
            Side::Client => Registered::connect(shared.address, options.bytes_max()),
            Side::Server => Registered::accept(shared.address, options.bytes_max()),
        });
        let ring = |side| Ring::new(shared.map, shared.ring_at(side), options.layout(), 0, timeout);
        Ok(Self {
            shared,
            timeout,
            side,
            mine: Flags::new(shared, side),
            peers: Flags::new(shared, side.other()),
            out: ring(side),
            incoming: ring(side.other()),
            from: map::resident(2 * buffer_bytes(options), options.huge)?,
            to: map::resident(buffer_bytes(options), options.huge)?,
            registered: registered.transpose()?,
        })
    }

    /// Prepares message `number` together with the other process: reads the last one and writes the source, as the options say. A
    /// check writes it in any case.
    pub(crate) fn prepare(&mut self, config: Config, number: u64, is_check: bool) -> Result<(), Failure> {
        match self.side {
            Side::Client => self.mine.ready.store(number, Ordering::Release),
            Side::Server => await_word::<true>(self.peers.ready, number, self.timeout)?,
        }
        if config.read {
            self.read(config);
        }
        if is_check || !config.unwritten {
            self.write(config, number);
        }
        if config.way == Way::Trusted
            && let Some(registered) = &mut self.registered
        {
            registered.offer()?;
        }
        match self.side {
            Side::Client => await_word::<true>(self.peers.ready, number, self.timeout),
            Side::Server => {
                self.mine.ready.store(number, Ordering::Release);
                Ok(())
            }
        }
    }

    /// Sends message `number`, or the answer to it.
    pub(crate) fn send(&mut self, config: Config, number: u64) -> Result<(), Failure> {
        match config.way {
            Way::Ring => {
                let at = self.private_source_at(number);
                self.out.send(&self.from[at..at + config.bytes], config.copy_into_ring())?;
            }
            Way::Registered | Way::Trusted => {
                if let Some(registered) = &mut self.registered {
                    registered.send(number, config.bytes)?;
                }
            }
            // Pairs with the Acquire in `receive`.
            Way::One => self.mine.sent.store(number, Ordering::Release),
            Way::Split => {
                // Pairs with the Acquire in `receive`.
                self.mine.sent.store(number, Ordering::Release);
                let half = config.first_half();
                let source_at = self.source_at(self.side, number) + half;
                let to = self.destination_at(self.side.other()) + half;
                // SAFETY: this process wrote the source, and writes it again only for message number + 2. Of the other
                // process's destination it alone touches the second half before `half`: message number - 1 and its
                // answer are complete, and the other process reads the message after `half`.
                unsafe { self.shared.map.copy_across(source_at, to, config.bytes - half, config.copy) };
                config.copy.fence();
                // Pairs with the Acquire in `receive`.
                self.mine.half.store(number, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Receives message `number`, or the answer to it: returns when it is complete.
    pub(crate) fn receive(&mut self, config: Config, number: u64) -> Result<(), Failure> {
        if let Some(registered) = &mut self.registered {
            match config.way {
                Way::Registered => return registered.receive(&mut self.to[..config.bytes]),
                Way::Trusted => return registered.receive_trusted(),
                Way::Ring | Way::One | Way::Split => {}
            }
        }
        if config.way == Way::Ring {
            self.incoming.receive(&mut self.to[..config.bytes], config.copy)?;
            // Messages and answers alternate, so all of this side's earlier blocks were consumed.
            self.out.answered();
            return Ok(());
        }
        // Pairs with the Release in `send`.
        await_word::<true>(self.peers.sent, number, self.timeout)?;
        let source_at = self.source_at(self.side.other(), number);
        if config.way == Way::One {
            // SAFETY: the Acquire above paired with the Release in `send`, and the sender writes this source again only for
            // message number + 2.
            unsafe { self.shared.map.copy_out(source_at, &mut self.to[..config.bytes], config.copy) };
            config.copy.fence();
            return Ok(());
        }
        let to = self.destination_at(self.side);
        // SAFETY: the source as for `one`; the first half of this process's destination is touched by it alone.
        unsafe { self.shared.map.copy_across(source_at, to, config.first_half(), config.copy) };
        config.copy.fence();
        // Pairs with the Release in `send`.
        await_word::<true>(self.peers.half, number, self.timeout)
    }

    /// Returns the place of the first wrong byte, or word in `split`, of the message received last.
    pub(crate) fn find_wrong_byte(&mut self, config: Config, number: u64) -> Result<Option<usize>, Failure> {
        let contents = self.side.other().contents(number);
        if config.way == Way::Trusted
            && let Some(registered) = &self.registered
        {
            registered.copy_received(&mut self.to[..config.bytes])?;
        }
        if config.way != Way::Split {
            return Ok(pattern::find_wrong_byte(contents, &self.to[..config.bytes]));
        }
        let words = self.shared.map.words(self.destination_at(self.side), config.bytes);
        let is_wrong =
            |(index, word): (u64, &AtomicU64)| word.load(Ordering::Relaxed) != pattern::word(contents, index);
        Ok((0..).zip(words).position(is_wrong).map(|index| index * 8))
    }

    /// Flips a bit of the last byte of the source of message `number`.
    pub(crate) fn flip_byte(&mut self, config: Config, number: u64) {
        if let Some(registered) = &mut self.registered {
            registered.flip_byte(number, config.bytes);
        }
        let at = self.private_source_at(number) + config.bytes - 1;
        self.from[at] ^= 1;
        let words = self.shared.map.words(self.source_at(self.side, number), config.bytes);
        words[words.len() - 1].fetch_xor(1 << 56, Ordering::Relaxed);
    }

    /// Writes every byte of the source of message `number`.
    fn write(&mut self, config: Config, number: u64) {
        let contents = self.side.contents(number);
        if config.is_registered()
            && let Some(registered) = &mut self.registered
        {
            registered.write(number, contents, config.bytes);
            return;
        }
        if config.way == Way::Ring {
            let at = self.private_source_at(number);
            pattern::fill(contents, &mut self.from[at..at + config.bytes]);
            return;
        }
        let words = self.shared.map.words(self.source_at(self.side, number), config.bytes);
        for (index, word) in (0..).zip(words) {
            word.store(pattern::word(contents, index), Ordering::Relaxed);
        }
    }

    /// Reads every word of the destination.
    fn read(&self, config: Config) {
        if config.way == Way::Split {
            let words = self.shared.map.words(self.destination_at(self.side), config.bytes);
            black_box(words.iter().fold(0, |sum, word| sum ^ word.load(Ordering::Relaxed)));
        } else if config.way == Way::Trusted
            && let Some(registered) = &self.registered
        {
            registered.read_received(config.bytes);
        } else {
            black_box(self.to[..config.bytes].iter().fold(0, |sum, byte| sum ^ byte));
        }
    }

    fn private_source_at(&self, number: u64) -> usize {
        usize::from(!number.is_multiple_of(2)) * buffer_bytes(self.shared.options)
    }

    fn source_at(&self, side: Side, number: u64) -> usize {
        self.shared.buffer_at(side, usize::from(!number.is_multiple_of(2)))
    }

    fn destination_at(&self, side: Side) -> usize {
        self.shared.buffer_at(side, SHARED_BUFFERS - 1)
    }
}
