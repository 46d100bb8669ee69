//! What rsend and rrecv say to each other, inside one superpipe connection. wire.md 8.
//!
//! ```text
//! rsend                                        rrecv
//!   HELLO 1 ─────────────▶        ◀──────────  HELLO 1    both at once: the checksum follows from the two
//!   ATTRIBUTES 12 ───────▶                                only if rsend is asked to: `preserve`
//!   DATA 2 ════════════════ stream ═════════▶
//!   TRAILER 3 ───────────▶                                bytes and checksum as sent
//!                                 ◀──────────  VERDICT 4  after comparing, and after the file is on disk
//! ```
//!
//! Each is a superpipe message (DATA: a stream) with that tag. Integers are little-endian; what is reserved is zero, and
//! checked.
//!
//! HELLO, 32 bytes:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | the letters `sptl` |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | role: 1 rsend, 2 rrecv, 3 rperf, 4 rperf serve |
//! | 6 | 1 | checksum that this end asks for: 0 no wish, 1 none, 2 crc32c, 3 crc64 |
//! | 7 | 1 | reserved |
//! | 8 | 8 | bytes that rsend announces, all ones where their number is unknown; rrecv takes no other number, and rejects the stream where it has no room for them |
//! | 16 | 16 | reserved |
//!
//! The stronger of the two wishes is the checksum of the stream; crc64 where neither end has one.
//!
//! TRAILER and VERDICT, 24 bytes and a text of at most 200:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | how this end ends: an exit code, 0 where all is well |
//! | 1 | 1 | bytes of text |
//! | 2 | 6 | reserved |
//! | 8 | 8 | bytes that went through this end |
//! | 16 | 8 | their checksum |
//! | 24 | | why, in UTF-8; in a TRAILER of code 0 a remark for people |
//!
//! Where all is well rsend closes once it has the VERDICT, and rrecv once rsend has: before that it could take the VERDICT with it.
//!
//! An end that fails says so once: rsend cancels the stream and sends a TRAILER with its code, rrecv rejects it and sends
//! a VERDICT; each then closes the connection. A stream cancelled before its first byte never shows: the TRAILER is next. The
//! Reason of a cancel, reject or close is the exit code, so that an end which has no time for a message (a signal) is understood.
//! Text from a peer is shown only after [`sanitize`].

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

/// Bytes of a HELLO.
pub const HELLO_BYTES: usize = 32;
/// The most bytes of a TRAILER or VERDICT.
pub const REPORT_BYTES_MAX: usize = REPORT_HEAD_BYTES + TEXT_BYTES_MAX;

const REPORT_HEAD_BYTES: usize = 24;
const TEXT_BYTES_MAX: usize = 200;
const MAGIC: [u8; 4] = *b"sptl";
const VERSION: u8 = 1;
const UNKNOWN: u64 = u64::MAX;

/// Which tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// rsend
    Sender = 1,
    /// rrecv
    Receiver = 2,
    /// rperf, the end that asks
    Client = 3,
    /// rperf serve, the end that answers
    Server = 4,
}

/// How an end introduces itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// which tool it is
    pub role: Role,
    /// the checksum that it asks for
    pub checksum: Option<DigestKind>,
    /// bytes that it announces
    pub size_hint: Option<u64>,
}

/// How an end ends: a TRAILER or a VERDICT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// an exit code; 0 where all is well
    pub code: u8,
    /// bytes that went through this end
    pub bytes: u64,
    /// their checksum
    pub checksum: u64,
    /// why; where the code is 0, a remark for people
    pub text: String,
}

/// A message that breaks these rules, in words that follow "the peer ".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken(pub &'static str);

impl Role {
    /// The tool's name.
    #[must_use]
    pub const fn tool(self) -> &'static str {
        match self {
            Self::Sender => "rsend",
            Self::Receiver => "rrecv",
            Self::Client => "rperf",
            Self::Server => "rperf serve",
        }
    }

    /// What people call this end when it speaks for itself.
    #[must_use]
    pub const fn part(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// What both ends are there for.
    #[must_use]
    pub const fn work(self) -> &'static str {
        match self {
            Self::Sender | Self::Receiver => "transfer",
            Self::Client | Self::Server => "measurement",
        }
    }

    /// The peer's.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// What somebody is who speaks something else.
    const fn stranger(self) -> Broken {
        match self {
            Self::Sender | Self::Receiver => Broken("is no rsend or rrecv"),
            Self::Client | Self::Server => Broken("is no rperf"),
        }
    }

    /// What somebody is who is of our trade, and not `self`.
    const fn mismatch(self) -> Broken {
        match self {
            Self::Sender | Self::Receiver => {
                Broken("has the same part as we; one end must be rsend, the other rrecv")
            }
            Self::Client | Self::Server => Broken(
                "has the same part as we; one end must be rperf serve, the other rperf with its address",
            ),
        }
    }
}

