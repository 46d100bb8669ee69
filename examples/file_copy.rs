//! Copies a file from one end of a connection to the other, as a stream: read straight into the blocks of the connection,
//! and written straight out of them, with no buffer in between.
//!
//! ```text
//! file_copy              copies a temporary file, compares the copy, and removes both
//! file_copy FROM TO      copies FROM to TO
//! ```
//!
//! `cargo run --release --example file_copy`

use core::error::Error;
use core::time::Duration;
use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::Instant;

use superpipe::io::{Digest, DigestKind, Sink, Source};
use superpipe::{Address, Connection, Listener, Options};

const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes to read per call; a call reads at most what the landing buffer has room for.
const READ_BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [] => demo(),
        [from, to] => copy(Path::new(from), Path::new(to)),
        _ => Err("file_copy takes no arguments, or two: FROM TO".into()),
    }
}

/// Copies a file between two threads, each of which has one end of a connection.
fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let source = Source::open(from)?;
    let file = File::create(to)?;
    let path = std::env::temp_dir().join(format!("file-copy-{}.sock", std::process::id()));
    let address = Address::Shm(path);
    let listener = Listener::bind(&address, Options::default())?;
    let receiver = thread::spawn(move || receive(listener, file).map_err(|error| error.to_string()));
    let start = Instant::now();
    let sent = send(&address, source)?;
    let received = receiver.join().map_err(|_| "the receiver panicked")??;
    let seconds = start.elapsed().as_secs_f64();
    println!("{received} bytes in {seconds:.3} s, {} {:016x}", sent.kind(), sent.value());
    Ok(())
}

/// Sends a file, and returns its length and checksum.
fn send(address: &Address, mut source: Source) -> Result<Digest, Box<dyn Error>> {
    let mut digest = Digest::new(DigestKind::Crc64);
    let mut connection = Connection::connect(address, Options::default(), DEADLINE)?;
    // A stream that is dropped before `finish`, as by any `?` here, is cancelled, so the receiver does not take a part for the complete file.
    let mut stream = connection.open_stream(0, DEADLINE)?;
    while stream.read_from(&mut source, READ_BYTES, &mut digest)? > 0 {}
    stream.finish(DEADLINE)?;
    // Only the receiver can tell that the data are on its disk.
    let mut verdict = [0; 8];
    connection.recv_into(&mut [&mut verdict], DEADLINE)?;
    if u64::from_le_bytes(verdict) != digest.value() {
        return Err("what arrived is not what was sent".into());
    }
    Ok(digest)
}

/// Receives a file, reports the checksum of what it wrote to the sender, and returns its length.
fn receive(mut listener: Listener, file: File) -> Result<u64, Box<dyn Error>> {
    let mut connection = listener.accept(DEADLINE)?;
    let mut sink = Sink::new(file.into())?;
    let mut digest = Digest::new(DigestKind::Crc64);
    let mut stream = connection.accept_stream(DEADLINE)?;
    while stream.write_to(&mut sink, &mut digest)? > 0 {}
    drop(stream);
    connection.send(0, &[&digest.value().to_le_bytes()], DEADLINE)?;
    Ok(digest.bytes())
}

fn demo() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("superpipe-file-copy-{}", std::process::id()));
    fs::create_dir(&directory)?;
    let copied = copy_and_compare(&directory);
    fs::remove_dir_all(&directory)?;
    copied
}

fn copy_and_compare(directory: &Path) -> Result<(), Box<dyn Error>> {
    let (from, to) = (directory.join("original"), directory.join("copy"));
    // The length is no multiple of a block or page.
    let original: Vec<u8> = (0..(32 << 20) + 4321_u64).map(|i| ((i * i) >> 9).to_le_bytes()[0]).collect();
    fs::write(&from, &original)?;
    copy(&from, &to)?;
    if fs::read(&to)? != original {
        return Err("the copy differs".into());
    }
    println!("the copy is the same, byte for byte");
    Ok(())
}
