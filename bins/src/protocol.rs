//! Messages between rsend and rrecv, inside one superpipe connection. wire.md 8.
//!
//! ```text
//! rsend                                        rrecv
//!   HELLO 1 ─────────────▶        ◀──────────  HELLO 1    both at once; the two determine the checksum
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
//! | 20 | 1 | bit 0: this end may move to a core beside the other end's; bit 1: it asks for the distance of both cores |
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

use core::num::NonZeroU32;
use std::borrow::Cow;
use superpipe::io::DigestKind;

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
const MAGIC: [u8; 4] = *b"sptl";
const VERSION: u8 = 1;
const UNKNOWN: u64 = u64::MAX;
const PLACE_BYTES: usize = 16;
const NO_CORE: u32 = u32::MAX;

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

/// HELLO, the first message of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// tool that sends it
    pub role: Role,
    /// checksum that this end asks for
    pub checksum: Option<DigestKind>,
    /// bytes that this end announces
    pub size_hint: Option<u64>,
    /// core of this end
    pub place: Place,
}

/// Core of an end, for the other end on the same host. A peer's is an allegation: it decides nothing but which of its own allowed cores an end takes,
/// and what it prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// core that this end is pinned to
    pub core: Option<u32>,
    /// true if this end may move to a core beside the other end's
    pub may_move: bool,
    /// true if this end asks for the distance of both cores
    pub asks: bool,
    /// distance of both cores, as the end that connects has measured it
    pub distance: Option<CoreDistance>,
}

/// Time of 8 bytes from one core to another, in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreDistance {
    /// between the cores of both ends
    pub ends_ps: NonZeroU32,
    /// between two cores of one cache cluster
    pub cluster_ps: Option<NonZeroU32>,
}

/// TRAILER or VERDICT, the last message of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// exit code; 0 for success
    pub code: u8,
    /// bytes that went through this end
    pub bytes: u64,
    /// their checksum
    pub checksum: u64,
    /// cause of the failure; if the code is 0, a remark for people
    pub text: String,
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

impl Hello {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.role as u8;
        bytes[6] = match self.checksum {
            None => 0,
            Some(DigestKind::None) => 1,
            Some(DigestKind::Crc32c) => 2,
            Some(DigestKind::Crc64) => 3,
        };
        bytes[8..16].copy_from_slice(&self.size_hint.unwrap_or(UNKNOWN).to_le_bytes());
        bytes[16..].copy_from_slice(&self.place.encode());
        bytes
    }

    /// Decodes the HELLO of a peer whose role must be `role`.
    ///
    /// # Errors
    /// The first rule that the message violates.
    pub fn decode(bytes: &[u8], role: Role) -> Result<Self, Violation> {
        let bytes: &[u8; HELLO_BYTES] = bytes.try_into().map_err(|_| role.other_program())?;
        if bytes[..4] != MAGIC {
            return Err(role.other_program());
        }
        if bytes[4] != VERSION {
            return Err(Violation("uses another version of superpipe-tools; install the same at both ends"));
        }
        if bytes[5] == role.other() as u8 {
            return Err(role.same_role());
        }
        if bytes[5] != role as u8 {
            return Err(role.other_program());
        }
        let place = Place::decode(&bytes[16..]).filter(|place| bytes[7] == 0 && place.is_of(role));
        let place = place.ok_or(Violation("sent a HELLO whose reserved bytes are not zero"))?;
        let checksum = match bytes[6] {
            0 => None,
            1 => Some(DigestKind::None),
            2 => Some(DigestKind::Crc32c),
            3 => Some(DigestKind::Crc64),
            _ => return Err(Violation("asks for an unknown checksum")),
        };
        let size_hint = word(&bytes[8..16]);
        Ok(Self { role, checksum, size_hint: (size_hint != UNKNOWN).then_some(size_hint), place })
    }
}

impl Place {
    fn encode(&self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        bytes[..4].copy_from_slice(&self.core.unwrap_or(NO_CORE).to_le_bytes());
        bytes[4] = u8::from(self.may_move) | u8::from(self.asks) << 1;
        if let Some(CoreDistance { ends_ps, cluster_ps }) = self.distance {
            bytes[8..12].copy_from_slice(&ends_ps.get().to_le_bytes());
            bytes[12..].copy_from_slice(&cluster_ps.map_or(0, NonZeroU32::get).to_le_bytes());
        }
        bytes
    }

