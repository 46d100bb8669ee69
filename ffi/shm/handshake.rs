//! How two processes agree on a connection, before any memory is shared. wire.md 6.
//!
//! ```text
//! connecting                                   listening
//!   HELLO  {wishes}                   ---->
//!                                     <----    WELCOME {what was settled}, descriptor
//!   GRANT  {}, descriptor             ---->
//!                                     <----    READY {}
//!                    either may answer REFUSED {code, text} instead
//! ```
//!
//! Packets have a fixed size. Everything in them is a claim until it was checked; descriptors are checked by
//! [`Segment::adopt`]. The whole exchange has one deadline.

use core::fmt;
use std::os::fd::OwnedFd;

use superpipe_core::{Arrival, Protocol};

use super::doze::WAKE;
use super::fabric::segment_bytes;
use super::segment::{Segment, SegmentError};
use super::socket::{Socket, SocketError};
use crate::os::{OsError, membarrier};
use crate::tuning::{Settled, Tuning};

/// The version of the protocol, all of docs/wire.md.
pub const VERSION: u16 = 1;

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 192;

/// REFUSED because of versions.
pub const REFUSED_VERSION: u8 = 1;
/// REFUSED because the two ends want different things, or one what the other does not allow.
pub const REFUSED_WISHES: u8 = 2;

const MAGIC: [u8; 8] = *b"SUPRPIPE";
const TEXT_BYTES: usize = 128;
const TEXT_AT: usize = PACKET_BYTES - TEXT_BYTES;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Hello = 1,
    Welcome = 2,
    Grant = 3,
    Ready = 4,
    Refused = 5,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeError {
    /// Whoever it was connected, and went away without a word.
    Nobody,
    /// What came is not of superpipe.
    Garbage,
    /// The peer speaks another version.
    Version {
        /// the peer's
        theirs: u16,
    },
    /// A packet that is not the next one, or a field out of its range.
    Malformed(&'static str),
    /// The two ends want different things.
    Disagreement(String),
    /// The peer refused, in its own words.
    Refused {
        /// why: [`REFUSED_VERSION`], [`REFUSED_WISHES`], or anything else
        code: u8,
        /// made printable
        text: String,
    },
    /// The peer's memory is not what it must be.
    Memory(SegmentError),
    /// Our memory could not be had.
    Os(OsError),
    /// The socket failed, closed or took too long.
    Socket(SocketError),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("the peer went away before it said anything"),
            Self::Garbage => f.write_str("what answers there does not speak superpipe"),
            Self::Version { theirs } => {
                write!(
                    f,
                    "the peer speaks version {theirs} of the protocol, this is version {VERSION}: use the same release on both ends"
                )
            }
            Self::Malformed(what) => write!(f, "the peer broke the handshake: {what} (wire.md 6)"),
            Self::Disagreement(text) => f.write_str(text),
            Self::Refused { text, .. } => write!(f, "the peer refused: {text}"),
            Self::Memory(error) => write!(f, "the peer's memory is refused: {error}"),
            Self::Os(error) => error.fmt(f),
            Self::Socket(error) => write!(f, "handshake: {error}"),
        }
    }
}

impl core::error::Error for HandshakeError {}

impl From<SocketError> for HandshakeError {
    fn from(error: SocketError) -> Self {
        Self::Socket(error)
    }
}

/// A connection that both ends agreed on.
#[derive(Debug)]
pub struct Agreed {
    /// Our segment.
    pub mine: Segment,
    /// The peer's.
    pub theirs: Segment,
    /// What was settled.
    pub settled: Settled,
    /// Both ends can rely on membarrier.
    pub fenced: bool,
}

