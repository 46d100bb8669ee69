//! The passive side: an address where others connect.

use super::cm::Cm;
use super::connect::{Met, unexpected};
use super::error::ConnectError;
use super::greeting::Greeting;
use super::handshake::{HalfOpen, Progress};
use super::place::{PORTS, Place, addresses, is_absent, is_taken, listen, listen_at_all};
use super::route::Route;
use super::wire::Wire;
use super::wishes::Wishes;
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::os::owner::Owner;
use crate::os::poll::PollFd;
use crate::verbs::{CmEvent, CmEventKind, Error, EventChannel};
use core::net::SocketAddr;
use std::os::fd::AsFd;

/// Between two attempts to listen again where a device went away.
const AGAIN_NS: u64 = 100_000_000;
/// A place where others can connect. Dropped, it is gone.
///
/// An address whose device goes away is listened at again as soon as a device has it.
#[derive(Debug)]
pub struct Listener {
    channel: EventChannel,
    places: Vec<Place>,
    route: Route,
    /// Time of the next attempt to listen where there is no id.
    again_ns: u64,
    owner: Owner,
}

impl Listener {
    /// Listens at the host's address, or where `host` is empty at every address, or at the one that the route names.
    ///
    /// # Errors
    /// There is no device, the address is not of this host or of no device, or another listens there.
    pub fn bind(host: &str, port: u16, route: Route) -> Result<Self, ConnectError> {
        let bind = || {
            let listener = Self::of(EventChannel::create()?, &addresses(host, port, &route)?, route)?;
            crate::verbs::DeviceList::get()?.iter().next().ok_or(Error::NoDevice)?;
            Ok(listener)
        };
        bind().map_err(ConnectError::or_limit)
    }

    fn of(channel: EventChannel, addresses: &[SocketAddr], route: Route) -> Result<Self, ConnectError> {
        let mut ports = PORTS;
        loop {
            match listen_at_all(&channel, addresses) {
                Err(error) if ports > 1 && is_taken(&error) && addresses.iter().all(|it| it.port() == 0) => {
                    ports -= 1;
                }
                places => {
                    return Ok(Self {
                        channel,
                        places: places?,
                        route,
                        again_ns: 0,
                        owner: Owner::current(),
                    });
                }
            }
        }
    }

    /// Where it listens, the first of its addresses.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        Some(self.places.first()?.address)
    }

    /// Text that names an address whose device is gone; it is listened at again once the device is back.
    #[must_use]
    pub fn why_deaf(&self) -> Option<String> {
        let place = self.places.iter().find(|place| place.id.is_none())?;
        Some(format!("the RDMA device of {} is gone", place.address.ip()))
    }

    /// Accepts whoever has asked, without waiting: the handshake, until `deadline_ns`, begins at `now_ns`. None: nobody has, or
    /// who did went away.
    ///
    /// # Errors
    /// [`ConnectError`], of this one connection; the next call goes on with the next. Or of listening again after a device went
    /// away, but for there being none.
    pub fn try_accept(
        &mut self,
        wishes: &Wishes<'_>,
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
                self.forget(event.id);
                return Ok(None);
            }
            // Later events of requests that nobody has accepted yet.
            _ => return Ok(None),
        }
        match accept(event, &self.route, &self.channel) {
            Err(ConnectError::Lost(_)) => Ok(None),
            accepted => {
                let (wire, peer) = accepted.map_err(ConnectError::or_limit)?;
                let half_open = Box::new(HalfOpen::accept(wire, wishes, deadline_ns, now_ns));
                Ok(Some(Accepting { half_open, peer }))
            }
        }
    }

    /// Descriptor that is readable when a client has asked. None in a child of fork, which accepts nobody.
    #[must_use]
    pub fn interest(&self) -> PollFd<'_> {
        if self.owner.is_current() { PollFd::new(self.channel.as_fd(), libc::POLLIN) } else { PollFd::none() }
    }

    /// The id of this number is of a device that is gone, and holds that: it is destroyed.
    fn forget(&mut self, number: usize) {
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
            // Objects that a child of fork destroys are destroyed for the parent.
            core::mem::forget(core::mem::take(&mut self.places));
        }
    }
}

