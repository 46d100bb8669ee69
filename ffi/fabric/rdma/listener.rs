//! The passive side: addresses where clients connect.

use super::cm::Cm;
use super::connect::{Established, unexpected};
use super::connection::RdmaConnection;
use super::device::RdmaDevice;
use super::error::ConnectError;
use super::handshake::{HalfOpen, Progress};
use super::listen_address::{
    ListenAddress, PORT_ATTEMPTS, addresses, is_absent, is_taken, listen, listen_at_all,
};
use super::options::RdmaOptions;
use super::private_data::PrivateData;
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::os::owner::Owner;
use crate::os::poll::PollFd;
use core::net::SocketAddr;
use std::os::fd::AsFd;
use superpipe_verbs::{CmEvent, CmEventKind, Error, EventChannel};

/// Interval of attempts to listen again after a device was removed. An attempt makes a few system calls.
const AGAIN_NS: u64 = 100_000_000;

/// A listener. Dropping it stops listening.
///
/// If the device of an address is removed, it listens there again as soon as a device has the address.
#[derive(Debug)]
pub struct Listener {
    channel: EventChannel,
    places: Vec<ListenAddress>,
    device: RdmaDevice,
    /// Time of the next attempt to listen at addresses without an id.
    again_ns: u64,
    owner: Owner,
}

impl Listener {
    /// Listens at the addresses of `host`, at every address if `host` is empty, or at those of the device that is named.
    ///
    /// # Errors
    /// There is no device, the address is not of this host or of no device, or another process listens there.
    pub fn bind(host: &str, port: u16, device: RdmaDevice) -> Result<Self, ConnectError> {
        let bind = || {
            let listener = Self::of(EventChannel::create()?, &addresses(host, port, &device)?, device)?;
            superpipe_verbs::DeviceList::get()?.iter().next().ok_or(Error::NoDevice)?;
            Ok(listener)
        };
        bind().map_err(ConnectError::or_limit)
    }

    fn of(channel: EventChannel, addresses: &[SocketAddr], device: RdmaDevice) -> Result<Self, ConnectError> {
        let mut ports = PORT_ATTEMPTS;
        loop {
            match listen_at_all(&channel, addresses) {
                Err(error) if ports > 1 && is_taken(&error) && addresses.iter().all(|it| it.port() == 0) => {
                    ports -= 1;
                }
                places => {
                    return Ok(Self {
                        channel,
                        places: places?,
                        device,
                        again_ns: 0,
                        owner: Owner::current(),
                    });
                }
            }
        }
    }

    /// Returns the first address that it listens at.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        Some(self.places.first()?.address)
    }

    /// Returns a text that names an address whose device was removed.
    #[must_use]
    pub fn removed_device(&self) -> Option<String> {
        let place = self.places.iter().find(|place| place.id.is_none())?;
        Some(format!("the RDMA device of {} is gone", place.address.ip()))
    }

    /// Accepts a connection request without waiting. Its handshake begins at `now_ns` and has until `deadline_ns`. Returns none if
    /// there is no request, or if its client went away.
    ///
    /// # Errors
    /// [`ConnectError`] of this request; the next call takes the next one. Or of listening again after a device was removed, unless
    /// the cause is that there is none.
    pub fn try_accept(
        &mut self,
        options: &RdmaOptions<'_>,
        deadline_ns: u64,
        now_ns: u64,
    ) -> Result<Option<Accepting>, ConnectError> {
        // Parent and child of a fork share the channel: an event that the child takes out never reaches the parent.
        if !self.owner.is_current() {
            return Ok(None);
        }
        self.listen_again()?;
        let Some(event) = self.channel.try_event()? else { return Ok(None) };
        match event.kind {
            CmEventKind::CONNECT_REQUEST => {}
            CmEventKind::DEVICE_REMOVAL => {
                self.drop_id(event.id);
                return Ok(None);
            }
            // Later events of requests that were not accepted yet.
            _ => return Ok(None),
        }
        match accept(event, &self.device, options, &self.channel) {
            Err(ConnectError::Lost(_)) => Ok(None),
            accepted => {
                let (connection, peer) = accepted.map_err(ConnectError::or_limit)?;
                let half_open = Box::new(HalfOpen::accept(connection, options, deadline_ns, now_ns));
                Ok(Some(Accepting { half_open, peer }))
            }
        }
    }

    /// Returns the descriptor that is readable when there is a request. None in a child of fork, which accepts nobody.
    #[must_use]
    pub fn interest(&self) -> PollFd<'_> {
        if self.owner.is_current() { PollFd::new(self.channel.as_fd(), libc::POLLIN) } else { PollFd::none() }
    }

    /// Destroys the id of this number, whose device was removed: the id holds the device.
    fn drop_id(&mut self, number: usize) {
        for place in &mut self.places {
            place.id.take_if(|id| id.number() == number);
        }
    }

    fn listen_again(&mut self) -> Result<(), ConnectError> {
        let is_alone = self.places.len() == 1;
        let mut lost = self.places.iter_mut().filter(|place| place.id.is_none()).peekable();
        if lost.peek().is_none() || until(self.again_ns) > 0 {
            return Ok(());
        }
        self.again_ns = monotonic_ns() + AGAIN_NS;
        self.channel.close_lost_devices();
        for place in lost {
            match listen(&self.channel, place.address, is_alone) {
                Ok(id) => place.id = Some(id),
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // Objects that a child of fork destroys are destroyed for the parent as well.
            core::mem::forget(core::mem::take(&mut self.places));
        }
    }
}

