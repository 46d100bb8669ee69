//! Futures that are dropped before they are ready.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use superpipe_tokio::{ErrorKind, Options, Reason, RecvError};

use crate::support::{in_both, pair, payload};

/// Polls a future so many times, and drops it. Returns its result if it was ready.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(value) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Some(value);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[test]
fn a_dropped_recv_loses_nothing() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        let sending = tokio::spawn(async move {
            for nth in 0..300_usize {
                other.send(nth as u64, &[&payload(nth * 150, 1)]).await.unwrap();
                if nth.is_multiple_of(7) {
                    tokio::task::yield_now().await;
                }
            }
            other.flush().await.unwrap();
            other
        });
        let mut room = vec![0; 64 << 10];
        for nth in 0..300_usize {
            let received = loop {
                if let Some(received) = polled(one.recv(&mut [&mut room]), 1 + nth % 3).await {
                    break received.unwrap();
                }
                tokio::task::yield_now().await;
            };
            assert_eq!((received.tag, received.bytes), (nth as u64, nth * 150));
            assert_eq!(room[..received.bytes], payload(nth * 150, 1));
        }
        let _ = polled(one.recv(&mut [&mut room]), 1).await;
        drop(sending);
    });
}

#[test]
fn a_dropped_recv_message_goes_on_in_the_next() {
    const BYTES: usize = 9_000_000;
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        let sending = tokio::spawn(async move {
            for nth in 0..4 {
                other.send(u64::from(nth), &[&payload(BYTES, nth)]).await.unwrap();
            }
            other.flush().await.unwrap();
            other
        });
        for nth in 0..4 {
            let mut dropped = 0;
            let message = loop {
                // The room is that of the first call.
                let bytes_max = if dropped == 0 { BYTES } else { 0 };
                match polled(one.recv_message(bytes_max), 1).await {
                    Some(Ok(message)) => break message,
                    Some(Err(RecvError::TooSmall(_))) => dropped = 0,
                    Some(Err(error)) => panic!("{error}"),
                    None => dropped = usize::from(one.reject_would_lose().await),
                }
            };
            assert!(message.tag == u64::from(nth) && message.bytes == payload(BYTES, nth));
        }
        let _ = polled(one.peek(), 1).await;
        drop(sending);
    });
}

/// Asks whether a part of a message is kept.
trait Kept {
    async fn reject_would_lose(&mut self) -> bool;
}

impl Kept for superpipe_tokio::Connection {
    async fn reject_would_lose(&mut self) -> bool {
        matches!(polled(self.recv(&mut []), 1).await, Some(Err(RecvError::NeedsOwnedBuffer(_))))
    }
}

#[test]
fn a_dropped_send_that_has_begun_is_cancelled() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        let long = payload(3_000_000, 2);
        assert!(polled(one.send(5, &[&long]), 3).await.is_none(), "nobody receives it");
        // What was cancelled keeps nobody from sending the next.
        let (sent, error) = tokio::join!(one.send(6, &[b"next"]), other.recv_message(long.len()));
        sent.unwrap();
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled(Reason::GIVEN_UP), "{error}");
        let message = other.recv_message(10).await.unwrap();
        assert_eq!((message.tag, message.bytes), (6, b"next".to_vec()));
    });
}

#[test]
fn a_message_that_is_given_up_in_part_is_rejected() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        let sending = tokio::spawn(async move {
            let error = other.send(5, &[&payload(30_000_000, 2)]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected(Reason(4)));
            other.send(6, &[b"next"]).await.unwrap();
            other
        });
        while polled(one.recv_message(30_000_000), 1).await.is_some_and(|got| got.is_ok()) {}
        loop {
            if one.reject_would_lose().await {
                break;
            }
            let _ = polled(one.recv_message(30_000_000), 1).await;
            tokio::task::yield_now().await;
        }
        let (mut one, error) = one.into_blocking().map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(one.reject(Reason(4)));
        assert_eq!(one.recv_message(10).await.unwrap().bytes, b"next");
        drop(sending.await.unwrap());
    });
}

#[test]
fn a_dropped_accept_or_connect_leaves_nothing() {
    in_both(|| async {
        let address = crate::support::address();
        let options = Options::default();
        let mut listener = superpipe_tokio::Listener::bind(&address, options).unwrap();
        assert!(polled(listener.accept(), 2).await.is_none());
        let connect = || superpipe_tokio::Connection::connect(&address, options, Duration::from_secs(30));
        assert!(polled(connect(), 1).await.is_none());
        let (accepted, connected) = tokio::join!(
            async {
                // The client that gave up may be an error.
                loop {
                    if let Ok(accepted) = listener.accept().await {
                        break accepted;
                    }
                }
            },
            connect()
        );
        let (mut accepted, mut connected) = (accepted, connected.unwrap());
        connected.send(1, &[b"here"]).await.unwrap();
        assert_eq!(accepted.recv_message(4).await.unwrap().bytes, b"here");
    });
}
