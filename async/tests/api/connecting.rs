//! Connecting and accepting.

use core::time::Duration;

use superpipe_tokio::{Connection, ErrorKind, Listener, Options};

use crate::support::{DEADLINE, address, in_both, payload};

#[test]
fn a_hundred_clients_are_served_in_one_runtime() {
    in_both(|| async {
        let mut listener = Listener::bind(&address(), Options::default()).unwrap();
        let address = listener.local_addr().clone();
        let clients: Vec<_> = (0..100_u8)
            .map(|nth| {
                let address = address.clone();
                tokio::spawn(async move {
                    let mut connection =
                        Connection::connect(&address, Options::default(), DEADLINE).await.unwrap();
                    for round in 0..5_u8 {
                        let message = payload(1000 * usize::from(round), nth);
                        connection.send(u64::from(nth), &[&message]).await.unwrap();
                        assert_eq!(connection.recv_message(5000).await.unwrap().bytes, message);
                    }
                })
            })
            .collect();
        let serving = tokio::spawn(async move {
            for _ in 0..100 {
                let mut connection = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    while let Ok(message) = connection.recv_message(5000).await {
                        connection.send(message.tag, &[&message.bytes]).await.unwrap();
                    }
                });
            }
        });
        for client in clients {
            client.await.unwrap();
        }
        serving.await.unwrap();
    });
}

#[test]
fn a_connect_that_nobody_answers_fails_in_time() {
    in_both(|| async {
        let connected = Connection::connect(&address(), Options::default(), Duration::from_millis(50)).await;
        let kind = connected.map(drop).unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::Connect | ErrorKind::Timeout), "{kind:?}");
    });
}

#[test]
fn outside_a_runtime_there_is_an_error() {
    let error = Listener::bind(&address(), Options::default()).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("runtime"), "{error}");
}
