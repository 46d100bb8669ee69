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

/// Looks in a row that find nothing, until there is a pause between them: a round trip within a host.
const LOOKS: u32 = 32;
/// The first pause, and the longest. What a peer writes wakes nobody, since many are waited for here; one that is silent may cost no
/// more than a hundredth of a core. No yield: where others compute it costs a turn of theirs, and a sleeper is woken at once.
const NAP_NS: u64 = 20_000;
const NAP_MAX_NS: u64 = 1_000_000;

/// How far a connection is.
pub(super) enum Opened {
    /// It waits for one of its interests, or for a time.
    Pending,
    /// It is warm.
    Done(Connection),
    /// Whoever it was went away without a word.
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
    /// Changes when something was heard of the peer.
    fn heard(&self) -> u64;
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
}

/// How far that is.
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
    /// None once it is over.
    stage: Option<Stage<A>>,
    deadline_ns: u64,
    /// What was heard while both ends were agreeing: times at which something came.
    came: u64,
    owner: Owner,
}

#[expect(clippy::large_enum_variant, reason = "it is in a box")]
enum Stage<A: Agree> {
    Agreeing(A),
    /// `quiet`: looks that found nothing since something came.
    Warming {
        joined: Joined<A::Port>,
        quiet: u32,
        driven_at_ns: u64,
    },
}

impl<A: Agree> Opening<A> {
    pub(super) fn new(agree: A, deadline_ns: u64) -> Self {
        Self { stage: Some(Stage::Agreeing(agree)), deadline_ns, came: 0, owner: Owner::current() }
    }

    fn agree(&mut self, agree: A, now_ns: u64) -> Option<Opened> {
        match agree.drive(now_ns) {
            Agreeing::Pending(agree) => {
                self.stage = Some(Stage::Agreeing(agree));
                Some(Opened::Pending)
            }
            Agreeing::Done(joined) => {
                self.stage = Some(Stage::Warming { joined, quiet: 0, driven_at_ns: now_ns });
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
        self.came += u64::from(is_ready);
        let Some(stage) = self.stage.take() else { return Opened::Nobody };
        let stage = match stage {
            Stage::Agreeing(agree) => match self.agree(agree, now_ns) {
                Some(opened) => return opened,
                None => self.stage.take(),
            },
            warming @ Stage::Warming { .. } => Some(warming),
        };
        let Some(Stage::Warming { mut joined, quiet, .. }) = stage else { return Opened::Nobody };
        let heard = joined.over.heard();
        let warm = joined.over.try_warm_up(&mut joined.warming, is_ready);
        let quiet = if joined.over.heard() == heard { quiet.saturating_add(1) } else { 0 };
        match warm {
            Ok(true) => Opened::Done(joined.into_connection()),
            Ok(false) if now_ns >= self.deadline_ns => {
                joined.over.abandon();
                Opened::Failed(Warming::late())
            }
            Ok(false) => {
                self.stage = Some(Stage::Warming { joined, quiet, driven_at_ns: now_ns });
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
            Some(Stage::Agreeing(agree)) => agree.timeout_ns().min(self.deadline_ns),
            Some(Stage::Warming { quiet, driven_at_ns, .. }) => match quiet.checked_sub(LOOKS) {
                None => 0,
                Some(naps) => {
                    let nap_ns = (NAP_NS << naps.min(16)).min(NAP_MAX_NS);
                    driven_at_ns.saturating_add(nap_ns).min(self.deadline_ns)
                }
            },
            None => 0,
        }
    }

    fn heard(&self) -> u64 {
        match &self.stage {
            Some(Stage::Warming { joined, .. }) => self.came.wrapping_add(joined.over.heard()),
            Some(Stage::Agreeing(_)) | None => self.came,
        }
    }
}

impl<A: Agree> Drop for Opening<A> {
    /// Lets go without waiting. In a child of fork it is the parent's.
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
