//! Transfers, byte for byte.

use crate::api::pattern;
use crate::devices;
use crate::end::{End, meet};
use std::thread;
use superpipe::{Arrival, Length, Tuning};
use superpipe_core::End as Ended;

const SIZES: [usize; 9] = [0, 1, 8, 40, 41, 4000, 70_000, 1 << 20, 3_000_001];

fn send_all(mut end: End) -> End {
    for (tag, bytes) in SIZES.into_iter().enumerate() {
        let message = pattern(bytes, tag as u64);
        let mut id = None;
        end.drive(|endpoint, _| {
            id = endpoint.start(tag as u64, Length::Exact(bytes as u64)).ok();
            id.is_some()
        });
        let mut sent = 0;
        end.drive(|endpoint, port| {
            sent += endpoint.push_from(port, id.unwrap(), &[&message], sent).unwrap();
            sent == bytes
        });
    }
    end.drive(|endpoint, _| endpoint.poll_delivered());
    end
}

fn receive_all(mut end: End) -> End {
    for (tag, bytes) in SIZES.into_iter().enumerate() {
        let mut incoming = None;
        end.drive(|endpoint, port| {
            incoming = endpoint.incoming(port);
            incoming.is_some()
        });
        let incoming = incoming.unwrap();
        assert_eq!((incoming.tag, incoming.length), (tag as u64, Length::Exact(bytes as u64)));
        let mut message = vec![0; bytes];
        let mut got = 0;
        end.drive(|endpoint, port| {
            let pulled = endpoint.pull_from(port, &mut [&mut message], got);
            got += pulled.bytes;
            pulled.end == Ended::Fin
        });
        assert!(message == pattern(bytes, tag as u64), "{bytes} bytes arrived wrong");
    }
    // The last acknowledgement goes out.
    end.endpoint.acknowledge(&mut end.fabric);
    end
}

#[test]
fn messages_of_all_sizes_arrive_in_every_mode() {
    for ip in devices() {
        for arrival in [None, Some(Arrival::Flag), Some(Arrival::CheckedFlag), Some(Arrival::Notify)] {
            let tuning = Tuning { arrival, ..Tuning::default() };
            let (there, here) = meet(ip, tuning, tuning);
            let (there, here) = (there.unwrap(), here.unwrap());
            assert_eq!(there.negotiated, here.negotiated);
            assert_eq!(there.arrival_reason, here.arrival_reason);
            assert!(arrival.is_none_or(|wish| there.negotiated.config.arrival == wish));
            let (there, here) = (End::of(there), End::of(here));
            thread::scope(|scope| {
                let sender = scope.spawn(move || send_all(there));
                let here = receive_all(here);
                let there = sender.join().unwrap();
                let answering = scope.spawn(move || send_all(here));
                drop(receive_all(there));
                answering.join().unwrap();
            });
        }
    }
}
