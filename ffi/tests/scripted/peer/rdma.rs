//! Set-up of a connection by the peer over RDMA (wire.md 10).

use core::cell::{RefCell, RefMut};
use core::net::SocketAddr;
use core::time::Duration;
use std::rc::Rc;
use std::time::Instant;

use superpipe_verbs::{CmEvent, CmEventKind, CmId, ConnectParams, Error, EventChannel, Qp};

use super::entry::Entry;
use super::link::Link;
use super::mail::{Mail, Post};
use super::packets::{Fabric, Layout, PACKET_BYTES};
use super::process::give_up;
use super::script::{Carry, Kind, Role, Step};
use super::{PATIENCE, wait};

/// A connection request's, and its answer's, private data (wire.md 10.1).
const GREETING: [u8; 16] = *b"SUPRPIPE\x06\0\0\0\0\0\0\0";
/// HELLO is said again (wire.md 10.2).
const AGAIN: Duration = Duration::from_millis(300);
const STEP_MS: u32 = 2000;
const BACKLOG: u16 = 16;

/// Ids of rdma_cm with their queue pairs.
pub(super) struct Verbs {
    address: SocketAddr,
    listener: Option<(CmId, EventChannel)>,
    /// Stay open; the last is the one that is used.
    posts: Vec<Rc<RefCell<Post>>>,
    /// The last packet that was sent, where that is a HELLO.
    hello: Option<Vec<u8>>,
    layout: Option<Layout>,
}

impl Verbs {
    pub(super) fn new(role: Role, address: SocketAddr) -> Self {
        let listener = (role == Role::Listens).then(|| {
            let channel = EventChannel::create().unwrap();
            let mut id = CmId::create(&channel).unwrap();
            id.bind(address).unwrap();
            id.listen(BACKLOG).unwrap();
            (id, channel)
        });
        Self { address, listener, posts: vec![], hello: None, layout: None }
    }

    /// The connection that is used, once it carries SENDs.
    fn post(&self) -> RefMut<'_, Post> {
        let mut post = self.posts.last().unwrap().borrow_mut();
        post.settle();
        post
    }
}

impl Entry for Verbs {
    fn fabric(&self) -> Fabric {
        Fabric::Rdma
    }

    /// Asks, and does not wait for the answer, which may never come.
    fn connect(&mut self) {
        let channel = EventChannel::create().unwrap();
        let mut id = CmId::create(&channel).unwrap();
        id.resolve_addr(None, self.address, STEP_MS).unwrap();
        expect(&channel, CmEventKind::ADDR_RESOLVED);
        id.resolve_route(STEP_MS).unwrap();
        expect(&channel, CmEventKind::ROUTE_RESOLVED);
        let mut post = Post::new(id, channel);
        post.ask();
        self.posts.push(Rc::new(RefCell::new(post)));
    }

    fn accept(&mut self) {
        let (_, events) = self.listener.as_ref().unwrap();
        loop {
            let channel = EventChannel::create().unwrap();
            let mut id = expect(events, CmEventKind::CONNECT_REQUEST).request.unwrap();
            id.migrate(&channel).unwrap();
            let mut post = Post::new(id, channel);
            if post.admit().is_ok() {
                return self.posts.push(Rc::new(RefCell::new(post)));
            }
        }
    }

    fn accept_and_close(&mut self) {
        self.accept();
        self.close();
    }

    fn send(&mut self, bytes: &[u8], carry: Carry, layout: Option<Layout>) {
        self.layout = layout;
        let mut packet = bytes.to_vec();
        match carry {
            Carry::Nothing => {}
            Carry::Segment | Carry::Sparse => self.post().grant(&mut packet, layout.unwrap()),
            _ => unreachable!("a packet carries no descriptors: {carry:?}"),
        }
        self.post().send(&packet);
        self.hello = (bytes.len() == PACKET_BYTES && bytes[10] == Kind::Hello as u8).then_some(packet);
    }

    fn receive(&mut self, layout: Option<Layout>) -> [u8; PACKET_BYTES] {
        let mut again = Instant::now() + AGAIN;
        let packet = wait("a packet", || {
            let mut post = self.post();
            if let Some(hello) = self.hello.as_ref().filter(|_| Instant::now() > again) {
                post.send(hello);
                again = Instant::now() + AGAIN;
            }
            let packet = post.packet();
            if packet.is_none() && post.is_over() {
                give_up();
            }
            packet
        });
        self.hello = None;
        self.layout = match Kind::Welcome as u8 {
            welcome if packet[10] == welcome => Some(Layout::of_welcome(&packet, Fabric::Rdma)),
            _ => layout,
        };
        packet
    }

    fn wake(&mut self) {
        self.post().wake();
    }

    fn close(&mut self) {
        self.posts.iter().for_each(|post| post.borrow_mut().disconnect());
    }

    fn link(&mut self) -> Box<dyn Link> {
        self.post().make_image(self.layout.unwrap());
        Box::new(Mail(self.posts.last().unwrap().clone()))
    }

    fn own_step(&mut self, step: Step) {
        match step {
            Step::FailQp => self.post().qp.fail().unwrap(),
            Step::Stray => self.post().stray(),
            _ => unreachable!("a step of another fabric: {step:?}"),
        }
    }
}

pub(super) fn params(qp: &Qp) -> ConnectParams<'static> {
    ConnectParams { qp_number: qp.number(), private_data: &GREETING, retries: 7, rnr_retries: 6 }
}

/// Waits for this event.
fn expect(channel: &EventChannel, due: CmEventKind) -> CmEvent {
    let event = next(channel);
    assert_eq!(event.kind, due, "{}", event.kind);
    event
}

/// Waits for an event.
pub(super) fn next(channel: &EventChannel) -> CmEvent {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match channel.next_event(deadline) {
            Err(Error::Interrupted) => {}
            event => return event.unwrap(),
        }
    }
}
