//! Handshake by SENDs, before the peer can write any memory: the shell of core's [`Handshake`]. wire.md 10.2.
//!
//! This module sends and receives packets and registers memory. Core decides what comes next.

use super::connection::{RdmaConnection, State};
use super::deadline::ConnectDeadline;
use super::error::ConnectError;
use super::growth::{Growth, small};
use super::lending::Lending;
use super::memory::{FirstLanding, LinkMemory, RegisteredMemory};
use super::options::RdmaOptions;
use super::receive_pool::ReceivePool;
use crate::budget::{BudgetShare, MemoryKind, OverBudget};
use crate::copy;
use crate::os::clock::until;
use crate::os::jobs::Jobs;
use crate::os::poll::{PollFd, poll};
use crate::os::{OsError, monotonic_ns};
use core::convert::Infallible;
use core::fmt;
use std::sync::Arc;
use superpipe_core::Nanos;
use superpipe_core::driver::setup::{
    Action, Ancillary, ArrivalReason, Claim, Established as Handshaken, FabricKind, Grants, Handshake,
    HandshakeConfig, HandshakeFailure, LandingMode, Negotiated, Packet, REFUSED_LIMIT, Refusal, RemoteRegion,
    RemoteRegions, Role, Text,
};
use superpipe_verbs::{Access, Error, RemoteAddr, Rkey};

/// Interval after which the active side repeats HELLO, since siw can lose the first message of a connection.
const AGAIN_NS: u64 = 300_000_000;
/// Longest silence of a peer before its first packet. RoCE does not report a peer that went away, and other clients may be
/// waiting.
const FIRST_NS: u64 = 2_000_000_000;
/// Longest wait between two checks of the caller's interrupt flag, and for a peer to receive that it is refused.
const SLICE_NS: u64 = 100_000_000;
/// Time between two looks for packets at a connection that shares a CQ: a descriptor of its own would be of use for these four packets only.
const UNWOKEN_NS: u64 = 1_000_000;
/// Packets that one `drive` takes before other handshakes have their turn. A handshake has four.
const PACKETS_MAX: u32 = 8;

/// Result of a handshake.
#[derive(Debug)]
pub(super) struct HandshakeResult {
    pub(super) memory: LinkMemory,
    pub(super) negotiated: Negotiated,
    pub(super) why: ArrivalReason,
    pub(super) share: Arc<BudgetShare>,
    /// Bytes of the budget in all, with what may be released before the connection ends.
    pub(super) provisioned_bytes: u64,
    /// Time for which the peer lets this end be silent, if it tells that.
    pub(super) peer_idle_timeout: Option<Nanos>,
}

/// Progress of a [`HalfOpen`].
pub(super) enum Progress {
    /// It waits for its [`interests`](HalfOpen::interests), or for [`timeout_ns`](HalfOpen::timeout_ns).
    Pending,
    /// The handshake is complete.
    Done(HandshakeResult),
    /// The handshake failed; the peer was informed if possible.
    Failed(ConnectError),
}

/// A connection whose handshake goes on. Nothing here waits: [`drive`](Self::drive) it when one of the interests is
/// readable and when the time of `timeout_ns` has come, until it is done or has failed.
pub(super) struct HalfOpen {
    connection: RdmaConnection,
    handshake: Handshake<Regions>,
    /// The last packet was sent.
    has_sent_last: bool,
    /// Cause of the failure, and time until which the peer may receive that it is refused.
    refusing: Option<(ConnectError, u64)>,
    /// More packets may be there.
    has_more: bool,
    /// Time of the next look, if no descriptor tells of packets.
    look_again_ns: u64,
    deadline_ns: u64,
    /// Memory for which the budget has no room, while the handshake waits for room.
    lacking: Option<(Negotiated, OverBudget)>,
    waits_for_room: bool,
}

impl HalfOpen {
    /// Begins the active side, on a connection that carries SENDs.
    pub(super) fn connect(
        connection: RdmaConnection,
        options: &RdmaOptions<'_>,
        deadline_ns: u64,
        now_ns: u64,
    ) -> Self {
        Self::new(connection, Role::Active, options, deadline_ns, now_ns)
    }

    /// Begins the passive side, on a connection that was accepted.
    pub(super) fn accept(
        connection: RdmaConnection,
        options: &RdmaOptions<'_>,
        deadline_ns: u64,
        now_ns: u64,
    ) -> Self {
        Self::new(connection, Role::Passive, options, deadline_ns, now_ns)
    }

