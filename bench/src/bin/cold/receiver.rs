//! The measuring process.

use superpipe::{Connection, Reason};
use superpipe_bench::clock::now_ns;
use superpipe_bench::failure::Failure;
use superpipe_bench::meeting::{DEADLINE, fail};
use superpipe_bench::pattern;
use superpipe_bench::stats::Summary;

use crate::memory::{Kind, Memory};
use crate::sender::Wish;

/// Messages that are timed to learn how fast the rest will be.
const GUESSES: u64 = 3;
/// Fewer samples make no median.
const SAMPLES_MIN: u64 = 5;
/// More only take time.
const SAMPLES_MAX: u64 = 10_000;

pub(crate) struct Receiver {
    connection: Connection,
    number: u64,
}

impl Receiver {
    pub(crate) const fn new(connection: Connection) -> Self {
        Self { connection, number: 0 }
    }

    /// One visit to a kind of memory and a size.
    pub(crate) fn visit(&mut self, kind: Kind, bytes: usize, budget_ns: u64) -> Result<Summary, Failure> {
        self.ask(2, bytes)?;
        self.check(kind, bytes)?;
        self.check(kind, bytes)?;
        let guess_ns = self.time(kind, bytes, GUESSES)?.into_iter().min().unwrap_or(1);
        let count = (budget_ns / guess_ns.max(1)).clamp(SAMPLES_MIN, SAMPLES_MAX);
        Ok(Summary::new(&self.time(kind, bytes, count)?, 1, 1))
    }

    pub(crate) fn close(self) -> Result<(), Failure> {
        self.connection.close(Reason::DONE, DEADLINE).map_err(fail)
    }

    /// Asks for messages with contents that were not sent before.
    fn ask(&mut self, count: u64, bytes: usize) -> Result<(), Failure> {
        self.number += 1;
        let [count, bytes, number] = Wish { count, bytes, number: self.number }.to_words();
        self.connection.send(0, &[&count, &bytes, &number], DEADLINE).map_err(fail)
    }

    /// Receives one message, and compares it.
    fn check(&mut self, kind: Kind, bytes: usize) -> Result<(), Failure> {
        let mut memory = kind.make(bytes)?;
        self.receive(kind, &mut memory, bytes)?;
        match pattern::find_wrong_byte(self.number, &memory.bytes_mut()[..bytes]) {
            None => Ok(()),
            Some(at) => Err(Failure::Integrity(format!("{bytes} bytes into {kind} at byte {at}"))),
        }
    }

    /// The nanoseconds of each of so many messages.
    fn time(&mut self, kind: Kind, bytes: usize, count: u64) -> Result<Vec<u64>, Failure> {
        let mut samples_ns = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let mut memory = kind.make(bytes)?;
        self.ask(count, bytes)?;
        for _ in 0..count {
            if kind.is_fresh() {
                memory = kind.make(bytes)?;
            }
            let begin_ns = now_ns();
            self.receive(kind, &mut memory, bytes)?;
            samples_ns.push(now_ns() - begin_ns);
        }
        Ok(samples_ns)
    }

    fn receive(&mut self, kind: Kind, memory: &mut Memory, bytes: usize) -> Result<(), Failure> {
        let into = &mut memory.bytes_mut()[..bytes];
        let received = kind.receive(&mut self.connection, into).map_err(fail)?;
        if received.bytes == bytes && received.tag == self.number {
            return Ok(());
        }
        Err(Failure::Integrity(format!("a message of {} bytes, number {}", received.bytes, received.tag)))
    }
}
