//! Counters for reports.

use superpipe_core::{
    Config, Counters, End, Endpoint, FlagPlace, Layout, Length, Origin, Readable, Reason, RefusedSend,
    TryRecv,
};
use superpipe_testkit::{Direct, PairFabric, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };

#[test]
fn what_was_done_is_counted_and_counted_again_from_a_reset_on() {
    let fabric = &mut Direct::new(&Setup::new(LAYOUT, 1));
    let [mut sender, mut receiver] = [0, 1].map(|side| {
        Endpoint::new(fabric, fabric.attachment(side), Config::default(), Origin::default()).unwrap()
    });
    for _ in 0..2 {
        sender.try_send(fabric, 1, &[&[7; 8]]).unwrap();
        sender.try_send(fabric, 1, &[&[7; 100]]).unwrap();
        sender.try_send(fabric, 1, &[&[7; 50], &[7; 60]]).unwrap();
        let id = sender.start(1, Length::Stream).unwrap();
        assert_eq!(sender.push(fabric, id, &[&[7; 90]]), Ok(90));
        sender.finish(fabric, id).unwrap();
        let taken = receiver.try_recv(fabric, &mut [&mut [0; 8]], 1);
        assert_eq!(taken, TryRecv::Taken { tag: 1, bytes: 8 });
        for bytes in [100, 110, 90] {
            let pulled = receiver.pull(fabric, &mut [&mut [0; 200]]);
            assert_eq!((pulled.bytes, pulled.end), (bytes, End::Fin));
        }
        receiver.acknowledge(fabric);
        let (sent, received) = (sender.counters(), receiver.counters());
        assert_eq!((sent.inline_sent, sent.chunks_sent, sent.bytes_sent), (1, 4, 300));
        assert_eq!((sent.transfers_sent, sent.transfers_received), (4, 0));
        assert_eq!((received.transfers_sent, received.transfers_received), (0, 4));
        assert_eq!(
            (received.inline_received, received.chunks_received, received.bytes_received),
            (1, 4, 300)
        );
        assert!(received.acks_sent > 0);
        assert_eq!((sent.controls_sent, received.controls_received), (0, 0));
        for end in [&mut sender, &mut receiver] {
            end.reset_counters();
            let mut counters = end.counters();
            // The window is no count, and stays.
            assert_eq!(core::mem::take(&mut counters.window_bytes), u64::from(end.window()));
            assert_eq!(counters, Counters::default());
        }
    }
}

/// A message in a line has no bytes in chunks, however it is taken.
#[test]
fn bytes_of_a_line_are_not_counted_as_bytes_in_chunks() {
    let fabric = &mut Direct::new(&Setup::new(LAYOUT, 1));
    let [mut sender, mut receiver] = [0, 1].map(|side| {
        Endpoint::new(fabric, fabric.attachment(side), Config::default(), Origin::default()).unwrap()
    });
    type Take = fn(&mut Endpoint<Direct>, &mut Direct) -> End;
    let ways: [Take; 4] = [
        |end, fabric| match end.try_recv(fabric, &mut [&mut [0; 40]], 1) {
            TryRecv::Taken { bytes: 40, .. } => End::Fin,
            _ => End::No,
        },
        |end, fabric| end.pull(fabric, &mut [&mut [0; 40]]).end,
        |end, fabric| {
            assert_eq!(end.pull(fabric, &mut [&mut [0; 13]]).end, End::No);
            end.pull(fabric, &mut [&mut [0; 40]]).end
        },
        |end, fabric| {
            let Readable::Run(run) = end.readable(fabric, 100) else { panic!("it is here") };
            assert_eq!(end.consume(fabric, 13), End::No);
            end.consume(fabric, run.bytes - 13)
        },
    ];
    for (count, take) in (1..).zip(ways) {
        sender.try_send(fabric, 1, &[&[7; 40]]).unwrap();
        assert_eq!(take(&mut receiver, fabric), End::Fin, "way {count}");
        let (sent, received) = (sender.counters(), receiver.counters());
        assert_eq!((sent.inline_sent, sent.bytes_sent), (count, 0));
        assert_eq!((received.inline_received, received.bytes_received), (count, 0), "way {count}");
    }
}

#[test]
fn cancels_rejects_and_keepalives_are_counted_at_both_ends() {
    let fabric = &mut Direct::new(&Setup::new(LAYOUT, 1));
    let [mut sender, mut receiver] = [0, 1].map(|side| {
        Endpoint::new(fabric, fabric.attachment(side), Config::default(), Origin::default()).unwrap()
    });
    for times in 1..=2 {
        let cancelled = sender.start(1, Length::Stream).unwrap();
        assert_eq!(sender.push(fabric, cancelled, &[&[7; 90]]), Ok(90));
        sender.cancel(fabric, cancelled, Reason(5)).unwrap();
        let end = (0..10).find_map(|_| {
            sender.progress(fabric);
            let end = receiver.pull(fabric, &mut [&mut [0; 200]]).end;
            (end != End::No).then_some(end)
        });
        assert_eq!(end, Some(End::Cancelled(Reason(5))));

        let rejected = sender.start(1, Length::Stream).unwrap();
        assert_eq!(sender.push(fabric, rejected, &[&[7; 90]]), Ok(90));
        assert!(receiver.reject(fabric, Reason(6)) && !receiver.reject(fabric, Reason(6)));
        while sender.progress(fabric) + receiver.progress(fabric) > 0 {}
        assert!(sender.is_rejected(rejected));
        assert_eq!(sender.push(fabric, rejected, &[&[7; 90]]), Err(RefusedSend::Rejected(Reason(6))));
        while sender.progress(fabric) + receiver.progress(fabric) > 0 {}

        receiver.send_keepalive(fabric);
        sender.poll_acknowledgements(fabric);
        sender.poll_acknowledgements(fabric);
        let (sent, received) = (sender.counters(), receiver.counters());
        assert_eq!((sent.transfers_sent, received.transfers_received), (2 * times, 2 * times));
        assert_eq!((sent.cancels_sent, received.cancels_received), (2 * times, 2 * times));
        assert_eq!((sent.cancels_received, received.cancels_sent), (0, 0));
        assert_eq!((sent.rejects_received, received.rejects_sent), (times, times));
        assert_eq!((sent.rejects_sent, received.rejects_received), (0, 0));
        assert_eq!((sent.keepalives_received, received.keepalives_sent), (times, times));
        assert_eq!((sent.keepalives_sent, received.keepalives_received), (0, 0));
    }
}
