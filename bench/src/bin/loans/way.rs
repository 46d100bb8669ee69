//! The ways that a message can go, and the commands to the sender.
//!
//! ```text
//! receiver ── size's index, way, count ──▶ sender     on the control connection
//!          ◀══ message ══════════════════             that way, count times
//! ```

/// A way from the writer of a message to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Way {
    Ring,
    Slices,
    Spans,
    Copy,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Ring, Self::Slices, Self::Spans, Self::Copy];

    /// The name in tables and in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Slices => "slices",
            Self::Spans => "spans",
            Self::Copy => "copy",
        }
    }
}

/// Bytes of a command.
pub(crate) const COMMAND_BYTES: usize = 24;

/// A command: messages of a size, by its index, that are to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) size: usize,
    pub(crate) way: Way,
    pub(crate) count: usize,
}

impl Command {
    pub(crate) fn encode(self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip([self.size, self.way as usize, self.count]) {
            place.copy_from_slice(&(word as u64).to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; COMMAND_BYTES]) -> Self {
        let word =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let way = Way::ALL.get(word(8)).copied().unwrap_or(Way::Copy);
        Self { size: word(0), way, count: word(16) }
    }
}
