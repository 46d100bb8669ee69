//! Meeting a peer over shared memory.

use superpipe_core::Arrival;

use super::attempt::{Attempt, may_pass};
use super::connection::{Connection, Description};
use super::error::{Error, ErrorKind};
use super::opening::{Agree, Agreeing, Joined, Open, Opening};
use super::options::Options;
use super::over::{Over, Warming};
use super::peer::Peer;
use crate::os::clock::until;
use crate::os::poll::PollFd;
use crate::os::user::{effective_uid, is_ambiguous};
use crate::packet::{Packet, Text};
use crate::port::Port;
use crate::shm::fabric::Shm;
use crate::shm::handshake::{self, Agreed, HalfOpen, HandshakeError, Progress, Wishes};
use crate::shm::{ConnectError, PeerCred, ShmAddress, Socket};

/// Longest wait for a place in a full backlog between two looks at the interrupt flag.
const SLICE_NS: u64 = 100_000_000;

/// One attempt to connect. Where it `is_private`, the peer must be of our own user.
pub(super) fn connect(
    address: &ShmAddress,
    is_private: bool,
    options: Options,
    deadline_ns: u64,
) -> Result<Connection, Attempt> {
    let path = address.socket_path().map_err(|error| Attempt { error: error.into(), is_transient: false })?;
    let socket = Socket::connect_within(&path, until(deadline_ns).min(SLICE_NS)).map_err(|error| {
        let is_transient =
            matches!(error, ConnectError::NotFound(_) | ConnectError::Refused(_) | ConnectError::Busy(_));
        Attempt { error: error.into(), is_transient }
    })?;
    let met = || {
        check_peer(&socket, is_private, &options)?;
        let wishes = wishes(&options, deadline_ns);
        let (socket, agreed) = handshake::connect(socket, &wishes, &|| options.is_interrupted())?;
        join(socket, agreed, options, true)?.warm_up(deadline_ns)
    };
    // The listener may have ended after the socket was connected.
    met().map_err(|error: Error| Attempt { is_transient: may_pass(&error), error })
}

/// The listening side's half, on a socket that was accepted, at the listener's time `now_ns`.
///
/// # Errors
/// `Auth`: the peer is of another user than is asked for; it was told.
pub(super) fn open(
    socket: Socket,
    is_private: bool,
    options: Options,
    now_ns: u64,
) -> Result<Box<dyn Open>, Error> {
    check_peer(&socket, is_private, &options)?;
    let deadline_ns = options.handshake_deadline_ns(now_ns);
    let mut half_open = HalfOpen::accept(socket, &wishes(&options, deadline_ns), now_ns);
    half_open.wait_for_room(true);
    Ok(Box::new(Opening::new(Accepting { half_open, options }, deadline_ns, now_ns)))
}

/// A listening end until both agree.
struct Accepting {
    half_open: HalfOpen,
    options: Options,
}

impl Agree for Accepting {
    type Port = Shm;

    fn drive(mut self, now_ns: u64) -> Agreeing<Self> {
        match self.half_open.drive(now_ns) {
            Progress::Pending => Agreeing::Pending(self),
            Progress::Failed(HandshakeError::Nobody) => Agreeing::Nobody,
            Progress::Failed(error) => Agreeing::Failed(error.into()),
            Progress::Done(agreed) => match join(self.half_open.into_socket(), agreed, self.options, false) {
                Ok(joined) => Agreeing::Done(joined),
                Err(error) => Agreeing::Failed(error),
            },
        }
    }

    fn interests(&self) -> [PollFd<'_>; 2] {
        [self.half_open.interest(), PollFd::none()]
    }

    fn timeout_ns(&self) -> u64 {
        self.half_open.timeout_ns()
    }

    fn steps(&self) -> u32 {
        self.half_open.steps()
    }

    fn share_bytes(&self) -> u64 {
        self.half_open.share_bytes()
    }

    fn lacks(&self) -> Option<u64> {
        self.half_open.lacks()
    }

    fn refuse(&mut self) {
        self.half_open.wait_for_room(false);
    }
}

/// Wishes of an end for a handshake.
pub(super) const fn wishes(options: &Options, deadline_ns: u64) -> Wishes<'_> {
    Wishes { tuning: &options.tuning, landing_bytes_max: options.landing_bytes_max, deadline_ns }
}

/// The connection that was agreed on; `is_first`: this end begins to warm it up.
pub(super) fn join(
    socket: Socket,
    agreed: Agreed,
    options: Options,
    is_first: bool,
) -> Result<Joined<Shm>, Error> {
    let Agreed { mine, theirs, settled, fenced, share, serves } = agreed;
    let provisioned_bytes = share.bytes();
    let peer = socket.peer_cred().map_or(Peer::Unknown, Peer::Process);
    let attachment = Shm::attach(mine, theirs, settled.layout, socket, fenced, serves);
    let over = Over::new(Shm::new(), attachment, &settled, share, options)?;
    let description = Description {
        fabric: Shm::NAME,
        #[cfg(feature = "verbs")]
        device: None,
        settled,
        arrival_reason: arrival_reason(settled.config.arrival),
        provisioned_bytes,
    };
    Ok(Joined { over, warming: Warming::new::<Shm>(&settled, is_first), description, peer })
}

/// Plain flags need no reason but this; anything else somebody has asked for.
const fn arrival_reason(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::Flag => "shared memory keeps the order of stores",
        _ => "it was asked for",
    }
}

/// Checks that the peer is of the user who is asked for, before anything is sent. A peer of another is refused by name.
fn check_peer(socket: &Socket, is_private: bool, options: &Options) -> Result<(), Error> {
    let PeerCred { pid, uid, .. } = socket.peer_cred()?;
    let own = effective_uid();
    let wanted = options.peer_uid.unwrap_or(own);
    // A peer that is gone needs no answer.
    let refuse = |text: String| drop(socket.send(&Packet::refused(0, &Text::of(text)).0, None));
    if uid == wanted {
        if !is_ambiguous(uid) {
            return Ok(());
        }
        refuse(format!(
            "in its user namespace uid {uid} stands for many users, and it cannot tell who this is"
        ));
        return Err(ambiguous(pid, uid, options.peer_uid.is_some()));
    }
    refuse(format!("it takes peers of uid {wanted} only, and this process is of uid {uid}: see --peer-uid"));
    let remedy = match (options.peer_uid, is_private) {
        (Some(_), _) => format!("and uid {wanted} is asked for"),
        (None, true) => {
            format!("this process to uid {own}; between users use shm:PATH, with --peer-uid at both ends")
        }
        (None, false) => {
            format!("this process to uid {own}; if that user is meant, ask for it with --peer-uid {uid}")
        }
    };
    Err(Error::new(ErrorKind::Auth, format!("the peer, process {pid}, belongs to uid {uid}, {remedy}")))
}

/// Error of a peer whose uid stands for several users; `is_asked`: this uid was asked for.
fn ambiguous(pid: i32, uid: u32, is_asked: bool) -> Error {
    let whom = if is_asked { "that user" } else { "your user (unshare --map-root-user)" };
    let text = format!(
        "the peer, process {pid}, belongs to uid {uid}, which stands for every user who is not mapped into this user \
         namespace (see /proc/self/uid_map); map {whom} into it, \
         to another number, or name another user with --peer-uid"
    );
    Error::new(ErrorKind::Auth, text)
}
