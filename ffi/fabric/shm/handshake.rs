//! The handshake of two processes over a socket, before any memory is shared (wire.md 6): the I/O around core's [`Handshake`].
//!
//! This module sends and receives packets, and makes and maps [`Segments`], whose constructors check descriptors. Core decides the next
//! step.

use core::fmt;
use std::sync::Arc;

use superpipe_core::Nanos;
use superpipe_core::driver::setup::{
    Action, Ancillary, Claim, Established as Handshaken, FabricKind, Grants, Handshake, HandshakeConfig,
    HandshakeFailure, Negotiated, Packet, Refusal, RemoteRegions, Role, Text, Tuning, WAKE as WAKE_BYTE,
};

use super::ancillary::SentFd;
use super::segment::SegmentError;
use super::segments::{self, Adopted, Segments, SmallBuffers};
use super::sleep::WAKE;
use super::socket::Socket;
use super::socket_error::SocketError;
use crate::budget::{BudgetShare, OverBudget};
use crate::os::clock::{monotonic_ns, until};
use crate::os::poll::{PollFd, poll};
use crate::os::{MemoryNode, MemoryPlacement, OsError, membarrier};

pub use superpipe_core::driver::setup::{
    PACKET_BYTES, PacketError, REFUSED_LIMIT, REFUSED_PROPOSAL, REFUSED_VERSION, VERSION,
};

const _: () = assert!(WAKE[0] == WAKE_BYTE, "core ignores it during a handshake");

/// Longest wait between two checks of the caller's flag.
const SLICE_NS: u64 = 100_000_000;

/// A handshake that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeError {
    /// The peer connected, and closed the socket without a packet.
    Nobody,
    /// The peer's packet is invalid, or refuses the connection.
    Packet(PacketError),
    /// The peer's segment breaks a rule.
    Memory(SegmentError),
    /// Our segment could not be made.
    Os(OsError),
    /// The process's budget has no room for the connection.
    Budget(OverBudget),
    /// The socket failed, closed or took too long.
    Socket(SocketError),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("the peer went away before it sent anything"),
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

/// The result of a handshake: memory and settings of a connection.
#[derive(Debug)]
pub struct Established {
    /// Memory of both ends.
    pub segments: Segments,
    /// Negotiated settings.
    pub negotiated: Negotiated,
    /// True if both ends can rely on membarrier.
    pub fenced: bool,
    /// Share of the budget for what both ends have provisioned.
    pub share: Arc<BudgetShare>,
    /// True if the process that the kernel names at the other end of the socket is the one that serves this connection.
    pub serves: bool,
    /// Memory node of our segment.
    pub memory: MemoryPlacement,
    /// Time for which the peer lets this end be silent, if it tells that.
    pub peer_idle_timeout: Option<Nanos>,
}

/// Options of an end for a handshake.
#[derive(Debug, Clone, Copy)]
pub struct ShmOptions<'a> {
    /// Proposals for the negotiation.
    pub tuning: &'a Tuning,
    /// Limit of the landing buffer that the peer may propose.
    pub landing_bytes_max: u32,
    /// Time for which the peer may be silent, which it is told.
    pub idle_timeout_ns: u64,
    /// Memory node of the segment.
    pub memory_node: MemoryNode,
    /// Time of the monotonic clock at which the handshake fails.
    pub deadline_ns: u64,
}

/// State of a [`HalfOpen`].
#[derive(Debug)]
pub enum Progress {
    /// It waits for [`interest`](HalfOpen::interest), or for [`timeout_ns`](HalfOpen::timeout_ns).
    Pending,
    /// The handshake is complete.
    Done(Established),
    /// It failed; the peer was informed if it can receive that.
    Failed(HandshakeError),
}

/// A connection during its handshake. Nothing here waits: call [`drive`](Self::drive) when the socket is readable and
/// when the time of `timeout_ns` has come, until it is done or has failed.
#[derive(Debug)]
pub struct HalfOpen {
    socket: Socket,
    handshake: Handshake<SocketGrants>,
    deadline_ns: u64,
    memory_node: MemoryNode,
    /// memory for which the budget has no room, while the handshake waits for room
    lacking: Option<(Negotiated, OverBudget)>,
    waits_for_room: bool,
}

impl HalfOpen {
    /// Begins the handshake of the connecting end, on a connected socket.
    #[must_use]
    pub fn connect(socket: Socket, options: &ShmOptions<'_>, now_ns: u64) -> Self {
        Self::new(socket, Role::Active, options, now_ns)
    }

