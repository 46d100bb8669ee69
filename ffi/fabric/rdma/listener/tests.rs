//! Listening on a device that does what the test says.

use super::*;
use crate::budget::Budget;
use crate::fabric::rdma::AckTimeout;
use crate::fabric::rdma::fake_device::receive;
use crate::os::MemoryNode;
use crate::os::poll::poll_now;
use core::time::Duration;
use superpipe_core::driver::setup::{Kind, Packet, Tuning};
use superpipe_verbs::fake::{CmKind, answer, begin, calls, channel, script};

const HERE: &str = "192.0.2.1:7471";

/// A listener that may register 1 GiB, whatever this host's RLIMIT_MEMLOCK is.
fn listener(addresses: &[&str]) -> Listener {
    Budget::set_registered_max(1 << 30);
    begin();
    let addresses: Vec<SocketAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
    Listener::of(channel(), &addresses, RdmaDevice::default()).unwrap()
}

fn poll_requests(listener: &mut Listener) -> Result<(), ConnectError> {
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
    listener.again_ns = 0;
    let met = listener.try_accept(&options, monotonic_ns() + 20_000_000_000, monotonic_ns())?;
    assert!(met.is_none());
    Ok(())
}

/// rdma_cm tells that the device of the first address is gone.
fn removed(listener: &mut Listener) {
    let number = listener.places[0].id.as_ref().unwrap().number();
    script(|script| {
        script.about = number;
        script.events = vec![(CmKind::RDMA_CM_EVENT_DEVICE_REMOVAL, 0)];
    });
    poll_requests(listener).unwrap();
}

#[test]
fn the_backlog_is_no_short_one() {
    listener(&[HERE]);
    assert_eq!(script(|script| script.backlogs.clone()), [128]);
}

#[test]
fn a_device_that_comes_back_is_listened_at_again() {
    let mut listener = listener(&[HERE]);
    assert_eq!(listener.removed_device(), None);
    calls();
    removed(&mut listener);
    assert!(calls().contains(&"rdma_destroy_id"), "the id keeps the device");
    for errno in [libc::ENODEV, libc::EADDRNOTAVAIL] {
        answer("rdma_bind_addr", errno);
        poll_requests(&mut listener).unwrap();
        assert!(calls().contains(&"rdma_get_devices"), "librdmacm lets go of the device");
        assert_eq!(listener.removed_device().as_deref(), Some("the RDMA device of 192.0.2.1 is gone"));
    }
    answer("rdma_bind_addr", 0);
    calls();
    poll_requests(&mut listener).unwrap();
    assert!(calls().contains(&"rdma_listen"));
    assert_eq!((listener.removed_device(), listener.local_addr()), (None, HERE.parse().ok()));
    calls();
    poll_requests(&mut listener).unwrap();
    assert!(!calls().contains(&"rdma_listen"), "it does listen");
    removed(&mut listener);
    assert!(listener.removed_device().is_some(), "and again");
}

#[test]
fn other_failures_to_listen_again_are_errors() {
    let mut listener = listener(&[HERE]);
    removed(&mut listener);
    answer("rdma_bind_addr", libc::EADDRINUSE);
    let text = poll_requests(&mut listener).unwrap_err().to_string();
    assert!(text.contains("another process listens there"), "{text}");
    answer("rdma_bind_addr", 0);
    poll_requests(&mut listener).unwrap();
    assert_eq!(listener.removed_device(), None);
}

#[test]
fn another_device_or_id_is_not_ours() {
    let mut listener = listener(&[HERE]);
    script(|script| {
        script.about = usize::MAX;
        script.events = vec![(CmKind::RDMA_CM_EVENT_DEVICE_REMOVAL, 0)];
    });
    poll_requests(&mut listener).unwrap();
    assert_eq!(listener.removed_device(), None);
}

#[test]
fn beside_ipv4_every_ipv6_address_is_only_that() {
    const AFONLY: i32 = 2;
    for (addresses, options) in
        [(&["0.0.0.0:7", "[::]:7"][..], &[(AFONLY, 1)][..]), (&["[::]:7"], &[]), (&["0.0.0.0:7"], &[])]
    {
        listener(addresses);
        assert_eq!(script(|script| script.options.clone()), options);
    }
}

