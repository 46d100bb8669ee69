//! Handshake of two processes over a socket, before any memory is shared: the shell of core's [`Handshake`]. wire.md 6.
//!
//! This module sends and receives packets, and makes and maps segments. Core decides what comes next. [`Segment::adopt`] checks
//! descriptors.

use core::fmt;

use superpipe_core::driver::setup::{
    Action, Agreed as Handshaken, Beside, Claim, FabricKind, Grants, Handshake, HandshakeConfig,
    HandshakeFailure, RemoteRegion, Role, WAKE as WAKE_BYTE,
};
use superpipe_core::{Layout, Nanos};

use super::ancillary::SentFd;
use super::doze::WAKE;
use super::fabric::segment_bytes;
use super::segment::{Segment, SegmentError};
use super::socket::Socket;
use super::socket_error::SocketError;
use crate::budget::{Budget, OverBudget};
use crate::os::clock::{monotonic_ns, until};
use crate::os::poll::{PollFd, poll};
use crate::os::{OsError, membarrier};
use crate::packet::{Packet, Refusal, Text};
use crate::tuning::{Settled, Tuning};

pub use crate::packet::{PACKET_BYTES, PacketError, REFUSED_LIMIT, REFUSED_VERSION, REFUSED_WISHES, VERSION};

const _: () = assert!(WAKE[0] == WAKE_BYTE, "core passes it over");