    /// Begins the handshake of the listening end, on an accepted socket.
    #[must_use]
    pub fn accept(socket: Socket, options: &ShmOptions<'_>, now_ns: u64) -> Self {
        Self::new(socket, Role::Passive, options, now_ns)
    }

    fn new(socket: Socket, role: Role, options: &ShmOptions<'_>, now_ns: u64) -> Self {
        let config = HandshakeConfig {
            role,
            fabric: FabricKind::Direct { is_fenced: membarrier::register(), pid: std::process::id() },
            proposed: *options.tuning,
            landing_bytes_max: options.landing_bytes_max,
            idle_timeout: Nanos(options.idle_timeout_ns),
            hello_repeat: None,
            first_silence: None,
            deadline: Nanos(options.deadline_ns),
        };
        let handshake = Handshake::new(config, Nanos(now_ns));
        let ShmOptions { deadline_ns, memory_node, .. } = *options;
        Self { socket, handshake, deadline_ns, memory_node, lacking: None, waits_for_room: false }
    }

    /// Sets whether it waits for room in the budget up to its deadline ([`lacks`](Self::lacks)) instead of refusing the peer.
    pub(crate) const fn wait_for_room(&mut self, waits: bool) {
        self.waits_for_room = waits;
    }

    /// Goes as far as possible without waiting. Once it is done or has failed, further calls do nothing.
    pub fn drive(&mut self, now_ns: u64) -> Progress {
        if let Some((negotiated, _)) = self.lacking.take() {
            self.provision(negotiated, now_ns);
        }
        loop {
            while let Some(action) = self.handshake.poll_action() {
                match action {
                    Action::Established(agreed) => return Progress::Done(self.established(agreed)),
                    Action::Failed(failure) => return Progress::Failed(failure.into()),
                    Action::Send { packet, with_own } => self.send(&packet, with_own),
                    Action::Provision(negotiated) => self.provision(negotiated, now_ns),
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
                // Packets that arrive now wait in the socket.
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

    /// Descriptor to poll while the handshake is pending.
    #[must_use]
    pub fn interest(&self) -> PollFd<'_> {
        if self.lacking.is_some() { self.socket.interest_in_end() } else { self.socket.interest() }
    }

    /// Returns the time of the monotonic clock by which to call [`drive`](Self::drive) again.
    #[must_use]
    pub fn timeout_ns(&self) -> u64 {
        self.handshake.poll_timeout().map_or(0, |Nanos(time)| time)
    }

    /// Returns the count of packets that advanced the handshake.
    pub(crate) const fn steps(&self) -> u32 {
        self.handshake.steps()
    }

    /// Returns the bytes of the budget that it holds.
    pub(crate) fn share_bytes(&self) -> u64 {
        self.handshake.own().map_or(0, |own| own.share.bytes())
    }

    /// Returns the bytes for which the budget has no room, if the handshake waits for room. The next `drive` tries again.
    pub(crate) fn lacks(&self) -> Option<u64> {
        self.lacking.as_ref().map(|(_, over)| over.bytes())
    }

    /// Returns the socket, for the connection.
    #[must_use]
    pub fn into_socket(self) -> Socket {
        self.socket
    }

    fn provision(&mut self, negotiated: Negotiated, now_ns: u64) {
        match provision(&negotiated, self.memory_node) {
            Err(HandshakeError::Budget(over)) if self.waits_for_room && now_ns < self.deadline_ns => {
                self.lacking = Some((negotiated, over));
            }
            provisioned => self.handshake.handle_provisioned(provisioned),
        }
    }

    fn send(&mut self, packet: &Packet, with_own: bool) {
        // Before the peer can reply.
        self.expect_grant();
        let own = self.handshake.own().filter(|_| with_own);
        if let Err(error) = self.socket.send(&packet.0, own.map(|own| own.segment.fd())) {
            self.handshake.handle_broken(error.into());
        }
    }

    /// Receives a packet, or the end of the socket. Returns false if there is neither.
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
                let beside = received.fd.map_or(Ancillary::Nothing, Ancillary::One);
                self.handshake.handle_packet(bytes.get(..received.bytes).unwrap_or(&[]), beside, now);
            }
            Err(SocketError::Descriptors) => self.handshake.handle_packet(&[], Ancillary::Stray, now),
            Err(SocketError::Empty | SocketError::Oversized { .. }) => {
                self.handshake.handle_packet(&[], Ancillary::Nothing, now);
            }
            Err(SocketError::Closed) => self.handshake.handle_lost(),
            Err(SocketError::Os(error)) if error.is_limit() => {
                // This process has no room for the peer's descriptor. A peer that is gone needs no reply.
                let refused = Packet::refused(REFUSED_LIMIT, &Text::of(&error));
                let _ = self.socket.send(&refused.0, None);
                self.handshake.handle_broken(SocketError::Os(error).into());
            }
            Err(error) => self.handshake.handle_broken(error.into()),
        }
        self.expect_grant();
        true
    }