/// The connecting side.
///
/// # Errors
/// [`HandshakeError`]; the peer was told where that made sense.
pub fn connect(
    socket: &Socket,
    wishes: &Tuning,
    deadline_ns: u64,
    interrupted: &dyn Fn() -> bool,
) -> Result<Agreed, HandshakeError> {
    let registered = membarrier::register();
    let mut hello = Packet::new(Kind::Hello);
    hello.set_tuning(wishes);
    hello.0[12] = u8::from(registered);
    socket.send(&hello.0, None)?;
    let (welcome, fd) = receive(socket, Kind::Welcome, deadline_ns, interrupted)?;
    let answered = (|| {
        let settled = Settled::from_tuning(&welcome.tuning()?).map_err(HandshakeError::Malformed)?;
        wishes.check(&settled).map_err(HandshakeError::Disagreement)?;
        let bytes = segment_bytes(settled.layout);
        let mine = Segment::create(c"superpipe", bytes as usize).map_err(HandshakeError::Os)?;
        let theirs = adopt(fd, &mine)?;
        Ok((settled, mine, theirs))
    })();
    let (settled, mine, theirs) = told(socket, answered)?;
    socket.send(&Packet::new(Kind::Grant).0, Some(mine.fd()))?;
    receive(socket, Kind::Ready, deadline_ns, interrupted)?;
    Ok(Agreed { mine, theirs, settled, fenced: registered && welcome.0[12] == 1 })
}

/// The listening side.
///
/// # Errors
/// [`HandshakeError`]; the peer was told where that made sense.
pub fn accept(
    socket: &Socket,
    wishes: &Tuning,
    landing_bytes_max: u32,
    deadline_ns: u64,
    interrupted: &dyn Fn() -> bool,
) -> Result<Agreed, HandshakeError> {
    let registered = membarrier::register();
    let hello = match receive(socket, Kind::Hello, deadline_ns, interrupted) {
        Err(HandshakeError::Socket(SocketError::Closed)) => return Err(HandshakeError::Nobody),
        hello => told(socket, hello)?.0,
    };
    let settled = (|| {
        let settled = wishes.settle(&hello.tuning()?).map_err(HandshakeError::Disagreement)?;
        if settled.layout.bytes() > landing_bytes_max {
            let text = format!(
                "a landing buffer of {} bytes is more than the {landing_bytes_max} that the listener allows",
                settled.layout.bytes()
            );
            return Err(HandshakeError::Disagreement(text));
        }
        let bytes = segment_bytes(settled.layout);
        let mine = Segment::create(c"superpipe", bytes as usize).map_err(HandshakeError::Os)?;
        Ok((settled, mine))
    })();
    let (settled, mine) = told(socket, settled)?;
    let mut welcome = Packet::new(Kind::Welcome);
    welcome.set_tuning(&settled.to_tuning());
    welcome.0[12] = u8::from(registered);
    socket.send(&welcome.0, Some(mine.fd()))?;
    let theirs = receive(socket, Kind::Grant, deadline_ns, interrupted).and_then(|(_, fd)| adopt(fd, &mine));
    let theirs = told(socket, theirs)?;
    socket.send(&Packet::new(Kind::Ready).0, None)?;
    Ok(Agreed { mine, theirs, settled, fenced: registered && hello.0[12] == 1 })
}

fn adopt(fd: Option<OwnedFd>, mine: &Segment) -> Result<Segment, HandshakeError> {
    let fd = fd.ok_or(HandshakeError::Malformed("no descriptor came along"))?;
    Segment::adopt(fd, mine.len() as u64).map_err(HandshakeError::Memory)
}

/// Passes a result on; an error that the peer does not know of is told to it first.
fn told<T>(socket: &Socket, result: Result<T, HandshakeError>) -> Result<T, HandshakeError> {
    result.inspect_err(|error| {
        let known = matches!(error, HandshakeError::Refused { .. } | HandshakeError::Socket(_));
        if !known {
            // It may be gone, or not read: then it will not know.
            let _ = socket.send(&Packet::refused(error).0, None);
        }
    })
}

