//! A connection that is made beside others, without waiting, by a listener or to one: first the handshake, then the warm-up.

use core::fmt;

use super::new_connection::{NewConnection, ReadyConnection};
use super::{AnyConnection, Blocking, Exclusive, WarmingUp};
use crate::budget::MemoryKind;
use crate::error::Error;
use crate::fabric::HostFabric;
use crate::os::owner::Owner;
use crate::os::poll::PollFd;

/// Polls in a row that find nothing, before pauses between them. They take about a round trip within a host.
const EMPTY_POLLS_MAX: u32 = 32;
/// First and longest pause. A peer's writes wake no one here, since a sleep would need a wake-up for each of many peers; a silent peer may
/// cost at most a hundredth of a core. The pauses are sleeps and no yields: a yield can last the time slices of
/// other threads, while a sleeper gets the core soon after its time.
const PAUSE_MIN_NS: u64 = 20_000;
const PAUSE_MAX_NS: u64 = 1_000_000;
/// Period of the checks of the budget: no descriptor reports that a connection elsewhere in the process returned its share. A tenth of the
/// silence after which a peer makes room, so that a wait for memory is hardly longer than the lack of it, at 200 checks per second.
const LACK_NS: u64 = 5_000_000;
/// Time that a peer has to provision and map its share of the memory, in addition to the silence that every peer is allowed: 8 µs for a page
/// of 4 KiB, which is enough for a core that has other work as well.
const WORK_NS_PER_KIB: u64 = 2_000;

/// State of a connection that is being made.
#[cfg_attr(
    feature = "verbs",
    expect(clippy::large_enum_variant, reason = "it is returned once, and moved into the connection")
)]
pub(super) enum OpenProgress {
    /// It waits for one of its interests, or for a time.
    Pending,
    /// It is established.
    Done(ReadyConnection),
    /// The peer ended without a packet.
    PeerGone,
    /// It failed. The peer was sent the reason, if it can use it.
    Failed(Error),
}

/// A connection that is being made, over any fabric. Times are those of its owner, whose clock may stand still.
pub(super) trait PendingConnection: fmt::Debug + Send {
    /// Continues as far as possible without waiting; `is_ready`: one of the interests was ready.
    fn drive(&mut self, now_ns: u64, is_ready: bool) -> OpenProgress;
    /// Returns the descriptors that become ready when there is work.
    fn interests(&self) -> [PollFd<'_>; 2];
    /// Returns the time at which to drive it at the latest.
    fn timeout_ns(&self) -> u64;
    /// Returns the count of its steps: packets of the handshake and messages of the warm-up, not keepalives.
    fn steps(&self) -> u64;
    /// Returns the time that the peer may take to provision memory before its next step.
    fn work_ns(&self) -> u64;
    /// Returns the kind of memory that it provisions.
    fn memory_kind(&self) -> MemoryKind;
    /// Returns the bytes of the budget that it holds.
    fn share_bytes(&self) -> u64;
    /// Returns the bytes of the budget that it waits for, if it does.
    fn lacks(&self) -> Option<u64>;
    /// Makes the next `drive` refuse the peer if the budget still lacks those bytes.
    fn refuse(&mut self);
}

/// The handshake of a fabric: from the first packet until both ends handshake.
pub(super) trait FabricHandshake: Send + Sized + 'static {
    /// The fabric.
    type Fabric: HostFabric;
    /// Kind of memory that the fabric provisions.
    const MEMORY_KIND: MemoryKind;

    /// Continues as far as possible without waiting.
    fn drive(self, now_ns: u64) -> HandshakeProgress<Self>;
    /// Returns the descriptors that become ready when there is work.
    fn interests(&self) -> [PollFd<'_>; 2];
    /// Returns the time at which to drive it at the latest.
    fn timeout_ns(&self) -> u64;
    /// Returns the count of packets that advanced it.
    fn steps(&self) -> u32;
    /// Returns the bytes of the budget that it holds.
    fn share_bytes(&self) -> u64;
    /// Returns the bytes of the budget that it waits for, if it does. The next `drive` takes them if there is room.
    fn lacks(&self) -> Option<u64>;
    /// Makes the next `drive` refuse the peer if the budget still lacks those bytes.
    fn refuse(&mut self);
}

/// State of a handshake.
#[expect(clippy::large_enum_variant, reason = "the large one ends it, once")]
pub(super) enum HandshakeProgress<A: FabricHandshake> {
    Pending(A),
    Done(NewConnection<A::Fabric>),
    PeerGone,
    Failed(Error),
}

/// A connection that is being made over one fabric.
pub(super) struct Opening<A: FabricHandshake> {
    /// Stage of the work; `None` once it is over.
    stage: Option<Stage<A>>,
    deadline_ns: u64,
    driven_at_ns: u64,
    owner: Owner,
}

#[expect(clippy::large_enum_variant, reason = "it is in a box")]
enum Stage<A: FabricHandshake> {
    Handshake(A),
    /// `empty_polls`: polls that found nothing since the last message.
    WarmingUp {
        connection: NewConnection<A::Fabric>,
        empty_polls: u32,
    },
}

impl<A: FabricHandshake> Opening<A> {
    /// Begins at the owner's time `now_ns`.
    pub(super) fn new(handshake: A, deadline_ns: u64, now_ns: u64) -> Self {
        let stage = Some(Stage::Handshake(handshake));
        Self { stage, deadline_ns, driven_at_ns: now_ns, owner: Owner::current() }
    }

