//! Notifications over one QP: as immediate data of the write, or in a SEND behind it where the device has none (iWARP).
//!
//! Each end keeps its receives posted. One CQ tells of sends and of receives, and core asks for either by itself. What of a
//! notified write is read before its notification is a panic, as is a notification that finds no receive.

use superpipe_core::{LINE_BYTES, Notice, seat};
use superpipe_testkit::{Memory, Place};

use super::{Sim, word};
use crate::nic::{Key, Op, Refused, Wc, World, Wr, status};

/// Bytes of a notification in a SEND.
pub(super) const WORD_BYTES: u32 = 4;

impl<const DIRECT: bool> Sim<DIRECT> {
    /// Bytes for receives, and behind them for what is sent: none with immediate data.
    pub(super) fn words_bytes(world: &World, notices: u16, is_notify: bool) -> Option<u32> {
        let sends = u32::try_from(world.profile.send_queue).unwrap_or(u32::MAX);
        let is_apart = is_notify && !world.profile.write_with_immediate;
        is_apart.then(|| WORD_BYTES * (u32::from(notices) + sends))
    }

    /// Posts all receives of an end.
    pub(super) fn post_receives(&self, world: &mut World, side: usize) {
        for index in 0..u64::from(self.setup.notices) {
            let (to, at, bytes) = self.receive(side, index);
            world.post_receive(self.qps[side], index, to, at, bytes);
        }
    }

    /// Where a receive has its word, if it needs one.
    fn receive(&self, side: usize, index: u64) -> (Key, u32, u32) {
        match self.words[side] {
            #[expect(clippy::cast_possible_truncation, reason = "the number of a receive")]
            Some(words) => (words, index as u32 * WORD_BYTES, WORD_BYTES),
            None => (self.keys[side][0], 0, 0),
        }
    }

    /// The next completion of a send, or of a receive.
    pub(super) fn poll(&mut self, side: usize, is_receive: bool) -> Option<Wc> {
        let polled = self.polled[side][usize::from(is_receive)].pop_front();
        if polled.is_some() {
            return polled;
        }
        loop {
            let wc = self.world.poll_cq(self.qps[side])?;
            let is_rnr = wc.status == status::RNR_RETRY_EXC_ERR;
            assert!(!is_rnr || self.lied, "a notification finds no receive");
            if wc.received.is_some() == is_receive {
                return Some(wc);
            }
            self.polled[side][usize::from(!is_receive)].push_back(wc);
        }
    }

    pub(super) fn take_notice(&mut self, side: usize) -> Option<Notice> {
        let wc = self.poll(side, true)?;
        self.unseen[1 - side].pop_front();
        let (to, at, bytes) = self.receive(side, wc.id);
        #[expect(clippy::cast_possible_truncation, reason = "four bytes")]
        let notice = wc.immediate.unwrap_or_else(|| word(self.bytes(to, at, bytes)) as u32);
        self.world.post_receive(self.qps[side], wc.id, to, at, bytes);
        Some(Notice(notice))
    }

    /// Whether the send queue has room for a write and what is sent behind it.
    pub(super) fn has_room(&self, side: usize, notice: Option<Notice>) -> bool {
        let both = notice.is_some() && self.words[side].is_some();
        self.world.room(self.qps[side]) > usize::from(both)
    }

    /// Sends a notification of its own, behind its write.
    pub(super) fn send_notice(&mut self, side: usize, notice: Notice) {
        let Some(from) = self.words[side] else { return };
        let slot = u32::from(self.setup.notices) + self.next_word[side];
        let sends = u32::try_from(self.world.profile.send_queue).unwrap_or(u32::MAX);
        self.next_word[side] = (self.next_word[side] + 1) % sends;
        let at = slot * WORD_BYTES;
        let there = self.world.bytes_mut(from, at, WORD_BYTES);
        there.unwrap_or_else(|error| panic!("{error}")).copy_from_slice(&notice.0.to_le_bytes());
        let inline = WORD_BYTES <= self.world.profile.inline_bytes;
        let wr = Wr { id: None, op: Op::Send, from, at, bytes: WORD_BYTES, inline, held_ns: 0 };
        match self.world.post(self.qps[side], wr) {
            Ok(_) => {}
            Err(error @ (Refused::SqFull | Refused::InlineTooLong { .. })) => panic!("{error}"),
        }
    }

    /// A notified write is under way.
    pub(super) fn notified(&mut self, side: usize, to: Memory, at: u32, bytes: u32) {
        self.unseen[side].push_back((to, at, bytes));
        let (unseen, receives) = (self.unseen[side].len(), self.setup.notices);
        assert!(
            self.lied || unseen <= usize::from(receives),
            "{unseen} notifications for {receives} receives"
        );
    }

    /// Of a notified write nothing is read before its notification was taken; but for acknowledgements, which are written over
    /// and over.
    pub(super) fn check_noticed(&self, from: Memory, at: u32, bytes: u32) {
        if self.lied || from.place == Place::Seat && at < seat::ACK + LINE_BYTES {
            return;
        }
        for unseen in &self.unseen[1 - from.owner] {
            let apart = unseen.0 != from || unseen.1 + unseen.2 <= at || at + bytes <= unseen.1;
            assert!(
                apart,
                "{bytes} bytes at {at} of {from:?} are read before the notification of {unseen:?}"
            );
        }
    }
}
