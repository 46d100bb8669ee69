//! The end of a connection: what it waits for, and for how long.

use super::super::ending::ANSWER_NS;
use super::*;
use crate::os::monotonic_ns;
use core::time::Duration;
use std::time::Instant;

/// Calls in the drop of a wire that rdma_cm connected, with something sent that no completion tells of.
fn calls_of_the_end(is_established: bool) -> Vec<&'static str> {
    let mut ends = Ends::new();
    ends.connection.accept(&[]).unwrap();
    assert!(ends.connection.send_at_once(Message::Signal(Signal::Wake), false).unwrap());
    let last = posted().last().unwrap().id;
    if is_established {
        ends.connection.keep_open();
        sent(last + 1, WcStatus::SUCCESS);
    }
    script(|script| script.events = vec![(CmKind::RDMA_CM_EVENT_DISCONNECTED, 0)]);
    calls();
    drop(ends);
    let mut calls = calls();
    calls.dedup();
    calls
}

#[test]
fn only_an_established_connection_drains_at_its_end() {
    const LAST_WORD: [&str; 2] = ["post_send", "poll_cq"];
    let at = |calls: &[&str], name: &str| calls.iter().position(|call| *call == name);
    let established = calls_of_the_end(true);
    assert!(LAST_WORD.iter().all(|name| at(&established, name) < at(&established, "rdma_disconnect")));
    assert!(LAST_WORD.iter().all(|name| at(&established, name).is_some()), "{established:?}");
    assert!(at(&established, "rdma_disconnect") < at(&established, "rdma_get_cm_event"), "{established:?}");
    let failed = calls_of_the_end(false);
    assert!(at(&failed, "rdma_disconnect").is_some(), "the peer learns of the end: {failed:?}");
    for waits in LAST_WORD.into_iter().chain(["rdma_get_cm_event"]) {
        assert_eq!(at(&failed, waits), None, "{failed:?}");
    }
}

#[test]
fn a_drop_whose_time_is_up_waits_for_nothing() {
    let polls_with = |left_ns: u64| {
        let mut ends = established(Ends::new());
        // No completion comes, nor does the peer's agreement.
        assert!(ends.connection.send_at_once(Message::Signal(Signal::Wake), false).unwrap());
        calls();
        ends.connection.end_by(monotonic_ns() + left_ns);
        drop(ends);
        calls().iter().filter(|call| **call == "poll_cq").count()
    };
    assert_eq!(polls_with(0), 0);
    assert!(polls_with(300_000_000) > 0, "while there is time, it polls");
}

/// Deadline of drops whose disconnect nobody answers.
const LONG: Duration = Duration::from_secs(2);

/// Returns how long the drop of a connection lasts.
fn time_of_drop(mut ends: Ends) -> Duration {
    let begin = Instant::now();
    ends.connection.end_by(monotonic_ns() + u64::try_from(LONG.as_nanos()).unwrap());
    drop(ends);
    begin.elapsed()
}

/// Drops such connections. A busy host may hold one of several drops up.
fn assert_short(make: impl Fn() -> Ends) {
    let took: Vec<_> = (0..5).map(|_| time_of_drop(make())).take_while(|took| *took >= LONG / 2).collect();
    assert!(took.len() < 5, "{took:?}");
}

#[test]
fn only_iwarp_waits_for_a_peer_that_does_something_else() {
    assert_short(|| established(Ends::new()));
    let took = time_of_drop(established(Ends::iwarp()));
    // The clocks differ by less.
    assert!(took >= LONG - Duration::from_millis(100), "{took:?}: the answer proves that all has arrived");
}

/// The request is withdrawn with the id.
#[test]
fn a_drop_leaves_the_request_time_to_leave() {
    let took = time_of_drop(established(Ends::new()));
    // The clocks differ by less.
    assert!(took >= Duration::from_nanos(ANSWER_NS / 2), "{took:?}");
}

/// Answers to the peer's signals may fill the queue.
#[test]
fn a_full_queue_is_polled_before_the_last_work_request() {
    let mut ends = established(Ends::new());
    while ends
        .connection
        .send_at_once(Message::Signal(Signal::Wake), ends.connection.queue.room() == 2)
        .unwrap()
    {}
    assert_eq!(ends.connection.queue.room(), 0);
    assert!(!ends.connection.queue.ends_signaled());
    let ids: Vec<_> = posted().iter().map(|posted| posted.id).collect();
    // More than one poll takes.
    for _ in 0..20 {
        receive_immediate(IS_RECEIVE, Signal::Wake.encode());
    }
    sent(ids[ids.len() - 2], WcStatus::SUCCESS);
    calls();
    time_of_drop(ends);
    assert!(calls().contains(&"post_send"), "it asks for a completion");
}

#[test]
fn a_connection_that_has_failed_waits_for_no_answer() {
    for make in [Ends::new, Ends::iwarp] {
        assert_short(|| {
            let mut ends = established(make());
            ends.connection.finish(UNKNOWN_MESSAGE);
            ends
        });
    }
}

/// The answer to SLEEP is behind what the drop waits for.
#[test]
fn a_signal_in_a_drop_does_not_prolong_it() {
    assert_short(|| {
        let mut ends = established(Ends::new());
        assert!(ends.connection.send_at_once(Message::Signal(Signal::Wake), false).unwrap());
        let last = posted().last().unwrap().id;
        receive_immediate(IS_RECEIVE, Signal::Sleep.encode());
        sent(last + 1, WcStatus::SUCCESS);
        ends
    });
    assert_eq!(posted().len(), 2, "the drop asks for a completion, and SLEEP is answered");
}
