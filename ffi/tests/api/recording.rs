//! The recorder over shared memory.

use std::thread;

use superpipe::Options;
use superpipe::recorder::{CAPACITY, Record, Step};

use crate::support::{DEADLINE, bytes, pair_with};

const BYTES: usize = 1 << 20;

/// Payload that was copied in and out.
fn copied(records: &[Record]) -> (usize, usize) {
    records.iter().fold((0, 0), |(inward, outward), record| match record.step {
        Step::CopyIn { bytes, .. } => (inward + bytes as usize, outward),
        Step::CopyOut { bytes, .. } => (inward, outward + bytes as usize),
        _ => (inward, outward),
    })
}

#[test]
fn both_ends_record_the_same_message_by_one_clock() {
    let (mut a, mut b) = pair_with(Options::default(), Options::default());
    a.record(true);
    b.record(true);
    let message = bytes(1, BYTES);
    let receiver = thread::spawn(move || {
        let mut place = vec![0; BYTES];
        b.recv_into(&mut [&mut place], DEADLINE).unwrap();
        let records: Vec<_> = b.take_records().collect();
        (place, records)
    });
    a.send(7, &[&message], DEADLINE).unwrap();
    a.flush(DEADLINE).unwrap();
    let (place, received) = receiver.join().unwrap();
    assert!(place == message);
    let sent: Vec<_> = a.take_records().collect();
    assert_eq!((copied(&sent), copied(&received)), ((BYTES, 0), (0, BYTES)));
    // Both may have said before it that they live.
    let begins = |records: &[Record], is_wanted: fn(&Step) -> bool| -> Vec<_> {
        records.iter().filter(|record| is_wanted(&record.step)).map(|record| record.begin).collect()
    };
    let sends = begins(&sent, |step| matches!(step, Step::SendBegin { .. }));
    let receives = begins(&received, |step| matches!(step, Step::ReceiveBegin { .. }));
    let acks = begins(&sent, |step| matches!(step, Step::AckIn { .. }));
    assert_eq!((sends.len(), receives.len()), (1, 1));
    assert!(sends[0] < receives[0], "the sender begins");
    assert!(acks.last().is_some_and(|ack| receives[0] < *ack), "and hears of the end last");
    assert_eq!(a.take_records().count(), 0, "they were taken out");
}

#[test]
fn only_the_newest_records_are_kept_and_only_while_recording() {
    let (mut a, mut b) = pair_with(Options::default(), Options::default());
    b.record(true);
    let mut place = [0; 8];
    let mut exchange = |count, recorded: Option<bool>| {
        recorded.into_iter().for_each(|on| a.record(on));
        for _ in 0..count {
            a.send(7, &[&[1; 8]], DEADLINE).unwrap();
            b.recv_into(&mut [&mut place], DEADLINE).unwrap();
        }
        let lines = b.take_records().filter(|record| matches!(record.step, Step::LineIn { bytes: 8, .. }));
        (a.take_records().count(), lines.count())
    };
    assert_eq!(exchange(5, None), (0, 5));
    assert!(exchange(5, Some(true)).0 >= 5);
    assert_eq!(exchange(CAPACITY + 5, None).0, CAPACITY);
    assert_eq!(exchange(5, Some(false)), (0, 5));
}