/// The longest that is waited without a look at the caller's flag.
const SLICE_NS: u64 = 100_000_000;

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeError {
    /// The peer connected, and went away without a word.
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

impl From<HandshakeFailure<Self>> for HandshakeError {
    fn from(failure: HandshakeFailure<Self>) -> Self {
        match failure {
            HandshakeFailure::Packet(error) => Self::Packet(error),
            HandshakeFailure::Local(error) => error,
            HandshakeFailure::TimedOut | HandshakeFailure::Silent => Self::Socket(SocketError::TimedOut),
            HandshakeFailure::Lost => Self::Socket(SocketError::Closed),
            HandshakeFailure::Nobody => Self::Nobody,
        }
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

/// What an end brings along.
#[derive(Debug, Clone, Copy)]
pub struct Wishes<'a> {
    /// What is settled with the peer.
    pub tuning: &'a Tuning,
    /// The most that a peer may make the landing buffer.
    pub landing_bytes_max: u32,
    /// Time when the handshake must be over.
    pub deadline_ns: u64,
}

/// How far a [`HalfOpen`] is.
#[derive(Debug)]
pub enum Progress {
    /// It waits for [`interest`](HalfOpen::interest), or for [`timeout_ns`](HalfOpen::timeout_ns).
    Pending,
    /// Both ends agreed.
    Done(Agreed),
    /// There is no connection; the peer was told where that made sense.
    Failed(HandshakeError),
}

/// A connection whose handshake is going on. Nothing here waits: [`drive`](Self::drive) it when the socket is readable and
/// when the time of `timeout_ns` has come, until it is done or has failed.
#[derive(Debug)]
pub struct HalfOpen {
    socket: Socket,
    handshake: Handshake<Segments>,
    deadline_ns: u64,
    /// Memory for which the budget has no room, while the handshake waits for room.
    lacking: Option<(Layout, OverBudget)>,
    waits_for_room: bool,
}

impl HalfOpen {
    /// The connecting side, on a socket that is connected.
    #[must_use]
    pub fn connect(socket: Socket, wishes: &Wishes<'_>, now_ns: u64) -> Self {
        Self::new(socket, Role::Active, wishes, now_ns)
    }

    /// The listening side, on a socket that was accepted.
    #[must_use]
    pub fn accept(socket: Socket, wishes: &Wishes<'_>, now_ns: u64) -> Self {
        Self::new(socket, Role::Passive, wishes, now_ns)
    }

    fn new(socket: Socket, role: Role, wishes: &Wishes<'_>, now_ns: u64) -> Self {
        let config = HandshakeConfig {
            role,
            fabric: FabricKind::Direct { is_fenced: membarrier::register(), pid: std::process::id() },
            wishes: *wishes.tuning,
            landing_bytes_max: wishes.landing_bytes_max,
            hello_repeat: None,
            first_silence: None,
            deadline: Nanos(wishes.deadline_ns),
        };
        let handshake = Handshake::new(config, Nanos(now_ns));
        Self { socket, handshake, deadline_ns: wishes.deadline_ns, lacking: None, waits_for_room: false }
    }

    /// Sets whether it waits for room in the budget up to its deadline ([`lacks`](Self::lacks)) instead of refusing the peer.
    pub(crate) const fn wait_for_room(&mut self, waits: bool) {
        self.waits_for_room = waits;
    }

    /// Goes as far as it can without waiting. Once it is done or has failed there is nothing more to drive.
    pub fn drive(&mut self, now_ns: u64) -> Progress {
        if let Some((layout, _)) = self.lacking.take() {
            self.provision(layout, now_ns);
        }
        loop {
            while let Some(action) = self.handshake.poll_action() {
                match action {
                    Action::Established(agreed) => return Progress::Done(self.agreed(agreed)),
                    Action::Failed(failure) => return Progress::Failed(failure.into()),
                    Action::Send { packet, with_own } => self.send(&packet, with_own),
                    Action::Provision(layout) => self.provision(layout, now_ns),
                    Action::Adopt(claim) => {
                        let adopted = adopt(claim, self.handshake.own());
                        self.handshake.handle_adopted(adopted);
                    }
                    Action::Hold => {
                        let held = self.handshake.own().map_or(Ok(()), |own| own.segment.hold());
                        self.handshake.handle_held(held.map_err(HandshakeError::Memory));
                    }
                }
            }
            if self.handshake.is_over() {
                return Progress::Pending;
            }
            if self.lacking.is_some() {
                // Packets that come now wait in the socket.
                if !self.socket.has_ended() {
                    return Progress::Pending;
                }
                self.lacking = None;
                self.handshake.handle_lost();
                continue;
            }
            if !self.receive(now_ns) {
                self.handshake.handle_timeout(Nanos(now_ns));
                if !self.handshake.is_over() {
                    return Progress::Pending;
                }
            }
        }
    }

    /// Descriptor to poll while it is pending.
    #[must_use]
    pub fn interest(&self) -> PollFd<'_> {
        if self.lacking.is_some() { self.socket.interest_in_end() } else { self.socket.interest() }
    }

    /// Time at which to drive it at the latest.
    #[must_use]
    pub fn timeout_ns(&self) -> u64 {
        self.handshake.poll_timeout().map_or(0, |Nanos(time)| time)
    }

    /// Count of packets that took the handshake a step further.
    pub(crate) const fn steps(&self) -> u32 {
        self.handshake.steps()
    }

    /// Bytes of the budget that it holds.
    pub(crate) fn share_bytes(&self) -> u64 {
        self.handshake.own().map_or(0, |own| own.share.bytes())
    }

    /// Bytes for which the budget has no room, if it waits for room. The next `drive` takes them if there is.
    pub(crate) fn lacks(&self) -> Option<u64> {
        self.lacking.as_ref().map(|(_, over)| over.bytes())
    }

    /// The socket, for the connection that was agreed on.
    #[must_use]
    pub fn into_socket(self) -> Socket {
        self.socket
    }

    fn provision(&mut self, layout: Layout, now_ns: u64) {
        match provision(layout) {
            Err(HandshakeError::Budget(over)) if self.waits_for_room && now_ns < self.deadline_ns => {
                self.lacking = Some((layout, over));
            }
            provisioned => self.handshake.handle_provisioned(provisioned),
        }
    }

    fn send(&mut self, packet: &Packet, with_own: bool) {
        // Before the peer can answer.
        self.expect_grant();
        let own = self.handshake.own().filter(|_| with_own);
        if let Err(error) = self.socket.send(&packet.0, own.map(|own| own.segment.fd())) {
            self.handshake.handle_broken(error.into());
        }
    }

    /// Takes a packet, or the end of the socket. Returns false if neither came.
    fn receive(&mut self, now_ns: u64) -> bool {
        let mut bytes = [0; PACKET_BYTES];
        let now = Nanos(now_ns);
        let received = if self.handshake.expects_grant() {
            self.socket.try_receive(&mut bytes)
        } else {
            self.socket.try_receive_plain(&mut bytes)
        };
        match received {
            Ok(None) => return false,
            Ok(Some(received)) => {
                let beside = received.fd.map_or(Beside::Nothing, Beside::One);
                self.handshake.handle_packet(bytes.get(..received.bytes).unwrap_or(&[]), beside, now);
            }
            Err(SocketError::Descriptors) => self.handshake.handle_packet(&[], Beside::Stray, now),
            Err(SocketError::Empty | SocketError::Oversized { .. }) => {
                self.handshake.handle_packet(&[], Beside::Nothing, now);
            }
            Err(SocketError::Closed) => self.handshake.handle_lost(),
            Err(SocketError::Os(error)) if error.is_limit() => {
                // The peer's descriptor has no room here. A peer that is gone needs no answer.
                let refused = Packet::refused(REFUSED_LIMIT, &Text::of(&error));
                let _ = self.socket.send(&refused.0, None);
                self.handshake.handle_broken(SocketError::Os(error).into());
            }
            Err(error) => self.handshake.handle_broken(error.into()),
        }
        self.expect_grant();
        true
    }

    /// Has the kernel take descriptors in only while one is due.
    fn expect_grant(&self) {
        self.socket.expect_fd(self.handshake.expects_grant());
    }

    fn agreed(&self, agreed: Handshaken<Segments>) -> Agreed {
        let Handshaken { own: Own { segment, share }, peer, settled, is_fenced, pid, why: _ } = agreed;
        // The kernel names whoever began to listen; a child of that may have accepted. The connecting end does the whole
        // handshake in the process that opened the socket.
        let named = self.socket.peer_cred().map_or(0, |cred| cred.pid);
        let serves = pid.is_none_or(|pid| pid == named.cast_unsigned());
        Agreed { mine: segment, theirs: peer, settled, fenced: is_fenced, share, serves }
    }
}

/// The connecting side, waiting.
///
/// # Errors
/// [`HandshakeError`]; the peer was told where that made sense.
pub fn connect(
    socket: Socket,
    wishes: &Wishes<'_>,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Socket, Agreed), HandshakeError> {
    finish(HalfOpen::connect(socket, wishes, monotonic_ns()), interrupted)
}

/// The listening side, waiting.
///
/// # Errors
/// [`HandshakeError`]; the peer was told where that made sense.
pub fn accept(
    socket: Socket,
    wishes: &Wishes<'_>,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Socket, Agreed), HandshakeError> {
    finish(HalfOpen::accept(socket, wishes, monotonic_ns()), interrupted)
}

fn finish(
    mut half_open: HalfOpen,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Socket, Agreed), HandshakeError> {
    loop {
        match half_open.drive(monotonic_ns()) {
            Progress::Done(agreed) => return Ok((half_open.into_socket(), agreed)),
            Progress::Failed(error) => return Err(error),
            Progress::Pending if interrupted() => return Err(SocketError::Interrupted.into()),
            Progress::Pending => {
                let wait_ns = until(half_open.timeout_ns()).min(SLICE_NS);
                poll(&mut [half_open.interest()], wait_ns).map_err(SocketError::Os)?;
            }
        }
    }
}

/// Memory over a socket: segments, whose descriptors travel beside packets.
#[derive(Debug)]
struct Segments;

/// Our segment, and the share of the budget for both.
#[derive(Debug)]
struct Own {
    segment: Segment,
    share: Budget,
}

impl Grants for Segments {
    type Own = Own;
    type Received = SentFd;
    type Peer = Segment;
    type Error = HandshakeError;

    fn region(_: &Own) -> Option<RemoteRegion> {
        None
    }

    fn refusal(error: &HandshakeError) -> Option<Refusal> {
        let refusal = |code, text| Some(Refusal { code, text });
        match error {
            HandshakeError::Packet(error) => refusal(error.refusal()?, Text::of(error)),
            HandshakeError::Socket(_) => None,
            HandshakeError::Budget(error) => refusal(REFUSED_LIMIT, Text::of(error.text_for_the_peer())),
            HandshakeError::Os(error) | HandshakeError::Memory(SegmentError::Os(error))
                if error.is_limit() =>
            {
                refusal(REFUSED_LIMIT, Text::of(error))
            }
            HandshakeError::Nobody | HandshakeError::Memory(_) | HandshakeError::Os(_) => {
                refusal(0, Text::of(error))
            }
        }
    }
}

/// Our segment, once there is room for it and for the peer's, whose holes are filled at our expense.
fn provision(layout: Layout) -> Result<Own, HandshakeError> {
    let bytes = segment_bytes(layout);
    let share = Budget::take(2 * u64::from(bytes)).map_err(HandshakeError::Budget)?;
    let segment = Segment::create(c"superpipe", bytes as usize).map_err(HandshakeError::Os)?;
    Ok(Own { segment, share })
}

/// The peer's segment, of the same size as ours.
fn adopt(claim: Claim<SentFd>, own: Option<&Own>) -> Result<Segment, HandshakeError> {
    match (claim, own) {
        (Claim::Received(fd), Some(own)) => {
            Segment::adopt(fd, own.segment.len() as u64).map_err(HandshakeError::Memory)
        }
        (Claim::Region(_), _) | (_, None) => Err(PacketError::Malformed("no descriptor came along").into()),
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
