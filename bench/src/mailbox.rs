//! What the measuring process (the client) tells the other (the server), outside of what is timed: one command
//! at a time, in the shared mapping's first page.
//!
//! ```text
//! client  words, then number (Release)  ->  server: number (Acquire), words, work
//! client  done (Acquire)                <-  server: results, then done (Release)
//! ```

use core::sync::atomic::{AtomicU64, Ordering};

use crate::failure::Failure;
use crate::map::{PAGE_BYTES, SharedMapping};
use crate::spin::{Patience, await_word};

/// How many words a command has.
pub const COMMAND_WORDS: usize = 6;
/// How many results an answer can carry.
pub const RESULTS_MAX: usize = 4096;
/// What the mailbox takes at the start of the mapping.
pub const MAILBOX_BYTES: usize = PAGE_BYTES + RESULTS_MAX * 8;

const NUMBER: usize = 0;
const COMMAND: usize = 1;
const DONE: usize = 32;
const RESULTS: usize = PAGE_BYTES / 8;
const _: () = assert!(COMMAND + COMMAND_WORDS <= DONE);

/// One end of the mailbox; both processes make theirs over the same mapping.
pub struct Mailbox<'a> {
    words: &'a [AtomicU64],
    number: u64,
}

impl<'a> Mailbox<'a> {
    /// A mailbox in the first bytes of `map`.
    #[must_use]
    pub fn new(map: &'a SharedMapping) -> Self {
        Self { words: map.words(0, MAILBOX_BYTES), number: 0 }
    }

    /// The client: hands a command to the server, and returns at once.
    pub fn post(&mut self, command: [u64; COMMAND_WORDS]) {
        self.number += 1;
        for (word, value) in self.words[COMMAND..].iter().zip(command) {
            word.store(value, Ordering::Relaxed);
        }
        // Pairs with the Acquire in `take`.
        self.words[NUMBER].store(self.number, Ordering::Release);
    }

    /// The server: waits for the next command.
    ///
    /// # Errors
    /// [`Failure::Timeout`] or [`Failure::PeerLost`] when none comes.
    pub fn take(&mut self, patience: &Patience) -> Result<[u64; COMMAND_WORDS], Failure> {
        self.number += 1;
        await_word::<true>(&self.words[NUMBER], self.number, patience)?;
        Ok(core::array::from_fn(|i| self.words[COMMAND + i].load(Ordering::Relaxed)))
    }

    /// The server: answers the command that it took last.
    ///
    /// # Panics
    /// If there are more than [`RESULTS_MAX`] results.
    pub fn answer(&self, results: &[u64]) {
        assert!(results.len() <= RESULTS_MAX, "{} results", results.len());
        for (word, &value) in self.words[RESULTS..].iter().zip(results) {
            word.store(value, Ordering::Relaxed);
        }
        // Pairs with the Acquire in `wait_done`.
        self.words[DONE].store(self.number, Ordering::Release);
    }

    /// The client: waits until the command is answered, and takes `count` results.
    ///
    /// # Errors
    /// [`Failure::Timeout`] or [`Failure::PeerLost`] when no answer comes.
    pub fn wait_done(&self, count: usize, patience: &Patience) -> Result<Vec<u64>, Failure> {
        await_word::<true>(&self.words[DONE], self.number, patience)?;
        Ok(self.words[RESULTS..RESULTS + count].iter().map(|w| w.load(Ordering::Relaxed)).collect())
    }
}
