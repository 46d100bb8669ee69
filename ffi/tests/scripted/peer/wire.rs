//! A connection that stands: chunks, control messages and acknowledgements (wire.md 2 to 5 and 7), in flag mode.

use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::os::fd::OwnedFd;

use superpipe_core::Line;
use superpipe_testkit::wire;

use super::memory::Memory;
use super::packets::Layout;
use super::script::{CANCEL, CTS, FIN, INLINE, LEFT, Of, RTS, STREAM, WANT_CTS, pattern};
use super::{size, socket, wait};

/// Offsets in a seat (wire.md 2.1), and where the landing buffer begins.
const ACK: usize = 0;
const ASLEEP: usize = 128;
const MAILBOX: usize = 256;
const LANDING: usize = 4096;
const LINE: usize = 64;
/// Word 7.
const FLAG: usize = 56;
/// Control lines of a mailbox, and how many CTS may be on the way.
const CONTROLS: u64 = 16;
const CTS_MAX: u64 = 8;
/// Bytes that an inline message has at most.
const INLINE_BYTES: usize = 40;
/// Folds of a ring.
const FOLDS: u64 = 3;

/// The transfer that is being sent.
#[derive(Clone, Copy)]
struct Open {
    tag: u64,
    at: usize,
}

/// One end. Counts are of chunks, blocks, transfers and control messages, so the next sequence is a count plus one.
pub(super) struct Wire {
    socket: Option<OwnedFd>,
    mine: Memory,
    theirs: Memory,
    layout: Layout,
    chunks: u64,
    blocks: u64,
    transfers: u64,
    controls: u64,
    acked_blocks: u64,
    acked_controls: u64,
    open: Option<Open>,
    is_mute: bool,
    /// Blocks of [`trickle_flags`](Self::trickle_flags) with a header.
    trickled: u64,
    taken_chunks: u64,
    taken_blocks: u64,
    taken_transfers: u64,
    taken_controls: u64,
    life: u64,
}

impl Wire {
    pub(super) const fn new(socket: OwnedFd, mine: Memory, theirs: Memory, layout: Layout) -> Self {
        Self {
            socket: Some(socket),
            mine,
            theirs,
            layout,
            chunks: 0,
            blocks: 0,
            transfers: 0,
            controls: 0,
            acked_blocks: 0,
            acked_controls: 0,
            open: None,
            is_mute: false,
            trickled: 0,
            taken_chunks: 0,
            taken_blocks: 0,
            taken_transfers: 0,
            taken_controls: 0,
            life: 0,
        }
    }

    pub(super) const fn layout(&self) -> Layout {
        self.layout
    }

    pub(super) fn close_socket(&mut self) {
        self.socket = None;
    }

