//! The end of a wire: what was posted reaches the peer before the QP goes.
//!
//! To disconnect flushes what the device has not sent yet, the CLOSE with it. A completion says that the peer's device has
//! what it stands for (iWARP: that it is on its way, and the peer's agreement to the disconnect that it has arrived).

use super::mail::WORD_BYTES;
use super::mail::Word;
use super::wire::{End, Wire};
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::verbs::SendFlags;
use core::time::Duration;
use std::thread;

/// For a peer that takes everything in.
const DRAIN_NS: u64 = 1_000_000_000;
/// Looks before the core is given to others between them.
const SPINS: u32 = 1000;

impl Drop for Wire {
    fn drop(&mut self) {
        if self.end != End::Not || self.queue.is_idle() || !self.ask_for_completion() {
            return;
        }
        let deadline_ns = monotonic_ns() + DRAIN_NS;
        let mut looks = 0;
        while self.end == End::Not && !self.queue.is_idle() && until(deadline_ns) > 0 {
            if self.poll() == 0 {
                looks += 1;
                if looks > SPINS {
                    thread::sleep(Duration::from_micros(50));
                }
            }
        }
    }
}

impl Wire {
    /// Has the device tell when all that was posted is done: by one word more, which says nothing new.
    fn ask_for_completion(&mut self) -> bool {
        if self.queue.ends_signaled() {
            return true;
        }
        if self.queue.room() == 0 {
            return false;
        }
        let position = self.queue.position();
        self.queue.take_signaled();
        let flags = SendFlags { signaled: true, inline: WORD_BYTES <= self.inline_bytes };
        let mut batch = self.qp.batch();
        let built = batch.send(position, self.mailroom.put_word(position, Word::Wake), flags);
        built.is_ok() && batch.post().is_ok()
    }
}
