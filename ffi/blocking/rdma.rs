//! Connecting and accepting over RDMA.

use super::half_open::{FabricHandshake, HandshakeProgress, Opening, PendingConnection};
use super::new_connection::{NewConnection, ReadyConnection};
use super::retry::{ConnectFailure, may_pass};
use super::{Blocking, WarmingUp};
use crate::budget::MemoryKind;
use crate::description::{Description, Peer};
use crate::error::Error;
use crate::fabric::rdma::{self, ConnectError, Listener, Rdma, RdmaOptions};
use crate::fabric::{HostFabric, Shards};
use crate::metrics::Role;
use crate::options::Options;
use crate::os::poll::PollFd;
use superpipe_verbs as verbs;

/// Makes one attempt to connect.
pub(super) fn connect(
    host: &str,
    port: u16,
    options: Options,
    shards: Option<&Shards>,
    deadline_ns: u64,
) -> Result<ReadyConnection, ConnectFailure> {
    let interrupted = || options.is_interrupted();
    let met = rdma::connect(host, port, &rdma_options(&options, shards), deadline_ns, &interrupted);
    let met =
        met.map_err(|error| ConnectFailure { is_transient: error.is_transient(), error: error.into() })?;
    // The listener may have ended after the handshake.
    join(met, options, true)
        .and_then(|connection| connection.warm_up(deadline_ns))
        .map_err(|error| ConnectFailure { is_transient: may_pass(&error), error })
}

/// Begins the handshake with the next client, at the listener's time `now_ns`. Returns `None` if there is none, or if it ended.
pub(super) fn open(
    listener: &mut Listener,
    options: Options,
    shards: Option<&Shards>,
    now_ns: u64,
) -> Result<Option<Box<dyn PendingConnection>>, Error> {
    let deadline_ns = options.handshake_deadline_ns(now_ns);
    let Some(accepting) = listener.try_accept(&rdma_options(&options, shards), deadline_ns, now_ns)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(Opening::new(RdmaHandshake { accepting, options }, deadline_ns, now_ns))))
}

/// Handshake of the listening end.
struct RdmaHandshake {
    accepting: rdma::Accepting,
    options: Options,
}

impl FabricHandshake for RdmaHandshake {
    type Fabric = Rdma;
    const MEMORY_KIND: MemoryKind = MemoryKind::Registered;

    fn drive(self, now_ns: u64) -> HandshakeProgress<Self> {
        let Self { accepting, options } = self;
        match accepting.drive(now_ns) {
            rdma::Accepted::Pending(accepting) => HandshakeProgress::Pending(Self { accepting, options }),
            rdma::Accepted::Nobody => HandshakeProgress::PeerGone,
            rdma::Accepted::Failed(error) => HandshakeProgress::Failed(error.into()),
            rdma::Accepted::Done(met) => match join(met, options, false) {
                Ok(connection) => HandshakeProgress::Done(connection),
                Err(error) => HandshakeProgress::Failed(error),
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

/// Listens. The inner error is the lack of a device.
///
/// # Errors
/// Every other failure.
pub(super) fn listen(host: &str, port: u16, options: &Options) -> Result<Result<Listener, Error>, Error> {
    match Listener::bind(host, port, options.rdma_device) {
        Err(error) if is_for_lack_of_a_device(&error) => Ok(Err(error.into())),
        listener => Ok(Ok(listener?)),
    }
}

/// Returns true if the error means that this host has no RDMA, or none for this user.
fn is_for_lack_of_a_device(error: &ConnectError) -> bool {
    match error {
        ConnectError::Verbs(verbs::Error::NoDevice | verbs::Error::Library(_)) => true,
        error => matches!(
            error.errno(),
            Some(
                libc::ENODEV | libc::ENOSYS | libc::ENOENT | libc::EACCES | libc::EPERM | libc::EADDRNOTAVAIL
            )
        ),
    }
}

fn rdma_options<'a>(options: &'a Options, shards: Option<&'a Shards>) -> RdmaOptions<'a> {
    RdmaOptions {
        tuning: &options.tuning,
        landing_bytes_max: options.landing_bytes_max,
        idle_timeout_ns: options.idle_timeout_ns(),
        device: options.rdma_device,
        ack_timeout: options.rdma_ack_timeout,
        memory_node: options.memory_node,
        shards: shards.map(Shards::rdma),
    }
}

/// Makes the connection that was agreed on. `is_first`: this end sends the first message of the warm-up.
fn join(
    established: rdma::Established,
    options: Options,
    is_first: bool,
) -> Result<NewConnection<Rdma>, Error> {
    let rdma::Established {
        mut fabric,
        attachment,
        negotiated,
        arrival_reason,
        device,
        share,
        provisioned_bytes,
        receive_bytes,
        memory,
        peer,
        peer_idle_timeout,
    } = established;
    // SAFETY: the option promises the same.
    unsafe { fabric.trust_peer(options.peer_trust.is_declared()) };
    let mut blocking = Blocking::new(fabric, attachment, &negotiated, share, options)?;
    blocking.set_peer_idle_timeout(peer_idle_timeout);
    let description = Description::new(Rdma::NAME, &negotiated, arrival_reason, provisioned_bytes, memory);
    let description = Description { device: Some(device), receive_bytes, ..description };
    let warming = WarmingUp::new::<Rdma>(&negotiated, is_first);
    Ok(NewConnection { blocking, warming, description, peer: Peer::Host(peer), role: Role::of(is_first) })
}

#[cfg(test)]
mod tests {
    use super::{Options, rdma_options};
    use crate::fabric::rdma::AckTimeout;

    #[test]
    fn the_ack_timeout_is_that_of_the_options() {
        let options = Options { rdma_ack_timeout: AckTimeout::MAX, ..Options::default() };
        assert_eq!(rdma_options(&options, None).ack_timeout, AckTimeout::MAX);
    }
}
