//! The passive side: an address where others connect.

use super::cm::Cm;
use super::connect::{Met, Wishes, unexpected};
use super::error::ConnectError;
use super::greeting::Greeting;
use super::handshake::{self, Patience};
use super::place::{PORTS, Place, addresses, is_absent, is_taken, listen, listen_at_all};
use super::route::Route;
use super::wire::Wire;
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::os::owner::Owner;
use crate::verbs::{CmEvent, CmEventKind, Error, EventChannel};
use core::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

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

    /// Accepts whoever has asked, with a handshake until `deadline_ns`. None: nobody has, or who did went away.
    ///
    /// # Errors
    /// [`ConnectError`], of this one connection; the next call goes on with the next. Or of listening again after a device went
    /// away, but for there being none.
    pub fn try_accept(
        &mut self,
        wishes: &Wishes<'_>,
        deadline_ns: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Met>, ConnectError> {
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
        match accept(event, &self.route, wishes, &Patience { deadline_ns, interrupted }) {
            Err(ConnectError::Lost(_)) => Ok(None),
            met => met.map(Some).map_err(ConnectError::or_limit),
        }
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

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
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
    let (wire, agreed) = handshake::accept(wire, wishes, patience)?;
    Met::of(wire, agreed, peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::Tuning;
    use crate::verbs::fake::{CmKind, answer, begin, calls, channel, script};

    const HERE: &str = "192.0.2.1:7471";

    fn listener(addresses: &[&str]) -> Listener {
        begin();
        let addresses: Vec<SocketAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
        Listener::of(channel(), &addresses, Route::default()).unwrap()
    }

    fn look(listener: &mut Listener) -> Result<(), ConnectError> {
        let tuning = Tuning::default();
        let wishes = Wishes { tuning: &tuning, landing_bytes_max: 1 << 20, route: Route::default() };
        listener.again_ns = 0;
        let met = listener.try_accept(&wishes, monotonic_ns() + 20_000_000_000, &|| false)?;
        assert!(met.is_none());
        Ok(())
    }

    /// rdma_cm tells that the device of the first address is gone.
    fn removed(listener: &mut Listener) {
        let number = listener.places[0].id.as_ref().unwrap().number();
        script(|script| {
            script.about = number;
            script.events = vec![(CmKind::RDMA_CM_EVENT_DEVICE_REMOVAL, 0)];
        });
        look(listener).unwrap();
    }

    #[test]
    fn the_backlog_is_no_short_one() {
        listener(&[HERE]);
        assert_eq!(script(|script| script.backlogs.clone()), [128]);
    }

    #[test]
    fn a_device_that_comes_back_is_listened_at_again() {
        let mut listener = listener(&[HERE]);
        assert_eq!(listener.why_deaf(), None);
        calls();
        removed(&mut listener);
        assert!(calls().contains(&"rdma_destroy_id"), "the id keeps the device");
        for errno in [libc::ENODEV, libc::EADDRNOTAVAIL] {
            answer("rdma_bind_addr", errno);
            look(&mut listener).unwrap();
            assert!(calls().contains(&"rdma_get_devices"), "librdmacm lets go of the device");
            assert_eq!(listener.why_deaf().as_deref(), Some("the RDMA device of 192.0.2.1 is gone"));
        }
        answer("rdma_bind_addr", 0);
        calls();
        look(&mut listener).unwrap();
        assert!(calls().contains(&"rdma_listen"));
        assert_eq!((listener.why_deaf(), listener.local_addr()), (None, HERE.parse().ok()));
        calls();
        look(&mut listener).unwrap();
        assert!(!calls().contains(&"rdma_listen"), "it does listen");
        removed(&mut listener);
        assert!(listener.why_deaf().is_some(), "and again");
    }

    #[test]
    fn what_else_keeps_it_from_listening_again_is_an_error() {
        let mut listener = listener(&[HERE]);
        removed(&mut listener);
        answer("rdma_bind_addr", libc::EADDRINUSE);
        let told = look(&mut listener).unwrap_err().to_string();
        assert!(told.contains("another process listens there"), "{told}");
        answer("rdma_bind_addr", 0);
        look(&mut listener).unwrap();
        assert_eq!(listener.why_deaf(), None);
    }

    #[test]
    fn another_device_or_id_is_not_ours() {
        let mut listener = listener(&[HERE]);
        script(|script| {
            script.about = usize::MAX;
            script.events = vec![(CmKind::RDMA_CM_EVENT_DEVICE_REMOVAL, 0)];
        });
        look(&mut listener).unwrap();
        assert_eq!(listener.why_deaf(), None);
    }

    #[test]
    fn beside_ipv4_every_ipv6_address_is_only_that() {
        const AFONLY: i32 = 2;
        for (addresses, options) in
            [(&["0.0.0.0:7", "[::]:7"][..], &[(AFONLY, 1)][..]), (&["[::]:7"], &[]), (&["0.0.0.0:7"], &[])]
        {
            listener(addresses);
            assert_eq!(script(|script| script.options.clone()), options);
        }
    }

    fn bind_beside(taken: &str, addresses: &[&str]) -> Result<Listener, ConnectError> {
        begin();
        script(|script| script.bound = vec![taken.parse().unwrap()]);
        let addresses: Vec<SocketAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
        Listener::of(channel(), &addresses, Route::default())
    }

    #[test]
    fn a_port_that_another_has_is_taken_whichever_of_the_two_is_a_wildcard() {
        for (taken, addresses) in [
            ("192.0.2.1:7", &["192.0.2.1:7"][..]),
            ("0.0.0.0:7", &["192.0.2.1:7"]),
            ("192.0.2.1:7", &["0.0.0.0:7"]),
            ("0.0.0.0:7", &["0.0.0.0:7"]),
            ("0.0.0.0:7", &["0.0.0.0:7", "[::]:7"]),
            ("[fd00::1]:7", &["0.0.0.0:7", "[::]:7"]),
            ("[::]:7", &["0.0.0.0:7", "[::]:7"]),
            ("[::]:7", &["[fd00::1]:7"]),
        ] {
            let error = bind_beside(taken, addresses).unwrap_err();
            assert!(is_taken(&error), "{addresses:?} beside {taken}: {error}");
            assert!(
                error.to_string().contains("another process listens there: take another port"),
                "{error}"
            );
        }
        for (taken, addresses) in [
            ("192.0.2.1:7", &["192.0.2.2:7"][..]),
            ("0.0.0.0:8", &["0.0.0.0:7", "[::]:7"]),
            ("0.0.0.0:7", &["[fd00::1]:7", "[fd00::2]:7"]),
        ] {
            bind_beside(taken, addresses).unwrap();
        }
    }

    #[test]
    fn an_address_of_no_device_is_not_taken() {
        for errno in [libc::EADDRNOTAVAIL, libc::ENODEV] {
            begin();
            answer("rdma_bind_addr", errno);
            let error = Listener::of(channel(), &[HERE.parse().unwrap()], Route::default()).unwrap_err();
            assert!(is_absent(&error), "{error}");
        }
    }

    #[test]
    fn a_port_of_the_kernels_choice_is_free_at_every_address() {
        begin();
        script(|script| {
            script.bound = vec!["[fd00::1]:41000".parse().unwrap(), "[::]:41001".parse().unwrap()];
            script.free_ports = [41_000, 41_001, 41_002, 41_003].into();
        });
        let addresses = ["0.0.0.0:0", "[::]:0"].map(|it| it.parse().unwrap());
        let listener = Listener::of(channel(), &addresses, Route::default()).unwrap();
        let bound: Vec<String> = listener.places.iter().map(|place| place.address.to_string()).collect();
        assert_eq!(bound, ["0.0.0.0:41003", "[::]:41003"]);
    }

    #[test]
    fn a_port_that_another_took_meanwhile_is_no_device_that_is_gone() {
        let mut listener = listener(&["0.0.0.0:7"]);
        removed(&mut listener);
        script(|script| script.bound = vec!["192.0.2.9:7".parse().unwrap()]);
        let told = look(&mut listener).unwrap_err().to_string();
        assert!(told.contains("another process listens there"), "{told}");
    }
}
