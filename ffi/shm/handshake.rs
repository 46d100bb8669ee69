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

use super::ancillary::SentFd;
use super::doze::WAKE;
use super::fabric::segment_bytes;
use super::segment::{Segment, SegmentError};
use super::socket::Socket;
use super::socket_error::SocketError;
use crate::budget::{Budget, OverBudget};
use crate::os::clock::until;
use crate::os::{OsError, membarrier};
use crate::packet::{FABRIC_AT, Kind, Packet};
use crate::tuning::{Settled, Terms, Tuning};

pub use crate::packet::{PACKET_BYTES, PacketError, REFUSED_LIMIT, REFUSED_VERSION, REFUSED_WISHES, VERSION};

/// Place in WELCOME of the process that serves the connection.
const PID_AT: usize = FABRIC_AT;
/// Wake bytes that are passed over before a packet. An honest peer sends none while nobody can sleep; a flood would hold the
/// handshake beyond its deadline.
const WAKES_MAX: u32 = 64;

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeError {
    /// Whoever it was connected, and went away without a word.
    Nobody,
    /// What the peer says makes no connection.
    Packet(PacketError),
    /// The peer's memory is not what it must be.
    Memory(SegmentError),
    /// Our memory could not be had.
    Os(OsError),
    /// The process's budget has no room for the connection.
    Budget(OverBudget),
    /// The socket failed, closed or took too long.
    Socket(SocketError),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("the peer went away before it said anything"),
            Self::Packet(error) => error.fmt(f),
            Self::Memory(error) => write!(f, "the peer's memory is refused: {error}"),
            Self::Os(error) => error.fmt(f),
            Self::Budget(error) => error.fmt(f),
            Self::Socket(error) => write!(f, "handshake: {error}"),
        }
    }
}

impl core::error::Error for HandshakeError {}

impl From<PacketError> for HandshakeError {
    fn from(error: PacketError) -> Self {
        Self::Packet(error)
    }
}

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
    /// Share of the budget for both segments.
    pub share: Budget,
    /// The process that the kernel names at the other end of the socket is the one that serves this connection.
    pub serves: bool,
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
    socket.expect_fd(true);
    socket.send(&hello.0, None)?;
    let welcome = receive(socket, Kind::Welcome, deadline_ns, interrupted);
    let (welcome, fd) = told(socket, welcome)?;
    socket.expect_fd(false);
    let answered = (|| {
        let settled =
            Settled::from_tuning(&welcome.tuning()?, &Terms::SHM).map_err(PacketError::Malformed)?;
        wishes.check(&settled, &Terms::SHM).map_err(PacketError::Disagreement)?;
        let (share, mine) = provision(&settled)?;
        let theirs = adopt(fd, &mine)?;
        Ok((settled, share, mine, theirs))
    })();
    let (settled, share, mine, theirs) = told(socket, answered)?;
    socket.send(&Packet::new(Kind::Grant).0, Some(mine.fd()))?;
    let ready = receive(socket, Kind::Ready, deadline_ns, interrupted);
    told(socket, ready.and_then(|_| mine.hold().map_err(HandshakeError::Memory)))?;
    // The kernel names whoever began to listen; a child of that may have accepted.
    let named = socket.peer_cred().map_or(0, |cred| cred.pid);
    let serves = welcome.0[PID_AT..PID_AT + 4] == named.to_le_bytes();
    Ok(Agreed { mine, theirs, settled, fenced: registered && welcome.0[12] == 1, share, serves })
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
        let settled = wishes.settle(&hello.tuning()?, &Terms::SHM).map_err(PacketError::Disagreement)?;
        settled.allow_landing(landing_bytes_max).map_err(PacketError::Disagreement)?;
        let (share, mine) = provision(&settled)?;
        Ok((settled, share, mine))
    })();
    let (settled, share, mine) = told(socket, settled)?;
    socket.expect_fd(true);
    let mut welcome = Packet::new(Kind::Welcome);
    welcome.set_tuning(&settled.to_tuning());
    welcome.0[12] = u8::from(registered);
    welcome.0[PID_AT..PID_AT + 4].copy_from_slice(&std::process::id().to_le_bytes());
    socket.send(&welcome.0, Some(mine.fd()))?;
    let theirs = receive(socket, Kind::Grant, deadline_ns, interrupted).and_then(|(_, fd)| {
        let theirs = adopt(fd, &mine)?;
        mine.hold().map_err(HandshakeError::Memory)?;
        Ok(theirs)
    });
    let theirs = told(socket, theirs)?;
    socket.expect_fd(false);
    socket.send(&Packet::new(Kind::Ready).0, None)?;
    // `connect` does the whole handshake in the process that opened the socket, which SO_PEERCRED names.
    Ok(Agreed { mine, theirs, settled, fenced: registered && hello.0[12] == 1, share, serves: true })
}