    /// Lets the kernel accept descriptors only while one is due.
    fn expect_grant(&self) {
        self.socket.expect_fd(self.handshake.expects_grant());
    }

    fn established(&self, agreed: Handshaken<SocketGrants>) -> Established {
        let Handshaken { own, peer, negotiated, is_fenced, pid, peer_idle_timeout, arrival_reason: _ } =
            agreed;
        let Own { segment, mut share, memory } = own;
        let small = SmallBuffers::of(&negotiated, &mut share);
        let share = Arc::new(share);
        // The kernel names the process that began to listen; a child of that may have accepted. The connecting end does the
        // entire handshake in the process that opened the socket.
        let named = self.socket.peer_cred().map_or(0, |cred| cred.pid);
        let serves = pid.is_none_or(|pid| pid == named);
        let segments = Segments::of(segment, peer, &share, small);
        Established { segments, negotiated, fenced: is_fenced, share, serves, memory, peer_idle_timeout }
    }
}

/// Performs the handshake of the connecting end, waiting.
///
/// # Errors
/// [`HandshakeError`]; the peer was informed if it can receive that.
pub fn connect(
    socket: Socket,
    options: &ShmOptions<'_>,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Socket, Established), HandshakeError> {
    finish(HalfOpen::connect(socket, options, monotonic_ns()), interrupted)
}

/// Performs the handshake of the listening end, waiting.
///
/// # Errors
/// [`HandshakeError`]; the peer was informed if it can receive that.
pub fn accept(
    socket: Socket,
    options: &ShmOptions<'_>,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Socket, Established), HandshakeError> {
    finish(HalfOpen::accept(socket, options, monotonic_ns()), interrupted)
}

fn finish(
    mut half_open: HalfOpen,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Socket, Established), HandshakeError> {
    loop {
        match half_open.drive(monotonic_ns()) {
            Progress::Done(established) => return Ok((half_open.into_socket(), established)),
            Progress::Failed(error) => return Err(error),
            Progress::Pending if interrupted() => return Err(SocketError::Interrupted.into()),
            Progress::Pending => {
                let wait_ns = until(half_open.timeout_ns()).min(SLICE_NS);
                poll(&mut [half_open.interest()], wait_ns).map_err(SocketError::Os)?;
            }
        }
    }
}

/// Memory that a socket grants: segments, whose descriptors are sent with packets.
#[derive(Debug)]
struct SocketGrants;

/// Our segment, and the share of the budget for both.
#[derive(Debug)]
struct Own {
    segment: segments::Own,
    share: BudgetShare,
    memory: MemoryPlacement,
}

impl Grants for SocketGrants {
    type Own = Own;
    type Received = SentFd;
    type Peer = Adopted;
    type Error = HandshakeError;

    fn regions(_: &Own) -> Option<RemoteRegions> {
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

/// Makes our segment, if the budget has room for it and for the peer's, whose holes this process fills.
fn provision(negotiated: &Negotiated, memory_node: MemoryNode) -> Result<Own, HandshakeError> {
    let share = segments::take_share(negotiated).map_err(HandshakeError::Budget)?;
    let memory = memory_node.place(None);
    let segment = segments::Own::create(negotiated, memory).map_err(HandshakeError::Os)?;
    Ok(Own { segment, share, memory })
}

/// Maps the peer's segment, of the same size as ours.
fn adopt(claim: Claim<SentFd>, own: Option<&Own>) -> Result<Adopted, HandshakeError> {
    match (claim, own) {
        (Claim::Received(fd), Some(own)) => own.segment.adopt(fd).map_err(HandshakeError::Memory),
        (Claim::Regions(_), _) | (_, None) => Err(PacketError::Malformed("no descriptor came along").into()),
    }
}

#[cfg(test)]
mod tests;