#[test]
fn listening_again_keeps_an_ipv6_address_as_it_was() {
    for (addresses, lost, is_only) in [(&["[::]:7"][..], 0, false), (&["0.0.0.0:7", "[::]:7"], 1, true)] {
        let mut listener = listener(addresses);
        listener.places[lost].id = None;
        script(|script| script.options.clear());
        poll_requests(&mut listener).unwrap();
        assert_eq!(listener.removed_device(), None);
        assert_eq!(script(|script| !script.options.is_empty()), is_only, "{addresses:?}");
    }
}

fn bind_beside(taken: &str, addresses: &[&str]) -> Result<Listener, ConnectError> {
    begin();
    script(|script| script.bound = vec![taken.parse().unwrap()]);
    let addresses: Vec<SocketAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
    Listener::of(channel(), &addresses, RdmaDevice::default())
}

#[test]
fn a_used_port_is_taken_even_between_wildcards() {
    for (taken, addresses) in [
        ("192.0.2.1:7", &["192.0.2.1:7"][..]),
        ("0.0.0.0:7", &["192.0.2.1:7"]),
        ("192.0.2.1:7", &["0.0.0.0:7"]),
        ("0.0.0.0:7", &["0.0.0.0:7"]),
        ("0.0.0.0:7", &["0.0.0.0:7", "[::]:7"]),
        ("[fd00::1]:7", &["0.0.0.0:7", "[::]:7"]),
        ("[::]:7", &["0.0.0.0:7", "[::]:7"]),
        ("[::]:7", &["[fd00::1]:7"]),
    ] {
        let error = bind_beside(taken, addresses).unwrap_err();
        assert!(is_taken(&error), "{addresses:?} beside {taken}: {error}");
        assert!(error.to_string().contains("another process listens there: take another port"), "{error}");
    }
    for (taken, addresses) in [
        ("192.0.2.1:7", &["192.0.2.2:7"][..]),
        ("0.0.0.0:8", &["0.0.0.0:7", "[::]:7"]),
        ("0.0.0.0:7", &["[fd00::1]:7", "[fd00::2]:7"]),
    ] {
        bind_beside(taken, addresses).unwrap();
    }
}

#[test]
fn an_address_of_no_device_is_not_taken() {
    for errno in [libc::EADDRNOTAVAIL, libc::ENODEV] {
        begin();
        answer("rdma_bind_addr", errno);
        let error = Listener::of(channel(), &[HERE.parse().unwrap()], RdmaDevice::default()).unwrap_err();
        assert!(is_absent(&error), "{error}");
    }
}

#[test]
fn a_port_of_the_kernels_choice_is_free_at_every_address() {
    begin();
    script(|script| {
        script.bound = vec!["[fd00::1]:41000".parse().unwrap(), "[::]:41001".parse().unwrap()];
        script.free_ports = [41_000, 41_001, 41_002, 41_003].into();
    });
    let addresses = ["0.0.0.0:0", "[::]:0"].map(|it| it.parse().unwrap());
    let listener = Listener::of(channel(), &addresses, RdmaDevice::default()).unwrap();
    let bound: Vec<String> = listener.places.iter().map(|place| place.address.to_string()).collect();
    assert_eq!(bound, ["0.0.0.0:41003", "[::]:41003"]);
}

#[test]
fn a_port_taken_meanwhile_is_no_removed_device() {
    let mut listener = listener(&["0.0.0.0:7"]);
    removed(&mut listener);
    script(|script| script.bound = vec!["192.0.2.9:7".parse().unwrap()]);
    let text = poll_requests(&mut listener).unwrap_err().to_string();
    assert!(text.contains("another process listens there"), "{text}");
}

const SECOND_NS: u64 = 1_000_000_000;
const DEADLINE_NS: u64 = 5 * SECOND_NS;
/// Calls of a wire that waits for its last word, or for a good-bye.
const WAITS: [&str; 2] = ["rdma_get_cm_event", "poll_cq"];

/// Connections of clients that have asked, accepted one after the other.
fn accepted(listener: &mut Listener, count: usize) -> Vec<Accepting> {
    answer("ibv_get_cq_event", libc::EAGAIN);
    script(|script| {
        script.private_data = PrivateData { mtu: None }.encode().to_vec();
        script.events = vec![(CmKind::RDMA_CM_EVENT_CONNECT_REQUEST, 0); count];
    });
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
    (0..count).map(|_| listener.try_accept(&options, DEADLINE_NS, 0).unwrap().unwrap()).collect()
}