    /// Decodes the last part of a HELLO. None if a reserved bit is set.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PLACE_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| u32::try_from(word(&bytes[at..at + 4])).ok();
        let (core, ends_ps, cluster_ps) = (number(0)?, number(8)?, number(12)?);
        let is_reserved_zero = bytes[4] <= 3 && bytes[5..8].iter().all(|&byte| byte == 0);
        let distance = NonZeroU32::new(ends_ps)
            .map(|ends_ps| CoreDistance { ends_ps, cluster_ps: NonZeroU32::new(cluster_ps) });
        (is_reserved_zero && (distance.is_some() || cluster_ps == 0)).then_some(Self {
            core: (core != NO_CORE).then_some(core),
            may_move: bytes[4] & 1 != 0,
            asks: bytes[4] & 2 != 0,
            distance,
        })
    }

    /// Returns false if only the other role may say this: the end that connects measures, and the other one asks for it and may move.
    const fn is_of(&self, role: Role) -> bool {
        match role {
            Role::Sender | Role::Client => !self.may_move && !self.asks,
            Role::Receiver | Role::Server => self.distance.is_none(),
        }
    }
}

/// Returns the checksum that both ends use: the stronger of the two that they ask for.
#[must_use]
pub fn negotiate_checksum(one: Option<DigestKind>, other: Option<DigestKind>) -> DigestKind {
    one.max(other).unwrap_or_default()
}

impl Report {
    /// Encodes the message. Leaves out the middle of a text that is too long: the start names what failed, and the end the cause.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let text = sanitize(shortened(&self.text).as_bytes());
        let mut bytes = Vec::with_capacity(REPORT_BYTES_MAX);
        bytes.extend([self.code, text.len().to_le_bytes()[0], 0, 0, 0, 0, 0, 0]);
        bytes.extend(self.bytes.to_le_bytes());
        bytes.extend(self.checksum.to_le_bytes());
        bytes.extend(text.bytes());
        bytes
    }

    /// Decodes the message of a peer.
    ///
    /// # Errors
    /// The first rule that the message violates.
    pub fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let (Some(head), Some(text)) = (bytes.get(..REPORT_HEAD_BYTES), bytes.get(REPORT_HEAD_BYTES..))
        else {
            return Err(Violation("sent a report that is too short"));
        };
        if usize::from(head[1]) != text.len() || text.len() > TEXT_BYTES_MAX {
            return Err(Violation("sent a report of the wrong length"));
        }
        if head[2..8].iter().any(|&byte| byte != 0) {
            return Err(Violation("sent a report whose reserved bytes are not zero"));
        }
        Ok(Self {
            code: head[0],
            bytes: word(&head[8..16]),
            checksum: word(&head[16..24]),
            text: sanitize(text),
        })
    }
}

/// Shortens a text to at most 200 bytes, by leaving out its middle.
fn shortened(text: &str) -> Cow<'_, str> {
    const GAP: &str = " ... ";
    const HEAD_BYTES: usize = 60;
    if text.len() <= TEXT_BYTES_MAX {
        return text.into();
    }
    let head = &text[..text.floor_char_boundary(HEAD_BYTES)];
    let tail = &text[text.ceil_char_boundary(text.len() - (TEXT_BYTES_MAX - HEAD_BYTES - GAP.len()))..];
    format!("{head}{GAP}{tail}").into()
}

