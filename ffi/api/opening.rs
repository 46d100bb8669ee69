//! A connection that a listener makes beside others, without waiting: first both ends agree, then they warm it up.

use core::fmt;

use super::connection::{Connection, Description, Inner};
use super::deadline::Deadline;
use super::error::Error;
use super::over::{Over, Warming, Whole};
use super::peer::Peer;
use crate::os::owner::Owner;
use crate::os::poll::PollFd;
use crate::port::Port;

/// Looks in a row that find nothing before there are pauses between them. They take about a round trip within a host.
const LOOKS: u32 = 32;
/// The first pause, and the longest. A peer's writes wake nobody here, since a sleep would need a wake-up for each of many peers; a
/// silent peer may cost no more than a hundredth of a core. The pauses are sleeps and no yields: a yield can last the time slices of
/// other threads, while a sleeper gets the core soon after its time.
const NAP_NS: u64 = 20_000;
const NAP_MAX_NS: u64 = 1_000_000;
/// Period of the looks at whether the budget has room: no descriptor tells that a connection elsewhere in the process gave its share
/// back. A tenth of the patience with silent peers, so that a wait for memory is hardly longer than the lack of it, at 200 looks a second.
const LACK_NS: u64 = 5_000_000;
/// Time that a peer has to provision and map its share of the memory, on top of the silence that every peer is allowed. It is 8 µs for
/// a page of 4 KiB: what a core takes that has other work as well.
const WORK_NS_PER_KIB: u64 = 2_000;

/// State of a connection that is being made.
pub(super) enum Opened {
    /// It waits for one of its interests, or for a time.
    Pending,
    /// It is warm.
    Done(Connection),
    /// The peer went away without a word.
    Nobody,
    /// There is none; the peer was told where that made sense.
    Failed(Error),
}

/// A connection that is being made, over whichever fabric. Times are the listener's.
pub(super) trait Open: fmt::Debug + Send {
    /// Goes as far as it can without waiting; `is_ready`: one of the interests was.
    fn drive(&mut self, now_ns: u64, is_ready: bool) -> Opened;
    /// Descriptors that become ready when there is something to be done.
    fn interests(&self) -> [PollFd<'_>; 2];
    /// Time at which to drive it at the latest.
    fn timeout_ns(&self) -> u64;
    /// Count of the steps that it has made: packets of the handshake and messages of the warm-up, not signs of life.
    fn steps(&self) -> u64;
    /// Time that the peer may take to provision memory before its next step.
    fn work_ns(&self) -> u64;
    /// Bytes of the budget that it holds.
    fn share_bytes(&self) -> u64;
    /// Bytes of the budget that it waits for, if it does.
    fn lacks(&self) -> Option<u64>;
    /// Has the next `drive` refuse the peer if the budget still lacks those bytes.
    fn refuse(&mut self);
}

/// A fabric's part of it: from the first packet until both ends agree.
pub(super) trait Agree: Send + Sized + 'static {
    /// The fabric.
    type Port: Port;

    /// Goes as far as it can without waiting.
    fn drive(self, now_ns: u64) -> Agreeing<Self>;
    /// Descriptors that become ready when there is something to be done.
    fn interests(&self) -> [PollFd<'_>; 2];
    /// Time at which to drive it at the latest.
    fn timeout_ns(&self) -> u64;
    /// Count of packets that took it a step further.
    fn steps(&self) -> u32;
    /// Bytes of the budget that it holds.
    fn share_bytes(&self) -> u64;
    /// Bytes of the budget that it waits for, if it does. The next `drive` takes them if there is room.
    fn lacks(&self) -> Option<u64>;
    /// Has the next `drive` refuse the peer if the budget still lacks those bytes.
    fn refuse(&mut self);
}

/// State of that part.
#[expect(clippy::large_enum_variant, reason = "the large one ends it, once")]
pub(super) enum Agreeing<A: Agree> {
    Pending(A),
    Done(Joined<A::Port>),
    Nobody,
    Failed(Error),
}

/// A connection that both ends agreed on, and that is not warm yet.
pub(super) struct Joined<P: Port> {
    pub(super) over: Over<Whole<P>>,
    pub(super) warming: Warming,
    pub(super) description: Description,
    pub(super) peer: Peer,
}

impl<P: Port> Joined<P>
where
    Inner: From<Over<Whole<P>>>,
{
    /// Warms it up, and waits for that until the deadline.
    ///
    /// # Errors
    /// As [`Over::warm_up`].
    pub(super) fn warm_up(mut self, deadline_ns: u64) -> Result<Connection, Error> {
        self.over.warm_up(&mut self.warming, Deadline::at_time(deadline_ns))?;
        Ok(self.into_connection())
    }

    /// The connection, warm or not.
    pub(super) fn into_connection(self) -> Connection {
        Connection::new(self.over.into(), self.description, self.peer)
    }
}

/// A connection that is being made over one fabric.
pub(super) struct Opening<A: Agree> {
    /// Stage of the work; `None` once it is over.
    stage: Option<Stage<A>>,
    deadline_ns: u64,
    driven_at_ns: u64,
    owner: Owner,
}

#[expect(clippy::large_enum_variant, reason = "it is in a box")]
enum Stage<A: Agree> {
    Agreeing(A),
    /// `quiet`: looks that found nothing since a message came.
    Warming {
        joined: Joined<A::Port>,
        quiet: u32,
    },
}

impl<A: Agree> Opening<A> {
    /// Begins at the listener's time `now_ns`.
    pub(super) fn new(agree: A, deadline_ns: u64, now_ns: u64) -> Self {
        let stage = Some(Stage::Agreeing(agree));
        Self { stage, deadline_ns, driven_at_ns: now_ns, owner: Owner::current() }
    }

