//! Models of a line of metrics: its writer never waits, and its reader takes a line only if it is of one write. The sequence is the shipped one (`superpipe_core::sequence_lock`).

use std::sync::Arc;

use superpipe_core::{sequence_lock, word};

use crate::number::Number;

/// Lines that are written.
const LINES: u64 = 2;

/// The shipped steps, or all but one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Shipped,
    /// The writer has no fence between the odd sequence and the words.
    NoWriterFence,
    /// The reader has no fences around its copy of the words.
    NoReaderFences,
    /// The reader takes a line although its sequence is odd.
    OddTaken,
}

/// A line of two words.
struct Line {
    sequence: Number,
    words: [Number; 2],
}

impl Line {
    fn write(&self, value: u64, variant: Variant) {
        let before = if variant == Variant::NoWriterFence {
            let before = word::read(&self.sequence);
            word::write(&self.sequence, before + 1);
            before
        } else {
            sequence_lock::begin_write(&self.sequence)
        };
        self.words.iter().for_each(|word| word::write(word, value));
        sequence_lock::end_write(&self.sequence, before);
    }

    /// Returns the words, if they are of one write.
    fn read(&self, variant: Variant) -> Option<[u64; 2]> {
        let order_reads = || {
            if variant != Variant::NoReaderFences {
                sequence_lock::order_reads::<Number>();
            }
        };
        let before = word::read(&self.sequence);
        order_reads();
        let words = self.words.each_ref().map(word::read);
        order_reads();
        let after = word::read(&self.sequence);
        let is_odd_taken = variant == Variant::OddTaken && before == after;
        (is_odd_taken || sequence_lock::is_whole(before, after)).then_some(words)
    }
}

/// One thread writes lines, and another one looks at them.
fn explore(variant: Variant) {
    super::check(move || {
        let line = Arc::new(Line { sequence: Number::new(0), words: [Number::new(0), Number::new(0)] });
        let writer = {
            let line = line.clone();
            loom::thread::spawn(move || (1..=LINES).for_each(|value| line.write(value, variant)))
        };
        for _ in 0..2 {
            if let Some([one, other]) = line.read(variant) {
                assert!(one == other, "a torn line: {one} and {other}");
            }
        }
        writer.join().expect("a writer");
        assert_eq!(line.read(variant), Some([LINES; 2]), "a line at rest is read");
    });
}

#[test]
fn no_torn_line_is_taken() {
    explore(Variant::Shipped);
}

#[test]
#[should_panic(expected = "a torn line")]
fn without_the_fence_of_the_writer_a_torn_line_is_taken() {
    explore(Variant::NoWriterFence);
}

#[test]
#[should_panic(expected = "a torn line")]
fn without_the_fences_of_the_reader_a_torn_line_is_taken() {
    explore(Variant::NoReaderFences);
}

#[test]
#[should_panic(expected = "a torn line")]
fn a_line_with_an_odd_sequence_may_be_torn() {
    explore(Variant::OddTaken);
}
