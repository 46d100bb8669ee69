//! Messages.

use core::time::Duration;
use std::time::Instant;

use superpipe::{LandingMode, Tuning};
use superpipe_tokio::{Connection, ErrorKind, Options, Reason, RecvError};

use crate::support::{DEADLINE, in_both, pair, pair_without_looks, payload};

const SIZES: [usize; 9] = [0, 1, 40, 41, 3000, 65_536, 65_537, 1 << 20, 5_000_003];

/// Sends every message back until the peer has closed.
async fn echo(mut connection: Connection) -> usize {
    let mut count = 0;
    loop {
        match connection.recv_message(usize::MAX).await {
            Ok(message) => {
                connection.send(message.tag, &[&message.bytes]).await.unwrap();
                connection.recycle(message.bytes);
                count += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed(Reason::DONE), "{error}");
                return count;
            }
        }
    }
}

async fn ping(connection: &mut Connection, bytes: usize, nth: u8) {
    let message = payload(bytes, nth);
    let (middle, end) = (bytes / 3, bytes);
    let (tag, parts) = (u64::from(nth), [&message[..middle], &message[middle..end]]);
    connection.send(tag, &parts).await.unwrap();
    let answer = connection.recv_message(bytes).await.unwrap();
    assert!(answer.tag == tag && answer.bytes == message, "{bytes}");
}

#[test]
fn messages_of_all_lengths_come_back() {
    in_both(|| async {
        for spin in [Duration::ZERO, Duration::from_micros(50)] {
            let [mut one, mut other] = pair(Options::default()).await;
            one.set_spin(spin);
            other.set_spin(spin);
            let echoing = tokio::spawn(echo(other));
            for bytes in SIZES {
                for nth in 0..5 {
                    ping(&mut one, bytes, nth).await;
                }
            }
            one.close(Reason::DONE, Duration::from_secs(30)).await.unwrap();
            assert_eq!(echoing.await.unwrap(), 5 * SIZES.len());
        }
    });
}

/// With landing on demand a short message has several flags, so a receiver can see the first one before the last.
#[test]
fn short_messages_arrive_whole_with_landing_on_demand() {
    const MESSAGES: usize = 30_000;
    /// A slow host gets fewer messages, so that they come within the deadline.
    const TIME: Duration = Duration::from_secs(10);
    const LAST: u64 = 2;
    in_both(|| async {
        let tuning = Tuning { landing: Some(LandingMode::OnDemand), ..Tuning::default() };
        let [mut one, other] = pair(Options { tuning, ..Options::default() }).await;
        one.set_spin(Duration::from_micros(50));
        let mut sender = other.into_blocking().unwrap();
        let sending = std::thread::spawn(move || {
            let (message, begin, mut sent) = (payload(1000, 3), Instant::now(), 1);
            while sent < MESSAGES && begin.elapsed() < TIME {
                sender.send(1, &[&message], DEADLINE).unwrap();
                sent += 1;
            }
            sender.send(LAST, &[&message], DEADLINE).unwrap();
            sender.flush(DEADLINE).unwrap();
            sent
        });
        let (mut room, mut count, mut tag) = ([0; 1000], 0, 1);
        while tag != LAST {
            let received = one.recv(&mut [&mut room]).await;
            let received = received.unwrap_or_else(|error| panic!("{count}: {error}"));
            assert_eq!(received.bytes, 1000);
            (count, tag) = (count + 1, received.tag);
        }
        assert_eq!(room[..], payload(1000, 3)[..]);
        while !sending.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(sending.join().unwrap(), count);
    });
}

