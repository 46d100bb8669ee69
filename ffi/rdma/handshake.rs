//! Handshake over a wire that carries SENDs, before the peer can write any memory: the shell of core's [`Handshake`].
//! wire.md 10.2.
//!
//! This module sends and receives packets and registers memory. Core decides what comes next.

use super::error::ConnectError;
use super::mail::NOTICES;
use super::memory::Half;
use super::patience::Patience;
use super::wire::{End, Wire};
use super::wishes::Wishes;
use crate::budget::{Budget, OverBudget};
use crate::copy;
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::os::poll::{PollFd, poll};
use crate::packet::{Packet, REFUSED_LIMIT, Refusal, Text};
use crate::tuning::Settled;
use crate::verbs::{Access, Error, RemoteAddr, Rkey};
use core::convert::Infallible;
use core::fmt;
use superpipe_core::driver::setup::{
    Action, Agreed as Handshaken, Beside, Claim, FabricKind, Grants, Handshake, HandshakeConfig,
    HandshakeFailure, RemoteRegion, Role, Why,
};
use superpipe_core::{Layout, Nanos};

/// siw can lose the first message of a connection: the active side says it again.
const AGAIN_NS: u64 = 300_000_000;
/// A peer that asked for a connection and says nothing for so long has gone away, which RoCE does not tell. Other clients may be
/// waiting.
const FIRST_NS: u64 = 2_000_000_000;
/// The longest that is waited without a look at the caller's flag, and for a peer to take in that it is refused.
const SLICE_NS: u64 = 100_000_000;
/// Packets that are taken before others have their turn.
const PACKETS_MAX: u32 = 8;

/// What both ends agreed on.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) mine: Half,
    pub(super) image: Half,
    pub(super) there: RemoteAddr,
    pub(super) settled: Settled,
    pub(super) why: Why,
    pub(super) share: Budget,
}

/// How far a [`HalfOpen`] is.
pub(super) enum Progress {
    /// It waits for its [`interests`](HalfOpen::interests), or for [`timeout_ns`](HalfOpen::timeout_ns).
    Pending,
    /// Both ends agreed.
    Done(Agreed),
    /// There is no connection; the peer was told where that made sense.
    Failed(ConnectError),
}

/// A connection whose handshake is going on. Nothing here waits: [`drive`](Self::drive) it when one of the interests is
/// readable and when the time of `timeout_ns` has come, until it is done or has failed.
pub(super) struct HalfOpen {
    wire: Wire,
    handshake: Handshake<Regions>,
    /// The last packet is out.
    has_said_last: bool,
    /// Why it failed, and until when the peer may take in that it is refused.
    leaving: Option<(ConnectError, u64)>,
    /// More packets may be there than were taken.
    is_behind: bool,
    deadline_ns: u64,
    /// Memory for which the budget has no room, while the handshake waits for room.
    lacking: Option<(Layout, OverBudget)>,
    waits_for_room: bool,
}

impl HalfOpen {
    /// The active side, on a wire that carries SENDs.
    pub(super) fn connect(wire: Wire, wishes: &Wishes<'_>, deadline_ns: u64, now_ns: u64) -> Self {
        Self::new(wire, Role::Active, wishes, deadline_ns, now_ns)
    }

    /// The passive side, on a wire that was accepted.
    pub(super) fn accept(wire: Wire, wishes: &Wishes<'_>, deadline_ns: u64, now_ns: u64) -> Self {
        Self::new(wire, Role::Passive, wishes, deadline_ns, now_ns)
    }