    fn new(
        connection: RdmaConnection,
        role: Role,
        options: &RdmaOptions<'_>,
        deadline_ns: u64,
        now_ns: u64,
    ) -> Self {
        let fabric =
            FabricKind::Posted { keeps_order: connection.keeps_order(), has_fast_crc: copy::crc_is_fast() };
        let config = HandshakeConfig {
            role,
            fabric,
            proposed: *options.tuning,
            landing_bytes_max: options.landing_bytes_max,
            idle_timeout: Nanos(options.idle_timeout_ns),
            hello_repeat: Some(Nanos(AGAIN_NS)),
            first_silence: Some(Nanos(FIRST_NS)),
            deadline: Nanos(deadline_ns),
        };
        let handshake = Handshake::new(config, Nanos(now_ns));
        Self {
            connection,
            handshake,
            has_sent_last: false,
            refusing: None,
            has_more: false,
            look_again_ns: u64::MAX,
            deadline_ns,
            lacking: None,
            // A connecting end has no other handshakes that could make room for it.
            waits_for_room: role == Role::Passive,
        }
    }

    /// Has the next `drive` refuse the peer if the budget still has no room.
    pub(super) const fn refuse(&mut self) {
        self.waits_for_room = false;
    }

    /// Returns the count of packets that took the handshake a step further.
    pub(super) const fn steps(&self) -> u32 {
        self.handshake.steps()
    }

    /// Returns the bytes of the budget that it holds.
    pub(super) fn share_bytes(&self) -> u64 {
        self.handshake.own().map_or(0, Own::share_bytes)
    }

    /// Returns the bytes for which the budget has no room, if it waits for room. The next `drive` takes them if there is.
    pub(super) fn lacks(&self) -> Option<u64> {
        self.lacking.as_ref().map(|(_, over)| over.bytes())
    }

    /// Goes as far as it can without waiting. Once it is done or has failed there is nothing more to drive.
    pub(super) fn drive(&mut self, now_ns: u64) -> Progress {
        self.has_more = false;
        if let Some((negotiated, _)) = self.lacking.take() {
            self.provision(negotiated, now_ns);
        }
        if let Err(error) = self.connection.disarm(true) {
            self.handshake.handle_broken(error.into());
        }
        for _ in 0..PACKETS_MAX {
            if let Some(end) = self.run_actions(now_ns) {
                return end;
            }
            if self.poll_packet(now_ns) {
                continue;
            }
            self.handshake.handle_timeout(Nanos(now_ns));
            if let Some(end) = self.run_actions(now_ns) {
                return end;
            }
            match self.connection.arm(false) {
                Ok(true) => {}
                Ok(false) => {
                    self.note_unwoken(now_ns);
                    return Progress::Pending;
                }
                Err(error) => self.handshake.handle_broken(error.into()),
            }
        }
        self.has_more = true;
        Progress::Pending
    }

    /// Returns the descriptors to poll while it is pending.
    pub(super) fn interests(&self) -> [PollFd<'_>; 2] {
        self.connection.sleep_interests()
    }

    /// Returns the time at which to drive it at the latest.
    pub(super) fn timeout_ns(&self) -> u64 {
        let timeout_ns = match (&self.refusing, self.handshake.poll_timeout()) {
            _ if self.has_more => 0,
            (Some((_, end_ns)), _) => *end_ns,
            (None, timeout) => timeout.map_or(0, |Nanos(time)| time),
        };
        timeout_ns.min(self.look_again_ns)
    }

    /// Has it be driven again soon, if nothing tells that a packet comes.
    const fn note_unwoken(&mut self, now_ns: u64) {
        self.look_again_ns =
            if self.connection.is_woken() { u64::MAX } else { now_ns.saturating_add(UNWOKEN_NS) };
    }

    /// Returns the connection, once the handshake is complete.
    pub(super) fn into_connection(self) -> RdmaConnection {
        self.connection
    }

    /// Performs the actions of core's handshake. Returns none if it goes on.
    fn run_actions(&mut self, now_ns: u64) -> Option<Progress> {
        while let Some(action) = self.handshake.poll_action() {
            match action {
                Action::Established(agreed) => return Some(Progress::Done(agreed.into())),
                Action::Failed(failure) if self.has_sent_last => {
                    self.refusing = Some((failure.into(), now_ns.saturating_add(SLICE_NS)));
                }
                Action::Failed(failure) => return Some(Progress::Failed(failure.into())),
                Action::Send { packet, .. } => self.send(&packet),
                Action::Provision(negotiated) => self.provision(negotiated, now_ns),
                Action::Adopt(Claim::Regions(regions)) => self.handshake.handle_adopted(Ok(regions)),
                Action::Adopt(Claim::Received(never)) => match never {},
                Action::Hold => self.handshake.handle_held(Ok(())),
            }
        }
        self.finish_refusal(now_ns)
    }

