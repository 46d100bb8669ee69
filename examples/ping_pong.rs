//! Sends a message back and forth between two threads, and prints the time of half a round trip.
//!
//! `cargo run --release --example ping_pong`

use core::error::Error;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use superpipe::{Address, Connection, Listener, Options};

const ROUNDS: u32 = 100_000;
const DEADLINE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let address = Address::Shm(std::env::temp_dir().join(format!("ping-pong-{}.sock", std::process::id())));
    let mut listener = Listener::bind(&address, Options::default())?;
    let ponger = thread::spawn(move || -> Result<(), superpipe::Error> {
        let mut connection = listener.accept(DEADLINE)?;
        let mut message = [0; 8];
        for _ in 0..ROUNDS {
            let received = connection.recv_into(&mut [&mut message], DEADLINE)?;
            connection.send(received.tag, &[&message], DEADLINE)?;
        }
        Ok(())
    });

    let mut connection = Connection::connect(&address, Options::default(), DEADLINE)?;
    let start = Instant::now();
    for round in 0..u64::from(ROUNDS) {
        connection.send(1, &[&round.to_le_bytes()], DEADLINE)?;
        let mut echo = [0; 8];
        connection.recv_into(&mut [&mut echo], DEADLINE)?;
        assert_eq!(u64::from_le_bytes(echo), round);
    }
    let half_round_trip = start.elapsed() / ROUNDS / 2;
    println!("{ROUNDS} round trips of 8 bytes, {half_round_trip:?} each way");
    ponger.join().expect("the other thread does not panic")?;
    Ok(())
}
