//! A connection that stands: chunks, control messages and acknowledgements (wire.md 2 to 5 and 7), with plain flags.

use core::sync::atomic::Ordering;

use superpipe_core::Line;
use superpipe_testkit::wire;

use super::link::{Link, Told};
use super::packets::{LINE, Layout};
use super::script::{CANCEL, CTS, FIN, INLINE, LEFT, Of, REMOTE, RTS, STREAM, WANT_CTS, pattern};
use super::{size, wait};

/// Offsets in a control page (wire.md 2.1).
const ACK: usize = 0;
const MAILBOX: usize = 256;
/// Word 7 of a line.
const FLAG: usize = 56;
/// Control lines of a mailbox.
const CONTROLS: u64 = 16;
/// CTS that may be on the way (wire.md 5).
pub(super) const CTS_MAX: u64 = 5;
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
    link: Box<dyn Link>,
    layout: Layout,
    chunks: u64,
    blocks: u64,
    transfers: u64,
    controls: u64,
    acked_blocks: u64,
    acked_controls: u64,
    open: Option<Open>,
    is_mute: bool,
    /// An acknowledgement waits for a credit.
    owes_ack: bool,
    /// Blocks of [`trickle_flags`](Self::trickle_flags) with a header.
    trickled: u64,
    taken_chunks: u64,
    taken_blocks: u64,
    taken_transfers: u64,
    taken_controls: u64,
    /// Kinds of control messages that came, and were not waited for: a bit of each.
    heard: u64,
    life: u64,
}

impl Wire {
    pub(super) fn new(link: Box<dyn Link>, layout: Layout) -> Self {
        Self {
            link,
            layout,
            chunks: 0,
            blocks: 0,
            transfers: 0,
            controls: 0,
            acked_blocks: 0,
            acked_controls: 0,
            open: None,
            is_mute: false,
            owes_ack: false,
            trickled: 0,
            taken_chunks: 0,
            taken_blocks: 0,
            taken_transfers: 0,
            taken_controls: 0,
            heard: 0,
            life: 0,
        }
    }

    pub(super) const fn layout(&self) -> Layout {
        self.layout
    }

    pub(super) fn link(&mut self) -> &mut dyn Link {
        &mut *self.link
    }

    /// Has the other end see these bytes of its memory.
    fn publish(&mut self, at: usize, bytes: usize, told: Told) {
        if !self.link.has_credit(told) {
            if matches!(told, Told::Ack) {
                self.owes_ack = true;
                return;
            }
            wait("a credit", || {
                self.keep_house();
                self.link.has_credit(told).then_some(())
            });
        }
        self.link.publish(at, bytes, told, self.is_mute);
    }

    /// Does something of which a sleeping peer is not told.
    pub(super) fn mute(&mut self, something: impl FnOnce(&mut Self)) {
        self.is_mute = true;
        something(self);
        self.is_mute = false;
    }

    /// Leaves out so many sequences.
    pub(super) const fn skip(&mut self, many: u64) {
        self.chunks += many;
    }

    /// A count in the line that acknowledges what this end has sent; what was known of it where the line is torn.
    fn told(&self, word: usize, known: u64) -> u64 {
        let [value, complement] =
            [word, word + 1].map(|word| self.link.mine().word(ACK + 8 * word).load(Ordering::Acquire));
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

    /// Returns the offset of a slot line in a segment.
    fn slot(&self, block: u64) -> usize {
        self.layout.slot_at(size(block % self.layout.blocks as u64))
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
        let at = self.slot(self.blocks);
        self.link.theirs().write_line(at, &line);
        self.publish(at, LINE, Told::Chunk(self.chunks + 1));
        self.chunks += 1;
        self.blocks += blocks;
    }

    /// Words 0 to 6 of the newest slot line, once more and without their flag.
    pub(super) fn change_slot(&self, words: &[u64; 7]) {
        let at = self.slot(self.blocks - 1);
        for (index, word) in words.iter().enumerate().filter(|(index, _)| *index != 4) {
            self.link.theirs().word(at + 8 * index).store(*word, Ordering::Relaxed);
        }
    }

    /// Sends a chunk of the open transfer, or one that opens it, where there is room for it in one piece.
    fn chunk(&mut self, bits: u64, length: u64, bytes: usize) {
        let open = self.open.unwrap();
        let (layout, sequence) = (self.layout, self.chunks + 1);
        let many = layout.blocks_for(bytes);
        let first = layout.block_at(size(self.blocks % layout.blocks as u64));
        let mut at = 0;
        for index in (0..many).step_by(layout.group) {
            let block = self.blocks + index as u64;
            let place = layout.block_at(size(block % layout.blocks as u64));
            let some = (bytes - at).min(layout.room(index + layout.group) - layout.room(index));
            self.link.theirs().fill(place, some, |byte| pattern(open.tag, open.at + at + byte));
            at += some;
            if index == 0 {
                let tag = if bits & RTS != 0 { open.tag } else { 0 };
                let line = wire::chunk(bits | LEFT, tag, length, bytes as u64, self.transfers, sequence);
                self.link.theirs().write_line(self.slot(block), &line);
            } else {
                self.link.theirs().word(self.slot(block) + FLAG).store(sequence, Ordering::Release);
            }
        }
        let from = if bytes > 0 { first } else { self.slot(self.blocks) };
        let to = self.slot(self.blocks + many as u64 - 1) + LINE;
        self.publish(from, to.saturating_sub(from), Told::Chunk(sequence));
        self.chunks += 1;
        self.blocks += many as u64;
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
            let many = (self.layout.blocks_for(bytes) as u64).min(blocks - at % blocks).min(blocks / FOLDS);
            let some = bytes.min(self.layout.room(size(many)));
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
            let flag = self.slot(self.blocks) + FLAG;
            self.link.theirs().word(flag).store(self.chunks, Ordering::Release);
            self.publish(flag, 8, Told::Chunk(self.chunks));
            self.blocks += 1;
        }
        room > 0
    }

