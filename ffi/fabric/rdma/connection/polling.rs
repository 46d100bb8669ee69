//! Polling: completions of what was posted, notifications, and messages of the peer.

use super::{ArrivedNotification, RdmaConnection, State};
use crate::copy::CopyKernels;
use crate::fabric::rdma::memory::LinkMemory;
use crate::fabric::rdma::receive_pool::IS_RECEIVE;
use crate::fabric::rdma::signal::{SIGNAL_BYTES, Signal};
use crate::fabric::rdma::violation::Violation;
use superpipe_core::{Completion, Notification, WcError, WrId};
use superpipe_core::{CopyKernel, driver::setup::PACKET_BYTES};
use superpipe_verbs::{Error, Wc, WcOpcode};

/// Status for a completion queue that cannot be polled: IBV_WC_FATAL_ERR.
const QUEUE_BROKEN: WcError = WcError { status: 19, vendor_err: 0 };

impl RdmaConnection {
    /// Arms the completion channel, unless it is armed. Returns true if something arrived meanwhile.
    pub(in crate::fabric::rdma) fn arm(&mut self) -> Result<bool, Error> {
        if !self.is_armed {
            self.cq.request_notify()?;
            self.is_armed = true;
        }
        Ok(self.poll() > 0)
    }

    /// Takes the events of the completion channel, which disarms it.
    pub(in crate::fabric::rdma) fn take_events(&mut self) -> Result<(), Error> {
        loop {
            let event = self.events.try_event();
            if matches!(event, Ok(None)) {
                return Ok(());
            }
            self.is_armed = false;
            event?;
        }
    }

    /// Polls a batch from the CQ and returns its size. Sends signals that are due, since the send queue may have been full before.
    #[inline]
    pub(in crate::fabric::rdma) fn poll(&mut self) -> usize {
        let count = match self.cq.poll(&mut self.polled) {
            Ok(count) => count,
            Err(_) => {
                self.finish(State::Failed(QUEUE_BROKEN));
                0
            }
        };
        for index in 0..count {
            let wc = self.polled[index];
            if wc.id() & IS_RECEIVE == 0 { self.sent(&wc) } else { self.received(&wc) }
        }
        if self.sleep.is_due() {
            self.send_due();
        }
        count
    }

    #[inline]
    fn sent(&mut self, wc: &Wc) {
        match wc.result() {
            Ok(()) => {
                let is_ours = self.queue.complete(wc.id());
                debug_assert!(
                    is_ours || self.state != State::Open,
                    "the device completes what was posted, in order, until the connection ends"
                );
            }
            Err(error) => self.send_failed(for_core(error)),
        }
    }

    #[inline]
    fn received(&mut self, wc: &Wc) {
        let slot = u16::try_from(wc.id() & !IS_RECEIVE).unwrap_or(0);
        if let Err(error) = wc.result() {
            return self.recv_failed(for_core(error));
        }
        let signal = match (wc.opcode(), wc.bytes()) {
            (WcOpcode::ReceiveImmediate, _) => wc.immediate(),
            (_, 0..SIGNAL_BYTES) => None,
            (_, SIGNAL_BYTES) => Some(self.receive_pool.signal_bits(slot)),
            (_, bytes) => match self.receive_pool.signal_bits(slot) {
                notification if Signal::is_notification(notification) && self.is_notified => {
                    return self.keep_notification(notification, slot, bytes);
                }
                _ if bytes as usize == PACKET_BYTES && !self.cm.get_mut().is_kept_open() => {
                    self.packet = Some(self.receive_pool.packet(slot));
                    return self.repost(slot);
                }
                _ => None,
            },
        };
        match signal.and_then(Signal::decode) {
            Some(Signal::Notification(bits)) => return self.keep_notification(bits, slot, SIGNAL_BYTES),
            Some(signal) => self.sleep.handle_signal(signal),
            None => return self.finish(State::Violation(Violation::UnknownMessage)),
        }
        self.repost(slot);
    }

    /// Keeps a notification that arrived in `slot`, with `bytes` bytes in all.
    fn keep_notification(&mut self, bits: u32, slot: u16, bytes: u32) {
        let kept = self.notifications.push_back(ArrivedNotification {
            notification: Notification(bits),
            slot,
            bytes,
        });
        debug_assert!(kept.is_ok(), "the queue is as long as the receives are many");
    }

    fn repost(&mut self, slot: u16) {
        if self.receive_pool.post(&mut self.qp, slot).is_err() {
            self.finish(State::Gone);
        }
    }

    /// Takes the next notification once the write that it stands for is in our memory, and posts its receive again.
    #[inline]
    pub(in crate::fabric::rdma) fn take_notification(
        &mut self,
        memory: &LinkMemory,
        kernels: &CopyKernels,
    ) -> Option<Notification> {
        if self.notifications.is_empty() {
            self.poll();
        }
        let ArrivedNotification { notification, slot, bytes } = self.notifications.pop_front()?;
        if bytes > SIGNAL_BYTES
            && let Err(violation) = self.place_enclosed(slot, bytes, memory, kernels)
        {
            self.finish(State::Violation(violation));
            return None;
        }
        self.repost(slot);
        Some(notification)
    }

    /// Copies the write that is enclosed in `slot` to its offset.
    fn place_enclosed(
        &self,
        slot: u16,
        bytes: u32,
        memory: &LinkMemory,
        kernels: &CopyKernels,
    ) -> Result<(), Violation> {
        let enclosed = self.receive_pool.enclosed(slot, bytes).ok_or(Violation::UnknownMessage)?;
        let (to, at) =
            memory.inlet(enclosed.offset, enclosed.bytes().len() as u64).ok_or(Violation::OutOfBounds)?;
        to.copy_in(kernels, at, enclosed.bytes(), CopyKernel::Plain);
        Ok(())
    }

    pub(in crate::fabric::rdma) fn has_notification(&self) -> bool {
        !self.notifications.is_empty()
    }

    /// Takes the next completion of a work request of core.
    #[inline]
    pub(in crate::fabric::rdma) fn next_completion(&mut self) -> Option<Completion> {
        let next = match self.queue.next() {
            None if self.poll() > 0 => self.queue.next(),
            next => next,
        };
        match (next, self.state) {
            (Some(wr), State::Failed(error)) => {
                self.state = State::Reported;
                Some(Completion { wr, result: Err(error) })
            }
            (None, State::Failed(error)) => {
                self.state = State::Reported;
                Some(Completion { wr: WrId(0), result: Err(error) })
            }
            (wr, _) => wr.map(|wr| Completion { wr, result: Ok(()) }),
        }
    }
}

/// Converts a failed completion for core.
fn for_core(error: superpipe_verbs::WcError) -> WcError {
    WcError { status: error.status.0, vendor_err: error.vendor_err }
}
