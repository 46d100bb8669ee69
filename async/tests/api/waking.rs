//! Wake-ups: none is lost between the two halves, and nothing that was dropped keeps a task busy.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::time::Instant;

use superpipe_tokio::{ErrorKind, Options};

use crate::support::{in_both, pair, payload};

/// Polls a future once, and drops it.
async fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}

/// Polls a future for a time, and returns how often it was polled. It must not be ready.
async fn polls_within<T>(time: Duration, future: impl Future<Output = T>) -> u32 {
    let mut polls = 0_u32;
    let mut future = pin!(future);
    let counted = poll_fn(|cx| {
        polls += 1;
        future.as_mut().poll(cx)
    });
    assert!(tokio::time::timeout(time, counted).await.is_err(), "there is nothing to wait for");
    polls
}

/// A call of one half takes the connection out of its sleep (`WaitableConnection::connection`). If it ends at once, nobody arms again for the half that waits, and nobody wakes it either.
#[test]
fn an_answer_wakes_the_half_that_slept_when_the_other_asked() {
    in_both(|| async {
        let mut took = Vec::new();
        for nth in 0..15 {
            let [one, mut other] = pair(Options::default()).await;
            let (mut send, mut recv) = one.split();
            let receiving = tokio::spawn(async move {
                recv.recv_message(1000).await.unwrap();
                (Instant::now(), recv)
            });
            tokio::time::sleep(Duration::from_millis(110 + 7 * nth)).await;
            send.send(1, &[b"question"]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
            let begin = Instant::now();
            other.send(1, &[b"answer"]).await.unwrap();
            let (end, _recv) = receiving.await.unwrap();
            took.push(end - begin);
        }
        took.sort();
        assert!(took[7] < Duration::from_millis(60), "median {:?} of {took:?}", took[7]);
    });
}

/// The wish of a send that was dropped is still that of the connection: there is room, so each arming says that there is something to do.
#[test]
fn a_dropped_send_makes_no_busy_loop_of_a_later_recv() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        let long = payload(3_000_000, 1);
        assert!(poll_once(one.send(5, &[&long])).await.is_none());
        other.recv_message(long.len()).await.unwrap_err();
        let polls = polls_within(Duration::from_millis(300), one.recv_message(10)).await;
        assert!(polls < 100, "{polls} polls in 300 ms");
    });
}

/// A task that received is aborted, and the other half waits.
#[test]
fn an_aborted_task_makes_no_busy_loop_of_the_other_half() {
    in_both(|| async {
        let [one, mut other] = pair(Options::default()).await;
        let (mut send, mut recv) = one.split();
        let receiving = tokio::spawn(async move { recv.recv_message(10).await.map(drop) });
        tokio::time::sleep(Duration::from_millis(20)).await;
        receiving.abort();
        let _ = receiving.await;
        other.send(1, &[b"unread"]).await.unwrap();
        let long = payload(3_000_000, 1);
        let polls = polls_within(Duration::from_millis(300), send.send(5, &[&long])).await;
        assert!(polls < 100, "{polls} polls in 300 ms");
    });
}

/// poller.md: an armed connection is looked at once, after 100 ms, and then only when its keepalive is due, 0.2, 0.4, 0.8, .. s after the last one.
#[test]
fn an_idle_connection_is_looked_at_rarely() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        let both = async {
            let time = Duration::from_secs(6);
            tokio::join!(polls_within(time, one.recv_message(10)), polls_within(time, other.recv_message(10)))
        };
        let polls = both.await;
        assert!(polls.0 < 20, "{polls:?} polls in 6 s");
    });
}

/// A dropped receive leaves its wish behind: what arrives then keeps a wait of the sender busy.
#[test]
fn a_dropped_recv_makes_no_busy_loop_of_a_later_flush() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        assert!(poll_once(one.recv_message(100)).await.is_none());
        other.send(1, &[b"unread"]).await.unwrap();
        // The other end takes nothing, so the flush waits.
        one.send(2, &[b"nobody takes it"]).await.unwrap();
        let mut polls = 0_u32;
        {
            let mut flush = pin!(one.flush());
            let counted = poll_fn(|cx| {
                polls += 1;
                flush.as_mut().poll(cx)
            });
            tokio::time::timeout(Duration::from_millis(300), counted).await.expect_err("nobody takes it");
        }
        assert!(polls < 100, "{polls} polls in 300 ms");
    });
}

/// A peer that was silent and is back is not silent.
#[test]
fn a_peer_that_is_back_is_not_silent() {
    in_both(|| async {
        let options = Options { idle_timeout: Duration::from_millis(800), ..Options::default() };
        let [mut one, mut other] = pair(options).await;
        let error = one.recv_message(10).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        other.send(1, &[b"back"]).await.unwrap();
        assert_eq!(one.recv_message(10).await.unwrap().bytes, b"back");
        let begin = Instant::now();
        let waited = tokio::time::timeout(Duration::from_millis(150), one.recv_message(10)).await;
        assert!(waited.is_err(), "{waited:?} after {:?}: the peer has just sent", begin.elapsed());
    });
}
