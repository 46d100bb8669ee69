//! Notifications over one QP: immediate data of the write, or a SEND behind it on devices without (iWARP).
//!
//! Each end keeps its receives posted. One CQ reports sends and receives, and core polls each kind by itself. A read of a notified write
//! before its notification is a panic, and so is a notification that finds no receive.

use superpipe_core::{LINE_BYTES, Notification, control_page};
use superpipe_testkit::{Memory, Place, Span};

use super::{SimFabric, word};
use crate::nic::{Key, Op, PostRefused, Wc, World, Wr, status};

/// Bytes of a notification in a SEND.
pub(super) const WORD_BYTES: u32 = 4;

impl<const DIRECT: bool> SimFabric<DIRECT> {
    /// Returns the bytes for receives and for sends, or `None` with immediate data.
    pub(super) fn words_bytes(world: &World, notifications_max: u16, is_notify: bool) -> Option<u32> {
        let sends = u32::try_from(world.profile.send_queue).unwrap_or(u32::MAX);
        let is_apart = is_notify && !world.profile.write_with_immediate;
        is_apart.then(|| WORD_BYTES * (u32::from(notifications_max) + sends))
    }

    /// Posts all receives of an end.
    pub(super) fn post_receives(&self, world: &mut World, side: usize) {
        for index in 0..u64::from(self.setup.notifications_max) {
            let (to, at, bytes) = self.receive(side, index);
            world.post_receive(self.qps[side], index, to, at, bytes);
        }
    }

    /// Returns the place of a receive's word, if it needs one.
    fn receive(&self, side: usize, index: u64) -> (Key, u32, u32) {
        match self.words[side] {
            #[expect(clippy::cast_possible_truncation, reason = "the number of a receive")]
            Some(words) => (words, index as u32 * WORD_BYTES, WORD_BYTES),
            None => (self.pages[side][0], 0, 0),
        }
    }

    /// Polls the next completion of a send or of a receive.
    pub(super) fn poll(&mut self, side: usize, is_receive: bool) -> Option<Wc> {
        let polled = self.polled[side][usize::from(is_receive)].pop_front();
        if polled.is_some() {
            return polled;
        }
        loop {
            let wc = self.world.poll_cq(self.qps[side])?;
            let is_rnr = wc.status == status::RNR_RETRY_EXC_ERR;
            assert!(!is_rnr || self.is_forged, "a notification finds no receive");
            if wc.received.is_some() == is_receive {
                return Some(wc);
            }
            self.polled[side][usize::from(!is_receive)].push_back(wc);
        }
    }

    pub(super) fn take_notification(&mut self, side: usize) -> Option<Notification> {
        let wc = self.poll(side, true)?;
        self.untaken[1 - side].pop_front();
        let (to, at, bytes) = self.receive(side, wc.id);
        #[expect(clippy::cast_possible_truncation, reason = "four bytes")]
        let notification = wc.immediate.unwrap_or_else(|| word(self.bytes(to, at, bytes)) as u32);
        self.world.post_receive(self.qps[side], wc.id, to, at, bytes);
        Some(Notification(notification))
    }

    /// Returns true if the send queue has room for a write and the SEND behind it.
    pub(super) fn has_room(&self, side: usize, notification: Option<Notification>) -> bool {
        let both = notification.is_some() && self.words[side].is_some();
        self.world.room(self.qps[side]) > usize::from(both)
    }

    /// Sends a notification behind its write.
    pub(super) fn send_notification(&mut self, side: usize, notification: Notification) {
        let Some(from) = self.words[side] else { return };
        let slot = u32::from(self.setup.notifications_max) + self.next_word[side];
        let sends = u32::try_from(self.world.profile.send_queue).unwrap_or(u32::MAX);
        self.next_word[side] = (self.next_word[side] + 1) % sends;
        let at = slot * WORD_BYTES;
        let there = self.world.bytes_mut(from, at, WORD_BYTES);
        there.unwrap_or_else(|error| panic!("{error}")).copy_from_slice(&notification.0.to_le_bytes());
        let inline = WORD_BYTES <= self.world.profile.inline_bytes;
        let wr = Wr { id: None, op: Op::Send, from, at, bytes: WORD_BYTES, inline, delay_ns: 0 };
        match self.world.post(self.qps[side], wr) {
            Ok(_) => {}
            Err(error @ (PostRefused::SqFull | PostRefused::InlineTooLong { .. })) => panic!("{error}"),
        }
    }

    /// Notes a notified write.
    pub(super) fn note_notified(&mut self, side: usize, span: Span) {
        self.untaken[side].push_back(span);
        let (untaken, receives) = (self.untaken[side].len(), self.setup.notifications_max);
        assert!(
            self.is_forged || untaken <= usize::from(receives),
            "{untaken} notifications for {receives} receives"
        );
    }

    /// Checks that no bytes of a notified write are read before its notification was taken. Acknowledgements are exempt, since they are
    /// overwritten all the time.
    pub(super) fn check_notified(&self, from: Memory, at: u32, bytes: u32) {
        // In the other modes flags prove chunks.
        if !self.flags.notify
            || self.is_forged
            || from.place == Place::ControlPage && at < control_page::ACK + LINE_BYTES
        {
            return;
        }
        let read = Span { memory: from, at, bytes };
        for untaken in &self.untaken[1 - from.owner] {
            assert!(
                !untaken.overlaps(&read),
                "{bytes} bytes at {at} of {from:?} are read before the notification of {untaken:?}"
            );
        }
    }
}