/// A connection that rdma_cm has accepted, and both ends are agreeing on.
pub struct Accepting {
    half_open: Box<HalfOpen>,
    peer: SocketAddr,
}

/// How far it is.
#[expect(clippy::large_enum_variant, reason = "the large one ends it, once")]
pub enum Accepted {
    /// It waits for its [`interests`](Accepting::interests), or for [`timeout_ns`](Accepting::timeout_ns).
    Pending(Accepting),
    /// Both ends agreed.
    Done(Met),
    /// Whoever it was went away, or said nothing.
    Nobody,
    /// There is no connection; the peer was told where that made sense.
    Failed(ConnectError),
}

impl Accepting {
    /// Goes as far as it can without waiting.
    #[must_use]
    pub fn drive(mut self, now_ns: u64) -> Accepted {
        let failed = match self.half_open.drive(now_ns) {
            Progress::Pending => return Accepted::Pending(self),
            Progress::Failed(error) => error,
            Progress::Done(agreed) => match Met::of(self.half_open.into_wire(), agreed, self.peer) {
                Ok(met) => return Accepted::Done(met),
                Err(error) => error,
            },
        };
        match failed {
            ConnectError::Lost(_) => Accepted::Nobody,
            error => Accepted::Failed(error.or_limit()),
        }
    }

    /// What to poll for while it is pending.
    #[must_use]
    pub fn interests(&self) -> [PollFd<'_>; 2] {
        self.half_open.interests()
    }

    /// Time at which to drive it at the latest.
    #[must_use]
    pub fn timeout_ns(&self) -> u64 {
        self.half_open.timeout_ns()
    }

    /// Count of packets that took it a step further.
    pub(crate) const fn steps(&self) -> u32 {
        self.half_open.steps()
    }

    /// Bytes of its share of the budget.
    pub(crate) fn share_bytes(&self) -> u64 {
        self.half_open.share_bytes()
    }

    /// Bytes that the budget has no room for. Driven again, it takes them if there is.
    pub(crate) fn lacks(&self) -> Option<u64> {
        self.half_open.lacks()
    }

    /// Has it refused, where it waits for room in the budget.
    pub(crate) const fn refuse(&mut self) {
        self.half_open.refuse();
    }
}

/// Accepts a request, as far as rdma_cm goes.
fn accept(
    event: CmEvent,
    route: &Route,
    listening: &EventChannel,
) -> Result<(Wire, SocketAddr), ConnectError> {
    let Some(mut id) = event.request else {
        return Err(unexpected(CmEventKind::CONNECT_REQUEST, event.kind));
    };
    let channel = listening.another()?;
    id.migrate(&channel)?;
    let mut cm = Cm::new(channel, id);
    let greeting = Greeting::decode(&event.private_data)
        .map_err(ConnectError::from)
        .and_then(|greeting| route.check(&cm.context()?.name()).map(|()| greeting));
    let theirs = match greeting {
        Ok(Greeting { mtu }) => mtu,
        Err(error) => {
            cm.reject(&Greeting { mtu: None }.encode());
            return Err(error);
        }
    };
    let peer = cm.peer_addr().ok_or(ConnectError::Lost("while connecting"))?;
    let mut wire = Wire::new(cm)?;
    let ours = Greeting { mtu: wire.mtu()? }.encode();
    wire.make_ready(theirs)?;
    wire.accept(&ours)?;
    // ESTABLISHED is not waited for: what it stands for can be lost on RoCE, and is then told again only seconds later. The
    // peer's HELLO says as much.
    Ok((wire, peer))
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "listener_ports_tests.rs"]
mod ports_tests;
