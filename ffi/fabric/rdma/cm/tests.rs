//! The life of a connection and its end, on a device that does what the test says.

use super::*;
use superpipe_verbs::fake::{CmKind, answer, begin, calls, channel, script};

const ESTABLISHED: CmKind = CmKind::RDMA_CM_EVENT_ESTABLISHED;
const DISCONNECTED: CmKind = CmKind::RDMA_CM_EVENT_DISCONNECTED;
const TIMEWAIT_EXIT: CmKind = CmKind::RDMA_CM_EVENT_TIMEWAIT_EXIT;
const SECOND_NS: u64 = 1_000_000_000;

fn cm() -> Cm {
    begin();
    again()
}

/// One on the device that is scripted already.
fn again() -> Cm {
    let channel = channel();
    let id = CmId::create(&channel).unwrap();
    calls();
    Cm::new(channel, id)
}

/// One that both ends agreed on, whose drop waits for nothing that has not come.
fn agreed() -> Cm {
    let mut cm = cm();
    cm.establish().unwrap();
    cm.keep_open();
    cm.end_by(0);
    calls();
    cm
}

fn come(events: &[CmKind]) {
    script(|script| script.events = events.iter().map(|kind| (*kind, 0)).collect());
}

/// Events that nobody has taken.
fn left() -> Vec<CmKind> {
    script(|script| script.events.iter().map(|(kind, _)| *kind).collect())
}

const PARAMS: ConnectParams<'_> =
    ConnectParams { qp_number: 5, private_data: b"hello", retries: 7, rnr_retries: 7 };

#[test]
fn the_drop_waits_only_for_the_event_that_ends_it() {
    let cm = agreed();
    come(&[ESTABLISHED, TIMEWAIT_EXIT, DISCONNECTED, ESTABLISHED]);
    drop(cm);
    assert_eq!(left(), [ESTABLISHED]);
    assert_eq!(calls()[0], "rdma_disconnect");
    // Where it does not come, the time ends it.
    let cm = agreed();
    come(&[ESTABLISHED]);
    drop(cm);
    assert_eq!((left(), calls()[0]), (vec![], "rdma_disconnect"));
}

#[test]
fn only_an_established_connection_waits_for_the_peer() {
    let mut cm = cm();
    assert!(!cm.is_kept_open());
    cm.accept(PARAMS).unwrap();
    come(&[DISCONNECTED]);
    calls();
    drop(cm);
    assert_eq!(left(), [DISCONNECTED]);
    assert_eq!(calls()[0], "rdma_disconnect");

    let cm = agreed();
    assert!(cm.is_kept_open());
    come(&[DISCONNECTED]);
    answer("rdma_disconnect", libc::EINVAL);
    drop(cm);
    assert_eq!(left(), [DISCONNECTED], "there is nothing to disconnect");
}

#[test]
fn only_a_connection_is_disconnected() {
    let mut connecting = cm();
    connecting.keep_open();
    drop(connecting);
    assert!(!calls().contains(&"rdma_disconnect"));

    let mut ended = agreed();
    come(&[DISCONNECTED]);
    ended.take_events();
    come(&[DISCONNECTED]);
    calls();
    drop(ended);
    assert!(!calls().contains(&"rdma_disconnect"));
    assert_eq!(left(), [DISCONNECTED]);
}

#[test]
fn every_end_is_an_end_and_nothing_else_is() {
    const REMOVED: CmKind = CmKind::RDMA_CM_EVENT_DEVICE_REMOVAL;
    for (events, is_connected, disconnects, is_device_gone) in [
        (&[][..], true, 0, false),
        (&[ESTABLISHED, CmKind::RDMA_CM_EVENT_ADDR_CHANGE], true, 0, false),
        (&[DISCONNECTED], false, 1, false),
        (&[TIMEWAIT_EXIT], false, 0, false),
        (&[DISCONNECTED, TIMEWAIT_EXIT], false, 1, false),
        (&[REMOVED], false, 1, true),
        (&[REMOVED, DISCONNECTED], false, 2, true),
    ] {
        let mut cm = agreed();
        come(events);
        cm.take_events();
        assert_eq!(left(), []);
        assert_eq!((cm.is_connected(), cm.is_device_gone()), (is_connected, is_device_gone), "{events:?}");
        let disconnected = calls().into_iter().filter(|call| *call == "rdma_disconnect").count();
        assert_eq!(disconnected, disconnects, "{events:?}");
    }
}

