//! Packets with descriptors of buffers: each that is right, and each that breaks a rule.

use super::*;
use crate::fabric::shm::foreign::sealable;
use crate::fabric::shm::liveness::Liveness;
use crate::fabric::shm::sleep::{AWAKE, SleepOutcome, Sleeper};
use crate::fabric::shm::socket::tests::send_raw;
use crate::os::poll::poll;
use crate::os::{ExposedMemory, PeerAccess};
use core::sync::atomic::AtomicU64;
use rustix::fs::SealFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::env;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

const CHILD: &str = "SUPERPIPE_TEST_WITHOUT_DESCRIPTORS";

fn pair() -> (Socket, Socket, SentBuffers) {
    let (ours, theirs) = Socket::pair().unwrap();
    (ours, theirs, SentBuffers::default())
}

fn memory() -> ExposedMemory {
    ExposedMemory::create(c"test", 4096, PeerAccess::Read).unwrap()
}

fn any_fd() -> OwnedFd {
    sealable(4096, SealFlags::empty())
}

#[test]
fn buffers_wait_at_their_places_in_any_order() {
    let (ours, theirs, mut buffers) = pair();
    let memory = memory();
    for place in [7, 0, 3] {
        theirs.send(&packet(place, 4096 + u32::from(place)), Some(memory.fd())).unwrap();
    }
    assert_eq!(
        [(); 4].map(|()| buffers.take_next(&ours)),
        [Next::Buffer, Next::Buffer, Next::Buffer, Next::Nothing]
    );
    for place in [0, 3, 7] {
        assert_eq!(buffers.take(place).map(|sent| sent.bytes), Some(4096 + u32::from(place)));
        assert!(buffers.take(place).is_none());
    }
    assert!(buffers.take(8).is_none() && buffers.take(1).is_none());
}

#[test]
fn wake_bytes_stay_and_the_end_is_nothing() {
    let (ours, theirs, mut buffers) = pair();
    theirs.send(&WAKE, None).unwrap();
    for _ in 0..2 {
        assert_eq!(buffers.take_next(&ours), Next::Wake);
    }
    ours.discard_head();
    drop(theirs);
    assert_eq!(buffers.take_next(&ours), Next::Nothing);
    assert_eq!(buffers.breach(), None);
}

#[test]
fn each_wrong_packet_is_named_and_never_taken() {
    let right = packet(1, 4096);
    let changed = |at: usize, byte: u8| {
        let mut bytes = right;
        bytes[at] = byte;
        bytes
    };
    let one = any_fd();
    let with = Some(one.as_fd());
    let cases: [(&[u8], _, Breach); 9] = [
        (&right, None, Breach::NoDescriptor),
        (&changed(1, 8), with, Breach::Malformed),
        (&changed(2, 1), with, Breach::Malformed),
        (&changed(3, 1), with, Breach::Malformed),
        (&packet(1, 0), with, Breach::Malformed),
        (&right[..7], with, Breach::Unknown),
        (&[&right[..], &[0]].concat(), with, Breach::Unknown),
        (&changed(0, b'C'), with, Breach::Unknown),
        (&WAKE, with, Breach::Descriptors),
    ];
    for (bytes, fd, breach) in cases {
        let (ours, theirs, mut buffers) = pair();
        theirs.send(bytes, fd).unwrap();
        for _ in 0..2 {
            assert_eq!(buffers.take_next(&ours), Next::Breach, "{bytes:?}");
        }
        assert_eq!(buffers.breach(), Some(breach), "{bytes:?}");
        assert!(breach.to_string().ends_with("(wire.md 7.2)"));
        assert!(ours.head().is_some(), "it is still in the queue");
    }
}

#[test]
fn a_second_buffer_for_a_place_is_a_flood() {
    let (ours, theirs, mut buffers) = pair();
    let memory = memory();
    for _ in 0..2 {
        theirs.send(&packet(5, 4096), Some(memory.fd())).unwrap();
    }
    assert_eq!([buffers.take_next(&ours), buffers.take_next(&ours)], [Next::Buffer, Next::Breach]);
    assert_eq!(buffers.breach(), Some(Breach::Taken));
}

#[test]
fn a_packet_with_two_descriptors_is_not_taken() {
    let (ours, theirs, mut buffers) = pair();
    let (one, two) = (any_fd(), any_fd());
    send_raw(&theirs, &packet(1, 4096), &[one.as_fd(), two.as_fd()]);
    assert_eq!(buffers.take_next(&ours), Next::Breach);
    assert_eq!(buffers.breach(), Some(Breach::Descriptors));
}

#[test]
fn an_empty_packet_of_a_living_peer_is_wrong() {
    let (ours, theirs, mut buffers) = pair();
    send_raw(&theirs, b"", &[]);
    assert_eq!(buffers.take_next(&ours), Next::Breach);
    assert_eq!(buffers.breach(), Some(Breach::Unknown));
}

/// The child of the next test, whose table of descriptors may be filled without harm to other tests.
#[test]
fn child_without_room_for_a_buffer() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let (ours, theirs, mut buffers) = pair();
    theirs.send(&packet(2, 4096), Some(memory().fd())).unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
    for _ in 0..2 {
        assert_eq!(buffers.take_next(&ours), Next::Starved);
        assert!(buffers.is_starved() && buffers.take(2).is_none());
    }
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(buffers.take_next(&ours), Next::Buffer);
    assert!(!buffers.is_starved() && buffers.take(2).is_some());
}

#[test]
fn a_buffer_waits_for_a_free_descriptor() {
    let name = format!("{}::child_without_room_for_a_buffer", module_path!().split_once("::").unwrap().1);
    let mut child = Command::new(env::current_exe().unwrap());
    let output = child.args(["--exact", &name, "--test-threads=1"]).env(CHILD, "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// Two threads sleep: each ends its connection, and says why.
#[test]
fn each_of_two_sleeping_threads_names_the_breach() {
    let (ours, theirs, mut buffers) = pair();
    let (word, mut sleeper, liveness) = (AtomicU64::new(AWAKE), Sleeper::new(true), Liveness::of_socket());
    theirs.send(b"C", None).unwrap();
    (0..2).for_each(|_| _ = sleeper.begin(&word, || false).unwrap());
    for _ in 0..2 {
        let mut fds = liveness.interests(&ours);
        let polled = poll(&mut fds, 1000);
        let slept = sleeper.end_with(&word, &ours, Some(&mut buffers), polled, &fds);
        assert_eq!((slept, buffers.breach()), (Ok(SleepOutcome::Message), Some(Breach::Unknown)));
    }
}
