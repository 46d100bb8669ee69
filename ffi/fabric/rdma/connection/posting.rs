//! Posting: writes and the signals behind them with one doorbell, and single SENDs.

use super::{RdmaConnection, State};
use crate::fabric::rdma::memory::LinkMemory;
use crate::fabric::rdma::receive_pool::{ENCLOSED_MAX, RECEIVES, ReceivePool};
use crate::fabric::rdma::signal::Signal;
use superpipe_core::{Notification, REMOTE_WRITE_BYTES_MAX, WrId};
use superpipe_verbs::{Error, RemoteAddr, SendBatch, SendFlags};

/// Work requests of one doorbell. A write that finds no place among them posts those that wait first.
pub(super) const BATCH: usize = 32;
/// Places in the send queue that data leaves to the fabric's own messages: signals of sleeping, three at most, and the message whose completion
/// the end of the connection waits for.
const RESERVED: u64 = 8;

/// Shortest limit of a device's messages with which remote writes are made: then the longest one of core is no more work requests than a batch
/// takes. Devices have megabytes (rxe 8 MiB) or gigabytes.
pub(super) const REMOTE_MESSAGE_MIN: u32 = 1 << 20;

const _: () = assert!(RECEIVES as u64 > RESERVED);
const _: () = assert!((REMOTE_WRITE_BYTES_MAX / REMOTE_MESSAGE_MIN) as usize + 2 <= BATCH);

/// A work request that waits for the doorbell.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// `bytes` bytes at offset `at` of the image, to the same offset of the peer's memory. [`LinkMemory::outlet`] knows both.
    Write {
        at: u32,
        bytes: u32,
        immediate: Option<u32>,
        /// Signaled, even if core does not wait for the completion.
        is_signaled: bool,
    },
    /// The same in a SEND, with its notification.
    Enclose {
        at: u32,
        bytes: u32,
        signal: Signal,
    },
    /// `bytes` bytes at `at` of the memory that the application has lent to be sent.
    Remote {
        at: u64,
        bytes: u32,
        to: RemoteAddr,
        is_signaled: bool,
    },
    Signal(Signal),
}

impl Work {
    const fn is_signaled(self) -> bool {
        matches!(self, Self::Write { is_signaled: true, .. } | Self::Remote { is_signaled: true, .. })
    }
}

/// A message that is sent at once, by a SEND of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Signal(Signal),
    /// The packet in the receive pool.
    Packet,
}

impl RdmaConnection {
    /// Queues a write for the doorbell. Returns false if there is no place.
    #[inline]
    pub(in crate::fabric::rdma) fn write(
        &mut self,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        notification: Option<Notification>,
        memory: &LinkMemory,
    ) -> bool {
        let signal = notification.map(|Notification(bits)| Signal::Notification(bits));
        let works = match signal {
            Some(signal) if self.is_iwarp && self.is_notified && bytes <= ENCLOSED_MAX => {
                [Some((Work::Enclose { at, bytes, signal }, wr)), None]
            }
            // siw sends unsignaled pages without copying them, which takes it much longer.
            Some(signal) if self.is_iwarp => [
                Some((Work::Write { at, bytes, immediate: None, is_signaled: true }, None)),
                Some((Work::Signal(signal), wr)),
            ],
            _ => {
                let immediate = signal.map(Signal::encode);
                [Some((Work::Write { at, bytes, immediate, is_signaled: false }, wr)), None]
            }
        };
        let count = works.iter().flatten().count();
        let has_room = self.batch_takes(count) && self.queue_takes(count);
        if !has_room && !self.make_room(count, memory) {
            return false;
        }
        if self.state != State::Open {
            // The peer is gone: the write counts as done.
            return self.queue.write_off(wr);
        }
        for work in works.into_iter().flatten() {
            let kept = self.waiting.push(work);
            debug_assert!(kept.is_ok(), "there is room, or it was flushed");
        }
        true
    }

    /// Queues a write out of the memory that the application has lent, as several where it is longer than the device's messages. Returns false
    /// if there is no place for all of it.
    pub(in crate::fabric::rdma) fn write_remote(
        &mut self,
        at: u64,
        bytes: u32,
        to: RemoteAddr,
        memory: &LinkMemory,
    ) -> bool {
        let count = bytes.div_ceil(self.message_bytes_max) as usize;
        let has_room = self.batch_takes(count) && self.queue_takes(count);
        if !has_room && !self.make_room(count, memory) {
            return false;
        }
        if self.state != State::Open {
            return self.queue.write_off(None);
        }
        let mut done = 0;
        while done < bytes {
            let part = self.message_bytes_max.min(bytes - done);
            let (from, addr) = (at + u64::from(done), to.addr.wrapping_add(u64::from(done)));
            // siw sends an unsignaled page itself, and not a copy, also again when TCP repeats it: after the application has changed it.
            let is_signaled = self.is_iwarp;
            let to = RemoteAddr { addr, ..to };
            let kept = self.waiting.push((Work::Remote { at: from, bytes: part, to, is_signaled }, None));
            debug_assert!(kept.is_ok(), "there is room, or it was flushed");
            done += part;
        }
        true
    }

