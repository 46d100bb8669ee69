//! What comes back: completions of what was posted, notices, and what the peer says.

use super::{End, Noticed, Wire};
use crate::copy::CopyKernels;
use crate::packet::PACKET_BYTES;
use crate::rdma::mail::{IS_RECEIVE, WORD_BYTES, Word};
use crate::rdma::memory::Half;
use crate::rdma::wrong::Wrong;
use crate::verbs::{Error, Wc, WcOpcode};
use superpipe_core::{Completion, Notice, WcError, WrId};

/// Status for a completion queue that cannot be polled: IBV_WC_FATAL_ERR.
const QUEUE_BROKEN: WcError = WcError { status: 19, vendor_err: 0 };

impl Wire {
    /// Has the completion channel tell of what comes next, if it will not anyway. True: something came meanwhile.
    pub(in crate::rdma) fn arm(&mut self) -> Result<bool, Error> {
        if !self.is_armed {
            self.cq.request_notify()?;
            self.is_armed = true;
        }
        Ok(self.poll() > 0)
    }

    /// Takes what the completion channel has told. It tells once.
    pub(in crate::rdma) fn take_events(&mut self) -> Result<(), Error> {
        loop {
            let event = self.events.try_event();
            if matches!(event, Ok(None)) {
                return Ok(());
            }
            self.is_armed = false;
            event?;
        }
    }

    /// Takes a batch out of the CQ, and says what is due: the send queue may have been full before. How many.
    #[inline]
    pub(in crate::rdma) fn poll(&mut self) -> usize {
        let count = match self.cq.poll(&mut self.polled) {
            Ok(count) => count,
            Err(_) => {
                self.finish(End::Failed(QUEUE_BROKEN));
                0
            }
        };
        for index in 0..count {
            let wc = self.polled[index];
            if wc.id() & IS_RECEIVE == 0 { self.sent(&wc) } else { self.received(&wc) }
        }
        if self.sleep.is_due() {
            self.say_due();
        }
        count
    }

    #[inline]
    fn sent(&mut self, wc: &Wc) {
        match wc.result() {
            Ok(()) => {
                let is_ours = self.queue.complete(wc.id());
                debug_assert!(
                    is_ours || self.end != End::Not,
                    "the device tells of what was posted, in order, until it is not asked any more"
                );
            }
            Err(error) => self.send_failed(error),
        }
    }

    #[inline]
    fn received(&mut self, wc: &Wc) {
        let slot = u16::try_from(wc.id() & !IS_RECEIVE).unwrap_or(0);
        if let Err(error) = wc.result() {
            return self.receive_failed(error);
        }
        let word = match (wc.opcode(), wc.bytes()) {
            (WcOpcode::ReceiveImmediate, _) => wc.immediate(),
            (_, 0..WORD_BYTES) => None,
            (_, WORD_BYTES) => Some(self.mailroom.word(slot)),
            (_, bytes) => match self.mailroom.word(slot) {
                notice if Word::is_notice(notice) => return self.keep_notice(notice, slot, bytes),
                _ if bytes as usize == PACKET_BYTES && !self.cm.get_mut().is_kept_open() => {
                    self.packet = Some(self.mailroom.packet(slot));
                    return self.repost(slot);
                }
                _ => None,
            },
        };
        match word.and_then(Word::decode) {
            Some(Word::Notice(bits)) => return self.keep_notice(bits, slot, WORD_BYTES),
            Some(word) => self.sleep.hear(word),
            None => return self.finish(End::Wrong(Wrong::Nonsense)),
        }
        self.repost(slot);
    }

    /// One that came into `slot`, with so many bytes in all.
    fn keep_notice(&mut self, bits: u32, slot: u16, bytes: u32) {
        let kept = self.notices.push_back(Noticed { notice: Notice(bits), slot, bytes });
        debug_assert!(kept.is_ok(), "there is a place for every receive");
    }

    fn repost(&mut self, slot: u16) {
        if self.mailroom.post(&mut self.qp, slot).is_err() {
            self.finish(End::Gone);
        }
    }

    /// The next notice, with what it tells of in our memory; its receive is posted again.
    #[inline]
    pub(in crate::rdma) fn take_notice(&mut self, mine: &Half, kernels: &CopyKernels) -> Option<Notice> {
        if self.notices.is_empty() {
            self.poll();
        }
        let Noticed { notice, slot, bytes } = self.notices.pop_front()?;
        if bytes > WORD_BYTES
            && let Err(wrong) = self.place(slot, bytes, mine, kernels)
        {
            self.finish(End::Wrong(wrong));
            return None;
        }
        self.repost(slot);
        Some(notice)
    }

    /// Writes what came into `slot` where its writer could have written it by itself.
    fn place(&self, slot: u16, bytes: u32, mine: &Half, kernels: &CopyKernels) -> Result<(), Wrong> {
        let enclosed = self.mailroom.enclosed(slot, bytes).ok_or(Wrong::Nonsense)?;
        if u64::from(enclosed.place) + enclosed.bytes().len() as u64 > u64::from(mine.bytes()) {
            return Err(Wrong::Outside);
        }
        mine.all().copy_in(kernels, enclosed.place, enclosed.bytes());
        Ok(())
    }

    pub(in crate::rdma) fn has_notice(&self) -> bool {
        !self.notices.is_empty()
    }

    /// The next completion of core's.
    #[inline]
    pub(in crate::rdma) fn next_completion(&mut self) -> Option<Completion> {
        let next = match self.queue.next() {
            None if self.poll() > 0 => self.queue.next(),
            next => next,
        };
        match (next, self.end) {
            (Some(wr), End::Failed(error)) => {
                self.end = End::Told;
                Some(Completion { wr, result: Err(error) })
            }
            (None, End::Failed(error)) => {
                self.end = End::Told;
                Some(Completion { wr: WrId(0), result: Err(error) })
            }
            (wr, _) => wr.map(|wr| Completion { wr, result: Ok(()) }),
        }
    }
}
