//! When a buffer is shared, and what becomes of one that is written, dropped or left meanwhile.

use core::time::Duration;
use std::thread;

use superpipe::{ErrorKind, Reason, Registered};

use crate::{DEADLINE, alone, await_that, buffer, bytes, mapped_buffers, pair, receive, register, settle};

#[test]
fn a_buffer_is_shared_until_its_message_is_received() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let [source, other] = [buffer(1, 200_000), buffer(2, 200_000)];
    assert!(!a.is_shared(&source), "it is not known");
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    assert_eq!(register(&mut a, &mut b, &other), Registered::Ready);
    for _ in 0..3 {
        assert!(!a.is_shared(&source));
        a.send_registered(7, &source, 0..200_000, DEADLINE).unwrap();
        let error = a.wait_unshared(&source, Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(a.is_shared(&source) && !a.is_shared(&other));
        receive(&mut b, &source);
        b.progress();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| a.wait_unshared(&source, DEADLINE).unwrap());
            while !waiting.is_finished() {
                b.progress();
            }
        });
        assert!(!a.is_shared(&source));
    }
}

#[test]
fn what_is_written_meanwhile_is_what_the_peer_receives() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let mut source = buffer(1, 200_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    a.send_registered(7, &source, 0..200_000, DEADLINE).unwrap();
    source.copy_from_slice(&bytes(9, 200_000));
    receive(&mut b, &bytes(9, 200_000));
}

#[test]
fn a_buffer_dropped_with_its_message_unread_is_received() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(3, 1 << 20);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    assert_eq!(mapped_buffers(), 2);
    for part in [0..1 << 20, 100..900_000] {
        a.send_registered(7, &source, part, DEADLINE).unwrap();
    }
    drop(source);
    assert_eq!(mapped_buffers(), 1, "the peer has a mapping of its own");
    // A call of the sender withdraws it, while both messages are unread.
    settle(&mut a, &mut b);
    assert_eq!(mapped_buffers(), 1);
    receive(&mut b, &bytes(3, 1 << 20));
    receive(&mut b, &bytes(3, 1 << 20)[100..900_000]);
    await_that("the peer unmaps it", || {
        settle(&mut a, &mut b);
        mapped_buffers() == 0
    });
}

#[test]
fn messages_out_of_a_buffer_arrive_after_their_sender_closed() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(4, 300_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
    drop(source);
    drop(a);
    receive(&mut b, &bytes(4, 300_000));
    let error = b.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed(_)), "{error}");
    drop(b);
    await_that("nothing is mapped", || mapped_buffers() == 0);
}

#[test]
fn a_buffer_may_serve_several_connections() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let (mut c, mut d) = pair();
    let source = buffer(5, 300_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    assert_eq!(register(&mut c, &mut d, &source), Registered::Ready);
    a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
    c.send_registered(7, &source, 1..300_000, DEADLINE).unwrap();
    receive(&mut b, &source);
    assert!(!a.is_shared(&source) && c.is_shared(&source));
    receive(&mut d, &source[1..]);
    assert!(!c.is_shared(&source));
}

#[test]
fn a_call_after_the_end_leaves_a_buffer_shared() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(6, 200_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    a.send_registered(7, &source, 0..200_000, DEADLINE).unwrap();
    let closing = thread::spawn(move || b.close(Reason::DONE, DEADLINE));
    let error = a.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed(_)), "{error}");
    assert!(a.is_shared(&source));
    let error = a.send_registered(7, &source, 0..200_000, DEADLINE).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed(_)), "{error}");
    assert!(a.is_shared(&source), "the message is not taken");
    let error = a.register(&source, DEADLINE).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed(_)), "{error}");
    assert!(a.is_shared(&source), "the message is not taken");
    drop(a);
    let _ = closing.join().unwrap();
}