    /// Takes the next chunk, if its flag is there: nothing else of it is looked at but its size.
    pub(super) fn take_blindly(&mut self) -> bool {
        let is_there = self.is_there();
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
        let at = MAILBOX + LINE * size(self.controls % CONTROLS);
        self.link.theirs().write_line(at, &line);
        self.publish(at, LINE, Told::Control(self.controls + 1));
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
    pub(super) fn acknowledge(&mut self, blocks: u64, controls: u64) {
        let controls = match self.taken_controls + controls {
            0 => u64::MAX,
            taken => taken,
        };
        let line = wire::ack(self.taken_blocks.wrapping_add(blocks), controls, self.life);
        self.link.theirs().write_counts(ACK, &line);
        self.publish(ACK, LINE, Told::Ack);
    }

    /// Writes an acknowledgement of everything that could be, torn.
    pub(super) fn tear(&mut self) {
        let mut line = wire::ack(u64::MAX / 2, u64::MAX / 2, self.life + 1);
        (line.0[1], line.0[3], line.0[5]) = (0, 0, 0);
        self.link.theirs().write_counts(ACK, &line);
        // Stores that go direct wake nobody here.
        self.mute(|wire| wire.publish(ACK, LINE, Told::Ack));
    }

    pub(super) fn send_keepalive(&mut self) {
        self.life += 1;
        self.acknowledge(0, 0);
    }

    /// The other end's signs of life.
    pub(super) fn life_seen(&self) -> u64 {
        self.told(4, 0)
    }

    /// Takes control messages, which are acknowledged whatever else goes on. How many blocks are free.
    pub(super) fn keep_house(&mut self) -> u64 {
        self.link.pump();
        if self.owes_ack || self.link.owes_credits() {
            self.owes_ack = false;
            self.acknowledge(0, 0);
        }
        let at = MAILBOX + LINE * size(self.taken_controls % CONTROLS);
        if self.link.is_told(Told::Control(self.taken_controls + 1))
            && self.link.mine().word(at + FLAG).load(Ordering::Acquire) == self.taken_controls + 1
        {
            self.heard |= 1 << (self.link.mine().line(at)[0] & 63);
            self.taken_controls += 1;
            self.acknowledge(0, 0);
        }
        self.free()
    }

    /// Waits for a control message of this kind.
    pub(super) fn hear(&mut self, kind: u64) {
        wait("a control message", || {
            self.keep_house();
            (self.heard & 1 << kind != 0).then_some(())
        });
        self.heard &= !(1 << kind);
    }

    fn flag(&self, block: u64) -> u64 {
        self.link.mine().word(self.slot(block) + FLAG).load(Ordering::Acquire)
    }

    /// Returns true if the next chunk's first block is here.
    fn is_there(&self) -> bool {
        let sequence = self.taken_chunks + 1;
        self.link.is_told(Told::Chunk(sequence)) && self.flag(self.taken_blocks) == sequence
    }

    /// Waits for the next chunk. Its words 0 to 6.
    fn await_chunk(&mut self) -> [u64; 7] {
        wait("a chunk", || {
            self.keep_house();
            self.is_there().then_some(())
        });
        self.link.mine().line(self.slot(self.taken_blocks))
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
        // Neither of these has payload in blocks; that with REMOTE has other bytes in word 3.
        let is_line = bits & (INLINE | CANCEL | REMOTE) != 0;
        let bytes = if is_line { 0 } else { size(words[3]) };
        let many = self.layout.blocks_for(bytes) as u64;
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
        for block in (self.taken_blocks..self.taken_blocks + many).step_by(self.layout.group).skip(1) {
            wait("a group", || (self.flag(block) == sequence).then_some(()));
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
