//! Meeting a peer over RDMA.

use super::connection::{Attempt, Connection, Description, Inner};
use super::deadline::Deadline;
use super::error::{Error, ErrorKind};
use super::options::Options;
use super::over::{Over, Warming};
use super::peer::Peer;
use crate::port::Port;
use crate::rdma::{self, ConnectError, Listener, Met, Rdma, Wishes};
use crate::verbs;

/// One attempt to connect.
pub(super) fn connect(
    host: &str,
    port: u16,
    options: Options,
    deadline_ns: u64,
) -> Result<Connection, Attempt> {
    let interrupted = || options.is_interrupted();
    let met = rdma::connect(host, port, &wishes(&options), deadline_ns, &interrupted);
    let met = met.map_err(|error| Attempt { is_transient: error.is_transient(), error: error.into() })?;
    // Whoever listens may have ended between the two.
    join(met, options, true, deadline_ns)
        .map_err(|error| Attempt { is_transient: error.kind() == ErrorKind::PeerLost, error })
}

/// Takes a connection that is there. `None`: there is none, or whoever it was went away without a word.
pub(super) fn accept(listener: &mut Listener, options: Options) -> Result<Option<Connection>, Error> {
    let deadline_ns = Deadline::from(options.handshake_timeout).at_ns();
    let met = listener.try_accept(&wishes(&options), deadline_ns, &|| options.is_interrupted())?;
    met.map(|met| join(met, options, false, deadline_ns)).transpose()
}

/// Listens; an error of its own where this host merely cannot.
///
/// # Errors
/// What is not for lack of a device.
pub(super) fn listen(host: &str, port: u16, options: &Options) -> Result<Result<Listener, Error>, Error> {
    match Listener::bind(host, port, options.route) {
        Err(error) if is_for_lack_of_a_device(&error) => Ok(Err(error.into())),
        listener => Ok(Ok(listener?)),
    }
}

/// Whether this host has no RDMA, or none for this user.
fn is_for_lack_of_a_device(error: &ConnectError) -> bool {
    match error {
        ConnectError::Verbs(verbs::Error::NoDevice | verbs::Error::Library(_)) => true,
        ConnectError::Verbs(verbs::Error::Verb(error)) => matches!(
            error.errno(),
            libc::ENODEV | libc::ENOSYS | libc::ENOENT | libc::EACCES | libc::EPERM | libc::EADDRNOTAVAIL
        ),
        _ => false,
    }
}

const fn wishes(options: &Options) -> Wishes<'_> {
    Wishes { tuning: &options.tuning, landing_bytes_max: options.landing_bytes_max, route: options.route }
}

/// The connection that was agreed on, warm; `is_first`: this end begins with that.
fn join(met: Met, options: Options, is_first: bool, deadline_ns: u64) -> Result<Connection, Error> {
    let Met { port, attachment, settled, arrival_reason, device, share, peer } = met;
    let provisioned_bytes = share.bytes();
    let mut over = Over::new(port, attachment, &settled, share, options)?;
    over.warm_up(Warming::new::<Rdma>(&settled, is_first), Deadline::at_time(deadline_ns))?;
    let description =
        Description { fabric: Rdma::NAME, device: Some(device), settled, arrival_reason, provisioned_bytes };
    Ok(Connection::new(Inner::Verbs(over), description, Peer::Host(peer)))
}