    fn new(wire: Wire, role: Role, wishes: &Wishes<'_>, deadline_ns: u64, now_ns: u64) -> Self {
        let fabric = FabricKind::Posted {
            keeps_order: wire.keeps_order(),
            has_fast_crc: copy::crc_is_fast(),
            notices: NOTICES,
        };
        let config = HandshakeConfig {
            role,
            fabric,
            wishes: *wishes.tuning,
            landing_bytes_max: wishes.landing_bytes_max,
            hello_repeat: Some(Nanos(AGAIN_NS)),
            first_silence: Some(Nanos(FIRST_NS)),
            deadline: Nanos(deadline_ns),
        };
        let handshake = Handshake::new(config, Nanos(now_ns));
        Self {
            wire,
            handshake,
            has_said_last: false,
            leaving: None,
            is_behind: false,
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

    /// Count of packets that took the handshake a step further.
    pub(super) const fn steps(&self) -> u32 {
        self.handshake.steps()
    }

    /// Bytes of the budget that it holds.
    pub(super) fn share_bytes(&self) -> u64 {
        self.handshake.own().map_or(0, |own| own.share.bytes())
    }

    /// Bytes for which the budget has no room, if it waits for room. The next `drive` takes them if there is.
    pub(super) fn lacks(&self) -> Option<u64> {
        self.lacking.as_ref().map(|(_, over)| over.bytes())
    }

    /// Goes as far as it can without waiting. Once it is done or has failed there is nothing more to drive.
    pub(super) fn drive(&mut self, now_ns: u64) -> Progress {
        self.is_behind = false;
        if let Some((layout, _)) = self.lacking.take() {
            self.provision(layout, now_ns);
        }
        if let Err(error) = self.wire.take_events() {
            self.handshake.handle_broken(error.into());
        }
        for _ in 0..PACKETS_MAX {
            if let Some(end) = self.act(now_ns) {
                return end;
            }
            if self.look(now_ns) {
                continue;
            }
            self.handshake.handle_timeout(Nanos(now_ns));
            if let Some(end) = self.act(now_ns) {
                return end;
            }
            match self.wire.arm() {
                Ok(true) => {}
                Ok(false) => return Progress::Pending,
                Err(error) => self.handshake.handle_broken(error.into()),
            }
        }
        self.is_behind = true;
        Progress::Pending
    }

    /// Descriptors to poll while it is pending.
    pub(super) fn interests(&self) -> [PollFd<'_>; 2] {
        self.wire.sleep_interests()
    }

    /// Time at which to drive it at the latest.
    pub(super) fn timeout_ns(&self) -> u64 {
        match (&self.leaving, self.handshake.poll_timeout()) {
            _ if self.is_behind => 0,
            (Some((_, end_ns)), _) => *end_ns,
            (None, timeout) => timeout.map_or(0, |Nanos(time)| time),
        }
    }

    /// The wire, for the connection that was agreed on.
    pub(super) fn into_wire(self) -> Wire {
        self.wire
    }

    /// Does what the handshake wants done. None: it goes on.
    fn act(&mut self, now_ns: u64) -> Option<Progress> {
        while let Some(action) = self.handshake.poll_action() {
            match action {
                Action::Established(agreed) => return Some(Progress::Done(agreed.into())),
                Action::Failed(failure) if self.has_said_last => {
                    self.leaving = Some((failure.into(), now_ns.saturating_add(SLICE_NS)));
                }
                Action::Failed(failure) => return Some(Progress::Failed(failure.into())),
                Action::Send { packet, .. } => self.send(&packet),
                Action::Provision(layout) => self.provision(layout, now_ns),
                Action::Adopt(Claim::Region(RemoteRegion { addr, rkey })) => {
                    self.handshake.handle_adopted(Ok(RemoteAddr { addr, rkey: Rkey(rkey) }));
                }
                Action::Adopt(Claim::Received(never)) => match never {},
                Action::Hold => self.handshake.handle_held(Ok(())),
            }
        }
        self.leave(now_ns)
    }

    fn provision(&mut self, layout: Layout, now_ns: u64) {
        match provision(&self.wire, layout) {
            Err(ConnectError::Budget(over)) if self.waits_for_room && now_ns < self.deadline_ns => {
                self.lacking = Some((layout, over));
            }
            provisioned => self.handshake.handle_provisioned(provisioned),
        }
    }

    fn send(&mut self, packet: &Packet) {
        match self.wire.send_packet(packet) {
            Ok(()) => self.has_said_last = self.handshake.is_over(),
            Err(error) => self.handshake.handle_broken(error),
        }
    }

    /// Lets the peer take in that it is refused, until it is gone. None: nobody is leaving.
    fn leave(&mut self, now_ns: u64) -> Option<Progress> {
        let (error, end_ns) = self.leaving.take()?;
        let may_take = now_ns < end_ns && self.wire.is_alive();
        match self.wire.arm() {
            Ok(has_more) if may_take => {
                self.is_behind = has_more;
                self.leaving = Some((error, end_ns));
                Some(Progress::Pending)
            }
            _ => Some(Progress::Failed(error)),
        }
    }

    /// Takes a packet, or the end of the wire. Returns false if neither came.
    fn look(&mut self, now_ns: u64) -> bool {
        let handshake = &mut self.handshake;
        if let Some(packet) = self.wire.take_packet() {
            handshake.handle_packet(&packet.0, Beside::Nothing, Nanos(now_ns));
            return true;
        }
        if let End::Failed(error) = self.wire.end {
            let text = format!("handshake: {}", crate::verbs::WcStatus(error.status));
            handshake.handle_broken(Error::Verb(crate::os::OsError::new(libc::EIO, text)).into());
            return true;
        }
        if self.wire.end == End::Not && self.wire.is_alive() {
            return false;
        }
        // Packets that the peer sent before it went are still there.
        match (self.wire.take_packet(), self.wire.end) {
            (Some(packet), _) => handshake.handle_packet(&packet.0, Beside::Nothing, Nanos(now_ns)),
            (None, End::Wrong(wrong)) => handshake.handle_broken(ConnectError::Wrong(wrong)),
            (None, _) => handshake.handle_lost(),
        }
        true
    }
}

/// The active side, waiting.
pub(super) fn connect(
    wire: Wire,
    wishes: &Wishes<'_>,
    patience: &Patience<'_>,
) -> Result<(Wire, Agreed), ConnectError> {
    finish(HalfOpen::connect(wire, wishes, patience.deadline_ns, monotonic_ns()), patience)
}

fn finish(mut half_open: HalfOpen, patience: &Patience<'_>) -> Result<(Wire, Agreed), ConnectError> {
    loop {
        match half_open.drive(monotonic_ns()) {
            Progress::Done(agreed) => return Ok((half_open.into_wire(), agreed)),
            Progress::Failed(error) => return Err(error),
            Progress::Pending if (patience.interrupted)() => return Err(ConnectError::Interrupted),
            Progress::Pending => {
                let wait_ns = until(half_open.timeout_ns()).min(SLICE_NS);
                poll(&mut half_open.interests(), wait_ns).map_err(Error::Verb)?;
            }
        }
    }
}

/// Memory over RDMA: regions, which packets name.
#[derive(Debug)]
struct Regions;

/// What this end registers: what the peer writes, and the image of the peer's.
#[derive(Debug)]
struct Own {
    mine: Half,
    image: Half,
    share: Budget,
}

impl Grants for Regions {
    type Own = Own;
    type Received = Infallible;
    type Peer = RemoteAddr;
    type Error = ConnectError;

    fn region(own: &Own) -> Option<RemoteRegion> {
        Some(RemoteRegion { addr: own.mine.mr.remote_addr(), rkey: own.mine.mr.rkey().0 })
    }

    fn refusal(error: &ConnectError) -> Option<Refusal> {
        let refusal = |code, text| Some(Refusal { code, text });
        match error {
            ConnectError::Packet(error) => refusal(error.refusal()?, Text::of(error)),
            ConnectError::Budget(error) => refusal(REFUSED_LIMIT, Text::of(error.text_for_the_peer())),
            ConnectError::Lost(_) | ConnectError::Interrupted | ConnectError::Wrong(_) => None,
            ConnectError::Verbs(Error::Limit(error)) => refusal(REFUSED_LIMIT, Text::of(error)),
            ConnectError::Verbs(Error::Verb(error)) if error.is_limit() => {
                refusal(REFUSED_LIMIT, Text::of(error))
            }
            ConnectError::Verbs(_)
            | ConnectError::NotFound(_)
            | ConnectError::Refused(_)
            | ConnectError::Nobody
            | ConnectError::TimedOut => refusal(0, Text::of(error)),
        }
    }
}

/// Registers both halves, once there is room for them, and for the mail, which the wire has registered to say all this.
fn provision(wire: &Wire, layout: Layout) -> Result<Own, ConnectError> {
    let bytes = 2 * Half::bytes_for(layout) + wire.mail_bytes();
    let share = Budget::take(bytes as u64).map_err(ConnectError::Budget)?;
    let mine = wire.register(layout, Access::RemoteWrite)?;
    Ok(Own { mine, image: wire.register(layout, Access::Local)?, share })
}

impl From<Handshaken<Regions>> for Agreed {
    fn from(agreed: Handshaken<Regions>) -> Self {
        let Handshaken { own: Own { mine, image, share }, peer, settled, why, .. } = agreed;
        Self { mine, image, there: peer, settled, why: why.unwrap_or(Why::Unordered), share }
    }
}

impl From<HandshakeFailure<Self>> for ConnectError {
    fn from(failure: HandshakeFailure<Self>) -> Self {
        match failure {
            HandshakeFailure::Packet(error) => Self::Packet(error),
            HandshakeFailure::Local(error) => error,
            HandshakeFailure::TimedOut => Self::TimedOut,
            HandshakeFailure::Silent => Self::Lost("before it said anything"),
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
#[path = "handshake_tests.rs"]
mod tests;