/// Each message finds its receiver asleep, or about to be.
#[test]
fn no_wake_up_is_lost() {
    in_both(|| async {
        let [mut one, other] = pair_without_looks(Options::default()).await;
        let echoing = tokio::spawn(echo(other));
        for nth in 0..2000_u32 {
            if nth.is_multiple_of(100) {
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            ping(&mut one, 8, nth.to_le_bytes()[0]).await;
        }
        drop(one);
        assert_eq!(echoing.await.unwrap(), 2000);
    });
}

#[test]
fn long_messages_are_left_by_borrowed_memory() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        let sending = tokio::spawn(async move {
            for bytes in SIZES {
                other.send(7, &[&payload(bytes, 9)]).await.unwrap();
            }
            other.flush().await.unwrap();
            other
        });
        let mut room = vec![0; SIZES[8]];
        for bytes in SIZES {
            let got = one.recv(&mut [&mut room]).await;
            match got {
                Ok(received) => {
                    assert_eq!((received.tag, received.bytes), (7, bytes));
                    assert_eq!(room[..bytes], payload(bytes, 9));
                }
                Err(RecvError::NeedsOwnedBuffer(incoming)) => {
                    assert!(bytes > 65_536 && incoming.tag == 7);
                    assert_eq!(one.recv_message(bytes).await.unwrap().bytes, payload(bytes, 9));
                }
                Err(other) => panic!("{bytes}: {other}"),
            }
        }
        drop(sending.await.unwrap());
    });
}

#[test]
fn a_message_for_which_there_is_no_room_is_still_there() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        other.send(1, &[b"twelve bytes"]).await.unwrap();
        assert!(matches!(one.recv(&mut [&mut [0; 11]]).await, Err(RecvError::TooSmall(_))));
        assert!(matches!(one.recv_message(11).await, Err(RecvError::TooSmall(_))));
        assert_eq!(one.peek().await.unwrap().tag, 1);
        assert_eq!(one.recv_message(12).await.unwrap().bytes, b"twelve bytes");
    });
}

/// Both directions at once, by two tasks each, with every message answered by nobody.
#[test]
fn two_halves_of_a_connection_work_in_two_tasks() {
    in_both(|| async {
        let ends = pair(Options::default()).await;
        let tasks = ends.map(|end| {
            let (mut send, mut recv) = end.split();
            let sending = tokio::spawn(async move {
                for nth in 0..600_usize {
                    send.send(nth as u64, &[&payload(nth * 200, 3)]).await.unwrap();
                }
                send.flush().await.unwrap();
                send
            });
            let receiving = tokio::spawn(async move {
                for nth in 0..600_usize {
                    let message = recv.recv_message(1 << 20).await.unwrap();
                    assert!(message.tag == nth as u64 && message.bytes == payload(nth * 200, 3), "{nth}");
                    recv.recycle(message.bytes);
                }
                // The peer's flush waits for acknowledgements, which go out while this end waits.
                let _ = tokio::time::timeout(Duration::from_millis(300), recv.peek()).await;
                recv
            });
            (sending, receiving)
        });
        for (sending, receiving) in tasks {
            let (send, recv) = (sending.await.unwrap(), receiving.await.unwrap());
            send.reunite(recv).map_err(drop).unwrap();
        }
    });
}

/// The receiver waits for something else once it has its message.
#[test]
fn what_was_received_is_acknowledged_at_once() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        for bytes in SIZES {
            let sending = async {
                one.send(1, &[&payload(bytes, 1)]).await.unwrap();
                one.flush().await.unwrap();
            };
            let receiving = async { other.recv_message(bytes).await.unwrap() };
            let (_, received) = tokio::join!(sending, receiving);
            assert!(received.bytes == payload(bytes, 1));
        }
    });
}

#[test]
fn a_silent_peer_ends_a_wait() {
    in_both(|| async {
        let options = Options { idle_timeout: Duration::from_millis(400), ..Options::default() };
        let [mut one, other] = pair(options).await;
        // Nothing polls it.
        let error = one.recv_message(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        drop(other);
    });
}

#[test]
fn waiting_ends_keep_each_other_alive() {
    in_both(|| async {
        let options = Options { idle_timeout: Duration::from_millis(400), ..Options::default() };
        let [mut one, mut other] = pair(options).await;
        let both = async { tokio::join!(one.peek(), other.peek()) };
        tokio::time::timeout(Duration::from_millis(2000), both).await.expect_err("nothing is sent");
    });
}
