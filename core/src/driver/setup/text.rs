//! Texts without an allocator.

use core::fmt::{self, Write};

/// Bytes of the text of a REFUSED.
pub const TEXT_BYTES: usize = 128;

/// Text of a packet, which may hold any bytes. Display makes it printable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    bytes: [u8; TEXT_BYTES],
    len: usize,
}

impl Text {
    /// Makes a text that displays `what`, cut between two characters if it is too long.
    #[must_use]
    pub fn of(what: impl fmt::Display) -> Self {
        let mut text = Self { bytes: [0; TEXT_BYTES], len: 0 };
        // An error means that it was cut.
        let _ = write!(text, "{what}");
        text
    }

    /// Makes a text of what a peer sent, up to the first zero.
    #[must_use]
    pub fn received(bytes: [u8; TEXT_BYTES]) -> Self {
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(TEXT_BYTES);
        let mut text = Self { bytes, len };
        text.bytes.iter_mut().skip(len).for_each(|byte| *byte = 0);
        text
    }

    /// Returns the bytes of a packet, padded with zeros.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; TEXT_BYTES] {
        self.bytes
    }
}

impl Write for Text {
    /// Writes as much as fits, and nothing after that.
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = TEXT_BYTES - self.len;
        let len = if part.len() <= room { part.len() } else { part.floor_char_boundary(room) };
        let (taken, rest) = part.as_bytes().split_at(len);
        if let Some(place) = self.bytes.get_mut(self.len..self.len + len) {
            place.copy_from_slice(taken);
        }
        self.len += len;
        if rest.is_empty() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl fmt::Display for Text {
    /// Writes a question mark for each control character, and a replacement character for invalid UTF-8.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, _) = self.bytes.split_at(self.len);
        for chunk in text.utf8_chunks() {
            for character in chunk.valid().chars() {
                f.write_char(if character.is_control() { '?' } else { character })?;
            }
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}

/// A number of bytes, displayed in the largest binary unit that loses nothing: `64 MiB`, else `1234 bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, unit) in UNITS {
            let whole = self.0 >> shift;
            if whole > 0 && whole << shift == self.0 {
                return write!(f, "{whole} {unit}");
            }
        }
        write!(f, "{} {}", self.0, if self.0 == 1 { "byte" } else { "bytes" })
    }
}
