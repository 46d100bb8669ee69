//! The passive side: an address where others connect.

use super::cm::Cm;
use super::connect::{Met, Wishes, unexpected};
use super::error::ConnectError;
use super::greeting::Greeting;
use super::handshake::{self, Patience};
use super::route::Route;
use super::wire::Wire;
use crate::os::owner::Owner;
use crate::os::{monotonic_ns, resolve};
use crate::verbs::{CmEvent, CmEventKind, CmId, Error, EventChannel};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Requests that the kernel holds for us until they are accepted; its own limit is net.rdma_ucm.max_backlog, 1024. What is more
/// is reset on iWARP, and dropped elsewhere until the peer's CM asks again after 4.3 s.
const BACKLOG: u16 = 128;
/// A name that one listens at is this host's own, and known here.
const LOOKUP_NS: u64 = 5_000_000_000;

/// A place where others can connect. Dropped, it is gone.
#[derive(Debug)]
pub struct Listener {
    channel: EventChannel,
    ids: Vec<CmId>,
    route: Route,
    owner: Owner,
}

impl Listener {
    /// Listens at the host's address, or where `host` is empty at every address, or at the one that the route names.
    ///
    /// # Errors
    /// There is no device, the address is not of this host or of no device, or another listens there.
    pub fn bind(host: &str, port: u16, route: Route) -> Result<Self, ConnectError> {
        let channel = EventChannel::create()?;
        let mut ids = Vec::new();
        let mut refused = None;
        for address in addresses(host, port, &route)? {
            match listen(&channel, address) {
                Ok(id) => ids.push(id),
                // A host without IPv6, or whose IPv6 socket takes IPv4 as well.
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            Some(error) if ids.is_empty() => Err(error),
            _ => {
                crate::verbs::DeviceList::get()?.iter().next().ok_or(Error::NoDevice)?;
                Ok(Self { channel, ids, route, owner: Owner::current() })
            }
        }
    }

    /// Where it listens, the first of its addresses.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.ids.first()?.local_addr()
    }

    /// Accepts whoever has asked, with a handshake until `deadline_ns`. None: nobody has, or who did went away.
    ///
    /// # Errors
    /// [`ConnectError`], of this one connection; the next call goes on with the next.
    pub fn try_accept(
        &mut self,
        wishes: &Wishes<'_>,
        deadline_ns: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Met>, ConnectError> {
        let Some(event) = self.channel.try_event()? else { return Ok(None) };
        if event.kind != CmEventKind::CONNECT_REQUEST {
            return Ok(None);
        }
        match accept(event, &self.route, wishes, &Patience { deadline_ns, interrupted }) {
            Err(ConnectError::Lost(_)) => Ok(None),
            met => met.map(Some),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // What a child of fork destroys is destroyed for the parent.
            core::mem::forget(core::mem::take(&mut self.ids));
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

fn addresses(host: &str, port: u16, route: &Route) -> Result<Vec<SocketAddr>, ConnectError> {
    let any = || {
        [
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
        ]
    };
    let named = if host.is_empty() {
        any().to_vec()
    } else {
        resolve(host, port, monotonic_ns() + LOOKUP_NS, &|| false)?
    };
    if *route == Route::default() {
        return Ok(named);
    }
    // A device is chosen by one of its addresses.
    let mut refused = None;
    for address in &named {
        match route.source(address.ip()) {
            Ok(Some(mut source)) if host.is_empty() || source.ip() == address.ip() => {
                source.set_port(port);
                return Ok(vec![source]);
            }
            Ok(_) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| {
        ConnectError::NotFound(format!(
            "{host} is not an address of the device or GID that was asked for; leave one out"
        ))
    }))
}

fn listen(channel: &EventChannel, address: SocketAddr) -> Result<CmId, ConnectError> {
    let mut id = CmId::create(channel)?;
    id.bind(address)?;
    id.listen(BACKLOG)?;
    Ok(id)
}

fn accept(
    event: CmEvent,
    route: &Route,
    wishes: &Wishes<'_>,
    patience: &Patience<'_>,
) -> Result<Met, ConnectError> {
    let Some(mut id) = event.request else {
        return Err(unexpected(CmEventKind::CONNECT_REQUEST, event.kind));
    };
    let channel = EventChannel::create()?;
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
    let agreed = handshake::accept(&mut wire, wishes.tuning, wishes.landing_bytes_max, patience)?;
    Met::of(wire, agreed, peer)
}
