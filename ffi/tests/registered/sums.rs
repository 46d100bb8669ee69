//! Both ends count the same, however a message is sent and received.

use std::io::{Read, Write};
use std::thread;

use superpipe::{Connection, Drive, LandingMode, Options, Protocol, RecvOperation, Registered, TrustedBuf};

use crate::{C0, DEADLINE, LANDINGS, alone, buffer, bytes, options, pair_of, register, settle, trusting};

type Take = fn(&mut Connection, &mut [u8]) -> usize;

/// Every way to receive `to.len()` bytes of a message or stream.
const TAKES: [(&str, Take); 7] = [
    ("recv_into", |b, to| b.recv_into(&mut [to], DEADLINE).unwrap().bytes),
    ("slices", |b, to| {
        let (one, other) = to.split_at_mut(to.len() / 3);
        b.recv_into(&mut [one, &mut [], other], DEADLINE).unwrap().bytes
    }),
    ("cold", |b, to| b.recv_into_cold(&mut [to], DEADLINE).unwrap().bytes),
    ("trusted", |b, to| {
        let mut sink = TrustedBuf::new(to.len()).unwrap();
        let bytes = b.recv_trusted(&mut sink, DEADLINE).unwrap().bytes;
        sink.read(0, to).unwrap();
        bytes
    }),
    ("stream of 7 bytes", |b, to| {
        let mut stream = b.accept_stream(DEADLINE).unwrap();
        let mut taken = 0;
        loop {
            let end = to.len().min(taken + 7);
            let mut more = [0; 1];
            let place = if taken == end { &mut more[..] } else { &mut to[taken..end] };
            match stream.read(place).unwrap() {
                0 => return taken,
                bytes => taken += bytes,
            }
        }
    }),
    ("stream", |b, to| {
        let mut all = Vec::new();
        b.accept_stream(DEADLINE).unwrap().read_to_end(&mut all).unwrap();
        to.copy_from_slice(&all);
        all.len()
    }),
    ("operation", |b, to| {
        let mut receive = RecvOperation::new();
        loop {
            if let Drive::Done(received) = b.drive_recv(&mut receive, &mut [to]).unwrap() {
                return received.bytes;
            }
            b.progress();
        }
    }),
];

#[test]
fn both_ends_count_the_same() {
    let _alone = alone();
    let source = buffer(3, 300_000);
    let all = bytes(3, 300_000);
    for protocol in Protocol::ALL.into_iter().filter(|protocol| *protocol != Protocol::Register) {
        for landing in LANDINGS {
            if protocol == Protocol::Provision && landing == LandingMode::AtConnect {
                continue;
            }
            let (mut a, mut b) = pair_of(trusting(options(protocol, landing)), trusting(Options::default()));
            if protocol == Protocol::RegisterCached {
                assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
            }
            for (name, take) in TAKES {
                for len in [0, 1, 39, 40, 41, 104, 105, 300, 4095, 4096, 5000, C0, C0 + 1, 300_000] {
                    // On demand the landing buffer has second lines once it has grown.
                    if (41..=104).contains(&len) && landing != LandingMode::AtConnect {
                        continue;
                    }
                    for way in 0..3 {
                        let is_stream = way == 2;
                        if is_stream && !name.starts_with("stream") {
                            continue;
                        }
                        let before = [a.counters(), b.counters()];
                        let mut to = vec![0; len];
                        thread::scope(|scope| {
                            let sender = scope.spawn(|| match way {
                                0 => a.send(7, &[&all[..len / 2], &all[len / 2..len]], DEADLINE).unwrap(),
                                1 => a.send_registered(7, &source, 0..len, DEADLINE).unwrap(),
                                _ => {
                                    let mut stream = a.open_stream(7, DEADLINE).unwrap();
                                    stream.set_deadline(DEADLINE);
                                    stream.write_all(&all[..len]).unwrap();
                                    stream.finish(DEADLINE).unwrap();
                                }
                            });
                            assert_eq!(take(&mut b, &mut to), len);
                            sender.join().unwrap();
                        });
                        assert!(to == all[..len]);
                        settle(&mut a, &mut b);
                        let [sent, received] = [a.counters(), b.counters()];
                        let case = format!("{protocol} {landing:?} {name} {len} {way}");
                        let is_inline = len <= 104 && !is_stream;
                        let bytes_of_chunks = if is_inline { 0 } else { len as u64 };
                        assert_eq!(sent.inline_sent - before[0].inline_sent, u64::from(is_inline), "{case}");
                        assert_eq!(
                            received.inline_received - before[1].inline_received,
                            u64::from(is_inline),
                            "{case}"
                        );
                        assert_eq!(sent.bytes_sent - before[0].bytes_sent, bytes_of_chunks, "{case}");
                        assert_eq!(
                            received.bytes_received - before[1].bytes_received,
                            bytes_of_chunks,
                            "{case}"
                        );
                        assert_eq!(sent.chunks_sent, received.chunks_received, "{case}");
                        assert_eq!(sent.exposed_bytes_sent, received.exposed_bytes_received, "{case}");
                        assert_eq!(sent.split_bytes_sent, received.split_bytes_received, "{case}");
                    }
                }
            }
        }
    }
}
