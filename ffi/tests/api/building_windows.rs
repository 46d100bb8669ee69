//! The window changes while a message is built in place.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use crate::support::{DEADLINE, bytes, pair};

/// The program gives another window while a message is open whose second chunk is longer than that.
#[test]
fn a_window_that_is_given_while_a_message_is_open() {
    for before in 0..8 {
        let (mut a, mut b) = pair();
        let receiver = thread::spawn(move || {
            let mut place = vec![0; 512 << 10];
            for tag in 0..before + 21 {
                let received = b.recv_into(&mut [&mut place], DEADLINE).unwrap();
                assert_eq!(received.tag, tag);
                assert!(place[..received.bytes] == bytes(tag, received.bytes), "{tag}");
            }
        });
        for tag in 0..before {
            a.send(tag, &[&bytes(tag, 60_000)], DEADLINE).unwrap();
        }
        let reserved = a.reserve(before, 400 << 10, DEADLINE).unwrap();
        a.copy_into(&reserved, 0, &bytes(before, 400 << 10)).unwrap();
        a.set_window(Some(0));
        a.commit(reserved).unwrap();
        for tag in before + 1..before + 21 {
            a.send(tag, &[&bytes(tag, 60_000)], DEADLINE).unwrap();
        }
        a.flush(DEADLINE).unwrap();
        receiver.join().unwrap();
    }
}

/// The connection chooses its window, by what copies take.
#[test]
fn a_window_that_is_chosen_while_a_message_is_open() {
    let (mut a, mut b) = pair();
    a.set_window(None);
    const SIZES: [usize; 2] = [1 << 20, 2 << 20];
    let receiver = thread::spawn(move || {
        let mut place = vec![0; 2 << 20];
        loop {
            let received = b.recv_into(&mut [&mut place], DEADLINE).unwrap();
            if received.tag == u64::MAX {
                return;
            }
            assert!(
                place[..received.bytes].iter().all(|byte| *byte == received.tag.to_le_bytes()[0]),
                "{}",
                received.tag
            );
        }
    });
    let begin = Instant::now();
    let mut tag = 0;
    while begin.elapsed() < Duration::from_secs(3) {
        for size in SIZES {
            for _ in 0..3 {
                tag += 1;
                a.send(tag, &[&vec![tag.to_le_bytes()[0]; size]], DEADLINE).unwrap();
            }
        }
        tag += 1;
        let size = (200 << 10) + (usize::try_from(tag).unwrap() * 4111) % (300 << 10);
        let reserved = a.reserve(tag, size, DEADLINE).unwrap();
        a.copy_into(&reserved, 0, &vec![tag.to_le_bytes()[0]; size]).unwrap();
        a.flush(DEADLINE).unwrap();
        a.commit(reserved).unwrap_or_else(|(_, error)| panic!("{tag}: {error}"));
    }
    a.send(u64::MAX, &[], DEADLINE).unwrap();
    receiver.join().unwrap();
}
