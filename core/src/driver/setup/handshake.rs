//! State machine of the handshake, for both ends and both fabrics.

use super::arrival::ArrivalReason;
use super::config::{FabricKind, HandshakeConfig, RemoteRegions, Role};
use super::error::{HandshakeFailure, PacketError, Refusal};
use super::packet::{Kind, Packet};
use super::text::Text;
use super::tuning::{Negotiated, RECEIVES_MIN};
use crate::nanos::Nanos;
use core::fmt;
use core::mem;

/// Packet of shared memory that wakes a sleeper. A handshake ignores it.
pub const WAKE: u8 = b'W';
/// Most wake bytes that are ignored before a packet. An honest peer sends none while nobody can sleep.
const WAKES_MAX: u32 = 64;

pub(super) const OUT_OF_TURN: PacketError = PacketError::Malformed("a packet out of turn");
const STRAY: PacketError = PacketError::Malformed("a descriptor where none belongs");

/// Types of the memory that the two ends grant each other, opaque to the handshake.
pub trait Grants {
    /// Memory of this end, provisioned for the peer to write.
    type Own;
    /// Memory that came with a packet as ancillary data. It is a claim until it is adopted.
    type Received;
    /// Memory of the peer, ready to be written.
    type Peer;
    /// Error of provisioning memory, or of the socket.
    type Error;

    /// Returns the regions that a packet names; `None` if memory travels as ancillary data.
    fn regions(own: &Self::Own) -> Option<RemoteRegions>;

    /// Returns the REFUSED for this error; `None` if the peer need not know.
    fn refusal(error: &Self::Error) -> Option<Refusal>;
}

/// Ancillary data of a packet.
#[derive(Debug)]
pub enum Ancillary<R> {
    /// None.
    Nothing,
    /// One item.
    One(R),
    /// An item that may not be there, or too many items. They were not taken.
    Stray,
}

/// Memory that the peer claims to have.
#[derive(Debug)]
pub enum Claim<R> {
    /// It came with the packet.
    Received(R),
    /// The packet names it.
    Regions(RemoteRegions),
}

/// Action that the handshake asks for. Actions are carried out in their order.
pub enum Action<G: Grants> {
    /// Send this packet, with [`own`](Handshake::own) as ancillary data if `with_own`. Call [`handle_broken`](Handshake::handle_broken)
    /// if that fails.
    Send {
        /// the packet
        packet: Packet,
        /// whether to send this end's memory with it
        with_own: bool,
    },
    /// Provision memory for what was negotiated, and room for the peer's, then [`handle_provisioned`](Handshake::handle_provisioned).
    Provision(Negotiated),
    /// Check and map the peer's memory, then [`handle_adopted`](Handshake::handle_adopted).
    Adopt(Claim<G::Received>),
    /// Make the pages of [`own`](Handshake::own) resident for good, now that the peer has mapped them, then
    /// [`handle_held`](Handshake::handle_held).
    Hold,
    /// The handshake is over: both ends agreed.
    Established(Established<G>),
    /// The handshake is over: there is no connection.
    Failed(HandshakeFailure<G::Error>),
}

/// Connection that both ends have agreed on.
pub struct Established<G: Grants> {
    /// Memory of this end.
    pub own: G::Own,
    /// Memory of the peer.
    pub peer: G::Peer,
    /// Negotiated configuration and layout.
    pub negotiated: Negotiated,
    /// Reason for the arrival mode. `None` on shared memory, where there is no choice.
    pub arrival_reason: Option<ArrivalReason>,
    /// Both processes have registered with membarrier.
    pub is_fenced: bool,
    /// Process that serves the connection, as the passive end on shared memory names it.
    pub pid: Option<u32>,
    /// Time for which the peer lets this end be silent, if it tells that.
    pub peer_idle_timeout: Option<Nanos>,
}

/// Result of the negotiation, with the other fields of WELCOME.
#[derive(Clone, Copy, Debug)]
pub(super) struct Negotiation {
    pub(super) negotiated: Negotiated,
    pub(super) arrival_reason: Option<ArrivalReason>,
    pub(super) is_fenced: bool,
    pub(super) pid: Option<u32>,
    pub(super) peer_idle_timeout: Option<Nanos>,
}

/// Step of a handshake.
pub(super) enum Step<G: Grants> {
    AwaitHello,
    AwaitWelcome,
    /// The active end has the peer's claim already.
    Provisioning(Negotiation, Option<Claim<G::Received>>),
    AwaitGrant(Negotiation, G::Own),
    Adopting(Negotiation, G::Own),
    AwaitReady(Negotiation, G::Own, G::Peer),
    Holding(Negotiation, G::Own, G::Peer),
    Over,
}

