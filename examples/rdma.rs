//! Moves a message between two ends in one process over an RDMA device of this host, and compares it.
//!
//! `cargo run --release --example rdma -- ADDRESS`, where ADDRESS is an address of this host's RDMA device. Without a device, the example
//! prints how to make a software device and exits with 69: nothing was checked.

use core::error::Error;
use core::time::Duration;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use superpipe::{Address, Connection, ErrorKind, Listener, Options};

const BYTES: usize = 16 << 20;
const DEADLINE: Duration = Duration::from_secs(30);
/// EX_UNAVAILABLE of sysexits.h.
const UNAVAILABLE: u8 = 69;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let host = std::env::args().nth(1).unwrap_or_default();
    // Without an address it listens at every address of a device, and fails here if there is no device.
    let mut listener =
        match Listener::bind(&Address::Rdma { host: host.clone(), port: 0 }, Options::default()) {
            Ok(listener) => listener,
            Err(error) if error.kind() == ErrorKind::Device => {
                eprintln!("{error}");
                return Ok(ExitCode::from(UNAVAILABLE));
            }
            Err(error) => return Err(error.into()),
        };
    if host.is_empty() {
        eprintln!(
            "usage: rdma ADDRESS: an address of this host that has an RDMA device; rdma link names the interfaces"
        );
        return Ok(ExitCode::from(2));
    }
    let port = listener.rdma_addr().ok_or("the listener has no address")?.port();
    let receiver = thread::spawn(move || -> Result<Vec<u8>, superpipe::Error> {
        let mut connection = listener.accept(DEADLINE)?;
        let mut bytes = vec![0; BYTES];
        let received = connection.recv_into(&mut [&mut bytes], DEADLINE)?;
        connection.send(received.tag, &[b"done"], DEADLINE)?;
        Ok(bytes)
    });

    let mut connection = Connection::connect(&Address::Rdma { host, port }, Options::default(), DEADLINE)?;
    let message: Vec<u8> = (0..BYTES).map(|at| (at ^ (at >> 9)).to_le_bytes()[0]).collect();
    let start = Instant::now();
    connection.send(7, &[&message], DEADLINE)?;
    connection.recv_into(&mut [&mut [0; 4]], DEADLINE)?;
    let elapsed = start.elapsed();
    let received = receiver.join().expect("the other thread does not panic")?;
    assert!(received == message, "the message arrived changed");
    println!("{BYTES} bytes in {elapsed:?}, confirmed by the receiver");
    Ok(ExitCode::SUCCESS)
}