/// A connection that rdma_cm has accepted, and whose handshake goes on.
pub struct Accepting {
    half_open: Box<HalfOpen>,
    peer: SocketAddr,
}

/// Progress of an [`Accepting`].
#[expect(clippy::large_enum_variant, reason = "the large one ends it, once")]
pub enum Accepted {
    /// It waits for its [`interests`](Accepting::interests), or for [`timeout_ns`](Accepting::timeout_ns).
    Pending(Accepting),
    /// The connection is established.
    Done(Established),
    /// The client went away, or sent nothing.
    Nobody,
    /// The handshake failed; the peer was informed if possible.
    Failed(ConnectError),
}

impl Accepting {
    /// Goes as far as it can without waiting.
    #[must_use]
    pub fn drive(mut self, now_ns: u64) -> Accepted {
        let failed = match self.half_open.drive(now_ns) {
            Progress::Pending => return Accepted::Pending(self),
            Progress::Failed(error) => error,
            Progress::Done(agreed) => {
                match Established::of(self.half_open.into_connection(), agreed, self.peer) {
                    Ok(established) => return Accepted::Done(established),
                    Err(error) => error,
                }
            }
        };
        match failed {
            ConnectError::Lost(_) => Accepted::Nobody,
            error => Accepted::Failed(error.or_limit()),
        }
    }

    /// Returns the descriptors to poll while it is pending.
    #[must_use]
    pub fn interests(&self) -> [PollFd<'_>; 2] {
        self.half_open.interests()
    }

    /// Returns the time at which to drive it at the latest.
    #[must_use]
    pub fn timeout_ns(&self) -> u64 {
        self.half_open.timeout_ns()
    }

    /// Returns the count of packets that took it a step further.
    pub(crate) const fn steps(&self) -> u32 {
        self.half_open.steps()
    }

    /// Returns the bytes of its share of the budget.
    pub(crate) fn share_bytes(&self) -> u64 {
        self.half_open.share_bytes()
    }

    /// Returns the bytes that the budget has no room for. The next `drive` takes them if there is.
    pub(crate) fn lacks(&self) -> Option<u64> {
        self.half_open.lacks()
    }

    /// Has the next `drive` refuse the peer if the budget still has no room.
    pub(crate) const fn refuse(&mut self) {
        self.half_open.refuse();
    }
}

/// Accepts a request at the level of rdma_cm.
fn accept(
    event: CmEvent,
    device: &RdmaDevice,
    options: &RdmaOptions<'_>,
    listening: &EventChannel,
) -> Result<(RdmaConnection, SocketAddr), ConnectError> {
    let Some(mut id) = event.request else {
        return Err(unexpected(CmEventKind::CONNECT_REQUEST, event.kind));
    };
    let channel = listening.another()?;
    id.migrate(&channel)?;
    let mut cm = Cm::new(channel, id);
    let private_data = PrivateData::decode(&event.private_data)
        .map_err(ConnectError::from)
        .and_then(|private_data| device.check(&cm.context()?.name()).map(|()| private_data));
    let peer_mtu = match private_data {
        Ok(PrivateData { mtu }) => mtu,
        Err(error) => {
            cm.reject(&PrivateData { mtu: None }.encode());
            return Err(error);
        }
    };
    let peer = cm.peer_addr().ok_or(ConnectError::Lost("while connecting"))?;
    let mut connection = RdmaConnection::new(cm, options.memory_node, options.shards)?;
    let ours = PrivateData { mtu: connection.mtu()? }.encode();
    connection.make_ready(peer_mtu, options.ack_timeout)?;
    connection.accept(&ours)?;
    // Not waiting for ESTABLISHED: its message can be lost on RoCE, and is repeated only seconds later. The peer's HELLO proves as
    // much.
    Ok((connection, peer))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod ports_tests;