#[test]
fn events_are_taken_when_readable_until_the_end() {
    let mut silent = agreed();
    assert!(silent.is_connected());
    assert_eq!(calls(), [""; 0], "the channel is not readable");

    begin();
    script(|script| script.are_channels_readable = true);
    let mut cm = again();
    assert!(cm.is_connected());
    assert_eq!(calls(), ["rdma_get_cm_event"]);
    come(&[DISCONNECTED]);
    assert!(!cm.is_connected());
    assert_eq!(left(), []);
    calls();
    assert!(!cm.is_connected());
    assert_eq!(calls(), [""; 0], "it has ended");
}

#[test]
fn a_wait_for_an_event_ends_by_deadline_or_flag() {
    let mut cm = cm();
    come(&[CmKind::RDMA_CM_EVENT_CONNECT_RESPONSE, ESTABLISHED]);
    let came = cm.event(0, &|| false).unwrap().kind;
    assert_eq!((came, cm.state), (CmEventKind(CmKind::RDMA_CM_EVENT_CONNECT_RESPONSE.0), State::Connecting));
    assert_eq!(cm.event(0, &|| false).unwrap().kind, CmEventKind::ESTABLISHED);
    assert_eq!(cm.state, State::Connected);
    let quarter_ns = monotonic_ns() + SECOND_NS / 4;
    assert_eq!(cm.event(quarter_ns, &|| false).unwrap_err(), ConnectError::TimedOut);
    let far_ns = monotonic_ns() + 10 * SECOND_NS;
    assert_eq!(cm.event(far_ns, &|| true).unwrap_err(), ConnectError::Interrupted);
}

#[test]
fn the_end_of_the_drop_is_fixed_by_the_first_call() {
    let mut cm = cm();
    let before_ns = monotonic_ns();
    let by_ns = cm.ends_by();
    assert!((before_ns + DISCONNECT_NS..=monotonic_ns() + DISCONNECT_NS).contains(&by_ns));
    assert_eq!(cm.ends_by(), by_ns);
    cm.end_by(7);
    assert_eq!(cm.ends_by(), 7);
}

#[test]
fn options_are_passed_to_rdma_cm() {
    let mut cm = cm();
    assert_eq!((cm.port_number(), cm.peer_addr()), (2, None));
    cm.connect(PARAMS).unwrap();
    assert_eq!(cm.state, State::Connecting, "the peer has yet to answer");
    cm.reject(b"no");
    assert_eq!(calls(), ["rdma_connect", "rdma_reject"]);
    assert_eq!(script(|script| script.params.clone()), [(5, b"hello".to_vec())]);
    for (call, errno) in
        [("rdma_connect", libc::ENOMEM), ("rdma_accept", libc::ENOMEM), ("rdma_establish", libc::ENOMEM)]
    {
        answer(call, errno);
    }
    assert!(cm.connect(PARAMS).is_err() && cm.accept(PARAMS).is_err() && cm.establish().is_err());
    assert_eq!(cm.state, State::Connecting);

    come(&[CmKind::RDMA_CM_EVENT_CONNECT_REQUEST]);
    let request = channel().try_event().unwrap().unwrap().request.unwrap();
    let asked = Cm::new(channel(), request);
    assert_eq!(asked.peer_addr(), Some(SocketAddr::from(([192, 0, 2, 7], 7))));
}