    fn agree(&mut self, agree: A, now_ns: u64) -> Option<Opened> {
        match agree.drive(now_ns) {
            Agreeing::Pending(agree) => {
                self.stage = Some(Stage::Agreeing(agree));
                Some(Opened::Pending)
            }
            Agreeing::Done(joined) => {
                self.stage = Some(Stage::Warming { joined, quiet: 0 });
                None
            }
            Agreeing::Nobody => Some(Opened::Nobody),
            Agreeing::Failed(error) => Some(Opened::Failed(error)),
        }
    }
}

impl<A: Agree> Open for Opening<A>
where
    Inner: From<Over<Whole<A::Port>>>,
{
    fn drive(&mut self, now_ns: u64, is_ready: bool) -> Opened {
        let driven_at_ns = core::mem::replace(&mut self.driven_at_ns, now_ns);
        let Some(stage) = self.stage.take() else { return Opened::Nobody };
        let stage = match stage {
            Stage::Agreeing(agree) => match self.agree(agree, now_ns) {
                Some(opened) => return opened,
                None => self.stage.take(),
            },
            warming @ Stage::Warming { .. } => Some(warming),
        };
        let Some(Stage::Warming { mut joined, quiet }) = stage else { return Opened::Nobody };
        let steps = joined.warming.steps();
        let warm = joined.over.try_warm_up(&mut joined.warming, is_ready);
        let has_moved = joined.warming.steps() != steps;
        if has_moved {
            // The peer has answered, and the time for which nobody looked is not its own. The messages are limited, and so are these
            // extensions of the deadline.
            self.deadline_ns = self.deadline_ns.saturating_add(now_ns.saturating_sub(driven_at_ns));
        }
        let quiet = if has_moved { 0 } else { quiet.saturating_add(1) };
        match warm {
            Ok(true) => Opened::Done(joined.into_connection()),
            Ok(false) if now_ns >= self.deadline_ns => {
                joined.over.abandon();
                Opened::Failed(Warming::late())
            }
            Ok(false) => {
                self.stage = Some(Stage::Warming { joined, quiet });
                Opened::Pending
            }
            Err(error) => Opened::Failed(error),
        }
    }

    fn interests(&self) -> [PollFd<'_>; 2] {
        match &self.stage {
            Some(Stage::Agreeing(agree)) => agree.interests(),
            Some(Stage::Warming { joined, .. }) => {
                let [peer] = joined.over.interests();
                [peer, PollFd::none()]
            }
            None => [PollFd::none(); 2],
        }
    }

    fn timeout_ns(&self) -> u64 {
        match &self.stage {
            Some(Stage::Agreeing(agree)) if agree.lacks().is_some() => {
                agree.timeout_ns().min(self.driven_at_ns.saturating_add(LACK_NS))
            }
            Some(Stage::Agreeing(agree)) => agree.timeout_ns().min(self.deadline_ns),
            Some(Stage::Warming { quiet, .. }) => match quiet.checked_sub(LOOKS) {
                None => 0,
                Some(naps) => {
                    let nap_ns = (NAP_NS << naps.min(16)).min(NAP_MAX_NS);
                    self.driven_at_ns.saturating_add(nap_ns).min(self.deadline_ns)
                }
            },
            None => 0,
        }
    }

    fn steps(&self) -> u64 {
        match &self.stage {
            // The count must grow from stage to stage; a handshake never has 2^32 packets.
            Some(Stage::Warming { joined, .. }) => (1 << 32) + u64::from(joined.warming.steps()),
            Some(Stage::Agreeing(agree)) => u64::from(agree.steps()),
            None => 0,
        }
    }

    fn work_ns(&self) -> u64 {
        match &self.stage {
            Some(Stage::Warming { joined, .. }) if joined.warming.steps() > 0 => 0,
            Some(_) => self.share_bytes() / 1024 * WORK_NS_PER_KIB,
            None => 0,
        }
    }

    fn share_bytes(&self) -> u64 {
        match &self.stage {
            Some(Stage::Agreeing(agree)) => agree.share_bytes(),
            Some(Stage::Warming { joined, .. }) => joined.description.provisioned_bytes,
            None => 0,
        }
    }

    fn lacks(&self) -> Option<u64> {
        match &self.stage {
            Some(Stage::Agreeing(agree)) => agree.lacks(),
            Some(Stage::Warming { .. }) | None => None,
        }
    }

    fn refuse(&mut self) {
        if let Some(Stage::Agreeing(agree)) = &mut self.stage {
            agree.refuse();
        }
    }
}

impl<A: Agree> Drop for Opening<A> {
    /// Gives the connection up without waiting. In a child of fork it is the parent's, and is left alone.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            if !A::Port::DROPS_IN_CHILD {
                core::mem::forget(self.stage.take());
            }
        } else if let Some(Stage::Warming { joined, .. }) = &mut self.stage {
            joined.over.abandon();
        }
    }
}

impl<A: Agree> fmt::Debug for Opening<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Some(Stage::Agreeing(_)) => "agreeing",
            Some(Stage::Warming { .. }) => "warming",
            None => "over",
        };
        write!(f, "Opening({}, {stage})", A::Port::NAME)
    }
}
