//! A server that sends every message back, with one thread per connection.
//!
//! ```text
//! echo_server                 a server and a few clients in one process, for three seconds at most
//! echo_server serve ADDR      a server for other processes, until it is killed: ADDR is shm:PATH or localhost:PORT
//! echo_server ADDR TEXT..     a client: sends each TEXT, and prints what comes back
//! ```
//!
//! `cargo run --release --example echo_server`

use core::error::Error;
use core::time::Duration;
use std::thread;

use superpipe::{Address, Connection, ErrorKind, Length, Listener, Options, Reason};

/// Deadline of a connect and of each message.
const DEADLINE: Duration = Duration::from_secs(10);
/// Time that the server waits for the next client, and for a client's next message.
const IDLE_MAX: Duration = Duration::from_secs(3600);
/// Longest message that the server takes.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;
/// Reason given to a client whose message is longer, or has no length. Both ends agree on the meaning of the number.
const TOO_LONG: Reason = Reason(1);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => demo(),
        ["serve", address] => {
            // A client that waits for its user makes no call.
            let options = Options { idle_timeout: IDLE_MAX, ..Options::default() };
            serve(Listener::bind(&address.parse()?, options)?, usize::MAX)
        }
        [address, ref texts @ ..] => ask(&address.parse()?, texts),
    }
}

/// Serves this many connections, and returns.
fn serve(mut listener: Listener, connections: usize) -> Result<(), Box<dyn Error>> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        match listener.accept(IDLE_MAX) {
            Ok(connection) => clients.push(thread::spawn(move || echo(connection))),
            // A client that breaks the protocol does not end the server.
            Err(error) => eprintln!("a connection failed: {error}"),
        }
        clients.retain(|client| !client.is_finished());
    }
    for client in clients {
        client.join().map_err(|_| "a thread panicked")?;
    }
    Ok(())
}

/// Sends back what one client sends, until it closes.
fn echo(mut connection: Connection) {
    let mut message = Vec::new();
    loop {
        match echo_one(&mut connection, &mut message) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Closed(Reason::DONE) => return,
            Err(error) => return eprintln!("a client is lost: {error}"),
        }
    }
}

fn echo_one(connection: &mut Connection, message: &mut Vec<u8>) -> Result<(), superpipe::Error> {
    // The length of the next message decides the size of the buffer.
    let incoming = connection.peek(IDLE_MAX)?;
    let bytes = match incoming.length {
        Length::Exact(bytes @ ..=MESSAGE_BYTES_MAX) => usize::try_from(bytes).unwrap_or(0),
        Length::Exact(_) | Length::Stream => {
            connection.reject(TOO_LONG);
            return Ok(());
        }
    };
    message.resize(bytes, 0);
    let received = connection.recv_into(&mut [message], DEADLINE)?;
    connection.send(received.tag, &[message], DEADLINE)
}

/// Sends each text, and prints what comes back.
fn ask(address: &Address, texts: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::connect(address, Options::default(), DEADLINE)?;
    for text in texts {
        connection.send(0, &[text.as_bytes()], DEADLINE)?;
        let mut answer = vec![0; text.len()];
        let received = connection.recv_into(&mut [&mut answer], DEADLINE)?;
        println!("{}", String::from_utf8_lossy(&answer[..received.bytes]));
    }
    connection.close(Reason::DONE, DEADLINE)?;
    Ok(())
}

fn demo() -> Result<(), Box<dyn Error>> {
    const CLIENTS: usize = 3;
    let path = std::env::temp_dir().join(format!("echo-server-{}.sock", std::process::id()));
    let address = Address::Shm(path);
    let listener = Listener::bind(&address, Options::default())?;
    let server = thread::spawn(move || serve(listener, CLIENTS).map_err(|error| error.to_string()));

    for client in 0..CLIENTS {
        let mut connection = Connection::connect(&address, Options::default(), DEADLINE)?;
        // An empty message, one in a line, one in a block, and one that is larger than the landing buffer.
        for bytes in [0, 1, 40, 41, 16 << 10, (64 << 10) + 1, 4 << 20] {
            let question: Vec<u8> = (0..bytes).map(|i| (i * 31 + client).to_le_bytes()[0]).collect();
            let (head, tail) = question.split_at(bytes / 3);
            connection.send(client as u64, &[head, tail], DEADLINE)?;
            let mut answer = vec![0; bytes];
            let received = connection.recv_into(&mut [&mut answer], DEADLINE)?;
            assert_eq!((received.tag, received.bytes), (client as u64, bytes));
            assert!(answer == question, "the answer is the question");
        }
        println!("client {client}: every message came back as it went");
        connection.close(Reason::DONE, DEADLINE)?;
    }
    server.join().map_err(|_| "the server panicked")??;
    Ok(())
}