/// The next packet, of this kind, with its descriptor.
fn receive(
    socket: &Socket,
    kind: Kind,
    deadline_ns: u64,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Packet, Option<OwnedFd>), HandshakeError> {
    let mut packet = Packet([0; PACKET_BYTES]);
    let received = loop {
        match socket.receive(&mut packet.0, deadline_ns) {
            Err(SocketError::Interrupted) if !interrupted() => {}
            Err(SocketError::Empty | SocketError::Oversized { .. }) => return Err(HandshakeError::Garbage),
            Ok(received) if received.bytes == WAKE.len() && packet.0[0] == WAKE[0] => {}
            received => break received?,
        }
    };
    if received.bytes != PACKET_BYTES || packet.0[..8] != MAGIC {
        return Err(HandshakeError::Garbage);
    }
    // The version stands before anything that another version may have changed.
    let theirs = u16::from_le_bytes([packet.0[8], packet.0[9]]);
    if theirs != VERSION {
        return Err(HandshakeError::Version { theirs });
    }
    if packet.0[10] == Kind::Refused as u8 {
        return Err(HandshakeError::Refused { code: packet.0[11], text: packet.text() });
    }
    if packet.0[10] != kind as u8 {
        return Err(HandshakeError::Malformed("a packet out of turn"));
    }
    // What this kind does not use is zero: code and text belong to REFUSED, tuning to HELLO and WELCOME.
    let used = if matches!(kind, Kind::Hello | Kind::Welcome) { 28 } else { 12 };
    if packet.0[used..].iter().any(|byte| *byte != 0) || packet.0[11] != 0 || packet.0[12] > 1 {
        return Err(HandshakeError::Malformed("reserved bytes are not zero"));
    }
    Ok((packet, received.fd))
}

/// One packet: magic (8), version (2), kind (1), code (1), membarrier (1), protocol, arrival, folds (1 each), block_bytes,
/// landing_bytes, chunk_bytes (4 each), zeros, text.
struct Packet([u8; PACKET_BYTES]);

impl Packet {
    fn new(kind: Kind) -> Self {
        let mut packet = [0; PACKET_BYTES];
        packet[..8].copy_from_slice(&MAGIC);
        packet[8..10].copy_from_slice(&VERSION.to_le_bytes());
        packet[10] = kind as u8;
        Self(packet)
    }

    fn refused(error: &HandshakeError) -> Self {
        let mut packet = Self::new(Kind::Refused);
        packet.0[11] = match error {
            HandshakeError::Version { .. } => REFUSED_VERSION,
            HandshakeError::Disagreement(_) => REFUSED_WISHES,
            _ => 0,
        };
        let text = error.to_string();
        let text = text.as_bytes();
        let bytes = text.len().min(TEXT_BYTES);
        packet.0[TEXT_AT..TEXT_AT + bytes].copy_from_slice(&text[..bytes]);
        packet
    }

    fn text(&self) -> String {
        let text = &self.0[TEXT_AT..];
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }

    /// Zero is no wish.
    fn set_tuning(&mut self, tuning: &Tuning) {
        self.0[13] = tuning.protocol.map_or(0, |protocol| 1 + index(&Protocol::ALL, &protocol));
        self.0[14] = tuning.arrival.map_or(0, |arrival| 1 + index(&ARRIVALS, &arrival));
        self.0[15] = tuning.folds.unwrap_or(0);
        for (at, value) in [(16, tuning.block_bytes), (20, tuning.landing_bytes), (24, tuning.chunk_bytes)] {
            self.0[at..at + 4].copy_from_slice(&value.unwrap_or(0).to_le_bytes());
        }
    }

    fn tuning(&self) -> Result<Tuning, HandshakeError> {
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

const ARRIVALS: [Arrival; 2] = [Arrival::Flag, Arrival::CheckedFlag];

fn index<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|other| other == one).and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
}

fn choice<T: Copy>(all: &[T], number: u8) -> Result<Option<T>, HandshakeError> {
    match number {
        0 => Ok(None),
        n => all
            .get(usize::from(n) - 1)
            .copied()
            .map(Some)
            .ok_or(HandshakeError::Malformed("an unknown choice")),
    }
}