/// A handshake of either role, on either fabric.
///
/// ```text
/// active   AWAIT-WELCOME -> PROVISIONING -> ADOPTING -> AWAIT-READY -> HOLDING -> over
///           HELLO                                  GRANT
/// passive  AWAIT-HELLO -> PROVISIONING -> AWAIT-GRANT -> ADOPTING -> HOLDING -> over
///                                  WELCOME                              READY
///
///          any of them -> over, with REFUSED if the peer does not know the reason
/// ```
///
/// Events go in by `handle_packet`, `handle_provisioned`, `handle_adopted`, `handle_held`, `handle_timeout`,
/// `handle_lost` and `handle_broken`. After each of them, and once at the begin, call [`poll_action`](Self::poll_action)
/// until there is none, then [`poll_timeout`](Self::poll_timeout). The last action is `Established` or `Failed`;
/// after that all events are ignored. For any packets of a peer, at most one packet waits to be sent, memory is provisioned at most
/// once, and the handshake is over by its deadline.
pub struct Handshake<G: Grants> {
    pub(super) config: HandshakeConfig,
    pub(super) step: Step<G>,
    /// Packet to be sent before `next` is done.
    pub(super) outgoing: Option<Packet>,
    pub(super) next: Option<Action<G>>,
    /// Time to send HELLO again.
    hello_due: Option<Nanos>,
    /// HELLOs that may still be sent: a peer that takes none has no more receives for them.
    hellos_left: u8,
    /// Time until which the passive end waits for HELLO.
    silence_end: Option<Nanos>,
    /// Wake bytes since the last packet.
    wakes: u32,
    /// Packets that came when they were due.
    steps: u32,
}

impl<G: Grants> Handshake<G> {
    /// Begins a handshake at the time `now`.
    #[must_use]
    pub fn new(config: HandshakeConfig, now: Nanos) -> Self {
        let after = |wait: Nanos| Nanos(now.0.saturating_add(wait.0));
        let (step, outgoing) = match config.role {
            Role::Active => (Step::AwaitWelcome, Some(Self::hello(&config))),
            Role::Passive => (Step::AwaitHello, None),
        };
        Self {
            step,
            outgoing,
            next: None,
            hello_due: config.hello_repeat.map(after),
            hellos_left: RECEIVES_MIN - 1,
            silence_end: config.first_silence.map(after),
            wakes: 0,
            steps: 0,
            config,
        }
    }

    /// Returns the next action, once.
    pub fn poll_action(&mut self) -> Option<Action<G>> {
        match self.outgoing.take() {
            Some(packet) => {
                let with_own = self.is_direct() && self.own().is_some();
                Some(Action::Send { packet, with_own })
            }
            None => self.next.take(),
        }
    }