/// Converts a text to one line of at most 200 bytes that is safe to show on a terminal: see [`one_line`].
#[must_use]
pub fn sanitize(text: &[u8]) -> String {
    let mut clean = String::new();
    for letter in String::from_utf8_lossy(text).chars().map(harmless) {
        if clean.len() + letter.len_utf8() > TEXT_BYTES_MAX {
            break;
        }
        clean.push(letter);
    }
    clean
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_round_trip_and_wrong_ones_name_their_violation() {
        for checksum in [None, Some(DigestKind::None), Some(DigestKind::Crc32c), Some(DigestKind::Crc64)] {
            for size_hint in [None, Some(0), Some(1 << 40)] {
                let hello = Hello { role: Role::Sender, checksum, size_hint, place: Place::default() };
                assert_eq!(Hello::decode(&hello.encode(), Role::Sender), Ok(hello));
            }
        }
        let hello = Hello { role: Role::Sender, checksum: None, size_hint: None, place: Place::default() };
        let wrong = |at: usize, value: u8| {
            let mut bytes = hello.encode();
            bytes[at] = value;
            Hello::decode(&bytes, Role::Sender).unwrap_err().0
        };
        assert_eq!(wrong(0, 0), "is not rsend or rrecv");
        assert!(wrong(4, 2).contains("another version"));
        assert!(wrong(5, 2).contains("the same role"));
        assert_eq!((wrong(5, 3), wrong(5, 9)), ("is not rsend or rrecv", "is not rsend or rrecv"));
        let rperf = |role| Hello::decode(&hello.encode(), role).unwrap_err().0;
        assert_eq!((rperf(Role::Client), rperf(Role::Server)), ("is not rperf", "is not rperf"));
        assert!(wrong(6, 4).contains("checksum"));
        for (at, value) in [(7, 1), (20, 1), (20, 2), (20, 4), (21, 1), (23, 1), (31, 1)] {
            assert!(wrong(at, value).contains("reserved"), "{at}");
        }
        assert!(Hello::decode(&[], Role::Sender).is_err() && Hello::decode(&[0; 33], Role::Sender).is_err());
    }

    #[test]
    fn a_hello_has_the_core_and_what_its_role_may_say() {
        let hello = |role, place| Hello { role, checksum: None, size_hint: None, place };
        let trip = |role, place| Hello::decode(&hello(role, place).encode(), role).map(|hello| hello.place);
        let ps = |ps| NonZeroU32::new(ps).unwrap();
        let measured = |cluster_ps| Some(CoreDistance { ends_ps: ps(104_500), cluster_ps });
        for core in [None, Some(0), Some(7), Some(u32::MAX - 1)] {
            for distance in [None, measured(None), measured(Some(ps(31_000)))] {
                let connects = Place { core, distance, ..Place::default() };
                for role in [Role::Sender, Role::Client] {
                    assert_eq!(trip(role, connects), Ok(connects));
                }
                assert_eq!(trip(Role::Receiver, connects).is_ok(), distance.is_none());
            }
            for (may_move, asks) in [(false, true), (true, false), (true, true)] {
                let listens = Place { core, may_move, asks, distance: None };
                for role in [Role::Receiver, Role::Server] {
                    assert_eq!(trip(role, listens), Ok(listens));
                }
                assert!(trip(Role::Client, listens).is_err());
            }
        }
    }

    #[test]
    fn the_stronger_checksum_wins() {
        use DigestKind::{Crc32c, Crc64, None as Nothing};
        assert_eq!(negotiate_checksum(None, None), Crc64);
        assert_eq!(negotiate_checksum(Some(Nothing), None), Nothing);
        assert_eq!(negotiate_checksum(None, Some(Crc32c)), Crc32c);
        assert_eq!(negotiate_checksum(Some(Nothing), Some(Crc32c)), Crc32c);
        assert_eq!(negotiate_checksum(Some(Crc64), Some(Crc32c)), Crc64);
    }

    #[test]
    fn reports_round_trip_and_wrong_ones_are_rejected() {
        let report =
            Report { code: 8, bytes: 1 << 33, checksum: 0xAE8B_1486_0A79_9888, text: "no space".to_owned() };
        let bytes = report.encode();
        assert_eq!(Report::decode(&bytes), Ok(report.clone()));
        for end in 0..bytes.len() {
            assert!(Report::decode(&bytes[..end]).is_err(), "{end}");
        }
        for at in 2..8 {
            let mut bytes = bytes.clone();
            bytes[at] = 1;
            assert!(Report::decode(&bytes).is_err());
        }
        let long = Report { text: "ü".repeat(150), ..report };
        let kept = Report::decode(&long.encode()).unwrap().text;
        assert_eq!(kept, format!("{} ... {}", "ü".repeat(30), "ü".repeat(67)));
        let named = Report { text: format!("cannot write to {}: no space", "n".repeat(250)), ..long.clone() };
        let kept = Report::decode(&named.encode()).unwrap().text;
        assert!(kept.starts_with("cannot write to nnn") && kept.ends_with("nnn: no space"), "{kept}");
        let mut beyond = long.encode();
        beyond.extend(b"xx");
        beyond[1] += 2;
        assert!(Report::decode(&beyond).is_err());
    }

    #[test]
    fn a_peers_text_cannot_control_a_terminal() {
        assert_eq!(sanitize(b"disk full\n\x1b[2J\x07"), "disk full??[2J?");
        assert_eq!(sanitize("a\u{202E}b\u{9b}c".as_bytes()), "a?b?c");
        assert_eq!(sanitize(b"\xff\xfe ok"), "\u{FFFD}\u{FFFD} ok");
        let long = "ü\u{202E}\n".repeat(200);
        assert_eq!(one_line(&long), "ü??".repeat(200));
    }
}
