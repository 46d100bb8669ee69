//! Frames out of registered buffers: the receiver copies each straight out of the sender's memory.
//!
//! The sender has two buffers and uses them in turn. It fills one while the receiver still reads the other, and waits only for the one
//! that it needs next. The first frames would go through the ring until the peer has mapped a buffer; `register` waits for that.
//!
//! `cargo run --release --example one_copy`

use core::error::Error;
use core::time::Duration;
use std::thread;

use superpipe::{Address, Connection, Listener, Options, Protocol, Registered, RegisteredBuf, Tuning};

const DEADLINE: Duration = Duration::from_secs(10);
const FRAME_BYTES: usize = 8 << 20;
const FRAMES: u8 = 50;
const TAG_FRAME: u64 = 1;

fn send_frames(connection: &mut Connection) -> Result<(), Box<dyn Error>> {
    let mut buffers = [RegisteredBuf::new(FRAME_BYTES)?, RegisteredBuf::new(FRAME_BYTES)?];
    for buffer in &buffers {
        if connection.register(buffer, DEADLINE)? != Registered::Ready {
            println!("a budget has no room for a buffer: its frames are copied twice");
        }
    }
    for number in 0..FRAMES {
        let buffer = &mut buffers[usize::from(number % 2)];
        // The receiver may still read the frame before the last one.
        connection.wait_unshared(buffer, DEADLINE)?;
        buffer.fill(number);
        connection.send_registered(TAG_FRAME, buffer, 0..FRAME_BYTES, DEADLINE)?;
    }
    connection.flush(DEADLINE)?;
    Ok(())
}

fn receive_frames(connection: &mut Connection) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let mut frame = RegisteredBuf::new(FRAME_BYTES)?;
    for number in 0..FRAMES {
        let received = connection.recv_registered(&mut frame, DEADLINE)?;
        assert_eq!((received.tag, received.bytes), (TAG_FRAME, FRAME_BYTES));
        assert!(frame.iter().all(|byte| *byte == number), "frame {number} is as it was sent");
    }
    Ok(connection.counters().exposed_bytes_received)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("superpipe-one-copy-{}.sock", std::process::id()));
    let address = Address::Shm(path);
    let mut listener = Listener::bind(&address, Options::default())?;
    let receiver = thread::spawn(move || receive_frames(&mut listener.accept(DEADLINE)?));

    let tuning = Tuning { protocol: Some(Protocol::RegisterCached), ..Tuning::default() };
    let options = Options { tuning, ..Options::default() };
    let mut connection = Connection::connect(&address, options, DEADLINE)?;
    send_frames(&mut connection)?;

    let copied_once =
        receiver.join().expect("the receiver does not panic").map_err(|error| error.to_string())?;
    let all = u64::from(FRAMES) * FRAME_BYTES as u64;
    println!("{} of {} MiB were copied once", copied_once >> 20, all >> 20);
    assert_eq!(copied_once, all);
    Ok(())
}