/// Our segment, once there is room for it and for the peer's, whose holes are filled at our expense.
fn provision(settled: &Settled) -> Result<(Budget, Segment), HandshakeError> {
    let bytes = segment_bytes(settled.layout);
    let share = Budget::take(2 * u64::from(bytes)).map_err(HandshakeError::Budget)?;
    let mine = Segment::create(c"superpipe", bytes as usize).map_err(HandshakeError::Os)?;
    Ok((share, mine))
}

fn adopt(fd: Option<SentFd>, mine: &Segment) -> Result<Segment, HandshakeError> {
    let fd = fd.ok_or(PacketError::Malformed("no descriptor came along"))?;
    Segment::adopt(fd, mine.len() as u64).map_err(HandshakeError::Memory)
}

/// Passes a result on; an error that the peer does not know of is told to it first.
fn told<T>(socket: &Socket, result: Result<T, HandshakeError>) -> Result<T, HandshakeError> {
    result.inspect_err(|error| {
        let (code, text) = match error {
            HandshakeError::Packet(error) => (error.refusal(), error.to_string()),
            HandshakeError::Socket(_) => (None, String::new()),
            HandshakeError::Budget(error) => (Some(REFUSED_LIMIT), error.text_for_the_peer()),
            HandshakeError::Os(error) | HandshakeError::Memory(SegmentError::Os(error))
                if error.is_limit() =>
            {
                (Some(REFUSED_LIMIT), error.to_string())
            }
            HandshakeError::Nobody | HandshakeError::Memory(_) | HandshakeError::Os(_) => {
                (Some(0), error.to_string())
            }
        };
        if let Some(code) = code {
            // It may be gone, or not read: then it will not know.
            let _ = socket.send(&Packet::refused(code, &text).0, None);
        }
    })
}

/// The next packet, of this kind, with its descriptor: only WELCOME and GRANT have one.
fn receive(
    socket: &Socket,
    kind: Kind,
    deadline_ns: u64,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Packet, Option<SentFd>), HandshakeError> {
    let mut packet = Packet::empty();
    let mut wakes = 0;
    let received = loop {
        let received = if matches!(kind, Kind::Welcome | Kind::Grant) {
            socket.receive(&mut packet.0, deadline_ns)
        } else {
            socket.receive_plain(&mut packet.0, deadline_ns)
        };
        match received {
            Err(SocketError::Interrupted) if !interrupted() => {}
            Err(SocketError::Descriptors) => {
                return Err(PacketError::Malformed("a descriptor where none belongs").into());
            }
            Err(SocketError::Empty | SocketError::Oversized { .. }) => {
                return Err(PacketError::Garbage.into());
            }
            Ok(received) if received.bytes == WAKE.len() && packet.0[0] == WAKE[0] => {
                if received.fd.is_some() {
                    return Err(PacketError::Malformed("a descriptor where none belongs").into());
                }
                wakes += 1;
                if wakes > WAKES_MAX {
                    return Err(PacketError::Malformed("more than 64 wake bytes in the handshake").into());
                }
                if interrupted() {
                    return Err(SocketError::Interrupted.into());
                }
                if until(deadline_ns) == 0 {
                    return Err(SocketError::TimedOut.into());
                }
            }
            received => break received?,
        }
    };
    if received.bytes != PACKET_BYTES {
        return Err(PacketError::Garbage.into());
    }
    if packet.kind()? != kind as u8 {
        return Err(PacketError::Malformed("a packet out of turn").into());
    }
    // What this kind does not use is zero: code and text belong to REFUSED, tuning to HELLO and WELCOME.
    let used = match kind {
        Kind::Welcome => PID_AT + 4,
        Kind::Hello => FABRIC_AT,
        _ => 12,
    };
    if packet.0[used..].iter().any(|byte| *byte != 0) || packet.0[11] != 0 || packet.0[12] > 1 {
        return Err(PacketError::Malformed("reserved bytes are not zero").into());
    }
    Ok((packet, received.fd))
}
