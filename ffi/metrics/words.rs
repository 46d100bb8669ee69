//! Lines as words: how structs of counters are written to the page and read from it.

/// Words of a line.
pub(super) const LINE_WORDS: usize = 64;

/// A line as it is in the page.
pub(super) type LineWords = [u64; LINE_WORDS];

/// A line that no writer of this layout makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// Writes words one after the other.
pub(super) struct Packer {
    words: LineWords,
    count: usize,
}

impl Packer {
    pub(super) const fn new() -> Self {
        Self { words: [0; LINE_WORDS], count: 0 }
    }

    pub(super) fn put(&mut self, word: u64) -> &mut Self {
        debug_assert!(self.count < LINE_WORDS, "a line has room for all fields");
        if let Some(place) = self.words.get_mut(self.count) {
            *place = word;
        }
        self.count += 1;
        self
    }

    pub(super) fn put_bytes(&mut self, bytes: [u8; 16]) -> &mut Self {
        let [one, other] = halves(u128::from_ne_bytes(bytes));
        self.put(one).put(other)
    }

    pub(super) const fn finish(&self) -> LineWords {
        self.words
    }
}

/// Reads words one after the other. Those beyond the line are zero.
pub(super) struct Unpacker<'a> {
    words: &'a [u64],
}

impl<'a> Unpacker<'a> {
    pub(super) const fn new(words: &'a [u64]) -> Self {
        Self { words }
    }

    pub(super) fn take(&mut self) -> u64 {
        match self.words.split_first() {
            Some((word, rest)) => {
                self.words = rest;
                *word
            }
            None => 0,
        }
    }

    pub(super) fn take_bytes(&mut self) -> [u8; 16] {
        let one = self.take();
        (u128::from(one) | u128::from(self.take()) << 64).to_ne_bytes()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "these are the halves")]
const fn halves(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

/// Implements the conversion of a struct of `u64` counters to words and back, in this order, and the list of its fields by name.
macro_rules! counters_as_words {
    ($name:ident: $($field:ident),+ $(,)?) => {
        impl $name {
            fn pack(&self, packer: &mut $crate::metrics::words::Packer) {
                $(packer.put(self.$field);)+
            }

            fn unpack(from: &mut $crate::metrics::words::Unpacker<'_>) -> Self {
                $(let $field = from.take();)+
                Self { $($field),+ }
            }

            /// Returns each counter with its name, in the order of the fields.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field)),+].into_iter()
            }
        }
    };
}

pub(super) use counters_as_words;