#[test]
fn silent_clients_are_accepted_and_dropped_without_waiting() {
    const CLIENTS: usize = 5;
    let mut listener = listener(&[HERE]);
    let mut mutes = accepted(&mut listener, CLIENTS);
    assert_eq!(calls().iter().filter(|call| **call == "rdma_accept").count(), CLIENTS);
    assert_eq!(script(|script| script.ack_timeouts.clone()), [19; CLIENTS], "that of 2 s");
    for at_ns in [0, SECOND_NS, 2 * SECOND_NS - 1] {
        let driven = mutes.into_iter().map(|mute| match mute.drive(at_ns) {
            Accepted::Pending(mute) => mute,
            _ => panic!("it may still say HELLO"),
        });
        mutes = driven.collect();
        assert!(mutes.iter().all(|mute| mute.timeout_ns() == 2 * SECOND_NS));
    }
    calls();
    for mute in mutes {
        assert!(matches!(mute.drive(2 * SECOND_NS), Accepted::Nobody), "wire.md 10.2: it is gone");
        let calls = calls();
        let end = calls.iter().position(|call| *call == "rdma_disconnect").unwrap();
        assert!(!calls.contains(&"post_send"), "nobody would take it in: {calls:?}");
        assert!(!calls[end..].iter().any(|call| WAITS.contains(call)), "{calls:?}");
    }
}

#[test]
fn an_accepting_connection_reports_its_handshake() {
    let mut listener = listener(&[HERE]);
    script(|script| script.are_channels_readable = true);
    let [end] = accepted(&mut listener, 1).try_into().ok().unwrap();
    let mut fds = end.interests();
    assert!(poll_now(&mut fds) && fds[1].is_readable() && !fds[0].is_readable(), "rdma_cm has told");
    assert_eq!((end.steps(), end.share_bytes(), end.lacks()), (0, 0, None));
    receive(&Packet::new(Kind::Hello).0);
    let Accepted::Pending(end) = end.drive(0) else { panic!("GRANT is due") };
    assert!(end.share_bytes() > 1 << 16, "{}", end.share_bytes());
    assert_eq!((end.steps(), end.lacks(), end.timeout_ns()), (1, None, DEADLINE_NS));
    script(|script| script.events = vec![(CmKind::RDMA_CM_EVENT_DISCONNECTED, 0)]);
    assert!(matches!(end.drive(1), Accepted::Nobody), "it went away");
}

#[test]
fn without_room_a_connection_waits_until_refuse() {
    let mut listener = listener(&[HERE]);
    answer("ibv_get_cq_event", libc::EAGAIN);
    script(|script| {
        script.private_data = PrivateData { mtu: None }.encode().to_vec();
        script.events = vec![(CmKind::RDMA_CM_EVENT_CONNECT_REQUEST, 0)];
    });
    let tuning = Tuning { landing_bytes: Some(600 << 20), ..Tuning::default() };
    let options = RdmaOptions {
        tuning: &tuning,
        landing_bytes_max: 600 << 20,
        idle_timeout_ns: 30_000_000_000,
        device: RdmaDevice::default(),
        ack_timeout: AckTimeout::default(),
        memory_node: MemoryNode::Auto,
        shards: None,
    };
    let end = listener.try_accept(&options, DEADLINE_NS, 0).unwrap().unwrap();
    receive(&Packet::new(Kind::Hello).0);
    let Accepted::Pending(mut end) = end.drive(0) else { panic!("it waits") };
    assert!(end.lacks().is_some_and(|bytes| bytes > 1200 << 20));
    end.refuse();
    let Accepted::Pending(end) = end.drive(1) else { panic!("the peer is told") };
    assert_eq!(end.lacks(), None);
    assert!(matches!(end.drive(DEADLINE_NS), Accepted::Failed(ConnectError::Budget(_))));
}

#[test]
fn a_request_that_came_over_another_device_is_refused() {
    begin();
    let device = RdmaDevice { name: Some("rxe9".parse().unwrap()), gid_index: None };
    let mut listener = Listener::of(channel(), &[HERE.parse().unwrap()], device).unwrap();
    script(|script| {
        script.private_data = PrivateData { mtu: None }.encode().to_vec();
        script.events = vec![(CmKind::RDMA_CM_EVENT_CONNECT_REQUEST, 0)];
    });
    let text = poll_requests(&mut listener).unwrap_err().to_string();
    assert!(text.contains("not over rxe9"), "{text}");
    assert!(calls().contains(&"rdma_reject"));
}

