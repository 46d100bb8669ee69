//! Places of a poller, and errors of its options.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;

use superpipe::{
    Connection, ErrorKind, Listener, Options, PollEvent, PollEvents, Poller, PollerOptions, Tuning,
    WaitStrategy,
};

use crate::support::{DEADLINE, address, client, ping, poll_until, serve, server};

#[test]
fn clients_wait_for_a_place_and_nothing_is_lost() {
    let (mut poller, _, address) = server(PollerOptions { connections_max: 2, ..PollerOptions::default() });
    thread::scope(|scope| {
        for index in 0..12 {
            client(scope, &address, move |mut connection| ping(&mut connection, 3000, index));
        }
        assert!((1..=2).contains(&serve(&mut poller, 12)));
        assert_eq!(poller.connection_count(), 0);
    });
}

#[test]
fn what_has_no_place_is_refused_and_told() {
    let (mut poller, _, there) =
        server(PollerOptions { connections_max: 1, listeners_max: 1, ..PollerOptions::default() });
    let error = poller.listen(&address(), Options::default()).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Limit && error.to_string().contains("PollerOptions::listeners_max"),
        "{error}"
    );
    poller.connect(&address(), Options::default(), DEADLINE).unwrap();
    let error = poller.connect(&there, Options::default(), DEADLINE).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Limit && error.to_string().contains("PollerOptions::connections_max"),
        "{error}"
    );
    let mut other = Listener::bind(&address(), Options::default()).unwrap();
    let address = other.local_addr().clone();
    thread::scope(|scope| {
        scope.spawn(|| other.accept(DEADLINE).unwrap());
        let connection = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
        let (mut connection, error) = poller.adopt(connection).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(connection.try_send(1, &[b"it is still a connection"]).is_ok());
    });
    for connections_max in [0, u32::MAX] {
        let error = Poller::new(PollerOptions { connections_max, ..PollerOptions::default() }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("connections_max"), "{error}");
    }
}

#[test]
fn a_poll_ends_by_its_deadline_or_interrupt_flag() {
    static INTERRUPT: AtomicBool = AtomicBool::new(false);
    for wait in WaitStrategy::ALL {
        INTERRUPT.store(false, Ordering::Relaxed);
        let (mut poller, _, _) =
            server(PollerOptions { wait, interrupt: Some(&INTERRUPT), ..PollerOptions::default() });
        let mut events = PollEvents::with_capacity(0);
        poller.poll(&mut events, Duration::ZERO).unwrap();
        poller.poll(&mut events, Duration::from_millis(20)).unwrap();
        assert!(events.is_empty());
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                INTERRUPT.store(true, Ordering::Relaxed);
            });
            let error = poller.poll(&mut events, DEADLINE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);
        });
    }
}

/// The listener accepts nobody, so nothing but the flag ends the connect.
#[test]
fn a_flag_ends_a_connect_whose_listener_says_nothing() {
    static INTERRUPT: AtomicBool = AtomicBool::new(false);
    let silent = Listener::bind(&address(), Options::default()).unwrap();
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    let options = Options { interrupt: Some(&INTERRUPT), ..Options::default() };
    let key = poller.connect(silent.local_addr(), options, Duration::MAX).unwrap();
    let mut events = PollEvents::with_capacity(1);
    poller.poll(&mut events, Duration::from_millis(20)).unwrap();
    assert!(events.is_empty(), "{events:?}");
    INTERRUPT.store(true, Ordering::Relaxed);
    poller.poll(&mut events, DEADLINE).unwrap();
    let failed = PollEvent::ConnectFailed { connection: key, kind: ErrorKind::Interrupted };
    assert_eq!(events.iter().collect::<Vec<_>>(), [failed]);
}

#[test]
fn an_adopted_listener_serves_and_tells_why_a_client_failed() {
    let mut poller = Poller::new(PollerOptions { listeners_max: 1, ..PollerOptions::default() }).unwrap();
    let tuning = Tuning { folds: Some(3), ..Tuning::default() };
    let made = Listener::bind(&address(), Options { tuning, ..Options::default() }).unwrap();
    let there = made.local_addr().clone();
    let listener = poller.adopt_listener(made).unwrap();
    assert_eq!(poller.local_addr(listener), Some(&there));
    let other = Listener::bind(&address(), Options::default()).unwrap();
    assert_eq!(poller.adopt_listener(other).unwrap_err().kind(), ErrorKind::Limit);
    assert!(poller.take_accept_error(listener).is_none());
    thread::scope(|scope| {
        scope.spawn(|| {
            let tuning = Tuning { folds: Some(2), ..Tuning::default() };
            let options = Options { tuning, ..Options::default() };
            assert!(Connection::connect(&there, options, DEADLINE).is_err());
        });
        poll_until(&mut poller, |poller, event| {
            let PollEvent::AcceptFailed { listener: of, kind } = event else { return false };
            let error = poller.take_accept_error(of).unwrap();
            assert_eq!((of, error.kind(), kind), (listener, kind, ErrorKind::Usage));
            assert!(error.to_string().contains("disagree"), "{error}");
            assert!(poller.take_accept_error(of).is_none(), "it is taken once");
            true
        });
        client(scope, &there, |mut connection| ping(&mut connection, 3000, 7));
        serve(&mut poller, 1);
    });
}
