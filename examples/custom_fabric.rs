//! The smallest custom fabric: two threads whose ends share memory made of atomic words, with `superpipe-core` alone.
//!
//! A fabric carries bytes between two ends. It reads and writes words and lines of 64 bytes, copies payload in and out, and returns the
//! time; core does the rest. The documentation of [`Fabric`] has the rules that an implementation must keep.

use core::array;
use core::error::Error;
use core::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use superpipe_core::driver::{Drive, RecvOperation, SendOperation, WaitStrategy};
use superpipe_core::{
    Attachment, CONTROL_PAGE_BYTES, Caps, Completion, Config, CopyKernel, Driver, Endpoint, Fabric,
    FlagPlace, Landing, Layout, Line, Nanos, Notification, Origin, Reason, SqFull, WrId, word,
};

/// Layout of both landing buffers: 32 blocks of 4 KiB, with the slot lines in front of the blocks.
const LAYOUT: Layout =
    Layout { block_bytes: 4096, block_count: 32, flags: FlagPlace::Apart { group_blocks: 1 } };

/// Lengths of the messages: one that fits a slot line, one that fits a block, and one that is eight times as long as the landing buffer.
const MESSAGES: [usize; 3] = [8, 1024, 1 << 20];

/// Memory that one end polls and the other end writes. A peer may write at any time, so each word is atomic.
struct Memory(Vec<AtomicU64>);

impl Memory {
    /// Makes memory of zeros. A zero is no flag.
    fn new(bytes: u32) -> Self {
        Self((0..bytes / 8).map(|_| AtomicU64::new(0)).collect())
    }

    /// Returns the word that holds byte `at`, and the shift of that byte in the word.
    fn place(&self, at: usize) -> (&AtomicU64, usize) {
        (&self.0[at / 8], at % 8 * 8)
    }

    /// Returns the eight words of a line.
    fn line(&self, at: u32) -> [&AtomicU64; 8] {
        array::from_fn(|index| &self.0[at as usize / 8 + index])
    }
}

/// Memory that one end owns and reads, and that the other end writes.
struct Own {
    control_page: Memory,
    landing: Memory,
}

/// The fabric of one end: the memory of both, and a clock.
struct Threads {
    ends: Arc<[Own; 2]>,
    begin: Instant,
}

/// Part of the memory of an end, by the end's number. Core only passes it back to the fabric.
#[derive(Clone, Copy)]
enum Span {
    ControlPage(usize),
    Landing(usize),
}

impl Threads {
    fn memory(&self, span: Span) -> &Memory {
        match span {
            Span::ControlPage(end) => &self.ends[end].control_page,
            Span::Landing(end) => &self.ends[end].landing,
        }
    }

    /// Returns the memory that end `side` reads, which is its own, and the memory that it writes, which is its peer's.
    const fn attachment(side: usize) -> Attachment<Self> {
        let peer = 1 - side;
        Attachment {
            link: (),
            control_page: Span::ControlPage(side),
            peer_control_page: Span::ControlPage(peer),
            landing: Landing { memory: Span::Landing(side), layout: LAYOUT },
            peer_landing: Landing { memory: Span::Landing(peer), layout: LAYOUT },
            growth: None,
        }
    }

    /// Returns the CRC-32C of some bytes of a memory. Core asks for it only in the arrival mode `CheckedFlag`.
    fn crc_of(&self, span: Span, at: u32, bytes: u32, seed: u32) -> u32 {
        let mut copy = vec![0; bytes as usize];
        self.read(span, at, &mut copy);
        self.crc(&copy, seed)
    }

    fn read(&self, span: Span, at: u32, to: &mut [u8]) {
        let memory = self.memory(span);
        for (index, byte) in to.iter_mut().enumerate() {
            let (holder, shift) = memory.place(at as usize + index);
            *byte = word::read(holder).to_le_bytes()[shift / 8];
        }
    }
}

impl Fabric for Threads {
    // This end writes the peer's memory itself, so nothing is posted and nothing completes.
    const DIRECT: bool = true;
    type Link = ();
    type Region = Span;
    type Remote = Span;

    fn caps(&self, (): &()) -> Caps {
        Caps { order_inside_write: true, notifications_max: 0 }
    }

