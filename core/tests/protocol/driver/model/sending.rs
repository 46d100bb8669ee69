//! Calls that send.

use superpipe_core::driver::{Drive, SendFailed, SendOperation};
use superpipe_core::{Reason, RefusedSend, Sending};
use superpipe_testkit::TestFabric;

use super::{Model, Sends, Sent, cut};

impl<F: TestFabric> Model<F> {
    /// Nothing more than this was sent: the receiver may know of it now.
    pub(crate) fn listed(&mut self, side: usize) {
        let state = self.ends[side].endpoint().state().sending;
        let flow = &mut self.flows[side];
        if let Some(sends) = &mut flow.sends
            && sends.index.is_none()
            && sends.send.has_begun()
            && matches!(state, Sending::AwaitingCts | Sending::Underway | Sending::Cancelling)
        {
            flow.list(None);
        }
    }

    pub(crate) fn try_send(&mut self, side: usize, bytes: usize, pieces: usize) {
        let (payload, tag) = (self.payload(bytes), self.tag(side));
        match self.ends[side].try_send(&mut self.fabric, tag, &cut(&payload, pieces)) {
            Ok(_) => {
                assert!(!self.is_sending(side));
                let sent = Sent { tag, payload, cancelled: None, rejected: None, told: false };
                self.flows[side].sent.push(sent);
            }
            Err(RefusedSend::TooLong) => assert!(bytes > 40),
            Err(RefusedSend::Busy) => {
                let is_cancelling = self.ends[side].endpoint().state().sending == Sending::Cancelling;
                assert!(self.is_sending(side) || is_cancelling);
            }
            Err(refused) => assert_eq!(refused, RefusedSend::NoCredit),
        }
    }

    pub(crate) fn is_sending(&self, side: usize) -> bool {
        self.flows[side].sends.as_ref().is_some_and(|sends| sends.send.has_begun())
    }

    pub(crate) fn begin_send(&mut self, side: usize, bytes: usize, pieces: usize) {
        if self.flows[side].sends.is_none() {
            let (payload, tag) = (self.payload(bytes), self.tag(side));
            let send = SendOperation::new(tag, bytes);
            self.flows[side].sends = Some(Sends { send, tag, payload, pieces, index: None });
        }
    }

    pub(crate) fn drive_send(&mut self, side: usize) {
        let Some(sends) = &mut self.flows[side].sends else { return };
        let slices = cut(&sends.payload, sends.pieces);
        let before = sends.send.sent();
        let driven = self.ends[side].drive_send(&mut self.fabric, &mut sends.send, &slices);
        let moved = sends.send.sent() - before;
        let all = sends.payload.len();
        self.listed(side);
        let flow = &mut self.flows[side];
        let Some(sends) = &flow.sends else { return };
        match driven {
            Drive::Idle => assert_eq!(moved, 0),
            Drive::Moved => assert!(sends.send.has_begun()),
            Drive::Done(Ok(())) => {
                assert_eq!(sends.send.sent(), all);
                if sends.index.is_none() {
                    flow.list(None);
                }
                flow.sends = None;
            }
            Drive::Done(Err(SendFailed::Rejected(reason))) => {
                let Some(index) = sends.index else { panic!("rejected, and nothing was sent") };
                assert_eq!(flow.sent[index].rejected, Some(reason));
                flow.sends = None;
            }
            Drive::Done(failed) => panic!("{failed:?}"),
        }
    }

    pub(crate) fn cancel_send(&mut self, side: usize, reason: Reason) {
        let Some(mut sends) = self.flows[side].sends.take() else { return };
        self.ends[side].cancel_send(&mut self.fabric, &mut sends.send, reason);
        if let Some(index) = sends.index {
            let sent = &mut self.flows[side].sent[index];
            if sent.rejected.is_none() {
                sent.cancelled = Some(reason);
            }
        }
        let slices = cut(&sends.payload, sends.pieces);
        let stale = self.ends[side].drive_send(&mut self.fabric, &mut sends.send, &slices);
        assert_eq!(stale, Drive::Done(Err(SendFailed::NotOpen)));
    }
}
