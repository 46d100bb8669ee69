//! Streams.

use superpipe_tokio::{Length, Options, Reason};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{in_both, pair, payload};

#[test]
fn a_stream_arrives_as_it_was_written() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        let bytes = payload(7_000_001, 5);
        let sent = bytes.clone();
        let sending = tokio::spawn(async move {
            let mut stream = other.open_stream(3).await.unwrap();
            let mut rest = &sent[..];
            for length in (1..).map(|nth| nth * 1009) {
                let (part, after) = rest.split_at(length.min(rest.len()));
                stream.write_all(part).await.unwrap();
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            stream.shutdown().await.unwrap();
            stream.shutdown().await.unwrap();
            assert_eq!(stream.write(b"more").await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
            drop(stream);
            other.send(4, &[b"then a message"]).await.unwrap();
            other.flush().await.unwrap();
        });
        let mut stream = one.accept_stream().await.unwrap();
        assert_eq!((stream.tag(), stream.length()), (3, Length::Stream));
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        assert!(got == bytes);
        drop(stream);
        assert_eq!(one.recv_message(100).await.unwrap().bytes, b"then a message");
        drop(one);
        sending.await.unwrap();
    });
}

#[test]
fn a_stream_that_is_dropped_is_cancelled() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        let mut stream = other.open_stream(3).await.unwrap();
        stream.write_all(b"a part").await.unwrap();
        drop(stream);
        let mut stream = one.accept_stream().await.unwrap();
        let mut got = Vec::new();
        let error = stream.read_to_end(&mut got).await.unwrap_err();
        assert!(error.to_string().contains("cancelled"), "{error}");
        assert_eq!(got, b"a part");
    });
}

#[test]
fn a_stream_that_is_rejected_ends_its_writer() {
    in_both(|| async {
        let [mut one, mut other] = pair(Options::default()).await;
        let writing = tokio::spawn(async move {
            let mut stream = other.open_stream(3).await.unwrap();
            let part = payload(100_000, 1);
            let error = loop {
                if let Err(error) = stream.write_all(&part).await {
                    break error;
                }
            };
            assert!(error.to_string().contains("rejected"), "{error}");
            drop(stream);
            other.send(4, &[b"next"]).await.unwrap();
            other
        });
        let mut stream = one.accept_stream().await.unwrap();
        let mut room = [0; 1000];
        assert!(stream.read(&mut room).await.unwrap() > 0);
        stream.reject(Reason(8));
        assert_eq!(one.recv_message(10).await.unwrap().bytes, b"next");
        drop(writing.await.unwrap());
    });
}
