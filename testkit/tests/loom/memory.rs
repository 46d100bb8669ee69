//! Memory that both ends share: loom's atomics, and cells whose unordered use loom reports as a race.

use core::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use superpipe_core::{LINE_BYTES, control_page, word};

pub(crate) const BLOCK_BYTES: u32 = 128;

/// Blocks of the largest landing buffer.
pub(crate) const BLOCKS_MAX: u32 = 3;

/// Control lines that these models use.
const MAILBOX_LINES: u32 = 3;

pub(crate) enum Word {
    /// The shipped word, over loom's atomic.
    Modelled(AtomicU64),
    /// A constant. A word whose changes a model does not need would double the number of executions.
    Fixed(u64),
}

impl word::Word for Word {
    fn load(&self, ordering: Ordering) -> u64 {
        match self {
            Self::Modelled(word) => word.load(ordering),
            Self::Fixed(value) => *value,
        }
    }
    fn store(&self, value: u64, ordering: Ordering) {
        if let Self::Modelled(word) = self {
            word.store(value, ordering);
        }
    }
}

impl Word {
    fn new() -> Self {
        Self::Modelled(AtomicU64::new(0))
    }
}

/// Returns an acknowledgement line: the count of blocks and its complement. Control messages are not acknowledged, and there are no
/// keepalives.
fn ack_line() -> [Word; 8] {
    let [controls, keepalives] = [u64::MAX, 0];
    [Word::new(), Word::new()]
        .into_iter()
        .chain([controls, !controls, keepalives, !keepalives, 0, 0].map(Word::Fixed))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap_or_else(|_| unreachable!("eight words"))
}

/// Bytes that may be read only after their flag was seen, and never while they are written.
struct Flagged<const BYTES: usize> {
    body: UnsafeCell<[u8; BYTES]>,
    flag: Word,
}

/// A control line.
type ControlLine = Flagged<56>;

/// A block with its flag inside.
type Block = Flagged<{ BLOCK_BYTES as usize - 8 }>;

impl<const BYTES: usize> Flagged<BYTES> {
    fn new() -> Self {
        Self { body: UnsafeCell::new([0; BYTES]), flag: Word::new() }
    }

    fn read(&self, at: usize, to: &mut [u8]) {
        // SAFETY: loom checks that nobody writes meanwhile.
        self.body.with(|body| to.copy_from_slice(unsafe { &(&*body)[at..at + to.len()] }));
    }

    fn write(&self, at: usize, from: &[u8]) {
        // SAFETY: loom checks that nobody reads or writes meanwhile.
        self.body.with_mut(|body| unsafe { (&mut *body)[at..at + from.len()].copy_from_slice(from) });
    }
}

/// Memory that one end owns and the other writes.
pub(crate) struct Memory {
    /// Acknowledgement line, which is overwritten and read at any time.
    pub(crate) ack: [Word; 8],
    mailbox: Vec<ControlLine>,
    blocks: Vec<Block>,
}

// SAFETY: what is shared is loom's atomics, and cells of which loom reports every unordered use.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            ack: ack_line(),
            mailbox: (0..MAILBOX_LINES).map(|_| ControlLine::new()).collect(),
            blocks: (0..BLOCKS_MAX).map(|_| Block::new()).collect(),
        }
    }

    fn control(&self, at: u32) -> &ControlLine {
        &self.mailbox[((at - control_page::MAILBOX) / LINE_BYTES) as usize]
    }

    /// Returns the block at this offset, and the offset in it.
    fn block(&self, at: u32) -> (&Block, usize) {
        (&self.blocks[(at / BLOCK_BYTES) as usize], (at % BLOCK_BYTES) as usize)
    }

    pub(crate) fn flag(&self, place: Place, at: u32) -> &Word {
        match place {
            Place::ControlPage(_) if at < control_page::ACK + LINE_BYTES => {
                &self.ack[((at - control_page::ACK) / 8) as usize]
            }
            Place::ControlPage(_) => &self.control(at - (LINE_BYTES - 8)).flag,
            Place::Landing(_) => &self.block(at).0.flag,
        }
    }

    pub(crate) fn read(&self, place: Place, at: u32, to: &mut [u8]) {
        match place {
            Place::ControlPage(_) => self.control(at).read(0, to),
            Place::Landing(_) => {
                let (block, at) = self.block(at);
                block.read(at, to);
            }
        }
    }

    pub(crate) fn write(&self, place: Place, at: u32, from: &[u8]) {
        match place {
            Place::ControlPage(_) => self.control(at).write(0, from),
            Place::Landing(_) => {
                let (block, at) = self.block(at);
                block.write(at, from);
            }
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Place {
    ControlPage(usize),
    Landing(usize),
}

impl Place {
    pub(crate) const fn owner(self) -> usize {
        match self {
            Self::ControlPage(owner) | Self::Landing(owner) => owner,
        }
    }
}
