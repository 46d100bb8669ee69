//! Messages between rsend and rrecv, inside one superpipe connection. wire.md 8.
//!
//! ```text
//! rsend                                        rrecv
//!   HELLO 1 ─────────────▶        ◀──────────  HELLO 1    both at once; the two determine the checksum
//!   NAME 13 ─────────────▶                                only if the HELLO of rrecv asks for it: see `files::name`
//!   ATTRIBUTES 12 ───────▶                                only with rsend --preserve: see `preserve`
//!   DATA 2 ════════════════ stream ═════════▶
//!   TRAILER 3 ───────────▶                                bytes and checksum as sent
//!                                 ◀──────────  VERDICT 4  after comparing, and after the file is on disk
//! ```
//!
//! Each is a superpipe message (DATA: a stream) with that number as its tag. Integers are little-endian. Reserved bytes are zero,
//! and the peer checks that.
//!
//! HELLO, 32 bytes:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | the letters `sptl` |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | role: 1 rsend, 2 rrecv, 3 rperf, 4 rperf serve |
//! | 6 | 1 | checksum that this end asks for: 0 no preference, 1 none, 2 crc32c, 3 crc64 |
//! | 7 | 1 | reserved |
//! | 8 | 8 | bytes that rsend announces, all ones if their number is unknown; rrecv accepts no other number, and rejects the stream if it has no room for them |
//! | 16 | 4 | core that this end is pinned to, all ones for none |
//! | 20 | 1 | bit 0: this end may move to a core beside the other end's; bit 1: it asks for the distance of both cores; bit 2, of rrecv: it asks for a NAME |
//! | 21 | 3 | reserved |
//! | 24 | 4 | of the end that connects: picoseconds in which 8 bytes go from one core to the other, 0 if they were not measured; else reserved |
//! | 28 | 4 | likewise, between its own core and another one of its cache cluster |
//!
//! Both ends use the stronger of the two checksums, and crc64 if neither end asks for one.
//!
//! TRAILER and VERDICT, 24 bytes and a text of at most 200:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | exit code of this end, 0 for success |
//! | 1 | 1 | bytes of text |
//! | 2 | 6 | reserved |
//! | 8 | 8 | bytes that went through this end |
//! | 16 | 8 | their checksum |
//! | 24 | | cause of the failure, in UTF-8; in a TRAILER of code 0 a remark for people |
//!
//! After a success, rsend closes the connection when it has the VERDICT, and rrecv closes it after rsend: an earlier close could
//! discard the VERDICT.
//!
//! An end that fails reports it once: rsend cancels the stream and sends a TRAILER with its code, rrecv rejects the stream and
//! sends a VERDICT; each then closes the connection. rrecv does not see a stream that was cancelled before its first byte: the
//! TRAILER is the next transfer. The Reason of a cancel, reject or close is the exit code, which an end gives also when a signal
//! leaves it no time for a message. Text from a peer is shown only after [`sanitize`].

mod hello;
mod report;

pub use hello::{CoreDistance, Hello, Place, negotiate_checksum};
pub use report::{Report, sanitize};

/// Tag of HELLO.
pub const TAG_HELLO: u64 = 1;
/// Tag of the stream.
pub const TAG_DATA: u64 = 2;
/// Tag of TRAILER.
pub const TAG_TRAILER: u64 = 3;
/// Tag of VERDICT.
pub const TAG_VERDICT: u64 = 4;

/// Size of a HELLO.
pub const HELLO_BYTES: usize = 32;
/// Maximum size of a TRAILER or VERDICT.
pub const REPORT_BYTES_MAX: usize = REPORT_HEAD_BYTES + TEXT_BYTES_MAX;

const REPORT_HEAD_BYTES: usize = 24;
const TEXT_BYTES_MAX: usize = 200;

/// Tool at one end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// rsend
    Sender = 1,
    /// rrecv
    Receiver = 2,
    /// rperf, which asks for measurements
    Client = 3,
    /// rperf serve, which answers
    Server = 4,
}

/// Violation of this protocol by a message, in words that follow "the peer ".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation(pub &'static str);

impl Role {
    /// Returns the tool's name.
    #[must_use]
    pub const fn tool(self) -> &'static str {
        match self {
            Self::Sender => "rsend",
            Self::Receiver => "rrecv",
            Self::Client => "rperf",
            Self::Server => "rperf serve",
        }
    }

    /// Returns the noun for this end in texts.
    #[must_use]
    pub const fn part(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// Returns the noun for the common work of both ends.
    #[must_use]
    pub const fn work(self) -> &'static str {
        match self {
            Self::Sender | Self::Receiver => "transfer",
            Self::Client | Self::Server => "measurement",
        }
    }

    /// Returns the role of the peer.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Returns the violation of a peer that is not one of these tools.
    const fn other_program(self) -> Violation {
        match self {
            Self::Sender | Self::Receiver => Violation("is not rsend or rrecv"),
            Self::Client | Self::Server => Violation("is not rperf"),
        }
    }

    /// Returns the violation of a peer that has our own role instead of `self`.
    const fn same_role(self) -> Violation {
        match self {
            Self::Sender | Self::Receiver => {
                Violation("has the same role; one end must be rsend, the other rrecv")
            }
            Self::Client | Self::Server => {
                Violation("has the same role; one end must be rperf serve, the other rperf with its address")
            }
        }
    }
}

/// Converts a text to one line that is safe to show on a terminal: control characters, and those that change the direction of
/// writing, become `?`.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().map(harmless).collect()
}

/// Replaces a character by `?` if it controls a terminal, ends a line or changes the direction of writing.
fn harmless(letter: char) -> char {
    match letter {
        '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' => '?',
        letter if letter.is_control() => '?',
        letter => letter,
    }
}

/// Decodes a little-endian integer of at most 8 bytes.
pub(crate) fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}
