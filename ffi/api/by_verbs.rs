//! Meeting a peer over RDMA.

use super::attempt::{Attempt, may_pass};
use super::connection::{Connection, Description};
use super::error::Error;
use super::opening::{Agree, Agreeing, Joined, Open, Opening};
use super::options::Options;
use super::over::{Over, Warming};
use super::peer::Peer;
use crate::os::poll::PollFd;
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
    // The listener may have ended after the handshake.
    join(met, options, true)
        .and_then(|joined| joined.warm_up(deadline_ns))
        .map_err(|error| Attempt { is_transient: may_pass(&error), error })
}

/// Begins with the next client that has asked, at the listener's time `now_ns`. `None` if none has, or if it went away.
pub(super) fn open(
    listener: &mut Listener,
    options: Options,
    now_ns: u64,
) -> Result<Option<Box<dyn Open>>, Error> {
    let deadline_ns = options.handshake_deadline_ns(now_ns);
    let Some(accepting) = listener.try_accept(&wishes(&options), deadline_ns, now_ns)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(Opening::new(Accepting { accepting, options }, deadline_ns, now_ns))))
}

/// A listening end until both agree.
struct Accepting {
    accepting: rdma::Accepting,
    options: Options,
}

impl Agree for Accepting {
    type Port = Rdma;

    fn drive(self, now_ns: u64) -> Agreeing<Self> {
        let Self { accepting, options } = self;
        match accepting.drive(now_ns) {
            rdma::Accepted::Pending(accepting) => Agreeing::Pending(Self { accepting, options }),
            rdma::Accepted::Nobody => Agreeing::Nobody,
            rdma::Accepted::Failed(error) => Agreeing::Failed(error.into()),
            rdma::Accepted::Done(met) => match join(met, options, false) {
                Ok(joined) => Agreeing::Done(joined),
                Err(error) => Agreeing::Failed(error),
            },
        }
    }

    fn interests(&self) -> [PollFd<'_>; 2] {
        self.accepting.interests()
    }

    fn timeout_ns(&self) -> u64 {
        self.accepting.timeout_ns()
    }

    fn steps(&self) -> u32 {
        self.accepting.steps()
    }

    fn share_bytes(&self) -> u64 {
        self.accepting.share_bytes()
    }

    fn lacks(&self) -> Option<u64> {
        self.accepting.lacks()
    }

    fn refuse(&mut self) {
        self.accepting.refuse();
    }
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

/// Returns true if the error means that this host has no RDMA, or none for this user.
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

/// The connection that was agreed on; `is_first`: this end begins to warm it up.
fn join(met: Met, options: Options, is_first: bool) -> Result<Joined<Rdma>, Error> {
    let Met { port, attachment, settled, arrival_reason, device, share, peer } = met;
    let provisioned_bytes = share.bytes();
    let over = Over::new(port, attachment, &settled, share, options)?;
    let description =
        Description { fabric: Rdma::NAME, device: Some(device), settled, arrival_reason, provisioned_bytes };
    let warming = Warming::new::<Rdma>(&settled, is_first);
    Ok(Joined { over, warming, description, peer: Peer::Host(peer) })
}
