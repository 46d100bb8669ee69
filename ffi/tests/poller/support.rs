//! A server of one thread, and its clients.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

use superpipe::{
    Address, Connection, Key, Options, PollEvent, PollEvents, Poller, PollerOptions, TryRecv, TrySend,
};

/// Ten times as long as a test takes on a busy host.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Returns an address at which nobody listens, or any free port of the RDMA device whose address SUPERPIPE_RDMA is (vm/tests/pollers).
pub(crate) fn address() -> Address {
    if let Ok(host) = std::env::var("SUPERPIPE_RDMA") {
        return Address::Rdma { host, port: 0 };
    }
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("superpipe-poller-{}-{number}.sock", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    Address::Shm(path)
}

/// Makes a poller that listens.
pub(crate) fn server(options: PollerOptions) -> (Poller, Key, Address) {
    server_of(options, Options::default())
}

/// The same, with options of its connections.
pub(crate) fn server_of(options: PollerOptions, connections: Options) -> (Poller, Key, Address) {
    let mut poller = Poller::new(options).unwrap();
    let listener = poller.listen(&address(), connections).unwrap();
    let address = poller.local_addr(listener).unwrap().clone();
    (poller, listener, address)
}

/// Connects in a thread.
pub(crate) fn client<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    address: &Address,
    work: impl FnOnce(Connection) -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let address = address.clone();
    scope.spawn(move || work(Connection::connect(&address, Options::default(), DEADLINE).unwrap()))
}

/// Polls until `step` has returned true, once per event.
pub(crate) fn poll_until(poller: &mut Poller, mut step: impl FnMut(&mut Poller, PollEvent) -> bool) {
    let until = Instant::now() + DEADLINE;
    let mut events = PollEvents::with_capacity(16);
    loop {
        poller.poll(&mut events, until).unwrap();
        assert!(Instant::now() < until, "nothing more happens: {poller:?}");
        for (at, event) in events.iter().enumerate() {
            assert!(events.iter().skip(at + 1).all(|other| other != event), "twice: {events:?}");
            if step(poller, event) {
                return;
            }
        }
    }
}

/// Serves clients that want their messages back, until so many have ended. Returns how many there were at a time, at most.
pub(crate) fn serve(poller: &mut Poller, clients: usize) -> usize {
    serve_prepared(poller, clients, |_| {})
}

/// The same, and prepares each connection when it is accepted.
pub(crate) fn serve_prepared(
    poller: &mut Poller,
    clients: usize,
    mut prepare: impl FnMut(&mut Connection),
) -> usize {
    let mut room = vec![0; 64 << 10];
    let (mut ended, mut most) = (0, 0);
    poll_until(poller, |poller, event| {
        most = most.max(poller.connection_count());
        match event {
            PollEvent::Accepted { connection, .. } => prepare(poller.connection(connection).unwrap()),
            PollEvent::Readable { connection } => {
                echo(poller.connection(connection).unwrap(), &mut room);
            }
            PollEvent::Ended { connection } => {
                poller.remove(connection);
                ended += 1;
            }
            _ => {}
        }
        ended == clients
    });
    most
}

/// Answers the messages of a connection that are here with the same bytes. Returns their number.
pub(crate) fn echo(connection: &mut Connection, room: &mut [u8]) -> usize {
    echo_some(connection, room, usize::MAX)
}

/// The same, of so many messages at most: the answer to one may bring the next.
pub(crate) fn echo_some(connection: &mut Connection, room: &mut [u8], most: usize) -> usize {
    let mut count = 0;
    while count < most
        && let Ok(TryRecv::Received(received)) = connection.try_recv(&mut [&mut *room])
    {
        let sent = connection.try_send(received.tag, &[&room[..received.bytes]]).unwrap();
        assert_eq!(sent, TrySend::Sent);
        count += 1;
    }
    count
}

/// Sends a message, and expects the same bytes back.
pub(crate) fn ping(connection: &mut Connection, bytes: usize, value: u8) {
    let message = vec![value; bytes];
    connection.send(7, &[&message], DEADLINE).unwrap();
    let mut answer = vec![!value; bytes];
    let received = connection.recv_into(&mut [&mut answer], DEADLINE).unwrap();
    assert!(received.bytes == bytes && received.tag == 7 && answer == message);
}