    fn provision(&mut self, negotiated: Negotiated, now_ns: u64) {
        match provision(&mut self.connection, &negotiated) {
            Err(ConnectError::Budget(over)) if self.waits_for_room && now_ns < self.deadline_ns => {
                self.lacking = Some((negotiated, over));
            }
            provisioned => self.handshake.handle_provisioned(provisioned),
        }
    }

    fn send(&mut self, packet: &Packet) {
        match self.connection.send_packet(packet) {
            Ok(()) => self.has_sent_last = self.handshake.is_over(),
            Err(error) => self.handshake.handle_broken(error),
        }
    }

    /// Waits until the peer has received that it is refused. Returns none if it is not refused.
    fn finish_refusal(&mut self, now_ns: u64) -> Option<Progress> {
        let (error, end_ns) = self.refusing.take()?;
        let may_take = now_ns < end_ns && self.connection.is_alive();
        match self.connection.arm(false) {
            Ok(has_more) if may_take => {
                self.has_more = has_more;
                self.note_unwoken(now_ns);
                self.refusing = Some((error, end_ns));
                Some(Progress::Pending)
            }
            _ => Some(Progress::Failed(error)),
        }
    }

    /// Takes a packet, or the end of the connection. Returns false if neither came.
    fn poll_packet(&mut self, now_ns: u64) -> bool {
        let handshake = &mut self.handshake;
        if let Some(packet) = self.connection.take_packet() {
            handshake.handle_packet(&packet.0, Ancillary::Nothing, Nanos(now_ns));
            return true;
        }
        if let State::Failed(error) = self.connection.state {
            let text = format!("handshake: {}", superpipe_verbs::WcStatus(error.status));
            handshake.handle_broken(OsError::new(libc::EIO, text).into());
            return true;
        }
        if self.connection.state == State::Open && self.connection.is_alive() {
            return false;
        }
        // Packets that the peer sent before it went are still there.
        match (self.connection.take_packet(), self.connection.state) {
            (Some(packet), _) => handshake.handle_packet(&packet.0, Ancillary::Nothing, Nanos(now_ns)),
            (None, State::Violation(violation)) => {
                handshake.handle_broken(ConnectError::Violation(violation))
            }
            (None, _) => handshake.handle_lost(),
        }
        true
    }
}

/// Runs the active side to its end.
pub(super) fn connect(
    connection: RdmaConnection,
    options: &RdmaOptions<'_>,
    deadline: &ConnectDeadline<'_>,
) -> Result<(RdmaConnection, HandshakeResult), ConnectError> {
    finish(HalfOpen::connect(connection, options, deadline.deadline_ns, monotonic_ns()), deadline)
}

fn finish(
    mut half_open: HalfOpen,
    deadline: &ConnectDeadline<'_>,
) -> Result<(RdmaConnection, HandshakeResult), ConnectError> {
    loop {
        match half_open.drive(monotonic_ns()) {
            Progress::Done(agreed) => return Ok((half_open.into_connection(), agreed)),
            Progress::Failed(error) => return Err(error),
            Progress::Pending if (deadline.interrupted)() => return Err(ConnectError::Interrupted),
            Progress::Pending => {
                let wait_ns = until(half_open.timeout_ns()).min(SLICE_NS);
                poll(&mut half_open.interests(), wait_ns)?;
            }
        }
    }
}

/// Memory over RDMA: regions that packets name.
#[derive(Debug)]
struct Regions;

/// Memory that this end registers: its own, and the image of the peer's. The small buffers are in `growth`.
#[derive(Debug)]
struct Own {
    mine: RegisteredMemory,
    image: RegisteredMemory,
    growth: Option<Box<Growth>>,
    lending: Box<Lending>,
    share: Arc<BudgetShare>,
}

impl Own {
    /// Returns the bytes of the budget that it holds.
    fn share_bytes(&self) -> u64 {
        self.share.bytes() + self.growth.as_ref().map_or(0, |growth| growth.small_bytes())
    }
}

impl Grants for Regions {
    type Own = Own;
    type Received = Infallible;
    type Peer = RemoteRegions;
    type Error = ConnectError;

