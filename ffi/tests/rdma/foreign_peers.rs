//! Peers that do not speak superpipe, or speak another version, made with rdma_cm alone.

use crate::api::{DEADLINE, address_of, listen};
use crate::{addresses, devices};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use std::{env, thread};
use superpipe::fabric::shm::handshake::VERSION;
use superpipe::{Address, Connection, ErrorKind, Options};
use superpipe_verbs::{
    CmEvent, CmEventKind, CmId, ConnectParams, Cq, Error, EventChannel, Pd, Qp, QpConfig, QpState, Transport,
};

const CONFIG: QpConfig = QpConfig { send_depth: 4, receive_depth: 4, inline_bytes: 0 };

/// Private data of superpipe of this version. wire.md 10.1.
pub(crate) fn private_data(version: u16) -> Vec<u8> {
    let mut bytes = b"SUPRPIPE".to_vec();
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.resize(16, 0);
    bytes
}

/// Private data of foreign peers, with the error that both ends report.
pub(crate) fn words() -> [(Vec<u8>, ErrorKind, &'static str); 3] {
    let mut reserved = private_data(VERSION);
    reserved[15] = 1;
    [
        (private_data(9), ErrorKind::Version, "speaks version 9 of the protocol, this is version 6"),
        (vec![0x55; 40], ErrorKind::Protocol, "does not speak superpipe"),
        (reserved, ErrorKind::Protocol, "reserved bytes are not zero"),
    ]
}

pub(crate) fn next(channel: &EventChannel) -> CmEvent {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match channel.next_event(deadline) {
            Err(Error::Interrupted) => {}
            event => return event.unwrap(),
        }
    }
}

/// A QP that nothing is posted to, since iWARP needs one to connect.
fn idle_qp(id: &CmId) -> Qp {
    let context = id.context().unwrap();
    let pd = Pd::alloc(&context).unwrap();
    let cq = Cq::create(&context, 16, None).unwrap();
    let mut qp = Qp::create(&pd, &cq, &cq, CONFIG).unwrap();
    qp.modify(&id.qp_attr(QpState::Init).unwrap()).unwrap();
    qp
}

pub(crate) fn params<'data>(qp: &Qp, private_data: &'data [u8]) -> ConnectParams<'data> {
    ConnectParams { qp_number: qp.number(), private_data, retries: 7, rnr_retries: 7 }
}

/// An id with a resolved route, and the channel of its events.
pub(crate) fn resolved(to: SocketAddr) -> (EventChannel, CmId) {
    let channel = EventChannel::create().unwrap();
    let mut id = CmId::create(&channel).unwrap();
    id.resolve_addr(None, to, 2000).unwrap();
    assert_eq!(next(&channel).kind, CmEventKind::ADDR_RESOLVED);
    id.resolve_route(2000).unwrap();
    assert_eq!(next(&channel).kind, CmEventKind::ROUTE_RESOLVED);
    (channel, id)
}

/// A client that requests a connection. Dropping it ends the connection.
pub(crate) struct Asking {
    _id: CmId,
    _qp: Qp,
    _channel: EventChannel,
}

/// Requests a connection as superpipe does, without waiting.
pub(crate) fn ask(to: SocketAddr) -> Asking {
    let (channel, mut id) = resolved(to);
    let qp = idle_qp(&id);
    id.connect(params(&qp, &private_data(VERSION))).unwrap();
    Asking { _id: id, _qp: qp, _channel: channel }
}

/// Connects with this private data and is refused; returns the private data of the refusal.
pub(crate) fn connect_and_be_refused(to: SocketAddr, says: &[u8]) -> Vec<u8> {
    let (channel, mut id) = resolved(to);
    let qp = idle_qp(&id);
    id.connect(params(&qp, says)).unwrap();
    let event = next(&channel);
    assert_eq!(event.kind, CmEventKind::REJECTED);
    event.private_data
}

/// Answers a client with these bytes; returns the port.
pub(crate) fn answer(ip: IpAddr, says: &[u8], connecting: impl FnOnce(u16)) {
    let channel = EventChannel::create().unwrap();
    let mut place = CmId::create(&channel).unwrap();
    place.bind(SocketAddr::new(ip, 0)).unwrap();
    place.listen(4).unwrap();
    let port = place.local_addr().unwrap().port();
    thread::scope(|scope| {
        scope.spawn(|| {
            let event = next(&channel);
            assert_eq!(event.kind, CmEventKind::CONNECT_REQUEST);
            let mut id = event.request.unwrap();
            let mut qp = idle_qp(&id);
            qp.modify(&id.qp_attr(QpState::ReadyToReceive).unwrap()).unwrap();
            qp.modify(&id.qp_attr(QpState::ReadyToSend).unwrap()).unwrap();
            id.accept(params(&qp, says)).unwrap();
            // The client may be gone, or may never have come.
            let _ = channel.next_event(Instant::now() + Duration::from_secs(20));
        });
        connecting(port);
    });
}