    /// One wake byte; false where the socket is full.
    pub(super) fn wake(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket::send(socket, b"W", &[], libc::MSG_DONTWAIT).is_ok())
    }

    /// Wakes the other end if it sleeps, as after every store (wire.md 7.2).
    fn rouse(&self) {
        fence(Ordering::SeqCst);
        let word = self.theirs.word(ASLEEP);
        let sleep = word.load(Ordering::Relaxed);
        if sleep != 0
            && !self.is_mute
            && word.compare_exchange(sleep, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.wake();
        }
    }

    /// Does something of which a sleeping peer is not told.
    pub(super) fn mute(&mut self, something: impl FnOnce(&mut Self)) {
        self.is_mute = true;
        something(self);
        self.is_mute = false;
    }

    /// Says that the other end is awake, whatever it does.
    pub(super) fn lull(&self) {
        self.theirs.word(ASLEEP).store(0, Ordering::Relaxed);
    }

    /// Leaves out so many sequences.
    pub(super) const fn skip(&mut self, many: u64) {
        self.chunks += many;
    }

    /// A count in the line that acknowledges what this end has sent; what was known of it where the line is torn.
    fn told(&self, word: usize, known: u64) -> u64 {
        let [value, complement] =
            [word, word + 1].map(|word| self.mine.word(ACK + 8 * word).load(Ordering::Acquire));
        if value == !complement { value } else { known }
    }

    /// Blocks that may be written.
    fn free(&mut self) -> u64 {
        self.acked_blocks = self.told(0, self.acked_blocks);
        self.layout.blocks as u64 - (self.blocks - self.acked_blocks)
    }

    /// Control messages that are on the way.
    pub(super) fn controls_on_the_way(&mut self) -> u64 {
        self.acked_controls = match self.told(2, self.acked_controls) {
            // The sequence before the first: none was consumed.
            u64::MAX => 0,
            told => told,
        };
        self.controls - self.acked_controls
    }

    /// Where a slot line lies in a segment.
    fn slot(&self, block: u64) -> usize {
        LANDING + 128 * size(block % self.layout.blocks as u64)
    }

    /// Writes the slot line of the next chunk, and takes its blocks.
    pub(super) fn write_slot(&mut self, mut words: [u64; 7], of: Of, blocks: u64) {
        let number = number(of, self.transfers);
        if words[0] & INLINE == 0 {
            words[4] = number;
        }
        if words[0] & RTS != 0 {
            self.transfers += 1;
        }
        let mut line = Line([0; 8]);
        line.0[..7].copy_from_slice(&words);
        line.0[7] = self.chunks + 1;
        self.theirs.write_line(self.slot(self.blocks), &line);
        self.rouse();
        self.chunks += 1;
        self.blocks += blocks;
    }

    /// Words 0 to 6 of the newest slot line, once more and without their flag.
    pub(super) fn change_slot(&self, words: &[u64; 7]) {
        let at = self.slot(self.blocks - 1);
        for (index, word) in words.iter().enumerate().filter(|(index, _)| *index != 4) {
            self.theirs.word(at + 8 * index).store(*word, Ordering::Relaxed);
        }
    }

    /// Sends a chunk of the open transfer, or one that opens it, where there is room for it in one piece.
    fn chunk(&mut self, bits: u64, length: u64, bytes: usize) {
        let open = self.open.unwrap();
        let (blocks, sequence) = (self.layout.blocks as u64, self.chunks + 1);
        let many = bytes.div_ceil(self.layout.block_bytes).max(1) as u64;
        for index in 0..many {
            let block = self.blocks + index;
            let at = size(index) * self.layout.block_bytes;
            let place = LANDING + self.layout.blocks_at() + size(block % blocks) * self.layout.block_bytes;
            let some = (bytes - at.min(bytes)).min(self.layout.block_bytes);
            self.theirs.fill(place, some, |byte| pattern(open.tag, open.at + at + byte));
            if index == 0 {
                let tag = if bits & RTS != 0 { open.tag } else { 0 };
                let line = wire::chunk(bits | LEFT, tag, length, bytes as u64, self.transfers, sequence);
                self.theirs.write_line(self.slot(block), &line);
            } else {
                self.theirs.word(self.slot(block) + FLAG).store(sequence, Ordering::Release);
            }
        }
        self.rouse();
        self.chunks += 1;
        self.blocks += many;
        self.open = Some(Open { at: open.at + bytes, ..open });
        if bits & FIN != 0 {
            self.open = None;
        }
    }

    /// Begins a transfer: of this length, or a stream.
    pub(super) fn begin(&mut self, tag: u64, length: Option<u64>, bytes: usize, is_last: bool) {
        self.transfers += 1;
        self.open = Some(Open { tag, at: 0 });
        self.go_on(RTS | if length.is_none() { STREAM } else { 0 }, length.unwrap_or(0), bytes, is_last);
    }

    /// Sends the next bytes of the open transfer, in as many chunks as that takes.
    pub(super) fn go_on(&mut self, mut bits: u64, mut length: u64, mut bytes: usize, is_last: bool) {
        loop {
            let (blocks, at) = (self.layout.blocks as u64, self.blocks);
            let many = (bytes.div_ceil(self.layout.block_bytes).max(1) as u64)
                .min(blocks - at % blocks)
                .min(blocks / FOLDS);
            let some = bytes.min(size(many) * self.layout.block_bytes);
            let ends = is_last && some == bytes;
            // One block is kept for a CANCEL (wire.md 4.4).
            wait("room", || (self.keep_house() >= many + u64::from(!ends)).then_some(()));
            self.chunk(bits | if ends { FIN } else { 0 }, length, some);
            (bits, length, bytes) = (0, 0, bytes - some);
            if bytes == 0 {
                return;
            }
        }
    }

    /// A message in good faith.
    pub(super) fn message(&mut self, tag: u64, bytes: usize) {
        if bytes > INLINE_BYTES {
            return self.begin(tag, Some(bytes as u64), bytes, true);
        }
        wait("room", || (self.keep_house() > 0).then_some(()));
        let payload: Vec<u8> = (0..bytes).map(|at| pattern(tag, at)).collect();
        let Line([words @ .., _]) = wire::inline(tag, &payload, 0);
        self.write_slot(words, Of::Newest(0), 1);
    }

    /// Chunks of so many bytes, a block at most, as many as there is room for.
    pub(super) fn trickle(&mut self, bytes: usize) -> bool {
        // One block is kept for a CANCEL (wire.md 4.4).
        let room = self.keep_house().saturating_sub(1);
        for _ in 0..room {
            self.chunk(0, 0, bytes);
        }
        room > 0
    }

    /// The same, but for the payload, and for headers that are there since the ring was gone through before.
    pub(super) fn trickle_flags(&mut self, bytes: usize) -> bool {
        let room = self.keep_house().saturating_sub(1);
        for _ in 0..room {
            if self.trickled < self.layout.blocks as u64 {
                self.trickled += 1;
                self.write_slot([LEFT, 0, 0, bytes as u64, 0, 0, 0], Of::Newest(0), 1);
                continue;
            }
            self.chunks += 1;
            self.theirs.word(self.slot(self.blocks) + FLAG).store(self.chunks, Ordering::Release);
            self.blocks += 1;
        }
        self.rouse();
        room > 0
    }

    /// Takes the next chunk, if its flag is there: nothing else of it is looked at but its size.
    pub(super) fn take_blindly(&mut self) -> bool {
        let is_there = self.flag(self.taken_blocks).load(Ordering::Acquire) == self.taken_chunks + 1;
        if is_there {
            self.take_chunk();
        }
        is_there
    }

    /// Writes the next control line, whatever is on the way.
    pub(super) fn control(&mut self, mut words: [u64; 7], of: Option<Of>) {
        if let Some(of) = of {
            words[1] = number(of, self.taken_transfers);
        }
        let mut line = Line([0; 8]);
        line.0[..7].copy_from_slice(&words);
        line.0[7] = self.controls + 1;
        self.theirs.write_line(MAILBOX + LINE * size(self.controls % CONTROLS), &line);
        self.rouse();
        self.controls += 1;
    }

    /// CLOSE whose `last` is so many chunks from the newest.
    pub(super) fn close(&mut self, from_newest: i64, reason: u64) {
        let last = match self.chunks.wrapping_add_signed(from_newest) {
            0 => u64::MAX,
            last => last,
        };
        let Line([words @ .., _]) = wire::close(last, reason, 0);
        self.control(words, None);
    }

    /// Writes the acknowledgement of what was taken, and so many more.
    pub(super) fn acknowledge(&self, blocks: u64, controls: u64) {
        let controls = match self.taken_controls + controls {
            0 => u64::MAX,
            taken => taken,
        };
        self.theirs
            .write_counts(ACK, &wire::ack(self.taken_blocks.wrapping_add(blocks), controls, self.life));
        self.rouse();
    }

    /// Writes an acknowledgement of everything that could be, torn.
    pub(super) fn tear(&self) {
        let mut line = wire::ack(u64::MAX / 2, u64::MAX / 2, self.life + 1);
        (line.0[1], line.0[3], line.0[5]) = (0, 0, 0);
        self.theirs.write_counts(ACK, &line);
    }

    pub(super) fn show_life(&mut self) {
        self.life += 1;
        self.acknowledge(0, 0);
    }

    /// The other end's signs of life.
    pub(super) fn life_seen(&self) -> u64 {
        self.told(4, 0)
    }

    /// Takes control messages, which are acknowledged whatever else goes on. How many blocks are free.
    pub(super) fn keep_house(&mut self) -> u64 {
        let at = MAILBOX + LINE * size(self.taken_controls % CONTROLS);
        if self.mine.word(at + FLAG).load(Ordering::Acquire) == self.taken_controls + 1 {
            self.taken_controls += 1;
            self.acknowledge(0, 0);
        }
        self.free()
    }

    fn flag(&self, block: u64) -> &AtomicU64 {
        self.mine.word(self.slot(block) + FLAG)
    }

    /// Waits for the next chunk. Its words 0 to 6.
    fn await_chunk(&mut self) -> [u64; 7] {
        let sequence = self.taken_chunks + 1;
        wait("a chunk", || {
            self.keep_house();
            (self.flag(self.taken_blocks).load(Ordering::Acquire) == sequence).then_some(())
        });
        self.mine.line(self.slot(self.taken_blocks))
    }

    /// Waits for the first chunk of a transfer, and leaves it there.
    pub(super) fn notice(&mut self) {
        let words = self.await_chunk();
        assert!(words[0] & RTS != 0, "a chunk that begins a transfer");
        self.taken_transfers += 1;
    }

    /// Takes a chunk in good faith, and says whether its transfer is over.
    pub(super) fn take_chunk(&mut self) -> bool {
        let words = self.await_chunk();
        let (bits, sequence) = (words[0], self.taken_chunks + 1);
        let is_line = bits & (INLINE | CANCEL) != 0;
        let bytes = if is_line { 0 } else { size(words[3]) };
        let many = bytes.div_ceil(self.layout.block_bytes).max(1) as u64;
        if bits & RTS != 0 {
            self.taken_transfers += 1;
        }
        if bits & WANT_CTS != 0 && !is_line {
            wait("a place for a CTS", || {
                self.keep_house();
                (self.controls_on_the_way() < CTS_MAX).then_some(())
            });
            self.control([CTS, 0, 0, 0, 0, 0, 0], Some(Of::Newest(0)));
        }
        for block in self.taken_blocks + 1..self.taken_blocks + many {
            wait("a block", || (self.flag(block).load(Ordering::Acquire) == sequence).then_some(()));
        }
        self.taken_chunks += 1;
        self.taken_blocks += many;
        self.acknowledge(0, 0);
        bits & (FIN | CANCEL) != 0
    }
}

const fn number(of: Of, newest: u64) -> u64 {
    match of {
        Of::Number(number) => number,
        Of::Newest(more) => newest + more,
    }
}