    /// Returns the time by which to call [`handle_timeout`](Self::handle_timeout); `None` once the handshake is over.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        if self.is_over() {
            return None;
        }
        [self.hello_due(), self.silence_end()].into_iter().flatten().chain([self.config.deadline]).min()
    }

    /// Count of packets that took the handshake a step further. Nothing else that the peer sends counts.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// Returns true if the next packet may carry memory as ancillary data.
    #[must_use]
    pub const fn expects_grant(&self) -> bool {
        self.is_direct() && matches!(self.step, Step::AwaitWelcome | Step::AwaitGrant(..))
    }

    /// Returns this end's memory, while the handshake has it.
    #[must_use]
    pub const fn own(&self) -> Option<&G::Own> {
        match &self.step {
            Step::AwaitGrant(_, own)
            | Step::Adopting(_, own)
            | Step::AwaitReady(_, own, _)
            | Step::Holding(_, own, _) => Some(own),
            Step::AwaitHello | Step::AwaitWelcome | Step::Provisioning(..) | Step::Over => None,
        }
    }

    /// Returns true once the handshake is over.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.step, Step::Over)
    }

    /// Handles a received packet.
    pub fn handle_packet(&mut self, bytes: &[u8], beside: Ancillary<G::Received>, now: Nanos) {
        if !self.is_over()
            && let Err(error) = self.take(bytes, beside, now)
        {
            self.fail(error.into());
        }
    }

    /// Handles the result of [`Action::Provision`].
    pub fn handle_provisioned(&mut self, result: Result<G::Own, G::Error>) {
        if self.next.is_some() {
            return; // the action was not polled yet
        }
        match (self.take_step(), result) {
            (Step::Provisioning(..), Err(error)) => self.fail(HandshakeFailure::Local(error)),
            (Step::Provisioning(negotiation, None), Ok(own)) => self.welcome(negotiation, own),
            (Step::Provisioning(negotiation, Some(claim)), Ok(own)) => {
                self.step = Step::Adopting(negotiation, own);
                self.next = Some(Action::Adopt(claim));
            }
            // The handshake failed meanwhile, or this result was not asked for.
            (step, _) => self.step = step,
        }
    }

    /// Handles the result of [`Action::Adopt`].
    pub fn handle_adopted(&mut self, result: Result<G::Peer, G::Error>) {
        if self.next.is_some() {
            return; // the action was not polled yet
        }
        match (self.take_step(), result) {
            (Step::Adopting(..), Err(error)) => self.fail(HandshakeFailure::Local(error)),
            (Step::Adopting(negotiation, own), Ok(peer)) => match self.config.role {
                Role::Active => self.grant(negotiation, own, peer),
                Role::Passive => self.hold(negotiation, own, peer),
            },
            (step, _) => self.step = step,
        }
    }

    /// Handles the result of [`Action::Hold`].
    pub fn handle_held(&mut self, result: Result<(), G::Error>) {
        if self.next.is_some() {
            return; // the action was not polled yet
        }
        match (self.take_step(), result) {
            (Step::Holding(..), Err(error)) => self.fail(HandshakeFailure::Local(error)),
            (Step::Holding(negotiation, own, peer), Ok(())) => {
                self.outgoing = (self.config.role == Role::Passive).then(|| Packet::new(Kind::Ready));
                let Negotiation { negotiated, arrival_reason, is_fenced, pid, peer_idle_timeout } =
                    negotiation;
                self.next = Some(Action::Established(Established {
                    own,
                    peer,
                    negotiated,
                    arrival_reason,
                    is_fenced,
                    pid,
                    peer_idle_timeout,
                }));
            }
            (step, _) => self.step = step,
        }
    }

    /// Handles the time `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let has_passed = |end: Option<Nanos>| end.is_some_and(|end| end <= now);
        if self.is_over() {
        } else if has_passed(self.silence_end()) {
            self.fail(HandshakeFailure::Silent);
        } else if self.config.deadline <= now {
            self.fail(HandshakeFailure::TimedOut);
        } else if let (true, Some(repeat)) = (has_passed(self.hello_due()), self.config.hello_repeat) {
            self.outgoing = Some(Self::hello(&self.config));
            self.hellos_left -= 1;
            self.hello_due = Some(Nanos(now.0.saturating_add(repeat.0.max(1))));
        }
    }

    /// Handles a disconnect of the peer, once all its packets were handled.
    pub fn handle_lost(&mut self) {
        let failure = match self.step {
            Step::AwaitHello => HandshakeFailure::Nobody,
            _ => HandshakeFailure::Lost,
        };
        self.end(failure);
    }

    /// Handles a failure of the socket: nothing can be sent any more. An earlier failure stays.
    pub fn handle_broken(&mut self, error: G::Error) {
        self.end(HandshakeFailure::Local(error));
    }

    fn take(&mut self, bytes: &[u8], beside: Ancillary<G::Received>, now: Nanos) -> Result<(), PacketError> {
        let grant = match beside {
            Ancillary::Nothing => None,
            Ancillary::One(grant) => Some(grant),
            Ancillary::Stray => return Err(STRAY),
        };
        if grant.is_some() && !self.expects_grant() {
            return Err(STRAY);
        }
        if self.is_direct() && bytes == [WAKE] {
            self.wakes += 1;
            return match (grant, self.wakes > WAKES_MAX) {
                (Some(_), _) => Err(STRAY),
                (None, true) => Err(PacketError::Malformed("more than 64 wake bytes in the handshake")),
                (None, false) => {
                    self.handle_timeout(now);
                    Ok(())
                }
            };
        }
        let packet = Packet(bytes.try_into().map_err(|_| PacketError::Garbage)?);
        let number = packet.kind()?;
        if number == Kind::Hello as u8 && self.may_repeat_hello() {
            self.handle_timeout(now);
            return Ok(());
        }
        let due = match self.step {
            Step::AwaitHello => Kind::Hello,
            Step::AwaitWelcome => Kind::Welcome,
            Step::AwaitGrant(..) => Kind::Grant,
            Step::AwaitReady(..) => Kind::Ready,
            Step::Provisioning(..) | Step::Adopting(..) | Step::Holding(..) | Step::Over => {
                return Err(OUT_OF_TURN);
            }
        };
        if number != due as u8 {
            return Err(OUT_OF_TURN);
        }
        packet.check_reserved(due, &self.config.fabric)?;
        self.wakes = 0;
        self.steps += 1;
        match (self.take_step(), grant) {
            (Step::AwaitHello, _) => self.handle_hello(&packet),
            (Step::AwaitWelcome, grant) => self.handle_welcome(&packet, grant),
            (Step::AwaitGrant(negotiation, own), grant) => {
                let claim = self.claim(&packet, grant, &negotiation.negotiated)?;
                self.step = Step::Adopting(negotiation, own);
                self.next = Some(Action::Adopt(claim));
                Ok(())
            }
            (Step::AwaitReady(negotiation, own, peer), _) => {
                self.hold(negotiation, own, peer);
                Ok(())
            }
            (Step::Provisioning(..) | Step::Adopting(..) | Step::Holding(..) | Step::Over, _) => {
                Err(OUT_OF_TURN)
            }
        }
    }

    /// Returns true if HELLO may be a repetition: a peer over RDMA repeats it until it has seen WELCOME.
    const fn may_repeat_hello(&self) -> bool {
        !self.is_direct()
            && matches!(self.config.role, Role::Passive)
            && !matches!(self.step, Step::AwaitHello)
    }

    /// Returns the memory that comes with WELCOME or GRANT.
    pub(super) fn claim(
        &self,
        packet: &Packet,
        grant: Option<G::Received>,
        negotiated: &Negotiated,
    ) -> Result<Claim<G::Received>, PacketError> {
        if !self.is_direct() {
            return Ok(Claim::Regions(packet.regions(negotiated.small_buffer().is_some())?));
        }
        grant.map(Claim::Received).ok_or(PacketError::Malformed("no descriptor came along"))
    }

    /// Sets the regions of this end's memory in a packet that names them.
    pub(super) fn name(packet: &mut Packet, own: &G::Own) {
        if let Some(regions) = G::regions(own) {
            packet.set_regions(regions);
        }
    }

    pub(super) fn provision(&mut self, negotiation: Negotiation, claim: Option<Claim<G::Received>>) {
        self.step = Step::Provisioning(negotiation, claim);
        self.next = Some(Action::Provision(negotiation.negotiated));
    }

    fn hold(&mut self, negotiation: Negotiation, own: G::Own, peer: G::Peer) {
        self.step = Step::Holding(negotiation, own, peer);
        self.next = Some(Action::Hold);
    }

    pub(super) const fn is_direct(&self) -> bool {
        matches!(self.config.fabric, FabricKind::Direct { .. })
    }

    /// Takes the step, and leaves `Over` unless the caller sets another one.
    fn take_step(&mut self) -> Step<G> {
        mem::replace(&mut self.step, Step::Over)
    }

    fn hello_due(&self) -> Option<Nanos> {
        self.hello_due.filter(|_| matches!(self.step, Step::AwaitWelcome) && self.hellos_left > 0)
    }

    fn silence_end(&self) -> Option<Nanos> {
        self.silence_end.filter(|_| matches!(self.step, Step::AwaitHello))
    }

    /// Ends the handshake by a failure, with REFUSED if the peer does not know of it.
    fn fail(&mut self, failure: HandshakeFailure<G::Error>) {
        let refusal = match &failure {
            HandshakeFailure::Packet(error) => {
                error.refusal().map(|code| Refusal { code, text: Text::of(error) })
            }
            HandshakeFailure::Local(error) => G::refusal(error),
            // An active end that timed out tries again. It must not make the listener seem to have refused.
            HandshakeFailure::TimedOut if self.config.role == Role::Passive && !self.is_direct() => {
                Some(Refusal { code: 0, text: Text::of("the peer did not answer in time") })
            }
            HandshakeFailure::TimedOut
            | HandshakeFailure::Silent
            | HandshakeFailure::Lost
            | HandshakeFailure::Nobody => None,
        };
        self.step = Step::Over;
        self.outgoing = refusal.map(|refusal| Packet::refused(refusal.code, &refusal.text));
        self.next = Some(Action::Failed(failure));
    }

    /// Ends the handshake without a packet, unless it has failed already. If both ends had agreed, READY was not sent.
    fn end(&mut self, failure: HandshakeFailure<G::Error>) {
        self.outgoing = None;
        match (&self.step, &self.next) {
            (Step::Over, Some(Action::Failed(_)) | None) => {}
            _ => {
                self.step = Step::Over;
                self.next = Some(Action::Failed(failure));
            }
        }
    }
}

impl<G: Grants> fmt::Debug for Handshake<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.step {
            Step::AwaitHello => "AWAIT-HELLO",
            Step::AwaitWelcome => "AWAIT-WELCOME",
            Step::Provisioning(..) => "PROVISIONING",
            Step::AwaitGrant(..) => "AWAIT-GRANT",
            Step::Adopting(..) => "ADOPTING",
            Step::AwaitReady(..) => "AWAIT-READY",
            Step::Holding(..) => "HOLDING",
            Step::Over => "OVER",
        };
        write!(f, "Handshake({:?}, {step})", self.config.role)
    }
}
