//! Two ends of a connection over rdma_cm, in two threads.

use core::net::{IpAddr, SocketAddr};
use core::ptr;
use core::time::Duration;
use std::thread;
use std::time::Instant;
use superpipe_verbs::{
    Access, CmEvent, CmEventKind, CmId, CompChannel, ConnectParams, Cq, Error, EventChannel, Mr, Pages, Pd,
    Qp, QpConfig, QpState, RemoteAddr, Rkey, Wc,
};

pub(crate) const BYTES: usize = 256 << 10;
/// Capacities of a QP in these tests; siw has no inline data.
pub(crate) const CONFIG: QpConfig = QpConfig { send_depth: 16, receive_depth: 16, inline_bytes: 0 };

/// One end. The order of its fields is not the order of destruction, which ownership decides.
pub(crate) struct End {
    pub(crate) channel: EventChannel,
    pub(crate) events: CompChannel,
    pub(crate) cq: Cq,
    pub(crate) pd: Pd,
    pub(crate) id: CmId,
    pub(crate) mr: Mr,
    pub(crate) qp: Qp,
    pub(crate) peer: RemoteAddr,
}

/// Ten times what any step takes in a guest.
pub(crate) fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Goes on after interruptions.
pub(crate) fn until<T>(mut wait: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match wait() {
            Err(Error::Interrupted) => {}
            ended => return ended,
        }
    }
}

fn expect(channel: &EventChannel, due: CmEventKind) -> Result<CmEvent, Error> {
    let deadline = deadline();
    until(|| channel.expect(due, deadline))
}

/// A listener.
pub(crate) struct Listening {
    channel: EventChannel,
    _listener: CmId,
    pub(crate) address: SocketAddr,
}

impl Listening {
    pub(crate) fn new(ip: IpAddr) -> Self {
        let channel = EventChannel::create().unwrap();
        let mut listener = CmId::create(&channel).unwrap();
        listener.bind(SocketAddr::new(ip, 0)).unwrap();
        listener.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(address.ip(), ip);
        assert_ne!(address.port(), 0);
        Self { channel, _listener: listener, address }
    }

    /// Waits for the next request.
    pub(crate) fn request(&self) -> CmEvent {
        expect(&self.channel, CmEventKind::CONNECT_REQUEST).unwrap()
    }
}

/// An id that has found a device and the route to `to`.
pub(crate) fn resolved(to: SocketAddr) -> Result<(EventChannel, CmId), Error> {
    let channel = EventChannel::create()?;
    let mut id = CmId::create(&channel)?;
    id.set_type_of_service(0)?;
    id.set_ack_timeout(14)?;
    id.resolve_addr(None, to, 2000)?;
    let event = expect(&channel, CmEventKind::ADDR_RESOLVED)?;
    assert_eq!(event.id, id.number());
    id.resolve_route(2000)?;
    expect(&channel, CmEventKind::ROUTE_RESOLVED)?;
    Ok((channel, id))
}

/// Returns connected ends, first the one that connected.
pub(crate) fn pair(ip: IpAddr) -> (End, End) {
    let place = Listening::new(ip);
    let address = place.address;
    thread::scope(|scope| {
        let active = scope.spawn(move || active(address).unwrap());
        let passive = passive(&place);
        (active.join().unwrap(), passive)
    })
}

/// Connects.
pub(crate) fn active(to: SocketAddr) -> Result<End, Error> {
    let (channel, id) = resolved(to)?;
    assert_eq!(id.peer_addr(), Some(to));
    let mut end = End::new(channel, id);
    end.id.connect(params(end.qp.number(), &end.own_memory()))?;
    let deadline = deadline();
    let event = until(|| end.channel.next_event(deadline))?;
    if event.kind == CmEventKind::CONNECT_RESPONSE {
        end.make_ready();
        end.id.establish()?;
    } else if let Some(failure) = event.failure() {
        return Err(Error::Connection(failure));
    } else {
        assert_eq!(event.kind, CmEventKind::ESTABLISHED);
    }
    end.set_peer(&event.private_data);
    Ok(end)
}

