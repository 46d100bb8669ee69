//! Addresses of hosts: what is listened at, and what is refused where there is no RDMA device.

use core::time::Duration;
use std::net::TcpListener;
use std::thread;

use superpipe::{Address, Arrival, Connection, ErrorKind, Listener, Options, Peer, Tuning};

use crate::support::DEADLINE;

/// A port that nobody has, or at least none of these tests.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn meet(listen: &str, connect: &str) -> (Connection, Connection) {
    let mut listener = Listener::bind(&listen.parse().unwrap(), Options::default()).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let address = connect.parse().unwrap();
    (Connection::connect(&address, Options::default(), DEADLINE).unwrap(), accepting.join().unwrap())
}

#[test]
fn a_port_of_this_host_is_shared_memory_under_all_its_names() {
    let port = port();
    for (listen, connect) in [("localhost", "127.0.0.1"), ("", "localhost"), ("0.0.0.0", "[::1]")] {
        let (one, other) = meet(&format!("{listen}:{port}"), &format!("{connect}:{port}"));
        assert_eq!((one.description().fabric, other.description().fabric), ("shm", "shm"));
        assert!(
            matches!(one.peer(), Peer::Process(peer) if i64::from(peer.pid) == i64::from(std::process::id()))
        );
        assert!(one.peer().may_be(other.peer()));
        assert_eq!(one.description().arrival_reason, "shared memory keeps the order of stores");
    }
}

#[test]
fn a_loopback_address_is_for_this_host_alone() {
    let listener = |text: String| Listener::bind(&text.parse().unwrap(), Options::default()).unwrap();
    let here = listener(format!("localhost:{}", port()));
    assert!(here.socket_path().is_some() && here.rdma_unavailable().is_none());
    let everywhere = listener(format!(":{}", port()));
    assert!(everywhere.socket_path().is_some());
    #[cfg(feature = "verbs")]
    assert!(here.rdma_addr().is_none());
    #[cfg(feature = "verbs")]
    assert_ne!(everywhere.rdma_addr().is_some(), everywhere.rdma_unavailable().is_some());
    #[cfg(not(feature = "verbs"))]
    assert!(everywhere.rdma_unavailable().unwrap().contains("built without RDMA"));
}

#[test]
fn port_0_is_a_free_one_that_the_listener_names() {
    let mut kept = Vec::new();
    for text in ["localhost:0", "localhost:0", "127.0.0.1:0", "[::1]:0", ":0", "0.0.0.0:0"] {
        let asked: Address = text.parse().unwrap();
        let mut listener = Listener::bind(&asked, Options::default()).unwrap();
        let address = listener.local_addr().clone();
        let (Address::HostPort { host: asked, .. }, Address::HostPort { host, port }) = (&asked, &address)
        else {
            panic!("{address}")
        };
        assert_eq!(asked, host);
        assert!(*port != 0 && !kept.iter().any(|(_, other)| other == port), "{address}");
        assert!(listener.socket_path().unwrap().ends_with(format!("{port}.sock")));
        let accepting = thread::spawn(move || (listener.accept(DEADLINE).unwrap(), listener));
        drop(Connection::connect(&address, Options::default(), DEADLINE).unwrap());
        // Kept, so that its port is nobody else's.
        kept.push((accepting.join().unwrap().1, *port));
    }
    let free = "localhost:0".parse().unwrap();
    let mut listener = Listener::bind(&free, Options::default()).unwrap();
    let error = listener.accept(Duration::ZERO).unwrap_err().to_string();
    assert_eq!(error, format!("nobody connected to {}", listener.local_addr()));
}

#[test]
fn what_a_listener_was_told_it_names() {
    for address in [Address::Shm(crate::support::path()), format!("localhost:{}", port()).parse().unwrap()] {
        assert_eq!(Listener::bind(&address, Options::default()).unwrap().local_addr(), &address);
    }
}

