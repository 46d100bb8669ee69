//! The packets of a handshake, the same on every fabric. wire.md 6.1, 10.2.

use superpipe_core::{Arrival, Protocol};

use crate::tuning::Tuning;

/// The version of the protocol, all of docs/wire.md.
pub const VERSION: u16 = 1;

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 192;

/// REFUSED because of versions.
pub const REFUSED_VERSION: u8 = 1;
/// REFUSED because the two ends want different things, or one what the other does not allow.
pub const REFUSED_WISHES: u8 = 2;

/// What everything of superpipe's begins with.
pub(crate) const MAGIC: [u8; 8] = *b"SUPRPIPE";
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

/// What the first bytes of a packet say, which never change from version to version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// It is not of superpipe.
    Garbage,
    /// Another version.
    Version(u16),
    /// REFUSED.
    Refused { code: u8, text: String },
    /// Another kind, by number.
    Ours(u8),
}

/// One packet: magic (8), version (2), kind (1), code (1), membarrier (1), protocol, arrival, folds (1 each), block_bytes,
/// landing_bytes, chunk_bytes (4 each), the fabric's own part (36), text.
#[derive(Debug)]
pub(crate) struct Packet(pub(crate) [u8; PACKET_BYTES]);

impl Packet {
    pub(crate) fn new(kind: Kind) -> Self {
        let mut packet = [0; PACKET_BYTES];
        packet[..8].copy_from_slice(&MAGIC);
        packet[8..10].copy_from_slice(&VERSION.to_le_bytes());
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

    /// The version stands before anything that another version may have changed.
    pub(crate) fn head(&self) -> Head {
        let theirs = u16::from_le_bytes([self.0[8], self.0[9]]);
        match self.0[10] {
            _ if self.0[..8] != MAGIC => Head::Garbage,
            _ if theirs != VERSION => Head::Version(theirs),
            kind if kind == Kind::Refused as u8 => Head::Refused { code: self.0[11], text: self.text() },
            kind => Head::Ours(kind),
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

    pub(crate) fn tuning(&self) -> Result<Tuning, &'static str> {
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

fn choice<T: Copy>(all: &[T], number: u8) -> Result<Option<T>, &'static str> {
    match number {
        0 => Ok(None),
        n => all.get(usize::from(n) - 1).copied().map(Some).ok_or("an unknown choice"),
    }
}
