//! Models of arming and waking: an end that looks, arms and waits for its set of descriptors, and a peer that sends. A lost wake-up is a deadlock, which loom reports.
//!
//! The sleep word and the message's flag are the shipped ones (`superpipe_core::sleep_word`, `superpipe_core::word`). The socket and the set (epoll, edge-triggered) are modelled: the set reports that a byte
//! came once, whether or not the bytes were taken out of the socket.
//!
//! The barrier of the sleeper is membarrier(2), which puts a fence into the sender's instructions at any place while the call lasts. A fence before the sender's store is one before its load as well, and behind
//! the load the store is visible to the sleeper's look. So it is modelled by a fence of each thread, the sender's between store and load.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use loom::sync::atomic::fence;
use loom::sync::{Condvar, Mutex};
use superpipe_core::{sleep_word, word};

use crate::number::Number;

/// The shipped steps, or all but one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Shipped,
    /// No barrier: the sender reads the word before its store is visible.
    NoBarrier,
    /// No look between arming and waiting.
    NoLook,
    /// Reports of the set are taken out after the look, with the wake-up of what came since.
    DrainedLate,
}

/// The socket at the sleeper's end, in a set.
#[derive(Default)]
struct Socket {
    bytes: u32,
    /// The set has a report that nobody took.
    is_reported: bool,
}

/// Parts that both ends share.
struct Shared {
    /// The flag of the newest message.
    flag: Number,
    sleep: Number,
    socket: Mutex<Socket>,
    came: Condvar,
}

impl Shared {
    fn new() -> Self {
        Self {
            flag: Number::new(0),
            sleep: Number::new(sleep_word::AWAKE),
            socket: Mutex::new(Socket::default()),
            came: Condvar::new(),
        }
    }

    /// Sends a message, and wakes the peer if it sleeps.
    fn send(&self, message: u64, variant: Variant) {
        word::publish(&self.flag, message);
        if variant != Variant::NoBarrier {
            fence(Ordering::SeqCst);
        }
        let Some(sleep) = sleep_word::sleep_of(&self.sleep) else { return };
        if sleep_word::take(&self.sleep, sleep) {
            let mut socket = self.socket.lock().expect("no thread panics");
            socket.bytes += 1;
            socket.is_reported = true;
            self.came.notify_one();
        }
    }

    /// Takes what the set reports.
    fn take_report(&self) {
        self.socket.lock().expect("no thread panics").is_reported = false;
    }

    /// Ends a sleep: takes the wake-ups out of the socket.
    fn disarm(&self) {
        self.socket.lock().expect("no thread panics").bytes = 0;
        sleep_word::wake_up(&self.sleep);
    }

    /// Returns true if there is a message behind `last`.
    fn looks(&self, last: u64) -> bool {
        word::observe(&self.flag) != last
    }

    /// Asks for a wake-up, as `Blocking::arm`. Returns false if there is something to do.
    fn arm(&self, last: u64, number: u64, variant: Variant) -> bool {
        if variant != Variant::DrainedLate {
            self.take_report();
        }
        sleep_word::fall_asleep(&self.sleep, number);
        if variant != Variant::NoBarrier {
            fence(Ordering::SeqCst);
        }
        let has_work = variant != Variant::NoLook && self.looks(last);
        if has_work || self.socket.lock().expect("no thread panics").bytes > 0 {
            self.disarm();
            return false;
        }
        if variant == Variant::DrainedLate {
            self.take_report();
        }
        true
    }

    /// Waits for a report of the set.
    fn wait(&self) {
        let mut socket = self.socket.lock().expect("no thread panics");
        while !socket.is_reported {
            socket = self.came.wait(socket).expect("no thread panics");
        }
        socket.is_reported = false;
    }
}

/// One end sends so many messages, the other one sleeps until it has seen the last.
fn explore(messages: u64, variant: Variant) {
    super::check(move || {
        let shared = Arc::new(Shared::new());
        let sender = {
            let shared = shared.clone();
            loom::thread::spawn(move || (1..=messages).for_each(|message| shared.send(message, variant)))
        };
        let (mut last, mut sleeps) = (0, 0);
        while last < messages {
            if shared.looks(last) {
                last = word::observe(&shared.flag);
                continue;
            }
            sleeps += 1;
            if shared.arm(last, sleeps, variant) {
                shared.wait();
                shared.disarm();
            }
        }
        sender.join().expect("a sender");
    });
}

#[test]
fn no_wake_up_is_lost() {
    explore(1, Variant::Shipped);
    explore(2, Variant::Shipped);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_barrier_a_wake_up_is_lost() {
    explore(1, Variant::NoBarrier);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_second_look_a_wake_up_is_lost() {
    explore(1, Variant::NoLook);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_report_that_is_taken_after_the_look_is_a_wake_up_lost() {
    explore(1, Variant::DrainedLate);
}
