//! Connecting on a device that does what the test says: what is attempted, for how long, and what is result of it.

use super::*;
use crate::fabric::rdma::{AckTimeout, RdmaDevice};
use crate::os::MemoryNode;
use superpipe_core::driver::setup::Tuning;
use superpipe_verbs::CmFailure;
use superpipe_verbs::fake::{CmKind, answer, begin, calls, channel, script};

const SECOND_NS: u64 = 1_000_000_000;
const LOST: ConnectError = ConnectError::Lost("before");
const REFUSED: ConnectError = ConnectError::Refused(CmFailure { kind: CmEventKind::REJECTED, status: 28 });

fn addresses(count: u8) -> Vec<SocketAddr> {
    (0..count).map(|host| SocketAddr::from(([192, 0, 2, host], 7))).collect()
}

/// Connects with attempts that end so, in turn. Returns the result and the count of attempts.
fn outcome(answers: &[Result<u32, ConnectError>], deadline_ns: u64) -> (Result<u32, ConnectError>, usize) {
    let mut answers = answers.iter();
    let attempts = answers.len();
    let addresses = addresses(2);
    let mut due = addresses.iter().cycle();
    let result = connect_any(&addresses, deadline_ns, |address, _| {
        assert_eq!(Some(&address), due.next(), "each in turn");
        answers.next().expect("enough was attempted").clone()
    });
    (result, attempts - answers.len())
}

#[test]
fn a_transient_error_goes_before_the_last_addresss() {
    let other = || ConnectError::NotFound("no device".into());
    for (first, second, worst) in [
        (LOST, REFUSED, LOST),
        (REFUSED, LOST, LOST),
        (ConnectError::Nobody, LOST, LOST),
        (LOST, ConnectError::Nobody, ConnectError::Nobody),
        (REFUSED, other(), other()),
        (other(), REFUSED, REFUSED),
    ] {
        assert_eq!(outcome(&[Err(first), Err(second)], u64::MAX), (Err(worst), 2));
    }
}

#[test]
fn an_answer_a_refusal_or_the_flag_ends_the_attempts() {
    assert_eq!(outcome(&[Ok(1), Ok(2)], u64::MAX), (Ok(1), 1));
    assert_eq!(outcome(&[Err(REFUSED), Ok(2)], u64::MAX), (Ok(2), 2));
    let refused = PacketError::Refused { code: 2, text: "no".into() };
    for last in [ConnectError::Interrupted, ConnectError::Packet(refused)] {
        assert_eq!(outcome(&[Err(last.clone()), Ok(2)], u64::MAX), (Err(last), 1));
    }
}

#[test]
fn only_timeouts_are_retried_until_the_deadline() {
    let late = || Err(ConnectError::TimedOut);
    assert_eq!(outcome(&[late(), late(), Err(REFUSED), late(), Ok(5)], u64::MAX), (Ok(5), 5));
    assert_eq!(outcome(&[late(), Err(LOST), Ok(3)], u64::MAX), (Err(LOST), 2));
    assert_eq!(outcome(&[late(), late(), Ok(3)], 0), (late(), 2));
    assert_eq!(connect_any(&[], 0, |_, _| Ok(())), Err(ConnectError::TimedOut));
}

#[test]
fn each_attempt_has_twice_the_time_and_some_jitter() {
    let (addresses, mut rounds) = (addresses(50), [0_u64; 2].map(|_| Vec::new()));
    let begun_ns = monotonic_ns();
    let mut count = 0;
    let ended = connect_any(&addresses, u64::MAX, |_, end_ns| {
        let attempt_ns = ATTEMPT_NS << (count / 50);
        assert!(end_ns >= begun_ns + attempt_ns, "the whole of it");
        let left_ns = end_ns.saturating_sub(monotonic_ns());
        assert!(left_ns < attempt_ns + attempt_ns / 4, "{left_ns}");
        rounds[count / 50].push(left_ns > attempt_ns);
        count += 1;
        if count < 100 { Err(ConnectError::TimedOut) } else { Ok(()) }
    });
    assert_eq!((ended, count), (Ok(()), 100));
    assert!(rounds.iter().all(|round| round.contains(&true)), "nothing was added: {rounds:?}");
}