impl Hello {
    /// As it crosses.
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
        bytes
    }

    /// What a peer that should be `role` sent.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode(bytes: &[u8], role: Role) -> Result<Self, Broken> {
        let bytes: &[u8; HELLO_BYTES] = bytes.try_into().map_err(|_| role.stranger())?;
        if bytes[..4] != MAGIC {
            return Err(role.stranger());
        }
        if bytes[4] != VERSION {
            return Err(Broken("is of another version of superpipe-tools; install the same at both ends"));
        }
        if bytes[5] == role.other() as u8 {
            return Err(role.mismatch());
        }
        if bytes[5] != role as u8 {
            return Err(role.stranger());
        }
        if bytes[7] != 0 || bytes[16..].iter().any(|&byte| byte != 0) {
            return Err(Broken("sent a HELLO whose reserved bytes are not zero"));
        }
        let checksum = match bytes[6] {
            0 => None,
            1 => Some(DigestKind::None),
            2 => Some(DigestKind::Crc32c),
            3 => Some(DigestKind::Crc64),
            _ => return Err(Broken("asks for a checksum that we do not know")),
        };
        let size_hint = word(&bytes[8..16]);
        Ok(Self { role, checksum, size_hint: (size_hint != UNKNOWN).then_some(size_hint) })
    }
}

/// The checksum that both ends use, whichever asks for what.
#[must_use]
pub fn agreed(one: Option<DigestKind>, other: Option<DigestKind>) -> DigestKind {
    one.max(other).unwrap_or_default()
}

impl Report {
    /// Encodes the message. Of a text that is too long the middle is left out: what failed is at the begin, and why at the end.
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

    /// What a peer sent.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn decode(bytes: &[u8]) -> Result<Self, Broken> {
        let (Some(head), Some(text)) = (bytes.get(..REPORT_HEAD_BYTES), bytes.get(REPORT_HEAD_BYTES..))
        else {
            return Err(Broken("sent a report that is too short"));
        };
        if usize::from(head[1]) != text.len() || text.len() > TEXT_BYTES_MAX {
            return Err(Broken("sent a report of the wrong length"));
        }
        if head[2..8].iter().any(|&byte| byte != 0) {
            return Err(Broken("sent a report whose reserved bytes are not zero"));
        }
        Ok(Self {
            code: head[0],
            bytes: word(&head[8..16]),
            checksum: word(&head[16..24]),
            text: sanitize(text),
        })
    }
}

/// A text of at most 200 bytes.
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

/// At most 200 bytes of one line that can be shown on a terminal: see [`one_line`].
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

/// One line that can be shown on a terminal: control characters, and those that turn the direction of writing, become `?`.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().map(harmless).collect()
}

/// `?` in place of a character that steers a terminal, ends a line or turns the direction of writing.
fn harmless(letter: char) -> char {
    match letter {
        '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' => '?',
        letter if letter.is_control() => '?',
        letter => letter,
    }
}

pub(crate) fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_survive_and_wrong_ones_are_told_apart() {
        for checksum in [None, Some(DigestKind::None), Some(DigestKind::Crc32c), Some(DigestKind::Crc64)] {
            for size_hint in [None, Some(0), Some(1 << 40)] {
                let hello = Hello { role: Role::Sender, checksum, size_hint };
                assert_eq!(Hello::decode(&hello.encode(), Role::Sender), Ok(hello));
            }
        }
        let hello = Hello { role: Role::Sender, checksum: None, size_hint: None };
        let wrong = |at: usize, value: u8| {
            let mut bytes = hello.encode();
            bytes[at] = value;
            Hello::decode(&bytes, Role::Sender).unwrap_err().0
        };
        assert_eq!(wrong(0, 0), "is no rsend or rrecv");
        assert!(wrong(4, 2).contains("another version"));
        assert!(wrong(5, 2).contains("the same part"));
        assert_eq!((wrong(5, 3), wrong(5, 9)), ("is no rsend or rrecv", "is no rsend or rrecv"));
        let rperf = |role| Hello::decode(&hello.encode(), role).unwrap_err().0;
        assert_eq!((rperf(Role::Client), rperf(Role::Server)), ("is no rperf", "is no rperf"));
        assert!(wrong(6, 4).contains("checksum"));
        assert!(wrong(7, 1).contains("reserved") && wrong(31, 1).contains("reserved"));
        assert!(Hello::decode(&[], Role::Sender).is_err() && Hello::decode(&[0; 33], Role::Sender).is_err());
    }

    #[test]
    fn the_stronger_wish_wins() {
        use DigestKind::{Crc32c, Crc64, None as Nothing};
        assert_eq!(agreed(None, None), Crc64);
        assert_eq!(agreed(Some(Nothing), None), Nothing);
        assert_eq!(agreed(None, Some(Crc32c)), Crc32c);
        assert_eq!(agreed(Some(Nothing), Some(Crc32c)), Crc32c);
        assert_eq!(agreed(Some(Crc64), Some(Crc32c)), Crc64);
    }

    #[test]
    fn reports_survive_and_wrong_ones_are_refused() {
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
    fn a_peers_text_cannot_steer_a_terminal() {
        assert_eq!(sanitize(b"disk full\n\x1b[2J\x07"), "disk full??[2J?");
        assert_eq!(sanitize("a\u{202E}b\u{9b}c".as_bytes()), "a?b?c");
        assert_eq!(sanitize(b"\xff\xfe ok"), "\u{FFFD}\u{FFFD} ok");
        let long = "ü\u{202E}\n".repeat(200);
        assert_eq!(one_line(&long), "ü??".repeat(200));
    }
}
