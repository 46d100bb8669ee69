//! What goes out: writes with what is said behind them, by one doorbell; and SENDs by themselves.

use super::{End, Wire};
use crate::rdma::mail::{ENCLOSED_MAX, Mailroom, NOTICES, RECEIVES, Word};
use crate::verbs::{Error, Mr, RemoteAddr, SendBatch, SendFlags};
use superpipe_core::{Notice, WrId};

/// Work requests of one doorbell.
pub(super) const BATCH: usize = 32;
/// Places that data leaves to mail.
const RESERVED: u64 = 8;

const _: () = assert!(NOTICES < RECEIVES && RECEIVES as u64 > RESERVED);

/// A work request that waits for the doorbell.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// So many bytes at this place of the image, to the same place of the peer's.
    Write {
        at: u32,
        bytes: u32,
        immediate: Option<u32>,
        /// The device tells when it is done, whether or not anybody waits for that.
        is_told: bool,
    },
    /// The same in a SEND, with its notice.
    Enclose {
        at: u32,
        bytes: u32,
        word: Word,
    },
    Say(Word),
}

impl Work {
    const fn is_told(self) -> bool {
        matches!(self, Self::Write { is_told: true, .. })
    }
}

/// What is sent by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Letter {
    Word(Word),
    /// The one that was put into the mailroom.
    Packet,
}

impl Wire {
    /// Puts a write where the doorbell finds it. False: there is no place.
    #[inline]
    pub(in crate::rdma) fn write(
        &mut self,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        notice: Option<Notice>,
        image: &Mr,
        there: RemoteAddr,
    ) -> bool {
        let word = notice.map(|Notice(bits)| Word::Notice(bits));
        let works = match word {
            Some(word) if self.is_iwarp && bytes <= ENCLOSED_MAX => {
                [Some((Work::Enclose { at, bytes, word }, wr)), None]
            }
            // siw sends pages without copying them where nobody is told when they are free, and that takes it much longer.
            Some(word) if self.is_iwarp => [
                Some((Work::Write { at, bytes, immediate: None, is_told: true }, None)),
                Some((Work::Say(word), wr)),
            ],
            _ => {
                let immediate = word.map(Word::encode);
                [Some((Work::Write { at, bytes, immediate, is_told: false }, wr)), None]
            }
        };
        let count = works.iter().flatten().count();
        let has_room = self.batch_takes(count) && self.queue_takes(count);
        if !has_room && !self.make_room(count, image, there) {
            return false;
        }
        if self.end != End::Not {
            // Nobody is there any more: it is as good as done.
            return self.queue.write_off(wr);
        }
        for work in works.into_iter().flatten() {
            let kept = self.waiting.push(work);
            debug_assert!(kept.is_ok(), "there is room, or it was flushed");
        }
        true
    }

    /// Whether the next doorbell takes so many more, and WAKE.
    #[inline]
    fn batch_takes(&self, count: usize) -> bool {
        self.waiting.len() + count + 2 <= BATCH
    }

    /// Whether there are places for so many more behind what waits, without those that are left to mail.
    #[inline]
    fn queue_takes(&self, count: usize) -> bool {
        self.queue.room() >= (self.waiting.len() + count) as u64 + RESERVED
    }

    /// Posts and polls, either of which may find that nobody is there any more. False: there is no place.
    #[cold]
    fn make_room(&mut self, count: usize, image: &Mr, there: RemoteAddr) -> bool {
        if !self.batch_takes(count) {
            self.flush(image, there);
        }
        if !self.queue_takes(count) {
            self.poll();
        }
        self.end != End::Not || self.queue_takes(count)
    }

    /// Posts what waits, and wakes a peer that sleeps.
    #[inline]
    pub(in crate::rdma) fn ring_doorbell(&mut self, image: &Mr, there: RemoteAddr) {
        if self.waiting.is_empty() {
            return;
        }
        if self.sleep.owes_wake() && self.waiting.push((Work::Say(Word::Wake), None)).is_ok() {
            self.sleep.said_wake();
        }
        self.flush(image, there);
    }