/// The error of an attempt that meets these events, until a time that has passed; and what was called.
fn answered(events: &[CmKind]) -> (ConnectError, Vec<&'static str>) {
    begin();
    script(|script| {
        let steps = [CmKind::RDMA_CM_EVENT_ADDR_RESOLVED, CmKind::RDMA_CM_EVENT_ROUTE_RESOLVED];
        script.events = steps.iter().chain(events).map(|kind| (*kind, 0)).collect();
        script.private_data = PrivateData { mtu: None }.encode().to_vec();
    });
    answer("ibv_get_cq_event", libc::EAGAIN);
    (attempt_until(0, &|| false), calls())
}

fn attempt_until(deadline_ns: u64, interrupted: &dyn Fn() -> bool) -> ConnectError {
    let tuning = Tuning::default();
    let options = RdmaOptions {
        tuning: &tuning,
        landing_bytes_max: 1 << 20,
        idle_timeout_ns: 30_000_000_000,
        device: RdmaDevice::default(),
        ack_timeout: AckTimeout::at_least(Duration::from_secs(2)),
        memory_node: MemoryNode::Auto,
        shards: None,
    };
    let deadline = ConnectDeadline { deadline_ns, interrupted };
    connect_by(channel(), None, "192.0.2.1:7".parse().unwrap(), &options, &deadline).err().unwrap()
}

#[test]
fn only_a_connect_response_is_confirmed() {
    let (error, calls) = answered(&[CmKind::RDMA_CM_EVENT_CONNECT_RESPONSE]);
    assert_eq!(error, ConnectError::TimedOut, "the handshake has begun");
    assert!(calls.contains(&"rdma_establish"));
    assert_eq!(script(|script| script.ack_timeouts.clone()), [19], "that of 2 s");
    // RDMA_OPTION_ID_ACK_TIMEOUT: rdma_cm repeats its own requests by 67 ms.
    assert!(script(|script| script.options.contains(&(3, 14))));
    let (error, calls) = answered(&[CmKind::RDMA_CM_EVENT_ESTABLISHED]);
    assert_eq!(error, ConnectError::TimedOut, "the handshake has begun");
    assert!(!calls.contains(&"rdma_establish"));
    let (error, calls) = answered(&[CmKind::RDMA_CM_EVENT_ADDR_RESOLVED]);
    assert_eq!(error, unexpected(CmEventKind::ESTABLISHED, CmEventKind::ADDR_RESOLVED));
    assert!(!calls.contains(&"rdma_establish"));
}

#[test]
fn every_step_ends_by_deadline_or_flag() {
    let steps = [CmKind::RDMA_CM_EVENT_ADDR_RESOLVED, CmKind::RDMA_CM_EVENT_ROUTE_RESOLVED];
    for done in 0..=steps.len() {
        for (wait_ns, is_set, error) in [
            (SECOND_NS / 4, false, ConnectError::TimedOut),
            (10 * SECOND_NS, true, ConnectError::Interrupted),
        ] {
            begin();
            script(|script| script.events = steps[..done].iter().map(|step| (*step, 0)).collect());
            let result = attempt_until(monotonic_ns() + wait_ns, &|| is_set);
            assert_eq!(result, error, "after {done} steps");
        }
    }
}

#[test]
fn over_iwarp_a_thread_asks_and_elsewhere_the_caller_does() {
    for (is_iwarp, asks) in [(true, false), (false, true)] {
        begin();
        script(|script| {
            script.is_iwarp = is_iwarp;
            script.events = [
                CmKind::RDMA_CM_EVENT_ADDR_RESOLVED,
                CmKind::RDMA_CM_EVENT_ROUTE_RESOLVED,
                CmKind::RDMA_CM_EVENT_REJECTED,
            ]
            .map(|kind| (kind, 28))
            .to_vec();
        });
        let error = alone();
        assert!(error.is_transient(), "{error:?}");
        // Calls of the thread that asks are its own.
        assert_eq!(calls().contains(&"rdma_connect"), asks);
    }
}

#[test]
fn a_step_has_what_is_left_up_to_two_seconds_and_never_nothing() {
    let step = |left_ns| {
        let deadline_ns = monotonic_ns() + left_ns;
        step_ms(&ConnectDeadline { deadline_ns, interrupted: &|| false })
    };
    assert_eq!((step(0), step(100 * SECOND_NS)), (1, 2000));
    let some = step(SECOND_NS * 19 / 10);
    assert!((1..=1900).contains(&some), "{some}");
}

