//! Failures: each has its kind, and leaves the connection usable where the documentation promises so.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::thread;

use superpipe::{Address, Connection, ErrorKind, Listener, Options, Reason, Tuning};

use crate::support::{DEADLINE, bytes, pair, pair_with, path};

const SOON: Duration = Duration::from_millis(50);

#[test]
fn a_message_too_large_for_the_buffer_stays_at_the_head() {
    let (mut a, mut b) = pair();
    a.send(4, &[&bytes(1, 100)], DEADLINE).unwrap();
    let error = b.recv_into(&mut [&mut [0; 99]], DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooSmall);
    assert_eq!(
        error.to_string(),
        "the message has 100 bytes and the buffer 99: receive it into a larger one"
    );
    let mut buffer = [0; 100];
    assert_eq!(b.recv_into(&mut [&mut buffer], DEADLINE).unwrap().tag, 4);
    assert!(buffer[..] == bytes(1, 100));
}

#[test]
fn after_a_message_times_out_the_next_one_arrives() {
    let (mut a, mut b) = pair();
    let error = a.send(1, &[&bytes(1, 5 << 20)], SOON).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let sender = thread::spawn(move || a.send(2, &[b"next"], DEADLINE).map(|()| a));
    let mut buffer = vec![0; 5 << 20];
    let error = b.recv_into(&mut [&mut buffer], DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled(Reason::GIVEN_UP));
    let received = b.recv_into(&mut [&mut buffer], DEADLINE).unwrap();
    assert_eq!((received.tag, &buffer[..4]), (2, &b"next"[..]));
    sender.join().unwrap().unwrap();
}

#[test]
fn a_receive_without_a_message_meets_its_deadline() {
    let (_a, mut b) = pair();
    assert_eq!(b.recv_into(&mut [&mut [0; 8]], SOON).unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn a_rejected_message_ends_the_send_and_the_next_one_arrives() {
    let (mut a, mut b) = pair();
    let sender = thread::spawn(move || {
        let error = a.send(1, &[&bytes(1, 9 << 20)], DEADLINE).unwrap_err();
        a.send(2, &[b"next"], DEADLINE).unwrap();
        (a, error)
    });
    assert_eq!(b.peek(DEADLINE).unwrap().tag, 1);
    assert!(b.reject(Reason(42)));
    let mut buffer = [0; 8];
    assert_eq!(b.recv_into(&mut [&mut buffer], DEADLINE).unwrap().tag, 2);
    let (_a, error) = sender.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Rejected(Reason(42)));
}

#[test]
fn streams_dropped_on_either_side_tell_the_other() {
    let (mut a, mut b) = pair();
    let sender = thread::spawn(move || {
        let mut stream = a.open_stream(1, DEADLINE).unwrap();
        stream.write_all(&bytes(1, 300_000)).unwrap();
        drop(stream);
        let mut stream = a.open_stream(2, DEADLINE).unwrap();
        let error = loop {
            if let Err(error) = stream.write(&[1; 100_000]) {
                break error;
            }
        };
        drop(stream);
        a.send(3, &[b"still there"], DEADLINE).unwrap();
        (a, error)
    });
    let mut stream = b.accept_stream(DEADLINE).unwrap();
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
    drop(stream);
    let mut stream = b.accept_stream(DEADLINE).unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    assert_eq!(b.recv_into(&mut [&mut [0; 16]], DEADLINE).unwrap().tag, 3);
    let (_a, error) = sender.join().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
}

#[test]
fn a_peer_that_closes_is_seen_by_a_blocked_sender() {
    let (mut a, b) = pair();
    let sender = thread::spawn(move || a.send(1, &[&bytes(1, 9 << 20)], DEADLINE).unwrap_err());
    thread::sleep(SOON);
    drop(b);
    let kind = sender.join().unwrap().kind();
    assert!(matches!(kind, ErrorKind::Closed(Reason::DONE)), "{kind:?}");
}

#[test]
fn a_silent_peer_is_a_timeout() {
    let options = Options { idle_timeout: Duration::from_millis(300), ..Options::default() };
    let (mut a, _silent) = pair_with(options, Options::default());
    let error = a.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(
        error.to_string(),
        "the peer was silent for 300ms, the idle timeout; raise it if the peer may be stopped or busy for longer"
    );
}

#[test]
fn two_ends_that_wait_for_each_other_are_not_silent() {
    // Ten times what is between two signs of life, and half of the wait.
    let options = Options { idle_timeout: Duration::from_secs(2), ..Options::default() };
    let (mut a, mut b) = pair_with(options, options);
    let wait = Duration::from_secs(4);
    let waiting = thread::spawn(move || (a.recv_into(&mut [&mut [0; 8]], wait).unwrap_err(), a));
    let error = b.recv_into(&mut [&mut [0; 8]], wait).unwrap_err();
    assert_eq!(error.to_string(), "the deadline passed; set a later one, or find what the peer waits for");
    assert_eq!(
        waiting.join().unwrap().0.to_string(),
        "the deadline passed; set a later one, or find what the peer waits for"
    );
}

#[test]
fn a_set_flag_interrupts_every_wait() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let options = Options { interrupt: Some(&STOP), ..Options::default() };
    let (mut a, _b) = pair_with(options, Options::default());
    let waiting = thread::spawn(move || a.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err());
    let connecting =
        thread::spawn(move || Connection::connect(&Address::Shm(path()), options, DEADLINE).unwrap_err());
    let mut listener = Listener::bind(&Address::Shm(path()), options).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap_err());
    thread::sleep(SOON);
    STOP.store(true, Ordering::Relaxed);
    for thread in [waiting, connecting, accepting] {
        assert_eq!(thread.join().unwrap().kind(), ErrorKind::Interrupted);
    }
}

