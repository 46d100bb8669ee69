//! Memory of the ends: the visible bytes, or the image that the writer builds. A control page has only the lines that the few control
//! messages of a case reach.

use core::hash::{Hash, Hasher};

use superpipe_core::{Arrival, FlagPlace, LINE_BYTES, LINE_STRIDE_BYTES, Layout, Line, control_page};
use superpipe_testkit::crc32c;

use crate::explore::cases::Case;
use crate::planted::reuses_unzeroed;

/// Most control messages of a direction whose landing buffers stay. Others use the whole mailbox.
const CONTROLS_MAX: u32 = 8;

/// Layout of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Map {
    /// Nothing: the landing buffer is not provisioned.
    Nothing,
    ControlPage(Arrival),
    Landing(Layout),
}

/// Bytes of one memory or of its image.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    map: Map,
    bytes: Vec<u8>,
}

impl Bytes {
    /// Returns a control page that is all zero.
    pub(super) fn control_page(case: &Case) -> Self {
        let slots = if case.growing.is_some() || case.offering.is_some() {
            control_page::MAILBOX_SLOTS
        } else {
            CONTROLS_MAX
        };
        let bytes = control_page::MAILBOX + slots * LINE_BYTES;
        Self { map: Map::ControlPage(case.arrival), bytes: vec![0; bytes as usize] }
    }

    /// Returns a landing buffer that is all zero.
    pub(super) fn landing(layout: Layout) -> Self {
        let bytes = match layout.flags {
            FlagPlace::Inside => layout.bytes(),
            FlagPlace::Apart { .. } => layout.block_count * (LINE_STRIDE_BYTES + layout.block_bytes),
        };
        Self { map: Map::Landing(layout), bytes: vec![0; bytes as usize] }
    }

    /// Returns a landing buffer that is not provisioned.
    pub(super) const fn nothing() -> Self {
        Self { map: Map::Nothing, bytes: Vec::new() }
    }

    /// Provisions a landing buffer, all zero unless a bug is planted.
    pub(super) fn provision(&mut self, layout: Layout) {
        let left = core::mem::replace(self, Self::landing(layout));
        if reuses_unzeroed() {
            self.bytes.iter_mut().zip(left.bytes).for_each(|(byte, left)| *byte = left);
        }
    }

    /// Releases a landing buffer.
    pub(super) fn release(&mut self) {
        self.map = Map::Nothing;
        if !reuses_unzeroed() {
            self.bytes = Vec::new();
        }
    }

    /// Returns the layout of a landing buffer that is provisioned.
    pub(super) const fn layout(&self) -> Option<Layout> {
        match self.map {
            Map::Landing(layout) => Some(layout),
            Map::ControlPage(_) | Map::Nothing => None,
        }
    }

    /// Returns the index of byte `at`. The padding between separate slot lines and the blocks is not stored.
    const fn place(&self, at: u32) -> usize {
        assert!(!matches!(self.map, Map::Nothing), "a landing buffer is used, and is not there");
        if let Map::Landing(Layout { block_bytes, block_count, flags: FlagPlace::Apart { .. } }) = self.map {
            let lines = block_count * LINE_STRIDE_BYTES;
            let pad = lines.next_multiple_of(4096) - lines;
            assert!(at < lines || at - lines >= pad && at < lines + pad + block_bytes * block_count);
            if at >= lines {
                return (at - pad) as usize;
            }
        }
        at as usize
    }

    pub(super) fn get(&self, at: u32, bytes: u32) -> &[u8] {
        &self.bytes[self.place(at)..][..bytes as usize]
    }

    pub(super) fn put(&mut self, at: u32, data: &[u8]) {
        let at = self.place(at);
        self.bytes[at..][..data.len()].copy_from_slice(data);
    }

    pub(super) fn word(&self, at: u32) -> u64 {
        assert!(at.is_multiple_of(8), "a flag at {at}");
        words(self.get(at, 8)).next().unwrap_or_default()
    }

    pub(super) fn line(&self, at: u32) -> Line {
        assert!(at.is_multiple_of(LINE_BYTES), "a line at {at}");
        let mut line = Line::default();
        line.0.iter_mut().zip(words(self.get(at, LINE_BYTES))).for_each(|(place, word)| *place = word);
        line
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Hashes the part of an acknowledgement line that distinguishes states: the counts, and whether the rest is consistent. The number of
/// keepalives decides nothing (wire.md 2.2).
pub(super) fn hash_ack(line: &[u8], arrival: Arrival, hasher: &mut impl Hasher) {
    let (counts, rest) = line.split_at(32);
    counts.hash(hasher);
    let mut rest = words(rest);
    let [keepalives, complement, _, check] = core::array::from_fn(|_| rest.next().unwrap_or_default());
    let right = match arrival {
        Arrival::Flag | Arrival::Notify => 0,
        Arrival::CheckedFlag => u64::from(crc32c(&line[..56], !0)),
    };
    (keepalives == !complement, check == right).hash(hasher);
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match self.map {
            Map::Nothing => self.bytes.hash(hasher),
            Map::Landing(layout) => (layout, &self.bytes).hash(hasher),
            Map::ControlPage(arrival) => {
                let (ack, rest) = self.bytes.split_at(LINE_BYTES as usize);
                hash_ack(ack, arrival, hasher);
                rest[(control_page::MAILBOX - LINE_BYTES) as usize..].hash(hasher);
            }
        }
    }
}
