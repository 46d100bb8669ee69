//! Copies out of blocks that are timed, since the sender asks for it, and the choice of their kernel. wire.md 4.12.

use super::{Open, Receiver};
use crate::config::Config;
use crate::copying::{CopyKernel, KernelChooser, KernelSet, SizeClass, TRIAL_EVERY};
use crate::fabric::{Fabric, times_copies};
use crate::recorder::ChosenKernel;
use crate::wire::header::Length;
use crate::wire::timing::Timing;

/// Memory that a message is copied into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Memory that was never written. The operating system has just cleared its pages, so they are in the caches, and streaming stores lose.
    Fresh,
    /// Any other memory.
    Any,
}

/// The choice of a receiving half.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Kernels {
    chooser: KernelChooser,
    streaming_bytes: u64,
    timed_bytes: u64,
    /// Newest time of a copy by the chosen kernel, which the peer is told.
    newest: Timing,
    timed: u64,
    laps: LapsSeen,
}

/// Laps in a row that are as long as laps usually are, or not. The sender tries another window for a few laps, in which copies say nothing about kernels.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct LapsSeen {
    /// Blocks of a usual lap; 0 before the first.
    usual: u32,
    /// Blocks of unusual laps in a row, of the last one's length.
    unusual: u32,
    length: u32,
}

/// Rings of unusual laps of one length in a row, after which they are usual. A trial takes eight at most.
const UNUSUAL_RINGS: u32 = 16;

impl LapsSeen {
    /// Handles the end of a lap in a ring of `ring` blocks. Returns true if other laps are usual from now on.
    fn note(&mut self, blocks: u32, ring: u32) -> bool {
        if blocks == self.usual || self.usual == 0 {
            (self.usual, self.unusual) = (blocks, 0);
            return false;
        }
        if blocks != self.length {
            (self.length, self.unusual) = (blocks, 0);
        }
        self.unusual = self.unusual.saturating_add(blocks);
        let is_usual = self.unusual > UNUSUAL_RINGS.saturating_mul(ring);
        if is_usual {
            (self.usual, self.unusual) = (blocks, 0);
        }
        is_usual
    }
}

impl Kernels {
    pub(super) fn new<F: Fabric>(available: KernelSet, config: &Config, blocks: u64) -> Self {
        let chooser = if times_copies::<F>() {
            KernelChooser::new(available, config.copy_out, (blocks, TRIAL_EVERY[1]), config.streaming_bytes)
        } else {
            KernelChooser::PLAIN
        };
        let (streaming_bytes, timed_bytes) = (config.streaming_bytes, u64::from(config.timed_bytes));
        Self {
            chooser,
            streaming_bytes,
            timed_bytes,
            newest: Timing::NONE,
            timed: 0,
            laps: LapsSeen::default(),
        }
    }
}

impl<F: Fabric> Receiver<F> {
    /// Returns the kernel for copies out of blocks of a message of this length.
    #[inline]
    pub(super) fn kernel_for(&self, bytes: u64) -> CopyKernel {
        if times_copies::<F>() && bytes >= self.kernels.timed_bytes {
            self.kernels.chooser.chosen(SizeClass::of(bytes))
        } else {
            CopyKernel::Plain
        }
    }

    /// Returns the kernel for copies out of blocks of the open transfer.
    #[inline]
    pub(super) fn block_kernel(&self, length: Length, destination: Destination) -> CopyKernel {
        match length {
            _ if destination == Destination::Fresh => CopyKernel::Plain,
            Length::Exact(bytes) if F::DIRECT => self.kernel_for(bytes),
            Length::Exact(bytes) if bytes >= self.kernels.streaming_bytes => CopyKernel::Streaming,
            Length::Stream if times_copies::<F>() => {
                self.kernels.chooser.chosen(SizeClass::of_length(length))
            }
            Length::Exact(_) | Length::Stream => CopyKernel::Plain,
        }
    }

    /// Returns the kernel for copies out of memory that the message at the head is in.
    pub(super) fn exposed_kernel(&self, destination: Destination) -> CopyKernel {
        match &self.open {
            Some(Open { length: Length::Exact(bytes), .. })
                if destination == Destination::Any && *bytes >= self.kernels.streaming_bytes =>
            {
                CopyKernel::Streaming
            }
            _ => CopyKernel::Plain,
        }
    }

    /// Copies all payload of a timed group out of it, and measures that.
    #[cold]
    pub(super) fn copy_out_timed(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        class: SizeClass,
        at: u32,
        to: &mut [u8],
    ) {
        let chosen = self.kernels.chooser.chosen(class);
        let is_usual = self.kernels.laps.unusual == 0;
        let kernel = if is_usual { self.kernels.chooser.next_of(class) } else { chosen };
        let begin = fabric.now();
        fabric.copy_out(link, self.landing.memory, at, to, kernel);
        let ns = fabric.now().0.saturating_sub(begin.0);
        let bytes = u32::try_from(to.len()).unwrap_or(u32::MAX);
        self.kernels.timed += 1;
        if is_usual && self.kernels.chooser.note(class, kernel, bytes, ns) {
            let (class_bytes, kernel) = (class.least_bytes(), self.kernels.chooser.chosen(class));
            record!(fabric, link, KernelChosen(ChosenKernel { is_out: true, class_bytes, kernel }));
        }
        if kernel == chosen {
            self.kernels.newest = Timing::new(self.sequence, ns);
        }
    }

    /// Handles the end of a lap of `blocks` blocks.
    pub(super) fn note_lap(&mut self, blocks: u32) {
        if times_copies::<F>() && self.kernels.laps.note(blocks, self.landing.layout.block_count) {
            self.kernels.chooser.rebase();
        }
    }

    /// Handles the move to another landing buffer, whose laps are others.
    pub(super) fn forget_laps(&mut self) {
        self.kernels.laps = LapsSeen::default();
        if times_copies::<F>() {
            self.kernels.chooser.rebase();
        }
    }

    /// Returns the newest time of a copy, for the peer.
    #[inline]
    pub(crate) const fn timing(&self) -> Timing {
        self.kernels.newest
    }

    /// Uses this kernel for copies out of blocks, or chooses again.
    pub(crate) fn pin_kernel(&mut self, kernel: Option<CopyKernel>) {
        self.kernels.chooser.pin(kernel);
    }

    /// Returns the choice of the kernels of copies out of blocks, and the number of copies that were timed.
    pub(crate) const fn kernels(&self) -> (&KernelChooser, u64) {
        (&self.kernels.chooser, self.kernels.timed)
    }
}
