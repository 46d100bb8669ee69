//! Claim 14: sizes of the buffers. Larger messages grow again, up to the largest landing buffer.

use superpipe_core::driver::Driver;
use superpipe_core::recorder::ControlKind;
use superpipe_core::{Config, FlagPlace, Reason, small_layout};
use superpipe_testkit::TestFabric;

use super::on_both;
use super::story::{LARGEST, Story, message};

on_both! {
    claim_14
    a_larger_message_grows_again_and_the_largest_folds
    what_fits_the_larger_buffer_goes_through_it
    what_fits_waits_for_no_other_growth
}

/// The pre-registered buffer has 100 to 2,000 bytes, the provisioned one 1,000 to 200,000 and more.
fn claim_14<F: TestFabric>() {
    for bytes in 100..=2000 {
        let small = small_layout(bytes).validate().unwrap();
        assert!((100..=2000).contains(&small.bytes()), "{bytes}: {small:?}");
        assert_eq!((small.block_bytes, small.flags), (128, FlagPlace::Inside));
        assert!(small.bytes() <= bytes.max(256) && small.bytes() + 128 > bytes, "{bytes}: {small:?}");
    }
    for (small_buffer_bytes, threshold_bytes) in [(100, 40), (1024, 904), (2000, 1744)] {
        for bytes in [threshold_bytes as usize + 1, 4000, 64 << 10, 150_000] {
            let config = Config { small_buffer_bytes, threshold_bytes, ..Config::default() };
            let mut story = Story::<F>::of(config, 0);
            story.send(&[&message(bytes)]);
            let trace = story.trace();
            let [larger] = trace.provisioned(1)[..] else { panic!("{trace:?}") };
            assert!((1000..=200_000).contains(&larger.bytes()), "{larger:?}");
            assert!(larger.capacity(larger.block_count) as usize >= bytes, "{larger:?}");
        }
    }
}

fn a_larger_message_grows_again_and_the_largest_folds<F: TestFabric>() {
    let mut story = Story::<F>::new();
    let mut bytes_before = 0;
    for bytes in [2000, 20_000, 200_000, 400_000, 1_000_000] {
        story.send(&[&message(bytes)]);
        let larger = *story.trace().provisioned(1).last().unwrap();
        assert!(larger.bytes() >= bytes_before, "{larger:?}");
        bytes_before = larger.bytes();
        assert!(larger == LARGEST || larger.capacity(larger.block_count) as usize >= bytes);
    }
    assert_eq!(bytes_before, LARGEST.bytes());
    let ends = story.ends.each_ref().map(Driver::counters);
    assert_eq!((ends[0].growths_asked, ends[0].growths_refused, ends[0].moves), (4, 0, 4), "{}", F::NAME);
}

fn what_fits_the_larger_buffer_goes_through_it<F: TestFabric>() {
    let mut story = Story::<F>::new();
    story.send(&[&message(8000)]);
    for bytes in [8000, 10, 41, 900, 5000, 7999] {
        story.send(&[&message(bytes)]);
    }
    let trace = story.trace();
    assert_eq!((trace.sent(0, ControlKind::Grow), trace.provisioned(1).len()), (1, 1));
}

fn what_fits_waits_for_no_other_growth<F: TestFabric>() {
    let mut story = Story::<F>::new();
    story.send(&[&message(8000)]);
    let many = message(20_000);
    let mut operation = story.ends[0].begin_send(&mut story.fabric, 5, &[&many]).unwrap();
    let _ = story.ends[0].drive_send(&mut story.fabric, &mut operation, &[&many]);
    story.ends[0].cancel_send(&mut story.fabric, &mut operation, Reason(9));
    // GROW waits until the one before is acknowledged.
    story.until("it grows again", |story| story.ends[0].counters().growths_asked == 2);
    assert!(!story.ends[0].endpoint().is_growth_steady());
    let few = message(1500);
    assert!(story.ends[0].try_send(&mut story.fabric, 5, &[&few]).is_ok(), "{}", F::NAME);
}