#[test]
fn nobody_there_is_told_with_the_path() {
    let path = path();
    let error = Connection::connect(&Address::Shm(path.clone()), Options::default(), SOON).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
}

#[test]
fn a_second_listener_is_refused_and_the_first_goes_on() {
    let address = Address::Shm(path());
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    assert_eq!(Listener::bind(&address, Options::default()).unwrap_err().kind(), ErrorKind::Connect);
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let _one = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
    accepting.join().unwrap();
}

#[test]
fn wishes_that_contradict_each_other_are_refused_on_both_ends() {
    let with =
        |folds| Options { tuning: Tuning { folds: Some(folds), ..Tuning::default() }, ..Options::default() };
    let address = Address::Shm(path());
    let mut listener = Listener::bind(&address, with(2)).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap_err());
    let error = Connection::connect(&address, with(3), DEADLINE).unwrap_err();
    assert!(
        error.to_string().contains("folds is 2 at the listening end and 3 at the connecting end"),
        "{error}"
    );
    assert_eq!(accepting.join().unwrap().kind(), ErrorKind::Usage);
    let absurd =
        Options { tuning: Tuning { block_bytes: Some(100), ..Tuning::default() }, ..Options::default() };
    assert_eq!(Listener::bind(&address, absurd).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn both_ends_share_one_core() {
    let (mut a, mut b) = pair();
    let core = superpipe::os::allowed_cores().iter().next().unwrap();
    let pong = thread::spawn(move || {
        superpipe::os::pin_current_thread(core).unwrap();
        for _ in 0..2000 {
            let mut message = [0; 8];
            b.recv_into(&mut [&mut message], DEADLINE).unwrap();
            b.send(0, &[&message], DEADLINE).unwrap();
        }
    });
    thread::spawn(move || {
        superpipe::os::pin_current_thread(core).unwrap();
        for i in 0..2000u64 {
            a.send(0, &[&i.to_le_bytes()], DEADLINE).unwrap();
            let mut message = [0; 8];
            a.recv_into(&mut [&mut message], DEADLINE).unwrap();
            assert_eq!(u64::from_le_bytes(message), i);
        }
    })
    .join()
    .unwrap();
    pong.join().unwrap();
}
