//! Records of bytes that were read in place and given back: their count, and since when they were read.

use superpipe_core::recorder::{Recorder, Step};
use superpipe_core::{Config, End, Endpoint, FlagPlace, Layout, Origin, Readable};
use superpipe_testkit::{Direct, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };

fn nothing_given_back_is_nothing_recorded<F: TestFabric>() {
    let fabric = &mut F::new(&Setup::new(LAYOUT, 1));
    let mut ends = [0, 1].map(|side| {
        Endpoint::new(fabric, fabric.attachment(side), Config::default(), Origin::default()).unwrap()
    });
    ends[0].try_send(fabric, 1, &[&[7; 150]]).unwrap();
    for _ in 0..500 {
        ends.iter_mut().for_each(|end| _ = end.progress(fabric));
        fabric.step();
    }
    *fabric.recorders() = [None, Some(Box::new(Recorder::new()))];
    let [_, receiver] = &mut ends;
    for given in [0, 100, 0, 50] {
        let readable = receiver.readable(fabric, u32::MAX);
        assert!(matches!(readable, Readable::Run(_)), "{}: {given}", F::NAME);
        // Time passes while the application reads.
        (0..5).for_each(|_| fabric.step());
        let end = if given == 50 { End::Fin } else { End::No };
        assert_eq!(receiver.consume(fabric, given), end, "{}: {given}", F::NAME);
    }
    let recorder = fabric.recorders()[1].as_mut().unwrap();
    let records = core::iter::from_fn(|| recorder.take());
    let copied: Vec<(u32, bool)> = records
        .filter_map(|record| match record.step {
            Step::CopyOut { bytes, .. } => Some((bytes, record.begin < record.end)),
            _ => None,
        })
        .collect();
    assert_eq!(copied, [(100, true), (50, true)], "{}", F::NAME);
}

#[test]
fn nothing_given_back_is_nothing_recorded_over_either_fabric() {
    nothing_given_back_is_nothing_recorded::<Direct>();
    nothing_given_back_is_nothing_recorded::<Posted>();
}