    /// Returns true if the next doorbell takes `count` more, and WAKE.
    #[inline]
    fn batch_takes(&self, count: usize) -> bool {
        self.waiting.len() + count + 2 <= BATCH
    }

    /// Returns true if the send queue takes `count` more behind those that wait, without the places that are left to signals.
    #[inline]
    fn queue_takes(&self, count: usize) -> bool {
        self.queue.room() >= (self.waiting.len() + count) as u64 + RESERVED
    }

    /// Makes room by posting and polling, either of which may find that the peer is gone. Returns false if there is no place.
    #[cold]
    fn make_room(&mut self, count: usize, memory: &LinkMemory) -> bool {
        if !self.batch_takes(count) {
            self.flush(memory);
        }
        if !self.queue_takes(count) {
            self.poll();
        }
        self.state != State::Open || self.queue_takes(count)
    }

    /// Posts what waits, and wakes a sleeping peer.
    #[inline]
    pub(in crate::fabric::rdma) fn ring_doorbell(&mut self, memory: &LinkMemory) {
        if self.waiting.is_empty() {
            return;
        }
        if self.sleep.owes_wake() && self.waiting.push((Work::Signal(Signal::Wake), None)).is_ok() {
            self.sleep.sent_wake();
        }
        self.flush(memory);
    }

    #[inline]
    fn flush(&mut self, memory: &LinkMemory) {
        let mut batch = self.qp.batch();
        for (work, wr) in &self.waiting {
            let position = self.queue.position();
            let place = (position, self.work_ids.send(position));
            let signaled = self.queue.take(*wr) || work.is_signaled();
            let built =
                add(&mut batch, *work, place, signaled, self.inline_bytes, &self.receive_pool, memory);
            debug_assert!(
                built,
                "core's offsets are inside the image or what was lent, and a batch has room for its queue"
            );
        }
        self.waiting.clear();
        if batch.post().is_err() {
            self.finish(State::Gone);
        } else if self.sleep.is_due() {
            self.send_due();
        }
    }

    /// Sets that the next writes do not wake a sleeping peer, unless others wait already.
    pub(in crate::fabric::rdma) fn set_quiet(&mut self, is_quiet: bool) {
        self.sleep.set_quiet(is_quiet && self.waiting.is_empty());
    }

    /// Sends the signals of sleeping that are due, unless a doorbell is about to ring, which sends them as well.
    pub(in crate::fabric::rdma) fn send_due(&mut self) {
        while let Some(signal) = self.sleep.due() {
            if self.state != State::Open || !self.waiting.is_empty() {
                return;
            }
            match self.send_at_once(Message::Signal(signal), false) {
                Ok(true) => self.sleep.sent_due(),
                Ok(false) => return,
                Err(_) => return self.finish(State::Gone),
            }
        }
    }

    /// SENDs one message at once, before what waits; signaled if `is_signaled`. Returns false if there is no place.
    pub(super) fn send_at_once(&mut self, message: Message, is_signaled: bool) -> Result<bool, Error> {
        if self.queue.room() == 0 {
            return Ok(false);
        }
        let position = self.queue.position();
        let signaled = if is_signaled { self.queue.take_signaled() } else { self.queue.take(None) };
        let sge = match message {
            Message::Signal(signal) => self.receive_pool.put_signal(position, signal),
            Message::Packet => self.receive_pool.packet_sge(),
        };
        let flags = SendFlags { signaled, inline: sge.bytes() <= self.inline_bytes };
        let mut batch = self.qp.batch();
        let built = batch.send(self.work_ids.send(position), sge, flags);
        debug_assert!(built.is_ok(), "a batch has room for one");
        batch.post().map_err(|error| error.cause)?;
        Ok(true)
    }
}

/// Adds one work request to a batch: at this position of the queue, with this id.
#[inline]
fn add<'mr>(
    batch: &mut SendBatch<'_, 'mr>,
    work: Work,
    (position, id): (u64, u64),
    signaled: bool,
    inline_bytes: u32,
    receive_pool: &'mr ReceivePool,
    memory: &'mr LinkMemory,
) -> bool {
    let flags = |bytes: u32| SendFlags { signaled, inline: bytes <= inline_bytes };
    let added = match work {
        Work::Signal(signal) => {
            let signal = receive_pool.put_signal(position, signal);
            batch.send(id, signal, flags(signal.bytes()))
        }
        Work::Enclose { at, bytes, signal } => {
            let Some((from, _)) = memory.outlet(at, bytes) else { return false };
            let head = receive_pool.put_head(position, signal, at);
            batch.send_both(id, [head, from], flags(head.bytes() + bytes))
        }
        Work::Remote { at, bytes, to, .. } => {
            let Some(from) = memory.lending.sge(at, bytes) else { return false };
            batch.write(id, from, to, SendFlags { signaled, inline: false })
        }
        Work::Write { at, bytes, immediate, .. } => {
            let Some((from, to)) = memory.outlet(at, bytes) else { return false };
            match immediate {
                None => batch.write(id, from, to, flags(bytes)),
                Some(immediate) => batch.write_with_immediate(id, from, to, immediate, flags(bytes)),
            }
        }
    };
    added.is_ok()
}