    fn drive_handshake(&mut self, handshake: A, now_ns: u64) -> Option<OpenProgress> {
        match handshake.drive(now_ns) {
            HandshakeProgress::Pending(handshake) => {
                self.stage = Some(Stage::Handshake(handshake));
                Some(OpenProgress::Pending)
            }
            HandshakeProgress::Done(connection) => {
                self.stage = Some(Stage::WarmingUp { connection, empty_polls: 0 });
                None
            }
            HandshakeProgress::PeerGone => Some(OpenProgress::PeerGone),
            HandshakeProgress::Failed(error) => Some(OpenProgress::Failed(error)),
        }
    }
}

impl<A: FabricHandshake> PendingConnection for Opening<A>
where
    AnyConnection: From<Blocking<Exclusive<A::Fabric>>>,
{
    fn drive(&mut self, now_ns: u64, is_ready: bool) -> OpenProgress {
        let driven_at_ns = core::mem::replace(&mut self.driven_at_ns, now_ns);
        let Some(stage) = self.stage.take() else { return OpenProgress::PeerGone };
        let stage = match stage {
            Stage::Handshake(handshake) => match self.drive_handshake(handshake, now_ns) {
                Some(progress) => return progress,
                None => self.stage.take(),
            },
            warming @ Stage::WarmingUp { .. } => Some(warming),
        };
        let Some(Stage::WarmingUp { mut connection, empty_polls }) = stage else {
            return OpenProgress::PeerGone;
        };
        let steps = connection.warming.steps();
        let warm = connection.blocking.try_warm_up(&mut connection.warming, is_ready);
        let has_moved = connection.warming.steps() != steps;
        if has_moved {
            // The peer has answered, and the time for which nobody looked is not its own. The messages are limited, and so are these
            // extensions of the deadline.
            self.deadline_ns = self.deadline_ns.saturating_add(now_ns.saturating_sub(driven_at_ns));
        }
        let empty_polls = if has_moved { 0 } else { empty_polls.saturating_add(1) };
        match warm {
            Ok(true) => OpenProgress::Done(connection.into_ready()),
            Ok(false) if now_ns >= self.deadline_ns => {
                connection.blocking.abandon();
                OpenProgress::Failed(WarmingUp::late())
            }
            Ok(false) => {
                self.stage = Some(Stage::WarmingUp { connection, empty_polls });
                OpenProgress::Pending
            }
            Err(error) => OpenProgress::Failed(error),
        }
    }

    fn interests(&self) -> [PollFd<'_>; 2] {
        match &self.stage {
            Some(Stage::Handshake(handshake)) => handshake.interests(),
            Some(Stage::WarmingUp { connection, .. }) => {
                let [peer] = connection.blocking.interests();
                [peer, PollFd::none()]
            }
            None => [PollFd::none(); 2],
        }
    }

    fn timeout_ns(&self) -> u64 {
        match &self.stage {
            Some(Stage::Handshake(handshake)) if handshake.lacks().is_some() => {
                handshake.timeout_ns().min(self.driven_at_ns.saturating_add(LACK_NS))
            }
            Some(Stage::Handshake(handshake)) => handshake.timeout_ns().min(self.deadline_ns),
            Some(Stage::WarmingUp { empty_polls, .. }) => match empty_polls.checked_sub(EMPTY_POLLS_MAX) {
                None => 0,
                Some(pauses) => {
                    let pause_ns = (PAUSE_MIN_NS << pauses.min(16)).min(PAUSE_MAX_NS);
                    self.driven_at_ns.saturating_add(pause_ns).min(self.deadline_ns)
                }
            },
            None => 0,
        }
    }

    fn steps(&self) -> u64 {
        match &self.stage {
            // The count must grow from stage to stage; a handshake never has 2^32 packets.
            Some(Stage::WarmingUp { connection, .. }) => (1 << 32) + u64::from(connection.warming.steps()),
            Some(Stage::Handshake(handshake)) => u64::from(handshake.steps()),
            None => 0,
        }
    }

    fn work_ns(&self) -> u64 {
        match &self.stage {
            Some(Stage::WarmingUp { connection, .. }) if connection.warming.steps() > 0 => 0,
            Some(_) => self.share_bytes() / 1024 * WORK_NS_PER_KIB,
            None => 0,
        }
    }

    fn memory_kind(&self) -> MemoryKind {
        A::MEMORY_KIND
    }

    fn share_bytes(&self) -> u64 {
        match &self.stage {
            Some(Stage::Handshake(handshake)) => handshake.share_bytes(),
            Some(Stage::WarmingUp { connection, .. }) => connection.description.provisioned_bytes,
            None => 0,
        }
    }

    fn lacks(&self) -> Option<u64> {
        match &self.stage {
            Some(Stage::Handshake(handshake)) => handshake.lacks(),
            Some(Stage::WarmingUp { .. }) | None => None,
        }
    }

    fn refuse(&mut self) {
        if let Some(Stage::Handshake(handshake)) = &mut self.stage {
            handshake.refuse();
        }
    }
}

impl<A: FabricHandshake> Drop for Opening<A> {
    /// Gives the connection up without waiting. In a child of fork it is the parent's, and is left alone.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            if !A::Fabric::DROPS_IN_CHILD {
                core::mem::forget(self.stage.take());
            }
        } else if let Some(Stage::WarmingUp { connection, .. }) = &mut self.stage {
            connection.blocking.abandon();
        }
    }
}

impl<A: FabricHandshake> fmt::Debug for Opening<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Some(Stage::Handshake(_)) => "agreeing",
            Some(Stage::WarmingUp { .. }) => "warming",
            None => "over",
        };
        write!(f, "Opening({}, {stage})", A::Fabric::NAME)
    }
}
