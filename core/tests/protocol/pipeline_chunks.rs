//! Sizes of a pipeline's chunks, C_opt. Denis, equation 3.

use superpipe_core::{Config, Endpoint, FlagPlace, Layout, Length, Origin, Protocol};
use superpipe_testkit::{Direct, Memory, Posted, Setup, TestFabric, wire};

const BLOCK: u32 = 256;
const LAYOUT: Layout = Layout { block_bytes: BLOCK, block_count: 1024, flags: FlagPlace::Inside };

/// End 0 sends bytes of a transfer, in whose midst it gets its window again. Returns the sizes of its chunks.
fn chunks<F: TestFabric>(length: Length, gap_bytes: u32, wanted: usize) -> Vec<u64> {
    let mut fabric = F::new(&Setup { send_queue: 64, ..Setup::new(LAYOUT, 1) });
    let config =
        Config { protocol: Protocol::Pipeline, gap_bytes, folds: 2, c0_bytes: 400, ..Config::default() };
    let mut end = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
    let id = end.start(1, length).unwrap();
    assert_eq!(end.push(&mut fabric, id, &[&[7]]), Ok(0));
    fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::cts(1, 1));
    let mut sizes = Vec::new();
    for _ in 0..2 {
        let before = end.counters();
        let taken = end.push(&mut fabric, id, &[&vec![7; wanted]]).unwrap();
        let after = end.counters();
        assert_eq!(taken, wanted, "{}", F::NAME);
        sizes.push((after.bytes_sent - before.bytes_sent) / (after.chunks_sent - before.chunks_sent));
        end.set_window(Some(u32::MAX));
        for _ in 0..200 {
            end.progress(&mut fabric);
            fabric.step();
        }
    }
    sizes
}

fn are_of_one_size<F: TestFabric>() {
    // √(20,000 · 200 / 2), and √(20,000 · 800 / 2).
    assert_eq!(chunks::<F>(Length::Exact(20_000), 200, 3 * 1414), [1414; 2], "{}", F::NAME);
    assert_eq!(chunks::<F>(Length::Exact(20_000), 800, 3 * 2828), [2828; 2], "{}", F::NAME);
    // Without a length it is 64 KiB.
    assert_eq!(chunks::<F>(Length::Stream, 200, 64 << 10), [64 << 10; 2], "{}", F::NAME);
}

#[test]
fn chunks_of_a_pipeline_are_of_one_size() {
    are_of_one_size::<Direct>();
    are_of_one_size::<Posted>();
}