/// Result of an attempt that ended with this event of rdma_cm.
fn attempt(kind: CmKind, status: i32, says: &[u8]) -> ConnectError {
    begin();
    script(|script| {
        script.events = vec![
            (CmKind::RDMA_CM_EVENT_ADDR_RESOLVED, 0),
            (CmKind::RDMA_CM_EVENT_ROUTE_RESOLVED, 0),
            (kind, status),
        ];
        script.private_data = says.to_vec();
    });
    alone()
}

fn alone() -> ConnectError {
    let tuning = Tuning::default();
    let options = RdmaOptions {
        tuning: &tuning,
        landing_bytes_max: 1 << 20,
        idle_timeout_ns: 30_000_000_000,
        device: RdmaDevice::default(),
        ack_timeout: AckTimeout::default(),
        memory_node: MemoryNode::Auto,
        shards: None,
    };
    let deadline = ConnectDeadline { deadline_ns: monotonic_ns() + 20_000_000_000, interrupted: &|| false };
    connect_by(channel(), None, "192.0.2.1:7".parse().unwrap(), &options, &deadline).err().unwrap()
}

#[test]
fn each_refusal_is_transient_or_final() {
    let silent = [0; 56];
    for (status, is_transient) in [
        // A full backlog, on iWARP.
        (-libc::ECONNRESET, true),
        (-libc::ECONNREFUSED, true),
        (-libc::EPROTO, false),
        (1, true),
        (3, true),
        (4, true),
        (5, false),
        (8, true),
        (10, true),
        (12, false),
        (28, true),
    ] {
        let error = attempt(CmKind::RDMA_CM_EVENT_REJECTED, status, &silent);
        assert_eq!(error.is_transient(), is_transient, "{status}: {error:?}");
    }
    for status in [-libc::ECONNRESET, 28] {
        let private_data = PrivateData { mtu: None }.encode();
        let error = attempt(CmKind::RDMA_CM_EVENT_REJECTED, status, &private_data);
        assert!(matches!(error, ConnectError::Refused(_)) && !error.is_transient(), "{error:?}");
        let mut newer = private_data;
        newer[8] += 1;
        let error = attempt(CmKind::RDMA_CM_EVENT_REJECTED, status, &newer);
        assert!(matches!(error, ConnectError::Packet(PacketError::Version { .. })), "{error:?}");
    }
}

#[test]
fn transient_errors_and_timeouts_may_pass() {
    for error in [ConnectError::Nobody, ConnectError::Lost("before"), ConnectError::TimedOut] {
        assert!(may_pass(&error), "{error}");
    }
    for error in [ConnectError::Interrupted, ConnectError::NotFound(String::new())] {
        assert!(!may_pass(&error), "{error}");
    }
}

#[test]
fn silence_is_transient_at_every_step() {
    let steps = [CmKind::RDMA_CM_EVENT_ADDR_RESOLVED, CmKind::RDMA_CM_EVENT_ROUTE_RESOLVED];
    let failures = [
        CmKind::RDMA_CM_EVENT_ADDR_ERROR,
        CmKind::RDMA_CM_EVENT_ROUTE_ERROR,
        CmKind::RDMA_CM_EVENT_UNREACHABLE,
    ];
    for (done, failure) in failures.into_iter().enumerate() {
        for (status, is_transient) in [(-libc::ETIMEDOUT, true), (-libc::ENODEV, false)] {
            begin();
            let events = steps[..done].iter().map(|step| (*step, 0)).chain([(failure, status)]);
            script(|script| script.events = events.collect());
            let error = alone();
            assert_eq!(error.is_transient(), is_transient, "{error:?}");
        }
    }
}

#[test]
fn what_a_driver_of_iwarp_answers_in_the_call_is_the_same() {
    for (errno, is_transient) in [
        (libc::ECONNRESET, true),
        (libc::ETIMEDOUT, true),
        (libc::EHOSTUNREACH, true),
        (libc::ECONNREFUSED, true),
        (libc::ENETUNREACH, false),
        (libc::ENOMEM, false),
    ] {
        begin();
        script(|script| {
            script.events =
                vec![(CmKind::RDMA_CM_EVENT_ADDR_RESOLVED, 0), (CmKind::RDMA_CM_EVENT_ROUTE_RESOLVED, 0)];
        });
        answer("rdma_connect", errno);
        let error = alone();
        assert_eq!(error.is_transient(), is_transient, "{error:?}");
    }
}
