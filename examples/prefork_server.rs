//! A pre-forking server: the parent listens, and its children accept. Over shared memory only: RDMA listens for the process that called `bind`.
//!
//! The parent makes nothing but the listener before it forks. Each child makes its own poller, and accepts beside what it serves: a connection that is being made waits for the process
//! that has begun it, so a child that serves one client only would keep the next one waiting.
//!
//! `cargo run --release --example prefork_server`

use core::error::Error;
use core::time::Duration;
use std::collections::BTreeSet;

use superpipe::{
    Address, Connection, Listener, Options, PollEvent, PollEvents, Poller, PollerOptions, TryRecv, TrySend,
};

const DEADLINE: Duration = Duration::from_secs(30);
const WORKERS: usize = 3;
const CLIENTS: u64 = 12;
/// Time between two looks for clients, while nothing else happens.
const ACCEPT_PERIOD: Duration = Duration::from_millis(1);

/// Serves clients until the process is ended: answers each message with the number of this process, and the message.
fn work(mut listener: Listener) -> Result<(), superpipe::Error> {
    let mut poller = Poller::new(PollerOptions::default())?;
    let mut events = PollEvents::with_capacity(64);
    let (own, mut room) = (std::process::id().to_le_bytes(), [0; 1024]);
    loop {
        // An attempt that fails concerns that client only.
        if let Ok(Some(connection)) = listener.try_accept() {
            // Without a place the connection is dropped, and the client learns of it.
            let _ = poller.adopt(connection);
        }
        poller.poll(&mut events, ACCEPT_PERIOD)?;
        for event in &events {
            match event {
                PollEvent::Readable { connection: key } => {
                    let Some(connection) = poller.connection(key) else { continue };
                    let is_answered = match connection.try_recv(&mut [&mut room]) {
                        Ok(TryRecv::Received(received)) => {
                            let answer: &[&[u8]] = &[&own, &room[..received.bytes]];
                            matches!(connection.try_send(received.tag, answer), Ok(TrySend::Sent))
                        }
                        Ok(TryRecv::Nothing) => true,
                        // This server takes short messages only.
                        Ok(TryRecv::TooSmall(_) | TryRecv::Incomplete(_)) | Err(_) => false,
                    };
                    if !is_answered {
                        drop(poller.remove(key));
                    }
                }
                PollEvent::Ended { connection: key } | PollEvent::Silent { connection: key } => {
                    drop(poller.remove(key));
                }
                _ => {}
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = Address::Shm(std::env::temp_dir().join(format!("prefork-{}.sock", std::process::id())));
    let mut listener = Some(Listener::bind(&address, Options::default())?);
    let mut workers = BTreeSet::new();
    for _ in 0..WORKERS {
        // SAFETY: this process has one thread, so no lock is held, and the child may do whatever it likes.
        match unsafe { libc::fork() } {
            -1 => return Err(std::io::Error::last_os_error().into()),
            0 => {
                // The listener is the child's copy of it. The parent goes on listening whatever the child does with it.
                let ended = listener.take().map(work);
                eprintln!("a worker ends: {ended:?}");
                std::process::exit(1);
            }
            worker => _ = workers.insert(worker),
        }
    }

    // The parent keeps its listener: without it nobody could connect any more. Here it also plays the clients.
    let served = ask(&address);
    for worker in &workers {
        // SAFETY: these are children of this process that were not waited for.
        unsafe {
            libc::kill(*worker, libc::SIGTERM);
            libc::waitpid(*worker, core::ptr::null_mut(), 0);
        }
    }
    let served = served?;
    assert!(served.iter().all(|worker| workers.contains(worker)), "{served:?} are not of {workers:?}");
    println!("{CLIENTS} clients were served by {} of {WORKERS} workers", served.len());
    Ok(())
}

/// Connects all clients, and has each ask. Returns the processes that answered.
fn ask(address: &Address) -> Result<BTreeSet<libc::pid_t>, Box<dyn Error>> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Connection::connect(address, Options::default(), DEADLINE)?);
    }
    let mut served = BTreeSet::new();
    for (number, client) in (0_u64..).zip(&mut clients) {
        for question in ["hello", "and again"] {
            client.send(number, &[question.as_bytes()], DEADLINE)?;
            let mut answer = [0; 64];
            let received = client.recv_into(&mut [&mut answer], DEADLINE)?;
            let (worker, text) = answer[..received.bytes].split_at(4);
            assert_eq!((received.tag, text), (number, question.as_bytes()));
            served.insert(libc::pid_t::from_le_bytes(worker.try_into()?));
        }
    }
    Ok(served)
}
