//! Connecting and accepting over shared memory.

use superpipe_core::{Arrival, Protocol};

use superpipe_core::driver::setup::{Packet, Text};

use super::half_open::{FabricHandshake, HandshakeProgress, Opening, PendingConnection};
use super::new_connection::{NewConnection, ReadyConnection};
use super::retry::{ConnectFailure, may_pass};
use super::{Blocking, WarmingUp};
use crate::budget::MemoryKind;
use crate::description::{Description, Peer};
use crate::error::{Error, ErrorKind};
use crate::fabric::HostFabric;
use crate::fabric::shm::fabric::Shm;
use crate::fabric::shm::handshake::{self, HalfOpen, HandshakeError, Progress, ShmOptions};
use crate::fabric::shm::{PeerCred, ShmAddress, Socket};
use crate::metrics::Role;
use crate::options::Options;
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::os::poll::PollFd;
use crate::os::user::{effective_uid, is_ambiguous};

/// Longest wait for a place in a full backlog between two checks of the interrupt flag.
const SLICE_NS: u64 = 100_000_000;

/// Makes one attempt to connect. If the route `is_private`, the peer must belong to our own user.
pub(super) fn connect(
    address: &ShmAddress,
    is_private: bool,
    options: Options,
    deadline_ns: u64,
) -> Result<ReadyConnection, ConnectFailure> {
    let path =
        address.socket_path().map_err(|error| ConnectFailure { error: error.into(), is_transient: false })?;
    let socket =
        Socket::connect_within(&path, until(deadline_ns).min(SLICE_NS)).map_err(ConnectFailure::of_socket)?;
    let connect = || {
        check_peer(&socket, is_private, &options)?;
        let handshake_options = shm_options(&options, deadline_ns);
        let (socket, established) =
            handshake::connect(socket, &handshake_options, &|| options.is_interrupted())?;
        join(socket, established, options, true)?.warm_up(deadline_ns)
    };
    // The listener may have ended after the socket was connected.
    connect().map_err(|error: Error| ConnectFailure { is_transient: may_pass(&error), error })
}

/// Begins the handshake of the listening end on an accepted socket, at the listener's time `now_ns`.
///
/// # Errors
/// `Auth`: the peer belongs to another user than asked for, and was sent the reason.
pub(super) fn open(
    socket: Socket,
    is_private: bool,
    options: Options,
    now_ns: u64,
) -> Result<Box<dyn PendingConnection>, Error> {
    check_peer(&socket, is_private, &options)?;
    let deadline_ns = options.handshake_deadline_ns(now_ns);
    let mut half_open = HalfOpen::accept(socket, &shm_options(&options, deadline_ns), now_ns);
    half_open.wait_for_room(true);
    let handshake = ShmHandshake { half_open, options, is_first: false };
    Ok(Box::new(Opening::new(handshake, deadline_ns, now_ns)))
}

/// Begins one attempt to connect, without waiting. If the route `is_private`, the peer must belong to our own user.
pub(super) fn begin_connect(
    address: &ShmAddress,
    is_private: bool,
    options: Options,
    deadline_ns: u64,
) -> Result<Box<dyn PendingConnection>, ConnectFailure> {
    let path =
        address.socket_path().map_err(|error| ConnectFailure { error: error.into(), is_transient: false })?;
    let socket = Socket::connect(&path).map_err(ConnectFailure::of_socket)?;
    check_peer(&socket, is_private, &options)
        .map_err(|error| ConnectFailure { is_transient: may_pass(&error), error })?;
    let now_ns = monotonic_ns();
    let half_open = HalfOpen::connect(socket, &shm_options(&options, deadline_ns), now_ns);
    let handshake = ShmHandshake { half_open, options, is_first: true };
    Ok(Box::new(Opening::new(handshake, deadline_ns, now_ns)))
}

/// Handshake of either end. The one that connects sends the first message of the warm-up.
struct ShmHandshake {
    half_open: HalfOpen,
    options: Options,
    is_first: bool,
}

impl FabricHandshake for ShmHandshake {
    type Fabric = Shm;
    const MEMORY_KIND: MemoryKind = MemoryKind::Shared;

