//! A server that sends every message back to a hundred clients, in one thread.
//!
//! ```text
//! server                 the server and a hundred clients, in one process
//! server serve ADDR      a server for other processes, until it is killed: ADDR is shm:PATH, localhost:PORT or verbs:HOST:PORT
//! ```
//!
//! `cargo run --release --example server`

use core::error::Error;
use core::ops::Range;
use core::time::Duration;
use std::collections::HashMap;
use std::thread;

use superpipe::{
    Address, Connection, Drive, Interest, Key, Length, Options, PollEvent, PollEvents, Poller, PollerOptions,
    Reason, RecvOperation, SendOperation,
};

/// Deadline of a client's calls.
const DEADLINE: Duration = Duration::from_secs(30);
/// Longest message that the server takes, and the reason given to a client whose message is longer, or has no length.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;
const TOO_LONG: Reason = Reason(1);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => demo(),
        ["serve", address] => serve(&address.parse()?, usize::MAX, |_| {}),
        _ => Err("usage: server [serve ADDRESS]".into()),
    }
}

/// One client: the message that is received, and then sent back.
enum Client {
    Receiving(RecvOperation, Vec<u8>),
    Sending(SendOperation, Vec<u8>),
}

/// Serves this many clients, and returns.
fn serve(
    address: &Address,
    clients_max: usize,
    on_listening: impl FnOnce(&Address),
) -> Result<(), Box<dyn Error>> {
    let mut poller = Poller::new(PollerOptions::default())?;
    let listener = poller.listen(address, Options::default())?;
    on_listening(poller.local_addr(listener).ok_or("the listener has no address")?);
    let mut events = PollEvents::with_capacity(64);
    let mut clients = HashMap::new();
    let mut ended = 0;
    while ended < clients_max {
        poller.poll(&mut events, Duration::from_secs(1))?;
        for event in &events {
            match event {
                PollEvent::Accepted { connection: key, .. } => {
                    clients.insert(key, Client::Receiving(RecvOperation::new(), Vec::new()));
                }
                PollEvent::Readable { connection: key } | PollEvent::Writable { connection: key } => {
                    let Some(client) = clients.get_mut(&key) else { continue };
                    // A client that breaks a rule harms nobody else.
                    if let Err(error) = serve_client(&mut poller, key, client) {
                        eprintln!("a client is lost: {error}");
                        clients.remove(&key);
                        poller.remove(key);
                        ended += 1;
                    }
                }
                // A silent client keeps its place until it is removed.
                PollEvent::Ended { connection: key } | PollEvent::Silent { connection: key } => {
                    clients.remove(&key);
                    poller.remove(key);
                    ended += 1;
                }
                PollEvent::AcceptFailed { kind, .. } => eprintln!("a client could not connect: {kind}"),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Receives the next part of a client's message, or sends the next part of it back.
fn serve_client(poller: &mut Poller, key: Key, client: &mut Client) -> Result<(), superpipe::Error> {
    let Some(connection) = poller.connection(key) else { return Ok(()) };
    match client {
        Client::Receiving(receive, message) => {
            // The length of the message decides the size of the buffer, before anything of it is taken.
            if let Some(incoming) = connection.try_peek()? {
                match incoming.length {
                    Length::Exact(bytes @ ..=MESSAGE_BYTES_MAX) => {
                        message.resize(usize::try_from(bytes).unwrap_or(0), 0)
                    }
                    Length::Exact(_) | Length::Stream => {
                        connection.reject(TOO_LONG);
                        return Ok(());
                    }
                }
            }
            if let Drive::Done(received) = connection.drive_recv(receive, &mut [&mut message[..]])? {
                let send = SendOperation::new(received.tag, received.bytes);
                *client = Client::Sending(send, core::mem::take(message));
                // Its next message waits until this one is sent back.
                poller.set_interest(key, Interest { readable: false, writable: true });
            }
        }
        Client::Sending(send, message) => {
            if let Drive::Done(()) = connection.drive_send(send, &[message])? {
                *client = Client::Receiving(RecvOperation::new(), core::mem::take(message));
                poller.set_interest(key, Interest::default());
            }
        }
    }
    Ok(())
}

fn demo() -> Result<(), Box<dyn Error>> {
    const CLIENTS: usize = 100;
    let address =
        Address::Shm(std::env::temp_dir().join(format!("superpipe-server-{}.sock", std::process::id())));
    let (listening, listens) = std::sync::mpsc::channel();
    let server = thread::spawn(move || {
        let on_listening = |address: &Address| drop(listening.send(address.clone()));
        serve(&address, CLIENTS, on_listening).map_err(|error| error.to_string())
    });
    let address = listens.recv()?;
    // Ten threads, each with ten clients that are connected at the same time.
    let clients: Vec<_> = (0..10)
        .map(|thread| {
            let address = address.clone();
            thread::spawn(move || ask(&address, thread * 10..thread * 10 + 10))
        })
        .collect();
    for client in clients {
        client.join().map_err(|_| "a client panicked")??;
    }
    server.join().map_err(|_| "the server panicked")??;
    println!("{CLIENTS} clients: every message came back as it went");
    Ok(())
}

fn ask(address: &Address, clients: Range<usize>) -> Result<(), superpipe::Error> {
    let connect = |client| Ok((client, Connection::connect(address, Options::default(), DEADLINE)?));
    let mut connections = clients.map(connect).collect::<Result<Vec<_>, superpipe::Error>>()?;
    // An empty message, one in a line, one in a block, and one that is larger than the landing buffer.
    for bytes in [0, 40, 16 << 10, 1 << 20] {
        for (client, connection) in &mut connections {
            let question: Vec<u8> = (0..bytes).map(|i| (i * 31 + *client).to_le_bytes()[0]).collect();
            connection.send(*client as u64, &[&question], DEADLINE)?;
            let mut answer = vec![0; bytes];
            let received = connection.recv_into(&mut [&mut answer], DEADLINE)?;
            assert_eq!((received.tag, received.bytes), (*client as u64, bytes));
            assert!(answer == question, "the answer is the question");
        }
    }
    connections.into_iter().try_for_each(|(_, connection)| connection.close(Reason::DONE, DEADLINE))
}
