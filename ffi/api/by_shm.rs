//! Meeting a peer over shared memory.

use superpipe_core::Arrival;

use super::connection::{Attempt, Connection, Description, Inner};
use super::deadline::Deadline;
use super::error::{Error, ErrorKind};
use super::options::Options;
use super::over::{Over, Warming};
use super::peer::Peer;
use crate::port::Port;
use crate::shm::fabric::Shm;
use crate::shm::handshake::{self, Agreed, HandshakeError, Wishes};
use crate::shm::{ConnectError, ShmAddress, Socket};

/// One attempt to connect. Where it `is_private`, the peer must be of our own user.
pub(super) fn connect(
    address: &ShmAddress,
    is_private: bool,
    options: Options,
    deadline_ns: u64,
) -> Result<Connection, Attempt> {
    let path = address.socket_path().map_err(|error| Attempt { error: error.into(), is_transient: false })?;
    let socket = Socket::connect(&path).map_err(|error| {
        let is_transient =
            matches!(error, ConnectError::NotFound(_) | ConnectError::Refused(_) | ConnectError::Busy(_));
        Attempt { error: error.into(), is_transient }
    })?;
    let met = || {
        check_peer(&socket, is_private)?;
        let wishes = wishes(&options, deadline_ns);
        let (socket, agreed) = handshake::connect(socket, &wishes, &|| options.is_interrupted())?;
        join(socket, agreed, options, Some((true, deadline_ns)))
    };
    // Whoever listens may have ended between the two.
    met().map_err(|error: Error| Attempt { is_transient: error.kind() == ErrorKind::PeerLost, error })
}

/// The listening side's half, on a socket that was accepted. `None`: whoever it was went away without a word.
pub(super) fn accept(
    socket: Socket,
    is_private: bool,
    options: Options,
) -> Result<Option<Connection>, Error> {
    check_peer(&socket, is_private)?;
    let deadline_ns = Deadline::from(options.handshake_timeout).at_ns();
    let interrupted = || options.is_interrupted();
    let (socket, agreed) = match handshake::accept(socket, &wishes(&options, deadline_ns), &interrupted) {
        Err(HandshakeError::Nobody) => return Ok(None),
        met => met?,
    };
    join(socket, agreed, options, Some((false, deadline_ns))).map(Some)
}

/// What an end brings along to a handshake.
pub(super) const fn wishes(options: &Options, deadline_ns: u64) -> Wishes<'_> {
    Wishes { tuning: &options.tuning, landing_bytes_max: options.landing_bytes_max, deadline_ns }
}

/// The connection that was agreed on; `warm`: whether to begin with warming it up, and until when, where it is to be warm.
pub(super) fn join(
    socket: Socket,
    agreed: Agreed,
    options: Options,
    warm: Option<(bool, u64)>,
) -> Result<Connection, Error> {
    let Agreed { mine, theirs, settled, fenced, share, serves } = agreed;
    let provisioned_bytes = share.bytes();
    let peer = socket.peer_cred().map_or(Peer::Unknown, Peer::Process);
    let attachment = Shm::attach(mine, theirs, settled.layout, socket, fenced, serves);
    let mut over = Over::new(Shm::new(), attachment, &settled, share, options)?;
    if let Some((is_first, deadline_ns)) = warm {
        over.warm_up(Warming::new::<Shm>(&settled, is_first), Deadline::at_time(deadline_ns))?;
    }
    let description = Description {
        fabric: Shm::NAME,
        #[cfg(feature = "verbs")]
        device: None,
        settled,
        arrival_reason: arrival_reason(settled.config.arrival),
        provisioned_bytes,
    };
    Ok(Connection::new(Inner::Shm(over), description, peer))
}

/// Plain flags need no reason but this; anything else somebody has asked for.
const fn arrival_reason(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::Flag => "shared memory keeps the order of stores",
        _ => "it was asked for",
    }
}

/// On a port of this host both ends belong to one user.
fn check_peer(socket: &Socket, is_private: bool) -> Result<(), Error> {
    let peer = socket.peer_cred()?;
    // SAFETY: takes nothing, gives a number, and cannot fail.
    let own = unsafe { libc::geteuid() };
    if is_private && peer.uid != own {
        return Err(Error::new(
            ErrorKind::Auth,
            format!(
                "the peer belongs to user {}, this process to user {own}; between users use shm:PATH, \
                 and let the other open that socket",
                peer.uid
            ),
        ));
    }
    Ok(())
}