    fn regions(own: &Own) -> Option<RemoteRegions> {
        let page = RemoteRegion { addr: own.mine.mr.remote_addr(), rkey: own.mine.mr.rkey().0 };
        Some(RemoteRegions { page, small: own.growth.as_ref().and_then(|growth| growth.small_region()) })
    }

    fn refusal(error: &ConnectError) -> Option<Refusal> {
        let refusal = |code, text| Some(Refusal { code, text });
        match error {
            ConnectError::Packet(error) => refusal(error.refusal()?, Text::of(error)),
            ConnectError::Budget(error) => refusal(REFUSED_LIMIT, Text::of(error.text_for_the_peer())),
            ConnectError::Lost(_) | ConnectError::Interrupted | ConnectError::Violation(_) => None,
            ConnectError::Verbs(Error::Limit(error)) => refusal(REFUSED_LIMIT, Text::of(error)),
            _ if error.errno().is_some_and(|errno| OsError::new(errno, "").is_limit()) => {
                refusal(REFUSED_LIMIT, Text::of(error))
            }
            ConnectError::Verbs(_)
            | ConnectError::Os(_)
            | ConnectError::NotFound(_)
            | ConnectError::Refused(_)
            | ConnectError::Nobody
            | ConnectError::TimedOut => refusal(0, Text::of(error)),
        }
    }
}

/// Registers all that a connection begins with, if the budget has room for it and for the first receives, which are registered already.
fn provision(connection: &mut RdmaConnection, negotiated: &Negotiated) -> Result<Own, ConnectError> {
    let (first, receives) = (FirstLanding::of(negotiated), negotiated.receives.into());
    let small = negotiated.small_buffer();
    let small_bytes = small::registered_bytes(small);
    let bytes =
        2 * first.registered_bytes() + ReceivePool::bytes_for(receives) + small_bytes.iter().sum::<usize>();
    let take = match negotiated.landing {
        LandingMode::AtConnect => BudgetShare::take,
        LandingMode::OnDemand => BudgetShare::open,
    };
    let mut share = take(MemoryKind::Registered, bytes as u64).map_err(ConnectError::Budget)?;
    let small_parts = small_bytes.map(|bytes| share.split(bytes as u64));
    let share = Arc::new(share);
    connection.provision_receives(receives)?;
    let mine = connection.register(first, Access::RemoteWrite)?;
    let image = connection.register(first, Access::Local)?;
    let mut growth = match negotiated.landing {
        LandingMode::AtConnect => None,
        LandingMode::OnDemand => {
            Some(Box::new(connection.growth(negotiated.layout, small, Jobs::of_process(), &share)?))
        }
    };
    if let Some((growth, small)) = growth.as_mut().zip(small) {
        growth.register_small(small, small_parts)?;
    }
    let lending = Box::new(connection.lending(Jobs::of_process()));
    Ok(Own { mine, image, growth, lending, share })
}

/// Returns the peer's memory as work requests name it.
const fn remote_addr(RemoteRegion { addr, rkey }: RemoteRegion) -> RemoteAddr {
    RemoteAddr { addr, rkey: Rkey(rkey) }
}

impl From<Handshaken<Regions>> for HandshakeResult {
    fn from(agreed: Handshaken<Regions>) -> Self {
        let Handshaken { own, peer, negotiated, arrival_reason: why, peer_idle_timeout, .. } = agreed;
        let provisioned_bytes = own.share_bytes();
        let Own { mine, image, mut growth, lending, share } = own;
        let RemoteRegions { page, small } = peer;
        if let Some((growth, small)) = growth.as_mut().zip(small) {
            growth.adopt_small(remote_addr(small));
        }
        let memory = LinkMemory { mine, image, remote: remote_addr(page), growth, lending };
        let why = why.unwrap_or(ArrivalReason::Unordered);
        Self { memory, negotiated, why, share, provisioned_bytes, peer_idle_timeout }
    }
}

impl From<HandshakeFailure<Self>> for ConnectError {
    fn from(failure: HandshakeFailure<Self>) -> Self {
        match failure {
            HandshakeFailure::Packet(error) => Self::Packet(error),
            HandshakeFailure::Local(error) => error,
            HandshakeFailure::TimedOut => Self::TimedOut,
            HandshakeFailure::Silent => Self::Lost("before it sent anything"),
            HandshakeFailure::Lost | HandshakeFailure::Nobody => Self::Lost("in the handshake"),
        }
    }
}

impl fmt::Debug for HalfOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handshake.fmt(f)
    }
}

#[cfg(test)]
mod tests;