#[test]
fn a_client_silent_after_hello_is_refused_in_time() {
    let mut listener = listener(&[HERE]);
    let [mute] = accepted(&mut listener, 1).try_into().ok().unwrap();
    receive(&Packet::new(Kind::Hello).0);
    let Accepted::Pending(mute) = mute.drive(SECOND_NS) else { panic!("GRANT is due") };
    assert_eq!(mute.timeout_ns(), DEADLINE_NS);
    // REFUSED goes out, which it has a moment to take in.
    let Accepted::Pending(mute) = mute.drive(DEADLINE_NS) else { panic!("it is told") };
    let gone_ns = mute.timeout_ns();
    assert!(gone_ns - DEADLINE_NS <= SECOND_NS / 10, "{gone_ns}");
    calls();
    let Accepted::Failed(error) = mute.drive(gone_ns) else { panic!("its time is over") };
    assert_eq!(error, ConnectError::TimedOut);
    let calls = calls();
    assert!(!calls.contains(&"post_send"), "{calls:?}");
    let end = calls.iter().position(|call| *call == "rdma_disconnect").unwrap();
    assert!(!calls[end..].iter().any(|call| WAITS.contains(call)), "{calls:?}");
}

#[test]
fn a_half_open_connection_is_dropped_without_a_wait() {
    let mut listener = listener(&[HERE]);
    let [mute] = accepted(&mut listener, 1).try_into().ok().unwrap();
    let Accepted::Pending(mute) = mute.drive(0) else { panic!("it may still say HELLO") };
    calls();
    drop(mute);
    let calls = calls();
    assert_eq!(calls[0], "rdma_disconnect", "{calls:?}");
    assert!(!calls.contains(&"rdma_get_cm_event"), "{calls:?}");
}

#[test]
fn a_foreign_client_is_an_error_and_the_next_is_accepted() {
    let mut listener = listener(&[HERE]);
    script(|script| {
        script.private_data = b"GET / HTTP/1.1".to_vec();
        script.events = vec![(CmKind::RDMA_CM_EVENT_CONNECT_REQUEST, 0)];
    });
    poll_requests(&mut listener).unwrap_err();
    assert!(calls().contains(&"rdma_reject"));
    accepted(&mut listener, 1);
}

#[test]
fn a_dropped_listener_frees_addresses_but_not_in_a_child() {
    let listener = listener(&[HERE]);
    calls();
    // SAFETY: the child has only this thread, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(listener);
        let destroys = calls().contains(&"rdma_destroy_id");
        // SAFETY: _exit ends the child and runs nothing of the program's.
        unsafe { libc::_exit(i32::from(destroys)) };
    }
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the parent listens there");
    drop(listener);
    assert!(calls().contains(&"rdma_destroy_id"));
}

#[test]
fn unusable_addresses_are_skipped_unless_all_are() {
    // A host without IPv6.
    let any = ["0.0.0.0:7", "[::]:7"].map(|it| it.parse().unwrap());
    begin();
    answer("rdma_set_option", libc::EAFNOSUPPORT);
    let listener = Listener::of(channel(), &any, RdmaDevice::default()).unwrap();
    assert_eq!((listener.places.len(), listener.local_addr()), (1, Some(any[0])));
    answer("rdma_bind_addr", libc::EACCES);
    let error = Listener::of(channel(), &any, RdmaDevice::default()).unwrap_err();
    let text = error.to_string();
    assert!(!is_taken(&error) && !is_absent(&error) && text.contains("ermission denied"), "{text}");
}

#[test]
fn a_child_of_fork_leaves_requests_to_its_parent() {
    let mut listener = listener(&[HERE]);
    answer("ibv_get_cq_event", libc::EAGAIN);
    script(|script| {
        script.private_data = PrivateData { mtu: None }.encode().to_vec();
        script.events = vec![(CmKind::RDMA_CM_EVENT_CONNECT_REQUEST, 0)];
    });
    calls();
    // SAFETY: the child has only this thread, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
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
        let accepted = listener.try_accept(&options, DEADLINE_NS, 0);
        let has_taken = calls().contains(&"rdma_get_cm_event") || accepted.is_ok_and(|it| it.is_some());
        // SAFETY: _exit ends the child and runs nothing of the program's.
        unsafe { libc::_exit(i32::from(has_taken)) };
    }
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the request is taken, and the parent never sees it");
}
