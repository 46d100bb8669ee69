//! `--preserve`: name, mode and modification time of a file, which rsend sends in a message before its data. wire.md 8.1.

use crate::files::name::{NAME_BYTES_MAX, NOT_PLAIN, is_plain};
use crate::protocol::{Violation, word};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Tag of ATTRIBUTES.
pub const TAG_ATTRIBUTES: u64 = 12;
/// Maximum size of an ATTRIBUTES.
pub const ATTRIBUTES_BYTES_MAX: usize = HEAD_BYTES + NAME_BYTES_MAX;

const HEAD_BYTES: usize = 24;
/// Bits of a mode that are kept.
pub const MODE: u32 = 0o777;
const NANOSECONDS: u32 = 1_000_000_000;

/// Attributes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// permissions, without setuid, setgid and sticky
    pub mode: u32,
    /// modification time, in seconds since 1970
    pub seconds: i64,
    /// nanoseconds of the modification time
    pub nanoseconds: u32,
    /// name of the file without its directory; empty if it is unknown or cannot be sent
    pub name: OsString,
}

impl Attributes {
    /// Encodes the message. Leaves out a name that no peer accepts.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let name = self.name.as_bytes();
        let name = if is_plain(name) { name } else { &[] };
        let mut bytes = Vec::with_capacity(ATTRIBUTES_BYTES_MAX);
        bytes.extend(self.mode.to_le_bytes());
        bytes.extend(self.nanoseconds.to_le_bytes());
        bytes.extend(self.seconds.to_le_bytes());
        bytes.extend([name.len().to_le_bytes()[0], 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(name);
        bytes
    }

    /// Decodes the message of a peer.
    ///
    /// # Errors
    /// The first rule that the message violates.
    pub fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let (Some(head), Some(name)) = (bytes.get(..HEAD_BYTES), bytes.get(HEAD_BYTES..)) else {
            return Err(Violation("sent attributes that are too short"));
        };
        let half = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (mode, nanoseconds) = (half(0), half(4));
        if usize::from(head[16]) != name.len() || head[17..].iter().any(|&byte| byte != 0) {
            return Err(Violation("sent attributes of the wrong length"));
        }
        if mode & !MODE != 0 || nanoseconds >= NANOSECONDS {
            return Err(Violation("sent an invalid mode or time"));
        }
        if !name.is_empty() && !is_plain(name) {
            return Err(NOT_PLAIN);
        }
        let name = OsString::from_vec(name.to_vec());
        Ok(Self { mode, seconds: word(&head[8..16]).cast_signed(), nanoseconds, name })
    }

    /// Returns the name, if the sender sent one.
    #[must_use]
    pub fn name(&self) -> Option<&OsStr> {
        (!self.name.is_empty()).then_some(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_round_trip_and_wrong_ones_are_rejected() {
        let attributes =
            Attributes { mode: 0o640, seconds: -5, nanoseconds: 999_999_999, name: "disk.img".into() };
        let bytes = attributes.encode();
        assert_eq!(Attributes::decode(&bytes), Ok(attributes.clone()));
        assert_eq!(attributes.name().unwrap(), "disk.img");
        for end in 0..bytes.len() {
            assert!(Attributes::decode(&bytes[..end]).is_err(), "{end}");
        }
        let wrong = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            Attributes::decode(&bytes).is_err()
        };
        assert!(wrong(1, 0x0A) && wrong(7, 0xFF) && wrong(16, 7) && wrong(17, 1) && wrong(23, 1));
        for name in [".", "..", "/", "a/b", "../x", "a\0", "a\x1b[2J", "a\n"] {
            let attributes = Attributes { name: name.into(), ..attributes.clone() };
            assert_eq!(Attributes::decode(&attributes.encode()).unwrap().name(), None, "{name:?}");
            let mut hostile = bytes[..HEAD_BYTES].to_vec();
            hostile[16] = u8::try_from(name.len()).unwrap();
            hostile.extend(name.as_bytes());
            assert!(Attributes::decode(&hostile).is_err(), "{name:?}");
        }
        let nameless = Attributes { name: OsString::new(), ..attributes };
        assert_eq!(Attributes::decode(&nameless.encode()).unwrap().name(), None);
        let long = Attributes { name: "x".repeat(256).into(), ..nameless };
        assert_eq!(Attributes::decode(&long.encode()).unwrap().name(), None);
    }
}
