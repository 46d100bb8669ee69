//! Connections that fail, by the std API: the kind of each error, and its line with the remedy.

use crate::addresses;
use crate::api::{DEADLINE, address_of, listen};
use core::time::Duration;
use std::thread;
use superpipe::{Address, Connection, Error, ErrorKind, Listener, Options, RdmaDevice, Reason, Tuning};

fn refused(result: Result<Connection, Error>, kind: ErrorKind, words: &str) {
    let error = result.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn nobody_listens_and_then_somebody_does() {
    for ip in addresses() {
        let gone = address_of(&listen(ip, Options::default()));
        let soon = Duration::from_millis(1500);
        refused(Connection::connect(&gone, Options::default(), soon), ErrorKind::Connect, "nobody listens");
        thread::scope(|scope| {
            let late = scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                Listener::bind(&gone, Options::default()).unwrap().accept(DEADLINE).unwrap()
            });
            let connection = Connection::connect(&gone, Options::default(), DEADLINE).unwrap();
            drop(connection);
            drop(late.join().unwrap());
        });
    }
}

#[test]
fn a_device_or_gid_that_is_not_there() {
    for ip in addresses() {
        let listener = listen(ip, Options::default());
        let with = |device: Option<&str>, gid_index| {
            let rdma_device = RdmaDevice { name: device.map(|name| name.parse().unwrap()), gid_index };
            Options { rdma_device, ..Options::default() }
        };
        let address = address_of(&listener);
        let nope = with(Some("nope0"), None);
        refused(Connection::connect(&address, nope, DEADLINE), ErrorKind::Device, "no RDMA device \"nope0\"");
        let gid = Connection::connect(&address, with(None, Some(100_000)), DEADLINE).map(|_| ()).unwrap_err();
        assert!(matches!(gid.kind(), ErrorKind::Device | ErrorKind::Connect), "{gid}");
        assert!(gid.to_string().contains("GID"), "{gid}");
        let error = Listener::bind(&Address::Rdma { host: ip.to_string(), port: 0 }, nope).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    }
}

#[test]
fn conflicting_proposals_are_usage_errors_at_both_ends() {
    let with =
        |folds| Options { tuning: Tuning { folds: Some(folds), ..Tuning::default() }, ..Options::default() };
    for ip in addresses() {
        let mut listener = listen(ip, with(3));
        let address = address_of(&listener);
        thread::scope(|scope| {
            let accepting = scope.spawn(move || {
                let error = listener.accept(DEADLINE).map(|_| ()).unwrap_err();
                (error, listener.accept(DEADLINE).unwrap())
            });
            let words = "the two ends disagree: folds";
            refused(Connection::connect(&address, with(2), DEADLINE), ErrorKind::Usage, words);
            let mut one = Connection::connect(&address, with(3), DEADLINE).unwrap();
            let (error, mut other) = accepting.join().unwrap();
            assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
            one.send(5, &[b"after all"], DEADLINE).unwrap();
            assert_eq!(other.recv_into(&mut [&mut [0; 9]], DEADLINE).unwrap().tag, 5);
        });
    }
}

#[test]
fn a_used_port_is_taken_even_between_wildcards() {
    for ip in addresses() {
        let verbs = |host: &str, port| Address::Rdma { host: host.into(), port };
        let ip = ip.to_string();
        for (first, others) in [(&ip[..], [&ip[..], ""]), ("", ["", &ip])] {
            let listener = Listener::bind(&verbs(first, 0), Options::default()).unwrap();
            let port = listener.rdma_addr().unwrap().port();
            let plain = Address::HostPort { host: String::new(), port };
            for address in others.map(|host| verbs(host, port)).into_iter().chain([plain]) {
                let error = Listener::bind(&address, Options::default()).map(drop).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Connect, "{address} beside {first:?}: {error}");
                assert!(error.to_string().contains("another process listens there"), "{error}");
            }
        }
    }
}

#[test]
fn a_close_is_seen_with_its_reason() {
    for ip in addresses() {
        let mut listener = listen(ip, Options::default());
        let address = address_of(&listener);
        thread::scope(|scope| {
            scope.spawn(move || {
                listener.accept(DEADLINE).unwrap().close(Reason(42), DEADLINE).unwrap();
            });
            // A close that arrives while `connect` still waits ends it.
            let error = Connection::connect(&address, Options::default(), DEADLINE)
                .and_then(|mut one| one.recv_into(&mut [&mut [0; 8]], DEADLINE))
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed(Reason(42)), "{ip}: {error}");
        });
    }
}

#[test]
fn a_silent_peer_is_a_timeout() {
    for ip in addresses() {
        let mut listener = listen(ip, Options::default());
        let address = address_of(&listener);
        thread::scope(|scope| {
            let accepting = scope.spawn(move || listener.accept(DEADLINE).unwrap());
            let options = Options { idle_timeout: Duration::from_secs(1), ..Options::default() };
            let mut one = Connection::connect(&address, options, DEADLINE).unwrap();
            let _silent = accepting.join().unwrap();
            let error = one.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
            assert!(error.to_string().contains("silent for 1s"), "{error}");
        });
    }
}
