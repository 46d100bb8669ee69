//! Direct store in static memory: each end reads what the other writes.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use superpipe_core::{
    Attachment, CONTROL_PAGE_BYTES, Caps, Completion, CopyKernel, Fabric, FlagPlace, Landing, Layout, Line,
    Nanos, Notification, SqFull, WrId,
};

const LANDING_BYTES: usize = layout(FlagPlace::Apart { group_blocks: 4 }).bytes() as usize;

/// Bytes of the longest message here: more than a landing buffer, so that it must be folded.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The landing buffer that is granted while connecting: 384 KiB.
pub(crate) const fn layout(flags: FlagPlace) -> Layout {
    Layout { block_bytes: 4096, block_count: 96, flags }
}

/// All memory of the program.
pub(crate) struct Memory {
    pub(crate) wires: Wires,
    pub(crate) sources: [[u8; MESSAGE_BYTES_MAX]; 2],
    pub(crate) destination: [u8; MESSAGE_BYTES_MAX],
}

/// Two control pages and two landing buffers, written by one end and read by the other.
pub(crate) struct Wires {
    control_pages: [[u8; CONTROL_PAGE_BYTES as usize]; 2],
    landings: [[u8; LANDING_BYTES]; 2],
    now: u64,
}

struct Static(UnsafeCell<Memory>);

// SAFETY: `Memory::take` hands out the only reference, once.
unsafe impl Sync for Static {}

static TAKEN: AtomicBool = AtomicBool::new(false);
static MEMORY: Static = Static(UnsafeCell::new(Memory {
    wires: Wires {
        control_pages: [[0; CONTROL_PAGE_BYTES as usize]; 2],
        landings: [[0; LANDING_BYTES]; 2],
        now: 0,
    },
    sources: [[0; MESSAGE_BYTES_MAX]; 2],
    destination: [0; MESSAGE_BYTES_MAX],
}));

impl Memory {
    /// Returns the memory at the first call, and `None` later.
    pub(crate) fn take() -> Option<&'static mut Self> {
        if TAKEN.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: the swap returns false to one caller only.
        Some(unsafe { &mut *MEMORY.0.get() })
    }
}

/// A control page or a landing buffer, by its owner.
#[derive(Clone, Copy)]
pub(crate) enum Span {
    ControlPage(usize),
    Landing(usize),
}

impl Wires {
    /// New memory reads as zero.
    pub(crate) fn clear(&mut self) {
        self.control_pages.as_flattened_mut().fill(0);
        self.landings.as_flattened_mut().fill(0);
    }

    pub(crate) const fn attachment(side: usize, layout: Layout) -> Attachment<Self> {
        Attachment {
            link: (),
            control_page: Span::ControlPage(side),
            peer_control_page: Span::ControlPage(1 - side),
            landing: Landing { memory: Span::Landing(side), layout },
            peer_landing: Landing { memory: Span::Landing(1 - side), layout },
            growth: None,
        }
    }

    pub(crate) fn bytes(&self, span: Span, at: u32, bytes: usize) -> &[u8] {
        let all: &[u8] = match span {
            Span::ControlPage(owner) => &self.control_pages[owner],
            Span::Landing(owner) => &self.landings[owner],
        };
        &all[at as usize..][..bytes]
    }

    pub(crate) fn bytes_mut(&mut self, span: Span, at: u32, bytes: usize) -> &mut [u8] {
        let all: &mut [u8] = match span {
            Span::ControlPage(owner) => &mut self.control_pages[owner],
            Span::Landing(owner) => &mut self.landings[owner],
        };
        &mut all[at as usize..][..bytes]
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default())
}

/// Its loop is unrolled, and would be so at each of its calls.
#[inline(never)]
fn crc32c(bytes: &[u8], crc: u32) -> u32 {
    !bytes.iter().fold(!crc, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ 0x82f6_3b78 & (crc & 1).wrapping_neg())
    })
}

impl Fabric for Wires {
    const DIRECT: bool = true;
    type Link = ();
    type Region = Span;
    type Remote = Span;

    fn caps(&self, (): &()) -> Caps {
        Caps { order_inside_write: true, notifications_max: 0 }
    }

    fn now(&mut self) -> Nanos {
        self.now += 1;
        Nanos(self.now)
    }

    fn flag(&self, (): &(), from: Span, at: u32) -> u64 {
        word(self.bytes(from, at, 8))
    }

    fn take_line(&self, (): &(), from: Span, at: u32) -> Line {
        let mut line = Line::default();
        for (place, eight) in line.0.iter_mut().zip(self.bytes(from, at, 64).chunks_exact(8)) {
            *place = word(eight);
        }
        line
    }

    fn copy_out(&mut self, (): &mut (), from: Span, at: u32, to: &mut [u8], _: CopyKernel) {
        to.copy_from_slice(self.bytes(from, at, to.len()));
    }

    fn crc_out(&self, (): &(), from: Span, at: u32, bytes: u32, seed: u32) -> u32 {
        crc32c(self.bytes(from, at, bytes as usize), seed)
    }

    fn write_line(&mut self, (): &mut (), to: Span, at: u32, line: &Line) {
        for (place, word) in self.bytes_mut(to, at, 64).chunks_exact_mut(8).zip(line.0) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn publish(&mut self, (): &mut (), to: Span, at: u32, flag: u64) {
        self.bytes_mut(to, at, 8).copy_from_slice(&flag.to_le_bytes());
    }

    fn copy_in(&mut self, (): &mut (), to: Span, at: u32, from: &[u8], _: CopyKernel) {
        self.bytes_mut(to, at, from.len()).copy_from_slice(from);
    }

    fn crc_in(&self, (): &(), to: Span, at: u32, bytes: u32, seed: u32) -> u32 {
        crc32c(self.bytes(to, at, bytes as usize), seed)
    }

    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        crc32c(bytes, seed)
    }

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