    #[inline]
    fn flush(&mut self, image: &Mr, there: RemoteAddr) {
        let mut batch = self.qp.batch();
        for (work, wr) in &self.waiting {
            let position = self.queue.position();
            let signaled = self.queue.take(*wr) || work.is_told();
            let built =
                add(&mut batch, *work, position, signaled, self.inline_bytes, &self.mailroom, image, there);
            debug_assert!(built, "core's offsets are inside the image, and a batch has room for its queue");
        }
        self.waiting.clear();
        if batch.post().is_err() {
            self.finish(End::Gone);
        } else if self.sleep.is_due() {
            self.say_due();
        }
    }

    /// Whether the next writes are to leave a peer that sleeps asleep; where others wait, it is woken.
    pub(in crate::rdma) fn set_quiet(&mut self, is_quiet: bool) {
        self.sleep.set_quiet(is_quiet && self.waiting.is_empty());
    }

    /// Says what is due of sleeping, unless a doorbell is about to ring: behind that it is said as well.
    pub(in crate::rdma) fn say_due(&mut self) {
        while let Some(word) = self.sleep.due() {
            if self.end != End::Not || !self.waiting.is_empty() {
                return;
            }
            match self.send_alone(Letter::Word(word), false) {
                Ok(true) => self.sleep.said_due(),
                Ok(false) => return,
                Err(_) => return self.finish(End::Gone),
            }
        }
    }

    /// SENDs one thing at once, before what waits; where `is_told`, the device tells when that and all before it is done.
    /// False: there is no place.
    pub(super) fn send_alone(&mut self, letter: Letter, is_told: bool) -> Result<bool, Error> {
        if self.queue.room() == 0 {
            return Ok(false);
        }
        let position = self.queue.position();
        let signaled = if is_told { self.queue.take_signaled() } else { self.queue.take(None) };
        let sge = match letter {
            Letter::Word(word) => self.mailroom.put_word(position, word),
            Letter::Packet => self.mailroom.packet_sge(),
        };
        let flags = SendFlags { signaled, inline: sge.bytes() <= self.inline_bytes };
        let mut batch = self.qp.batch();
        let built = batch.send(position, sge, flags);
        debug_assert!(built.is_ok(), "a batch has room for one");
        batch.post().map_err(|error| error.cause)?;
        Ok(true)
    }
}

/// One work request more.
#[inline]
#[expect(clippy::too_many_arguments, reason = "the parts of a wire, borrowed apart")]
fn add<'mr>(
    batch: &mut SendBatch<'_, 'mr>,
    work: Work,
    position: u64,
    signaled: bool,
    inline_bytes: u32,
    mailroom: &'mr Mailroom,
    image: &'mr Mr,
    there: RemoteAddr,
) -> bool {
    let flags = |bytes: u32| SendFlags { signaled, inline: bytes <= inline_bytes };
    let added = match work {
        Work::Say(word) => {
            let word = mailroom.put_word(position, word);
            batch.send(position, word, flags(word.bytes()))
        }
        Work::Enclose { at, bytes, word } => {
            let Some(from) = image.sge(at as usize, bytes) else { return false };
            let head = mailroom.put_head(position, word, at);
            batch.send_both(position, [head, from], flags(head.bytes() + bytes))
        }
        Work::Write { at, bytes, immediate, .. } => {
            let Some(from) = image.sge(at as usize, bytes) else { return false };
            let to = RemoteAddr { addr: there.addr.wrapping_add(u64::from(at)), rkey: there.rkey };
            match immediate {
                None => batch.write(position, from, to, flags(bytes)),
                Some(immediate) => batch.write_with_immediate(position, from, to, immediate, flags(bytes)),
            }
        }
    };
    added.is_ok()
}