#[test]
fn nobody_connects_to_port_0() {
    let verbs: &[&str] = if cfg!(feature = "verbs") { &["verbs:192.0.2.1:0", "verbs::0"] } else { &[] };
    for text in ["localhost:0", ":0", "192.0.2.1:0"].iter().chain(verbs) {
        let error = Connection::connect(&text.parse().unwrap(), Options::default(), DEADLINE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{text}: {error}");
        assert_eq!(
            error.to_string(),
            format!(
                "cannot connect to {text}: port 0 stands for any free port, to listen at; write the port that the \
                 listener got, 1 to 65535"
            )
        );
    }
}

#[test]
fn another_host_is_no_place_to_listen() {
    let error = Listener::bind(&"192.0.2.1:9".parse().unwrap(), Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert_eq!(error.to_string(), "cannot listen at 192.0.2.1:9: 192.0.2.1 is another host");
}

#[test]
fn a_listener_whose_time_is_over_says_where_it_waited() {
    let address = Address::HostPort { host: "localhost".into(), port: port() };
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let error = listener.accept(Duration::from_millis(20)).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::Timeout, format!("nobody connected to {address}"))
    );
}

#[test]
fn notifications_are_not_for_shared_memory() {
    let tuning = Tuning { arrival: Some(Arrival::Notify), ..Tuning::default() };
    let options = Options { tuning, ..Options::default() };
    for text in ["shm:/nowhere/x", "localhost:9"] {
        let address = text.parse().unwrap();
        let errors = [
            Connection::connect(&address, options, DEADLINE).unwrap_err(),
            Listener::bind(&address, options).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
            assert!(error.to_string().contains("cannot be notified"), "{error}");
        }
    }
}

#[cfg(not(feature = "verbs"))]
#[test]
fn another_host_needs_what_was_not_built_in() {
    let far = "192.0.2.1:9".parse().unwrap();
    let error = Connection::connect(&far, Options::default(), DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.to_string().starts_with("192.0.2.1 is another host, and this program was built without"));
}

#[cfg(feature = "verbs")]
mod verbs {
    use super::*;
    use superpipe::RdmaDevice;
    use superpipe_verbs::DeviceList;

    fn has_device() -> bool {
        DeviceList::get().is_ok_and(|list| list.iter().next().is_some())
    }

    fn to_rxe0() -> Options {
        let rdma_device = RdmaDevice { name: Some("rxe0".parse().unwrap()), gid_index: None };
        Options { rdma_device, ..Options::default() }
    }

    #[test]
    fn without_a_device_each_end_is_told_how_to_have_one() {
        if has_device() {
            return;
        }
        let told = |error: superpipe::Error| {
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Device, "{text}");
            assert!(
                text.contains("rdma link add rxe0 type rxe netdev eth0") || text.contains("install"),
                "{text}"
            );
        };
        let far = ["verbs:192.0.2.1:9", "verbs:localhost:9", "192.0.2.1:9"];
        for address in far.map(|text| text.parse().unwrap()) {
            told(Connection::connect(&address, Options::default(), DEADLINE).unwrap_err());
        }
        told(Listener::bind(&"verbs::9".parse().unwrap(), Options::default()).unwrap_err());
        // A device that is named is one that is wanted.
        let plain = format!(":{}", port()).parse().unwrap();
        told(Listener::bind(&plain, to_rxe0()).unwrap_err());
        let listener = Listener::bind(&plain, Options::default()).unwrap();
        assert!(listener.rdma_unavailable().is_some_and(|why| why.contains("; ")));
    }

    #[test]
    fn a_device_for_shared_memory_is_a_contradiction() {
        for text in ["shm:/nowhere/x", "localhost:9", "127.0.0.1"] {
            let address = text.parse().unwrap();
            let errors = [
                Connection::connect(&address, to_rxe0(), DEADLINE).unwrap_err(),
                Listener::bind(&address, to_rxe0()).unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
                assert!(error.to_string().contains("write verbs:HOST:PORT"), "{error}");
            }
        }
    }
}

#[test]
fn an_ipv4_address_written_as_ipv6_is_the_same_host() {
    let listener = Listener::bind(&"[::ffff:127.0.0.1]:0".parse().unwrap(), Options::default());
    assert!(listener.is_ok(), "{}", listener.unwrap_err());
}

#[test]
fn a_name_of_loopback_addresses_alone_is_for_this_host_alone() {
    let listener = Listener::bind(&"LOCALHOST:0".parse().unwrap(), Options::default()).unwrap();
    assert_eq!(listener.rdma_unavailable(), None, "it tried to listen for other hosts");
    #[cfg(feature = "verbs")]
    assert_eq!(listener.rdma_addr(), None);
}