#[test]
fn a_listener_refuses_foreign_clients_and_goes_on() {
    for ip in addresses() {
        let mut listener = listen(ip, Options::default());
        let to = listener.rdma_addr().unwrap();
        let address = address_of(&listener);
        thread::scope(|scope| {
            let knocking = scope.spawn(move || words().map(|(says, ..)| connect_and_be_refused(to, &says)));
            for (says, kind, words) in words() {
                let error = listener.accept(DEADLINE).map(|_| ()).unwrap_err();
                assert_eq!(error.kind(), kind, "{says:?}: {error}");
                assert!(error.to_string().contains(words), "{error}");
            }
            for text in knocking.join().unwrap() {
                assert!(
                    text.starts_with(&private_data(VERSION)[..10]),
                    "a refusal says our version: {text:?}"
                );
            }
            let accepting = scope.spawn(move || listener.accept(DEADLINE).map(drop));
            drop(Connection::connect(&address, Options::default(), DEADLINE).unwrap());
            accepting.join().unwrap().unwrap();
        });
    }
}

#[test]
fn a_client_that_leaves_early_is_no_error() {
    for ip in addresses() {
        let mut listener = listen(ip, Options::default());
        let (_channel, mut id) = resolved(listener.rdma_addr().unwrap());
        if id.context().unwrap().transport() == Transport::Iwarp {
            // The driver connects in one call, which ends with the answer.
            continue;
        }
        let qp = idle_qp(&id);
        id.connect(params(&qp, &private_data(VERSION))).unwrap();
        // The request is there, and its client is gone.
        thread::sleep(Duration::from_millis(300));
        drop(id);
        thread::sleep(Duration::from_millis(300));
        let address = address_of(&listener);
        thread::scope(|scope| {
            let accepting = scope.spawn(move || listener.accept(DEADLINE).map(drop));
            let connected = Connection::connect(&address, Options::default(), DEADLINE).map(drop);
            accepting.join().unwrap().unwrap();
            connected.unwrap();
        });
    }
}

/// Ten times as long as an honest client takes beside silent ones in a guest, and less than the silent ones take one after the other.
const BESIDE_SILENT_CLIENTS: Duration = Duration::from_secs(20);
/// Handshakes that a listener makes at a time.
const SILENT_COUNT: usize = 16;
/// Address of the listener for the silent clients. If it is set, this process runs them.
const SILENT_CLIENTS: &str = "SUPERPIPE_SILENT_CLIENTS";
/// Line that their process prints once all have sent their request.
const ASKED: &str = "the silent clients have sent their requests";

/// Silent clients in a process of their own: libsiw has room for some 48 small queue pairs in one. Dropping kills them.
struct SilentClients(Child);

impl SilentClients {
    /// Starts them, and returns once all have sent their request.
    fn start(test: &str, to: SocketAddr) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(SILENT_CLIENTS, to.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut says = BufReader::new(child.stdout.take().unwrap()).lines();
        let silent = Self(child);
        assert!(
            says.any(|line| line.unwrap().contains(ASKED)),
            "the silent clients ended before all had sent a request"
        );
        silent
    }

    /// Runs the clients in their process, until the parent is gone.
    fn ask_for(to: &str) {
        let to = to.parse().unwrap();
        let _silent: Vec<_> = (0..SILENT_COUNT).map(|_| ask(to)).collect();
        println!("{ASKED}");
        // Only the end of the file comes.
        let _ = io::stdin().read(&mut [0]);
    }
}

impl Drop for SilentClients {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn silent_clients_delay_no_other_client() {
    if let Ok(to) = env::var(SILENT_CLIENTS) {
        return SilentClients::ask_for(&to);
    }
    for ip in devices() {
        let options = Options { handshake_timeout: Duration::from_secs(3600), ..Options::default() };
        let mut listener = listen(ip, options);
        let (to, address) = (listener.rdma_addr().unwrap(), address_of(&listener));
        thread::scope(|scope| {
            let accepting = scope.spawn(move || (listener.accept(DEADLINE).map(drop), listener));
            let silent = SilentClients::start("foreign_peers::silent_clients_delay_no_other_client", to);
            let connected =
                Connection::connect(&address, Options::default(), BESIDE_SILENT_CLIENTS).map(drop);
            assert!(connected.is_ok(), "{ip}: {}", connected.unwrap_err());
            accepting.join().unwrap().0.unwrap();
            drop(silent);
        });
    }
}

#[test]
fn foreign_listeners_are_refused_by_name() {
    for ip in addresses() {
        for (says, kind, words) in words() {
            answer(ip, &says, |port| {
                let address = Address::Rdma { host: ip.to_string(), port };
                let error =
                    Connection::connect(&address, Options::default(), DEADLINE).map(|_| ()).unwrap_err();
                assert_eq!(error.kind(), kind, "{ip} {says:?}: {error}");
                assert!(error.to_string().contains(words), "{error}");
            });
        }
    }
}
