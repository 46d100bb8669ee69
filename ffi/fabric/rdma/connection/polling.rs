//! Polling: completions of what was posted, notifications, and messages of the peer.

use super::{ArrivedNotification, RdmaConnection, State};
use crate::copy::CopyKernels;
use crate::fabric::rdma::completions::{BROKEN, Completed, Outcome};
use crate::fabric::rdma::memory::LinkMemory;
use crate::fabric::rdma::signal::{SIGNAL_BYTES, Signal};
use crate::fabric::rdma::violation::Violation;
use superpipe_core::polling::Owner;
use superpipe_core::{Completion, Notification, WcError, WrId};
use superpipe_core::{CopyKernel, driver::setup::PACKET_BYTES};
use superpipe_verbs::Error;

impl RdmaConnection {
    /// Requests a wake-up for the next completion, [by the poller](Completions::arm) or by the descriptor of [`sleep_interests`](Self::sleep_interests). Returns true if something arrived meanwhile.
    pub(in crate::fabric::rdma) fn arm(&mut self, is_by_poller: bool) -> Result<bool, Error> {
        self.completions.arm(is_by_poller)?;
        Ok(self.poll() > 0)
    }

    /// Ends a sleep; `is_woken`: the descriptor was ready.
    pub(in crate::fabric::rdma) fn disarm(&mut self, is_woken: bool) -> Result<(), Error> {
        self.completions.disarm(is_woken)
    }

    /// Returns true unless nothing wakes this end when a completion comes: it must look again soon.
    pub(in crate::fabric::rdma) const fn is_woken(&self) -> bool {
        self.completions.is_woken()
    }

    /// Notes who polls the connection from now on.
    pub(in crate::fabric::rdma) fn set_polled_by(&mut self, by: Option<Owner>) {
        self.completions.set_polled_by(by);
    }

    /// Polls a batch from the CQ and returns its size. Sends signals that are due, since the send queue may have been full before.
    #[inline]
    pub(in crate::fabric::rdma) fn poll(&mut self) -> usize {
        let count = match self.completions.poll(&mut self.polled) {
            Ok(count) => count,
            Err(_) => {
                self.finish(State::Failed(for_core(BROKEN)));
                0
            }
        };
        for index in 0..count {
            let Completed { is_receive, number, outcome } = self.polled[index];
            match outcome {
                Outcome::Sent => self.sent(number),
                Outcome::Received { bytes, immediate } => self.received(number, bytes, immediate),
                Outcome::Failed(error) if is_receive => self.recv_failed(for_core(error)),
                Outcome::Failed(error) => self.send_failed(for_core(error)),
            }
        }
        if self.sleep.is_due() {
            self.send_due();
        }
        count
    }

    #[inline]
    fn sent(&mut self, number: u32) {
        let is_ours = self.queue.complete(self.queue.position_of(number));
        debug_assert!(
            is_ours || self.state != State::Open,
            "the device completes what was posted, in order, until the connection ends"
        );
    }

    #[inline]
    fn received(&mut self, number: u32, bytes: u32, immediate: Option<u32>) {
        let slot = u16::try_from(number).unwrap_or(0);
        let signal = match (immediate, bytes) {
            (Some(immediate), _) => Some(immediate),
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
        if self.receive_pool.post(&mut self.qp, self.work_ids.receive(slot), slot).is_err() {
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