    fn drive(mut self, now_ns: u64) -> HandshakeProgress<Self> {
        match self.half_open.drive(now_ns) {
            Progress::Pending => HandshakeProgress::Pending(self),
            Progress::Failed(HandshakeError::Nobody) => HandshakeProgress::PeerGone,
            Progress::Failed(error) => HandshakeProgress::Failed(error.into()),
            Progress::Done(established) => {
                match join(self.half_open.into_socket(), established, self.options, self.is_first) {
                    Ok(connection) => HandshakeProgress::Done(connection),
                    Err(error) => HandshakeProgress::Failed(error),
                }
            }
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

/// Most bytes of the peer's buffers that a connection maps by the default protocol, so that a peer cannot fill the budget of an end that asked for nothing.
const AUTO_MAPPED_BYTES_MAX: u64 = 64 << 20;

/// Returns the options of a handshake.
pub(super) fn shm_options(options: &Options, deadline_ns: u64) -> ShmOptions<'_> {
    ShmOptions {
        tuning: &options.tuning,
        landing_bytes_max: options.landing_bytes_max,
        idle_timeout_ns: options.idle_timeout_ns(),
        memory_node: options.memory_node,
        deadline_ns,
    }
}

/// Makes the connection that was agreed on. `is_first`: this end sends the first message of the warm-up.
pub(super) fn join(
    socket: Socket,
    established: handshake::Established,
    options: Options,
    is_first: bool,
) -> Result<NewConnection<Shm>, Error> {
    let handshake::Established { segments, negotiated, fenced, share, serves, memory, peer_idle_timeout } =
        established;
    let provisioned_bytes = share.bytes() + segments.small_bytes();
    let peer = socket.peer_cred().map_or(Peer::Unknown, Peer::Process);
    let exposing = match negotiated.config.protocol {
        Protocol::RegisterCached => Some((&share, u64::MAX)),
        Protocol::Auto => Some((&share, AUTO_MAPPED_BYTES_MAX)),
        _ => None,
    };
    let attachment = Shm::attach(segments, negotiated.layout, socket, fenced, serves, exposing);
    let mut blocking = Blocking::new(Shm::new(), attachment, &negotiated, share, options)?;
    blocking.set_peer_idle_timeout(peer_idle_timeout);
    let arrival_reason = arrival_reason(negotiated.config.arrival);
    let description = Description::new(Shm::NAME, &negotiated, arrival_reason, provisioned_bytes, memory);
    let warming = WarmingUp::new::<Shm>(&negotiated, is_first);
    Ok(NewConnection { blocking, warming, description, peer, role: Role::of(is_first) })
}

/// Returns the reason for the arrival mode: every mode but plain flags was asked for.
const fn arrival_reason(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::Flag => "shared memory keeps the order of stores",
        _ => "it was asked for",
    }
}

/// Checks the peer's uid before anything is sent. Refuses a peer of another user, with the uid in the text.
fn check_peer(socket: &Socket, is_private: bool, options: &Options) -> Result<(), Error> {
    let PeerCred { pid, uid, .. } = socket.peer_cred()?;
    let own = effective_uid();
    let wanted = options.peer_uid.unwrap_or(own);
    // A peer that has ended needs no answer.
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
    refuse(format!(
        "it takes peers of uid {wanted} only, and this process is of uid {uid}: set peer_uid there to let it in"
    ));
    let remedy = match (options.peer_uid, is_private) {
        (Some(_), _) => format!("and uid {wanted} is asked for"),
        (None, true) => {
            format!("this process to uid {own}; between users use shm:PATH, with peer_uid at both ends")
        }
        (None, false) => {
            format!("this process to uid {own}; if that user is meant, ask for it with peer_uid {uid}")
        }
    };
    Err(Error::new(ErrorKind::Auth, format!("the peer, process {pid}, belongs to uid {uid}, {remedy}")))
}

/// Returns the error of a peer whose uid stands for several users. `is_asked`: this uid was asked for.
fn ambiguous(pid: u32, uid: u32, is_asked: bool) -> Error {
    let whom = if is_asked { "that user" } else { "your user (unshare --map-root-user)" };
    let text = format!(
        "the peer, process {pid}, belongs to uid {uid}, which stands for every user who is not mapped into this user \
         namespace (see /proc/self/uid_map); map {whom} into it, \
         to another number, or name another user with peer_uid"
    );
    Error::new(ErrorKind::Auth, text)
}