    fn now(&mut self) -> Nanos {
        Nanos(u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    // Reading. `observe` pairs with `publish`: an end that sees a flag sees all that was written before it.

    fn flag(&self, (): &(), from: Span, at: u32) -> u64 {
        word::observe(&self.memory(from).0[at as usize / 8])
    }

    fn take_line(&self, (): &(), from: Span, at: u32) -> Line {
        word::take_line(self.memory(from).line(at))
    }

    fn copy_out(&mut self, (): &mut (), from: Span, at: u32, to: &mut [u8], _: CopyKernel) {
        self.read(from, at, to);
    }

    // Writing. A line's flag goes last, with release ordering.

    fn write_line(&mut self, (): &mut (), to: Span, at: u32, line: &Line) {
        word::write_line(self.memory(to).line(at), line);
    }

    fn publish(&mut self, (): &mut (), to: Span, at: u32, flag: u64) {
        word::publish(&self.memory(to).0[at as usize / 8], flag);
    }

    fn copy_in(&mut self, (): &mut (), to: Span, at: u32, from: &[u8], _: CopyKernel) {
        let memory = self.memory(to);
        for (index, byte) in from.iter().enumerate() {
            // Only this end writes here, so the word does not change between the read and the write.
            let (holder, shift) = memory.place(at as usize + index);
            let others = word::read(holder) & !(0xff << shift);
            word::write(holder, others | u64::from(*byte) << shift);
        }
    }

    // Checksums, for the arrival mode `CheckedFlag`.

    fn crc_out(&self, (): &(), from: Span, at: u32, bytes: u32, seed: u32) -> u32 {
        self.crc_of(from, at, bytes, seed)
    }

    fn crc_in(&self, (): &(), to: Span, at: u32, bytes: u32, seed: u32) -> u32 {
        self.crc_of(to, at, bytes, seed)
    }

    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        !bytes.iter().fold(!seed, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ 0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    }

    // Posted writes, which a fabric with direct store does not have.

    fn post_write(
        &mut self,
        (): &mut (),
        _: Span,
        _: u32,
        _: u32,
        _: Option<WrId>,
        _: Option<Notification>,
    ) -> Result<(), SqFull> {
        Err(SqFull)
    }

    fn ring_doorbell(&mut self, (): &mut ()) {}

    fn poll_cq(&mut self, (): &mut ()) -> Option<Completion> {
        None
    }
}

/// Makes one end of the connection: its fabric, and the driver that users call.
fn connect(
    ends: &Arc<[Own; 2]>,
    side: usize,
) -> Result<(Threads, Driver<Threads>), Box<dyn Error + Send + Sync>> {
    let mut fabric = Threads { ends: Arc::clone(ends), begin: Instant::now() };
    let attachment = Threads::attachment(side);
    let endpoint = Endpoint::new(&fabric, attachment, Config::default(), Origin::default())
        .map_err(|error| error.to_string())?;
    let now = fabric.now();
    Ok((fabric, Driver::new(endpoint, 1 + side as u64, WaitStrategy::Yield, 1_000_000_000, now)))
}

/// Drives an operation to its end. Core never waits, so the caller chooses what to do between two attempts: here, to yield.
fn wait_for<T>(
    fabric: &mut Threads,
    driver: &mut Driver<Threads>,
    mut attempt: impl FnMut(&mut Threads, &mut Driver<Threads>) -> Drive<T>,
) -> T {
    loop {
        match attempt(fabric, driver) {
            Drive::Done(result) => return result,
            Drive::Moved => {}
            Drive::Idle => {
                if !driver.progress(fabric) {
                    thread::yield_now();
                }
            }
        }
    }
}

/// Returns byte `index` of a message.
const fn byte(index: usize) -> u8 {
    (index * 7 % 251).to_le_bytes()[0]
}

fn send(ends: &Arc<[Own; 2]>) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (mut fabric, mut driver) = connect(ends, 0)?;
    for (tag, bytes) in (0..).zip(MESSAGES) {
        let message: Vec<u8> = (0..bytes).map(byte).collect();
        let mut operation = SendOperation::new(tag, bytes);
        wait_for(&mut fabric, &mut driver, |fabric, driver| {
            driver.drive_send(fabric, &mut operation, &[&message])
        })
        .map_err(|failed| format!("{failed:?}"))?;
    }
    // The peer can still drain what was sent.
    driver.close(&mut fabric, Reason::DONE);
    wait_for(&mut fabric, &mut driver, |fabric, driver| driver.drive_close(fabric))
        .map_err(|ended| ended.to_string().into())
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let own = |_| Own { control_page: Memory::new(CONTROL_PAGE_BYTES), landing: Memory::new(LAYOUT.bytes()) };
    let ends: Arc<[Own; 2]> = Arc::new([0, 1].map(own));
    let sender = thread::spawn({
        let ends = Arc::clone(&ends);
        move || send(&ends)
    });

    let (mut fabric, mut driver) = connect(&ends, 1)?;
    let mut place = vec![0; 1 << 20];
    for bytes in MESSAGES {
        let mut operation = RecvOperation::new();
        let received = wait_for(&mut fabric, &mut driver, |fabric, driver| {
            driver.drive_recv(fabric, &mut operation, &mut [&mut place])
        })
        .map_err(|failed| format!("{failed:?}"))?;
        assert_eq!(received.bytes, bytes);
        assert!(place[..bytes].iter().enumerate().all(|(index, value)| *value == byte(index)));
        println!("message {}: {} bytes", received.tag, received.bytes);
    }
    let moved = driver.counters();
    println!("{} messages in a slot line, {} chunks", moved.inline_received, moved.chunks_received);
    sender.join().map_err(|_| "the sender panicked")?
}
