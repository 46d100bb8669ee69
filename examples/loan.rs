//! Loans: frames that are built where they are sent from, and read where they arrive. Over shared memory that is the same memory, so no byte is copied.
//!
//! The receiver holds the two newest frames, to compare them, and gives older ones back. It holds one out of order for a while: the sender then reuses no
//! space behind it, and everything else goes on.
//!
//! `cargo run --release --example loan`, or with an address to listen at and connect to, such as `verbs:HOST:0` of an RDMA device of this host.

use core::error::Error;
use core::time::Duration;
use std::thread;

use superpipe::{Address, Connection, Listener, Loan, Options};

const DEADLINE: Duration = Duration::from_secs(10);
const FRAME_WORDS: usize = 8 << 10;
const FRAME_BYTES: usize = 8 * FRAME_WORDS;
const FRAMES: u64 = 200;

/// Returns a word of a frame.
fn word(frame: u64, index: usize) -> u64 {
    frame.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64
}

fn send_frames(connection: &mut Connection) -> Result<(), Box<dyn Error>> {
    for frame in 0..FRAMES {
        let reserved = connection.reserve(frame, FRAME_BYTES, DEADLINE)?;
        let mut words = (0..FRAME_WORDS).map(|index| word(frame, index));
        for span in connection.reserved_spans(&reserved)? {
            // Spans end at blocks, and so at words.
            for (at, word) in (0..span.len()).step_by(8).zip(&mut words) {
                assert!(span.write(at, word.to_le_bytes()), "a span has whole words");
            }
        }
        assert!(words.next().is_none(), "the spans have room for the frame");
        connection.commit(reserved).map_err(|(_, error)| error)?;
    }
    connection.flush(DEADLINE)?;
    Ok(())
}

/// Checks a frame in place.
fn check(connection: &Connection, loan: &Loan) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut words = (0..FRAME_WORDS).map(|index| word(loan.tag(), index));
    for span in connection.loan_spans(loan)? {
        for (at, word) in (0..span.len()).step_by(8).zip(&mut words) {
            assert_eq!(span.read(at), Some(word.to_le_bytes()), "frame {}", loan.tag());
        }
    }
    assert!(words.next().is_none(), "frame {} is complete", loan.tag());
    Ok(())
}

fn give_back(connection: &mut Connection, loan: Loan) -> Result<(), superpipe::Error> {
    Ok(connection.give_back(loan)?)
}

fn receive_frames(connection: &mut Connection) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut held = Vec::new();
    for frame in 0..FRAMES {
        let loan = connection.recv_loan(DEADLINE)?;
        assert_eq!((loan.tag(), loan.bytes()), (frame, FRAME_BYTES));
        held.push(loan);
        for loan in &held {
            check(connection, loan)?;
        }
        if held.len() > 2 {
            let oldest_or_not = usize::from(frame % 4 == 0);
            give_back(connection, held.remove(oldest_or_not))?;
        }
    }
    for loan in held {
        give_back(connection, loan)?;
    }
    // The sender waits until all is given back.
    connection.progress();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("superpipe-loan-{}.sock", std::process::id()));
    let address = std::env::args().nth(1).map_or(Ok(Address::Shm(path)), |address| address.parse())?;
    let mut listener = Listener::bind(&address, Options::default())?;
    let address = listener.local_addr().clone();
    let receiver = thread::spawn(move || receive_frames(&mut listener.accept(DEADLINE)?));

    let mut connection = Connection::connect(&address, Options::default(), DEADLINE)?;
    send_frames(&mut connection)?;
    receiver.join().expect("the receiver does not panic").map_err(|error| error.to_string())?;
    println!("{FRAMES} frames of {} KiB were built and read in place", FRAME_BYTES >> 10);
    Ok(())
}
