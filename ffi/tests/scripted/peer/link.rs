//! Differences of the two fabrics on an established connection.

use core::sync::atomic::{Ordering, fence};
use std::os::fd::OwnedFd;

use super::memory::Memory;
use super::socket;

/// Kind of the notification that goes with a write (wire.md 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A chunk with this sequence, counted without end.
    Chunk(u64),
    /// A control message, likewise.
    Control(u64),
    Ack,
}

/// The memory of both ends, and the notifications of writes.
pub(super) trait Link {
    /// Memory that the other end writes.
    fn mine(&self) -> Memory;

    /// Memory that this peer writes for the other end: its own memory, or the image of it.
    fn theirs(&self) -> Memory;

    /// Makes these bytes visible to the other end, and wakes it unless `is_mute`.
    fn publish(&mut self, at: usize, bytes: usize, told: Told, is_mute: bool);

    /// Returns true if the other end has granted a credit for such a notification.
    fn has_credit(&self, _told: Told) -> bool {
        true
    }

    /// Returns true if credits should be returned to the other end.
    fn owes_credits(&self) -> bool {
        false
    }

    /// Returns true if the notification came, or the fabric needs none.
    fn is_told(&self, _told: Told) -> bool {
        true
    }

    /// Takes the notifications that have come.
    fn pump(&mut self) {}

    /// Wakes the other end without a reason. Returns false if it takes no more wake-ups.
    fn wake(&mut self) -> bool;

    /// Sends a false notification of this kind, whose number is `further` beyond the next one.
    fn lie(&mut self, kind: u32, further: i64);

    /// Marks the other end as awake, even if it sleeps.
    fn lull(&mut self);

    /// Ends the connection, and nothing else.
    fn close(&mut self);
}

/// Offset of the word of a control page that tells whether its owner sleeps (wire.md 7.1).
const ASLEEP: usize = 128;

/// Shared memory and a socket.
pub(super) struct Shared {
    socket: Option<OwnedFd>,
    mine: Memory,
    theirs: Memory,
}

impl Shared {
    pub(super) const fn new(socket: OwnedFd, mine: Memory, theirs: Memory) -> Self {
        Self { socket: Some(socket), mine, theirs }
    }
}

impl Link for Shared {
    fn mine(&self) -> Memory {
        self.mine
    }

    fn theirs(&self) -> Memory {
        self.theirs
    }

    /// Wakes the other end if it sleeps, as after every store (wire.md 7.2).
    fn publish(&mut self, _at: usize, _bytes: usize, _told: Told, is_mute: bool) {
        fence(Ordering::SeqCst);
        let word = self.theirs.word(ASLEEP);
        let sleep = word.load(Ordering::Relaxed);
        if sleep != 0
            && !is_mute
            && word.compare_exchange(sleep, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.wake();
        }
    }

    /// Sends one wake byte. Returns false if the socket is full.
    fn wake(&mut self) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket::send(socket, b"W", &[], libc::MSG_DONTWAIT).is_ok())
    }

    fn lie(&mut self, _kind: u32, _further: i64) {
        unreachable!("stores that go direct are not notified of");
    }

    fn lull(&mut self) {
        self.theirs.word(ASLEEP).store(0, Ordering::Relaxed);
    }

    fn close(&mut self) {
        self.socket = None;
    }
}
