//! Frames that both ends copy at once: the receiver one half, out of the sender's buffer, and the sender the other, into the receiver's.
//!
//! The receiver trusts its peer with its buffer, and offers it before it asks for a frame. The first frames come by one copy or through the
//! ring, until both ends have mapped the other's buffer; nothing waits for that.
//!
//! `cargo run --release --example split_copy`

use core::error::Error;
use core::time::Duration;
use std::thread;

use superpipe::{
    Address, Connection, Listener, Options, PeerTrust, Protocol, RegisteredBuf, TrustedBuf, Tuning,
};

const DEADLINE: Duration = Duration::from_secs(10);
const FRAME_BYTES: usize = 8 << 20;
const FRAMES: u8 = 50;
const TAG_REQUEST: u64 = 1;
const TAG_FRAME: u64 = 2;

fn send_frames(connection: &mut Connection) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut frame = RegisteredBuf::new(FRAME_BYTES)?;
    for number in 0..FRAMES {
        connection.recv_into(&mut [&mut [0; 1]], DEADLINE)?;
        connection.wait_unshared(&frame, DEADLINE)?;
        frame.fill(number);
        // Returns once this end has copied its half.
        connection.send_registered(TAG_FRAME, &frame, 0..FRAME_BYTES, DEADLINE)?;
    }
    connection.flush(DEADLINE)?;
    Ok(())
}

fn receive_frames(connection: &mut Connection) -> Result<(), Box<dyn Error>> {
    let mut frame = TrustedBuf::new(FRAME_BYTES)?;
    for number in 0..FRAMES {
        connection.offer(&mut frame)?;
        connection.send(TAG_REQUEST, &[&[number]], DEADLINE)?;
        let received = connection.recv_trusted(&mut frame, DEADLINE)?;
        assert_eq!((received.tag, received.bytes), (TAG_FRAME, FRAME_BYTES));
        // SAFETY: the frame was received, and the buffer was not offered since. The peer is a thread of this program.
        let bytes = unsafe { frame.as_slice() };
        assert!(bytes.iter().all(|byte| *byte == number), "frame {number} is as it was sent");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("superpipe-split-copy-{}.sock", std::process::id()));
    let address = Address::Shm(path);
    let mut listener = Listener::bind(&address, Options::default())?;
    let sender = thread::spawn(move || send_frames(&mut listener.accept(DEADLINE)?));

    let tuning = Tuning { protocol: Some(Protocol::RegisterCached), ..Tuning::default() };
    // SAFETY: the peer is a thread of this program.
    let peer_trust = unsafe { PeerTrust::declare() };
    let options = Options { tuning, peer_trust, ..Options::default() };
    let mut connection = Connection::connect(&address, options, DEADLINE)?;
    receive_frames(&mut connection)?;
    let counters = connection.counters();
    println!(
        "{} of {} MiB were copied by the sender, {} straight out of its buffer",
        counters.split_bytes_received >> 20,
        counters.bytes_received >> 20,
        counters.exposed_bytes_received >> 20
    );
    assert!(counters.split_bytes_received > 0, "some frames were split");
    sender.join().expect("the sender does not panic").map_err(|error| error.to_string())?;
    Ok(())
}
