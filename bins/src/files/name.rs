//! Names of files that a sender sends. NAME, which an rrecv with --keep asks for in its HELLO, is the name alone. wire.md 8.1.

use crate::files::hidden_name::is_hidden_name;
use crate::protocol::Violation;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Tag of NAME.
pub const TAG_NAME: u64 = 13;
/// Longest name of a file on Linux.
pub const NAME_BYTES_MAX: usize = 255;

/// Violation of a name that is not [plain](is_plain).
pub const NOT_PLAIN: Violation = Violation(
    "sent a file name that is `.` or `..`, contains `/` or a control character, or is reserved for incomplete files",
);

/// Decodes the NAME of a peer.
///
/// # Errors
/// It is empty or longer than 255 bytes, or would not stay in its directory.
pub fn decode(bytes: &[u8]) -> Result<OsString, Violation> {
    if bytes.is_empty() || bytes.len() > NAME_BYTES_MAX {
        return Err(Violation("sent a file name of 0 or of more than 255 bytes"));
    }
    if is_plain(bytes) { Ok(OsString::from_vec(bytes.to_vec())) } else { Err(NOT_PLAIN) }
}

/// Parses the name of an option.
///
/// # Errors
/// No receiver would accept it.
pub fn parse(name: OsString) -> Result<OsString, &'static str> {
    match decode(name.as_bytes()) {
        Ok(_) => Ok(name),
        Err(_) => Err(
            "a name has 1 to 255 bytes, no / and no control characters, and is neither . nor .. nor that of an incomplete file",
        ),
    }
}

/// Returns a name if a receiver would accept it.
#[must_use]
pub fn sendable(name: Option<&OsStr>) -> Option<&OsStr> {
    name.filter(|name| decode(name.as_bytes()).is_ok())
}

/// Returns true for a name that stays in its directory, cannot control a terminal that lists it, and is not a hidden name of an
/// incomplete file.
#[must_use]
pub fn is_plain(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX
        && ![&b"."[..], b".."].contains(&name)
        && name.utf8_chunks().all(|chunk| {
            let is_plain = |letter: char| letter != '/' && !letter.is_control();
            // outside of UTF-8, these bytes (C1) are control characters as well
            chunk.valid().chars().all(is_plain)
                && !chunk.invalid().iter().any(|byte| (0x80..0xA0).contains(byte))
        })
        && !is_hidden_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_directory() {
        assert!(is_plain(b"\xff..") && is_plain("ü".as_bytes()) && is_plain("a\u{202E}b".as_bytes()));
        assert!(
            !is_plain("a\u{9b}2J".as_bytes()) && !is_plain(b"a\x9b2J") && !is_plain(b".a.superpipe-12-ab")
        );
        for name in ["", ".", "..", "/", "a/b", "../x", "/etc/passwd", "a\0", "a\x1b[2J", "a\n"] {
            assert!(decode(name.as_bytes()).is_err() && parse(name.into()).is_err(), "{name:?}");
            assert_eq!(sendable(Some(OsStr::new(name))), None);
        }
        let long = "x".repeat(255);
        for name in ["a", "...", ".hidden", "a b", "ü", "-rf", long.as_str()] {
            assert_eq!(decode(name.as_bytes()), Ok(OsString::from(name)));
            assert_eq!(parse(name.into()), Ok(OsString::from(name)));
        }
        assert!(decode(&[b'x'; 256]).is_err());
    }
}
