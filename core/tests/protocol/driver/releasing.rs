//! Memory of landing buffers that have grown, which goes when nothing comes for a while: in virtual time.

use super::*;
use superpipe_core::driver::{KEEPALIVE_NS, RELEASE_AFTER_NS};
use superpipe_testkit::GrowthSetup;

const LARGEST: Layout = Layout { block_bytes: 1024, block_count: 16, flags: FlagPlace::Inside };
const BASE: Layout = Layout { block_bytes: 128, block_count: 4, flags: FlagPlace::Inside };
const LONG: usize = 20_000;

tables! {
    a_landing_buffer_without_use_is_released
    each_message_puts_off_the_release
    short_memory_is_released_at_the_next_tick
    memory_is_released_when_asked_for
    an_end_that_has_not_grown_sends_nothing
    an_image_without_a_grant_goes_if_memory_is_short
}

fn pair<F: TestFabric>(is_memory_short: bool) -> Two<F> {
    let growth = GrowthSetup { is_memory_short, ..GrowthSetup::new(LARGEST, 4096) };
    let fabric = F::new(&Setup { growth: Some(growth), ..Setup::new(BASE, 7) });
    let ends = [0, 1].map(|side| driver(&fabric, side, Arrival::Flag));
    Two { fabric, ends }
}

/// Sends a message that is longer than the base holds, from end 0 to end 1, and lets all growth end.
fn grow<F: TestFabric>(two: &mut Two<F>) {
    let (message, mut place) = (vec![7; LONG], vec![0; LONG]);
    let (mut send, mut receive) = (SendOperation::new(1, LONG), RecvOperation::new());
    let (sent, received) = two.carry(0, (&mut send, &[&message]), (&mut receive, &mut [&mut place]));
    assert_eq!((sent, received.map(|received| received.bytes)), (Ok(()), Ok(LONG)));
    two.settle();
    assert!(two.ends[1].endpoint().has_grown() && !two.ends[0].endpoint().has_grown());
}

/// Ticks both ends at this time after the beginning, and lets everything arrive.
fn tick<F: TestFabric>(two: &mut Two<F>, ns: u64) {
    for end in &mut two.ends {
        end.tick(&mut two.fabric, after(ns));
    }
    two.settle();
}

fn a_landing_buffer_without_use_is_released<F: TestFabric>() {
    let mut two = pair::<F>(false);
    tick(&mut two, KEEPALIVE_NS);
    grow(&mut two);
    // The first tick after the growth is the first that sees the use.
    let begin = 2 * KEEPALIVE_NS;
    for ns in [0, RELEASE_AFTER_NS / 2, RELEASE_AFTER_NS - 1] {
        tick(&mut two, begin + ns);
        assert!(two.fabric.grown_bytes() > 0, "{ns}");
    }
    tick(&mut two, begin + RELEASE_AFTER_NS - 1 + KEEPALIVE_NS);
    assert_eq!(two.fabric.grown_bytes(), 0);
    let counters = two.ends[1].counters();
    assert_eq!((counters.shrinks, counters.reclaims), (1, 0), "nobody needed the memory");
    assert!(!two.ends[1].endpoint().has_grown());
    // It grows again, and lives as long again.
    grow(&mut two);
    let begin = begin + 3 * RELEASE_AFTER_NS;
    tick(&mut two, begin);
    tick(&mut two, begin + RELEASE_AFTER_NS - 1);
    assert!(two.fabric.grown_bytes() > 0);
    tick(&mut two, begin + RELEASE_AFTER_NS + KEEPALIVE_NS);
    assert_eq!(two.fabric.grown_bytes(), 0);
}

fn each_message_puts_off_the_release<F: TestFabric>() {
    let mut two = pair::<F>(false);
    two.ends[1].set_release_after(RELEASE_AFTER_NS / 2);
    grow(&mut two);
    let mut place = [0; 8];
    for number in 1..20 {
        two.send(0, number, b"use");
        assert!(two.ends[1].try_recv(&mut two.fabric, &mut [&mut place]).unwrap().is_some());
        tick(&mut two, number * (RELEASE_AFTER_NS / 2 - 1));
        assert!(two.fabric.grown_bytes() > 0, "{number}");
    }
    tick(&mut two, 20 * (RELEASE_AFTER_NS / 2));
    assert_eq!(two.fabric.grown_bytes(), 0);
}

fn short_memory_is_released_at_the_next_tick<F: TestFabric>() {
    let mut two = pair::<F>(true);
    grow(&mut two);
    tick(&mut two, KEEPALIVE_NS);
    assert!(two.fabric.grown_bytes() > 0, "it was used since the tick before");
    tick(&mut two, 2 * KEEPALIVE_NS - 1);
    assert!(two.fabric.grown_bytes() > 0, "no tick was due");
    tick(&mut two, 2 * KEEPALIVE_NS);
    assert_eq!(two.fabric.grown_bytes(), 0);
    let counters = two.ends[1].counters();
    assert_eq!((counters.shrinks, counters.reclaims), (1, 1));
}

fn memory_is_released_when_asked_for<F: TestFabric>() {
    let mut two = pair::<F>(false);
    grow(&mut two);
    assert!(!two.ends[0].release_memory());
    assert!(two.ends[1].release_memory());
    two.settle();
    assert_eq!(two.fabric.grown_bytes(), 0);
    assert!(!two.ends[1].release_memory());
}

fn an_end_that_has_not_grown_sends_nothing<F: TestFabric>() {
    let mut two = pair::<F>(true);
    tick(&mut two, KEEPALIVE_NS);
    tick(&mut two, 4 * RELEASE_AFTER_NS);
    assert_eq!(two.ends.map(|end| end.counters().growth_controls), [0, 0]);
}

fn an_image_without_a_grant_goes_if_memory_is_short<F: TestFabric>() {
    for is_memory_short in [false, true] {
        let mut two = pair::<F>(is_memory_short);
        let message = vec![7; LONG];
        let mut send = SendOperation::new(1, LONG);
        let drive = |two: &mut Two<F>, send: &mut SendOperation| {
            for _ in 0..400 {
                let Two { fabric, ends: [end, _] } = two;
                assert!(!matches!(end.drive_send(fabric, send, &[&message]), Drive::Done(_)));
                end.progress(fabric);
                fabric.step();
            }
        };
        drive(&mut two, &mut send);
        let image_bytes = two.fabric.grown_bytes();
        assert_eq!(image_bytes > 0, !F::DIRECT, "the peer does not answer");
        two.ends[0].tick(&mut two.fabric, after(KEEPALIVE_NS));
        drive(&mut two, &mut send);
        let kept_bytes = if is_memory_short { 0 } else { image_bytes };
        assert_eq!(two.fabric.grown_bytes(), kept_bytes);
        // The answer may come later.
        let (mut receive, mut place) = (RecvOperation::new(), vec![0; LONG]);
        let (sent, received) = two.carry(0, (&mut send, &[&message]), (&mut receive, &mut [&mut place]));
        assert_eq!((sent, received.map(|received| received.bytes)), (Ok(()), Ok(LONG)));
        assert!(place == message);
        two.settle();
        assert!(two.ends[0].counters().moves > 0 && two.ends[0].endpoint().is_growth_steady());
        assert!(two.ends[1].endpoint().has_grown());
    }
}
