//! Commands from the measuring process (the client) to the other one (the server), outside of the time that is measured: one
//! command at a time, in the first page of the shared mapping.
//!
//! ```text
//! client  words, then number (Release)  ->  server: number (Acquire), words, work
//! client  done (Acquire)                <-  server: results, then done (Release)
//! ```

use core::sync::atomic::{AtomicU64, Ordering};

use crate::failure::Failure;
use crate::map::{PAGE_BYTES, SharedMapping};
use crate::spin::{Timeout, await_word};

/// Words of a command.
pub const COMMAND_WORDS: usize = 6;
/// Results that an answer can carry.
pub const RESULTS_MAX: usize = 4096;
/// Bytes of the channel, at the start of the mapping.
pub const CHANNEL_BYTES: usize = PAGE_BYTES + RESULTS_MAX * 8;

const NUMBER: usize = 0;
const COMMAND: usize = 1;
const DONE: usize = 32;
const RESULTS: usize = PAGE_BYTES / 8;
const _: () = assert!(COMMAND + COMMAND_WORDS <= DONE);

/// One end of the channel. Each process makes its own over the same mapping.
pub struct Channel<'a> {
    words: &'a [AtomicU64],
    number: u64,
}

impl<'a> Channel<'a> {
    /// Makes an end in the first bytes of `map`.
    #[must_use]
    pub fn new(map: &'a SharedMapping) -> Self {
        Self { words: map.words(0, CHANNEL_BYTES), number: 0 }
    }

    /// Hands a command from the client to the server, and returns at once.
    pub fn post(&mut self, command: [u64; COMMAND_WORDS]) {
        self.number += 1;
        for (word, value) in self.words[COMMAND..].iter().zip(command) {
            word.store(value, Ordering::Relaxed);
        }
        // Pairs with the Acquire in `take`.
        self.words[NUMBER].store(self.number, Ordering::Release);
    }

    /// Waits in the server for the next command.
    ///
    /// # Errors
    /// [`Failure::Timeout`] or [`Failure::PeerLost`] when none comes.
    pub fn take(&mut self, timeout: &Timeout) -> Result<[u64; COMMAND_WORDS], Failure> {
        self.number += 1;
        await_word::<true>(&self.words[NUMBER], self.number, timeout)?;
        Ok(core::array::from_fn(|i| self.words[COMMAND + i].load(Ordering::Relaxed)))
    }

    /// Answers from the server the command that it took last.
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

    /// Waits in the client until the command is answered, and takes `count` results.
    ///
    /// # Errors
    /// [`Failure::Timeout`] or [`Failure::PeerLost`] when no answer comes.
    pub fn wait_done(&self, count: usize, timeout: &Timeout) -> Result<Vec<u64>, Failure> {
        await_word::<true>(&self.words[DONE], self.number, timeout)?;
        Ok(self.words[RESULTS..RESULTS + count].iter().map(|w| w.load(Ordering::Relaxed)).collect())
    }
}