/// Accepts.
pub(crate) fn passive(place: &Listening) -> End {
    let event = place.request();
    let mut id = event.request.unwrap();
    let channel = EventChannel::create().unwrap();
    id.migrate(&channel).unwrap();
    let mut end = End::new(channel, id);
    end.set_peer(&event.private_data);
    end.make_ready();
    end.id.accept(params(end.qp.number(), &end.own_memory())).unwrap();
    expect(&end.channel, CmEventKind::ESTABLISHED).unwrap();
    end
}

pub(crate) fn params(qp_number: u32, private_data: &[u8]) -> ConnectParams<'_> {
    ConnectParams { qp_number, private_data, retries: 7, rnr_retries: 7 }
}

impl End {
    fn new(channel: EventChannel, id: CmId) -> Self {
        let context = id.context().unwrap();
        context.port(id.port_number()).unwrap().check_active(&context.name()).unwrap();
        let pd = Pd::alloc(&context).unwrap();
        let events = CompChannel::create(&context).unwrap();
        let cq = Cq::create(&context, 64, Some(&events)).unwrap();
        let mr = Mr::register(&pd, Pages::map(BYTES).unwrap(), Access::RemoteWrite).unwrap();
        let mut qp = Qp::create(&pd, &cq, &cq, CONFIG).unwrap();
        assert!(qp.granted().send_depth >= CONFIG.send_depth);
        qp.modify(&id.qp_attr(QpState::Init).unwrap()).unwrap();
        qp.post_receive(1000, mr.sge(0, 4096)).unwrap();
        Self { channel, events, cq, pd, id, mr, qp, peer: RemoteAddr { addr: 0, rkey: Rkey(0) } }
    }

    /// To INIT with what the peer may do, which rdma_cm knows only now; to RTR with what the connection needs; to RTS.
    fn make_ready(&mut self) {
        self.qp.modify(&self.id.qp_attr(QpState::Init).unwrap()).unwrap();
        let attr = self.id.qp_attr(QpState::ReadyToReceive).unwrap().with_rnr_timer(12);
        self.qp.modify(&attr).unwrap();
        let attr = self.id.qp_attr(QpState::ReadyToSend).unwrap().with_ack_timeout(14);
        self.qp.modify(&attr).unwrap();
    }

    fn own_memory(&self) -> [u8; 12] {
        let mut said = [0; 12];
        said[..8].copy_from_slice(&self.mr.remote_addr().to_le_bytes());
        said[8..].copy_from_slice(&self.mr.rkey().0.to_le_bytes());
        said
    }

    fn set_peer(&mut self, said: &[u8]) {
        let addr = u64::from_le_bytes(said[..8].try_into().unwrap());
        let rkey = Rkey(u32::from_le_bytes(said[8..12].try_into().unwrap()));
        self.peer = RemoteAddr { addr, rkey };
    }

    /// The place `at` in the peer's region.
    pub(crate) fn there(&self, at: u64) -> RemoteAddr {
        RemoteAddr { addr: self.peer.addr + at, ..self.peer }
    }

    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.mr.len());
        // SAFETY: the range is inside the region, and no write of the peer is under way.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.mr.as_ptr().as_ptr().add(at), bytes.len()) }
    }

    pub(crate) fn take(&self, at: usize, bytes: usize) -> Vec<u8> {
        assert!(at + bytes <= self.mr.len());
        let mut taken = vec![0; bytes];
        // SAFETY: the range is inside the region, and no write of the peer is under way.
        unsafe { ptr::copy_nonoverlapping(self.mr.as_ptr().as_ptr().add(at), taken.as_mut_ptr(), bytes) };
        taken
    }

    /// Waits for `count` completions or more, asleep.
    pub(crate) fn completions(&self, count: usize) -> Vec<Wc> {
        let (mut got, mut some, deadline) = (Vec::new(), [Wc::default(); 4], deadline());
        while got.len() < count {
            self.cq.request_notify().unwrap();
            let polled = self.cq.poll(&mut some).unwrap();
            got.extend_from_slice(&some[..polled]);
            if polled == 0 {
                let event = until(|| self.events.next_event(deadline)).unwrap();
                assert!(self.cq.is_source_of(event));
            }
        }
        got
    }
}
