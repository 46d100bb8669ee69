//! Calls that cost more, or take longer, than their documentation says; and operations that are cloned.

use core::time::Duration;
use std::io::{Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;

use superpipe::io::{Digest, DigestKind, Sink, Source};
use superpipe::os::{allowed_cores, pin_current_thread};
use superpipe::{Drive, Reason, RecvOperation, SendOperation, TryRecv};

use crate::attempts::one_of;
use crate::support::{DEADLINE, bytes, disturbing, pair, undisturbed};

const LONG: usize = 1 << 20;

const LIMIT: Duration = Duration::from_secs(2);

/// Documented: `Deadline::After` bounds each call by itself. One that waits for the peer first has so much less for its sink.
#[test]
fn a_wait_for_peer_and_sink_has_one_deadline() {
    let _undisturbed = undisturbed();
    one_of(3, wait_for_peer_and_sink);
}

fn wait_for_peer_and_sink() -> Result<(), String> {
    let (mut sender, mut receiver) = pair();
    let (_reader, writer) = pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    let mut sink = Sink::new(writer.into()).unwrap();
    // SAFETY: the descriptor is open.
    let room = unsafe { libc::fcntl(filler.as_raw_fd(), libc::F_GETPIPE_SZ) };
    filler.write_all(&vec![0; usize::try_from(room).unwrap()]).unwrap();
    let sending = thread::spawn(move || {
        let mut stream = sender.open_stream(1, DEADLINE).unwrap();
        stream.write_all(b"first").unwrap();
        thread::sleep(LIMIT * 4 / 5);
        stream.write_all(b"late").unwrap();
        thread::sleep(LIMIT * 2);
    });
    let mut stream = receiver.accept_stream(DEADLINE).unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
    stream.set_deadline(LIMIT);
    let begun = Instant::now();
    stream.write_to(&mut sink, &mut Digest::new(DigestKind::None)).unwrap_err();
    let took = begun.elapsed();
    drop(stream);
    sending.join().unwrap();
    is_in_time(took, LIMIT * 16 / 10)
}

fn is_in_time(took: Duration, bound: Duration) -> Result<(), String> {
    if took < bound { Ok(()) } else { Err(format!("took {took:?} of {LIMIT:?}")) }
}

/// The same of a source.
#[test]
fn a_call_that_waits_for_peer_and_source_has_one_deadline() {
    let _undisturbed = undisturbed();
    one_of(3, wait_for_peer_and_source);
}

fn wait_for_peer_and_source() -> Result<(), String> {
    let (mut sender, mut receiver) = pair();
    let (reader, _writer) = pipe().unwrap();
    let mut source = Source::new(reader.into()).unwrap();
    let receiving = thread::spawn(move || {
        let mut stream = receiver.accept_stream(DEADLINE).unwrap();
        thread::sleep(LIMIT * 4 / 5);
        assert!(stream.read(&mut vec![0; LONG]).unwrap() > 0);
        thread::sleep(LIMIT * 2);
    });
    let mut stream = sender.open_stream(1, DEADLINE).unwrap();
    stream.set_deadline(LIMIT / 20);
    // There is no room any more.
    while stream.write(&[0; 4096]).is_ok() {}
    stream.set_deadline(LIMIT);
    let begun = Instant::now();
    stream.read_from(&mut source, 1000, &mut Digest::new(DigestKind::None)).unwrap_err();
    let took = begun.elapsed();
    drop(stream);
    receiving.join().unwrap();
    is_in_time(took, LIMIT * 16 / 10)
}

/// Documented: a clone of an operation is refused once the other has gone on.
#[test]
fn cancelling_a_stale_clone_cancels_nothing_else() {
    let (mut sender, mut receiver) = pair();
    const BYTES: usize = 8 << 20;
    let message = bytes(1, BYTES);
    let (mut send, mut receive) = (SendOperation::new(1, BYTES), RecvOperation::new());
    let mut room = vec![0; BYTES];
    let mut clone = send.clone();
    while !clone.has_begun() || clone.sent() == send.sent() {
        if send.has_begun() && !clone.has_begun() {
            clone = send.clone();
        }
        let _ = sender.drive_send(&mut send, &[&message]).unwrap();
        let _ = receiver.drive_recv(&mut receive, &mut [&mut room]).unwrap();
    }
    assert!(send.sent() < BYTES);
    sender.cancel_send(&mut clone, Reason(9));
    loop {
        let _ = sender.drive_send(&mut send, &[&message]);
        match receiver.drive_recv(&mut receive, &mut [&mut room]) {
            Ok(Drive::Done(_)) => break assert!(room == message),
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A mapping that can be sent many times in one message.
fn vast() -> Option<&'static [u8]> {
    static VAST: OnceLock<Option<&'static [u8]>> = OnceLock::new();
    *VAST.get_or_init(|| map(1 << 46))
}

fn map(bytes: usize) -> Option<&'static [u8]> {
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let memory = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            bytes,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    // SAFETY: it is mapped until the process ends, and nobody writes it.
    (memory != libc::MAP_FAILED).then(|| unsafe { core::slice::from_raw_parts(memory.cast(), bytes) })
}

#[test]
fn slices_longer_than_usize_are_no_short_message() {
    let Some(slice) = vast() else { return };
    let mut slices = vec![slice; 1 << 18];
    slices.push(&slice[..8]);
    let (mut sender, mut receiver) = pair();
    let mut send = SendOperation::new(1, 8);
    assert!(sender.drive_send(&mut send, &slices).is_err());
    assert_eq!(receiver.try_recv(&mut [&mut [0; 8]]).unwrap(), TryRecv::Nothing);
}

#[test]
fn slices_longer_than_usize_are_refused_by_a_waiting_call() {
    let Some(slice) = vast() else { return };
    let mut slices = vec![slice; 1 << 18];
    slices.push(&slice[..8]);
    let (mut sender, _receiver) = pair();
    sender.send(1, &slices, Duration::from_millis(50)).unwrap_err();
}

/// A half that waits sleeps, so that the other has their core, whatever its priority is (`half.rs`: "the other half may have a lower
/// priority, and needs this one to sleep").
#[test]
fn a_half_of_a_higher_priority_lets_the_other_have_their_core() {
    const BYTES: usize = 64 << 20;
    let _disturbing = disturbing();
    let message = bytes(1, BYTES);
    one_of(3, || send_beside_a_half_of_higher_priority(&message));
}

fn send_beside_a_half_of_higher_priority(message: &[u8]) -> Result<(), String> {
    let cores: Vec<usize> = allowed_cores().iter().collect();
    let (here, there) = (cores[0], cores[cores.len() - 1]);
    let (one, mut peer) = pair();
    let (mut sends, mut receives) = one.split();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            pin_current_thread(here).unwrap();
            let priority = libc::sched_param { sched_priority: 1 };
            // SAFETY: the pointer is to a local.
            let is_real_time =
                unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } == 0;
            let got = receives.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap();
            (is_real_time, got.tag)
        });
        let sending = scope.spawn(move || {
            pin_current_thread(here).unwrap();
            sends.send(1, &[message], DEADLINE).unwrap();
        });
        thread::sleep(LIMIT / 10);
        let mut place = vec![0; message.len()];
        let begun = Instant::now();
        pin_current_thread(there).unwrap();
        peer.recv_into(&mut [&mut place], DEADLINE).unwrap();
        let took = begun.elapsed();
        peer.send(2, &[b"over"], DEADLINE).unwrap();
        sending.join().unwrap();
        let (is_real_time, tag) = waiting.join().unwrap();
        assert_eq!(tag, 2);
        // Where it never sleeps, the kernel gives the others a twentieth of the time.
        if is_real_time { is_in_time(took, LIMIT) } else { Ok(()) }
    })
}
