//! The packets of a handshake, the same on every fabric. wire.md 6.1, 10.2.

mod error;

use superpipe_core::{Arrival, Protocol};

use crate::tuning::Tuning;

pub use error::PacketError;

/// The version of the protocol, all of docs/wire.md.
pub const VERSION: u16 = 2;

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 192;

/// REFUSED because of versions.
pub const REFUSED_VERSION: u8 = 1;
/// REFUSED because the two ends want different things, or one what the other does not allow.
pub const REFUSED_WISHES: u8 = 2;

/// REFUSED because a limit of the process or of its machine is reached.
pub const REFUSED_LIMIT: u8 = 3;

/// What everything of superpipe's begins with.
const MAGIC: [u8; 8] = *b"SUPRPIPE";
const TEXT_BYTES: usize = 128;
const TEXT_AT: usize = PACKET_BYTES - TEXT_BYTES;
/// Where a fabric's own part begins, up to the text.
pub(crate) const FABRIC_AT: usize = 28;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Hello = 1,
    Welcome = 2,
    Grant = 3,
    Ready = 4,
    Refused = 5,
}

/// What everything of superpipe's begins with, of this version.
pub(crate) fn write_head(bytes: &mut [u8]) {
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
}

/// Checks the first bytes of anything, which never change from version to version.
///
/// # Errors
/// It is not of superpipe, or of another version.
pub(crate) fn check_head(bytes: &[u8]) -> Result<(), PacketError> {
    match bytes.split_first_chunk::<10>() {
        Some((head, _)) if head[..8] == MAGIC => match u16::from_le_bytes([head[8], head[9]]) {
            VERSION => Ok(()),
            theirs => Err(PacketError::Version { theirs }),
        },
        _ => Err(PacketError::Garbage),
    }
}

/// One packet: magic (8), version (2), kind (1), code (1), membarrier (1), protocol, arrival, folds (1 each), block_bytes,
/// landing_bytes, chunk_bytes (4 each), the fabric's own part (36), text.
#[derive(Debug)]
pub(crate) struct Packet(pub(crate) [u8; PACKET_BYTES]);

impl Packet {
    pub(crate) fn new(kind: Kind) -> Self {
        let mut packet = [0; PACKET_BYTES];
        write_head(&mut packet);
        packet[10] = kind as u8;
        Self(packet)
    }

    /// To be filled by what is received.
    pub(crate) const fn empty() -> Self {
        Self([0; PACKET_BYTES])
    }

    pub(crate) fn refused(code: u8, text: &str) -> Self {
        let mut packet = Self::new(Kind::Refused);
        packet.0[11] = code;
        let text = text.as_bytes();
        let bytes = text.len().min(TEXT_BYTES);
        packet.0[TEXT_AT..TEXT_AT + bytes].copy_from_slice(&text[..bytes]);
        packet
    }

    /// What kind it is, by number: of any but REFUSED, which is the peer's error.
    ///
    /// # Errors
    /// It is not of superpipe, of another version, or the peer refuses.
    pub(crate) fn kind(&self) -> Result<u8, PacketError> {
        check_head(&self.0)?;
        match self.0[10] {
            kind if kind == Kind::Refused as u8 => {
                Err(PacketError::Refused { code: self.0[11], text: self.text() })
            }
            kind => Ok(kind),
        }
    }

    fn text(&self) -> String {
        let text = &self.0[TEXT_AT..];
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }

    /// Zero is no wish.
    pub(crate) fn set_tuning(&mut self, tuning: &Tuning) {
        self.0[13] = tuning.protocol.map_or(0, |protocol| 1 + index(&Protocol::ALL, &protocol));
        self.0[14] = tuning.arrival.map_or(0, |arrival| 1 + index(&ARRIVALS, &arrival));
        self.0[15] = tuning.folds.unwrap_or(0);
        for (at, value) in [(16, tuning.block_bytes), (20, tuning.landing_bytes), (24, tuning.chunk_bytes)] {
            self.0[at..at + 4].copy_from_slice(&value.unwrap_or(0).to_le_bytes());
        }
    }

    /// # Errors
    /// A choice that there is not.
    pub(crate) fn tuning(&self) -> Result<Tuning, PacketError> {
        let number = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&self.0[at..at + 4]);
            Some(u32::from_le_bytes(bytes)).filter(|value| *value != 0)
        };
        Ok(Tuning {
            protocol: choice(&Protocol::ALL, self.0[13])?,
            arrival: choice(&ARRIVALS, self.0[14])?,
            folds: Some(self.0[15]).filter(|folds| *folds != 0),
            block_bytes: number(16),
            landing_bytes: number(20),
            chunk_bytes: number(24),
        })
    }
}

const ARRIVALS: [Arrival; 3] = [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify];

fn index<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|other| other == one).and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
}

fn choice<T: Copy>(all: &[T], number: u8) -> Result<Option<T>, PacketError> {
    match number {
        0 => Ok(None),
        n => {
            all.get(usize::from(n) - 1).copied().map(Some).ok_or(PacketError::Malformed("an unknown choice"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(packet: Packet, at: usize, byte: u8) -> Packet {
        let Packet(mut bytes) = packet;
        bytes[at] = byte;
        Packet(bytes)
    }

    #[test]
    fn the_version_stands_before_anything_that_another_may_have_changed() {
        let hello = || Packet::new(Kind::Hello);
        assert_eq!(hello().kind(), Ok(Kind::Hello as u8));
        assert_eq!(with(hello(), 10, 0xFF).kind(), Ok(0xFF), "a kind is judged by whoever waits for one");
        assert_eq!(with(hello(), 7, b'e').kind(), Err(PacketError::Garbage));
        let refused = || Packet::refused(0, "no");
        assert_eq!(with(refused(), 9, 1).kind(), Err(PacketError::Version { theirs: 0x102 }));
        assert_eq!(with(with(refused(), 9, 1), 0, 0).kind(), Err(PacketError::Garbage));
        assert_eq!(Packet::empty().kind(), Err(PacketError::Garbage));
        assert_eq!(check_head(&hello().0[..10]), Ok(()));
        assert_eq!(check_head(&hello().0[..9]), Err(PacketError::Garbage));
    }

    #[test]
    fn a_refusal_is_shown_without_what_could_harm_a_terminal() {
        let text = |text: &str| match Packet::refused(2, text).kind() {
            Err(PacketError::Refused { code: 2, text }) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text("folds is 3 here"), "folds is 3 here");
        assert_eq!(text("\x1b[2J\r\nno\u{9b}"), "?[2J??no?");
        assert_eq!(text(&"x".repeat(200)), "x".repeat(TEXT_BYTES), "without an end");
        let broken = with(Packet::refused(2, "a-z"), TEXT_AT + 1, 0xFF);
        assert!(matches!(broken.kind(), Err(PacketError::Refused { text, .. }) if text == "a\u{fffd}z"));
    }

    #[test]
    fn each_is_told_to_the_peer_by_its_code_but_what_the_peer_told() {
        for (error, code) in [
            (PacketError::Garbage, Some(0)),
            (PacketError::Malformed("a packet out of turn"), Some(0)),
            (PacketError::Version { theirs: 9 }, Some(REFUSED_VERSION)),
            (PacketError::Disagreement("folds".into()), Some(REFUSED_WISHES)),
            (PacketError::Refused { code: 0, text: "no".into() }, None),
        ] {
            assert_eq!(error.refusal(), code, "{error}");
        }
    }
}
