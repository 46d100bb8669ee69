//! What the two fabrics do differently once a connection stands.

use core::sync::atomic::{Ordering, fence};
use std::os::fd::OwnedFd;

use super::memory::Memory;
use super::socket;

/// What a write is told of as (wire.md 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A chunk with this sequence, counted without end.
    Chunk(u64),
    /// A control message, likewise.
    Control(u64),
    Ack,
}

/// The memory of both ends, and how the other is told of what was written.
pub(super) trait Link {
    /// What the other end writes.
    fn mine(&self) -> Memory;

    /// Where what the other end shall see is written.
    fn theirs(&self) -> Memory;

    /// Has the other end see these bytes; it is woken unless `is_mute`.
    fn publish(&mut self, at: usize, bytes: usize, told: Told, is_mute: bool);

    /// Whether the other end takes what is told so.
    fn has_credit(&self, _told: Told) -> bool {
        true
    }

    /// Whether the other end waits for credits.
    fn owes_credits(&self) -> bool {
        false
    }

    /// Whether this may be looked for.
    fn is_told(&self, _told: Told) -> bool {
        true
    }

    /// Takes what has come.
    fn pump(&mut self) {}

    /// Wakes the other end, for nothing; false where it takes no more.
    fn wake(&mut self) -> bool;

    /// Tells what is not so: a notification of this kind, so many further than the next.
    fn lie(&mut self, kind: u32, further: i64);

    /// Says that the other end is awake, whatever it does.
    fn lull(&mut self);

    /// Ends the connection, and nothing else.
    fn close(&mut self);
}

/// Where the word lies that says whether the owner of a seat sleeps (wire.md 7.1).
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

    /// One wake byte; false where the socket is full.
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
