//! Claims 1 to 10: a method and a program at the sending end.

use superpipe::Tuning;
use superpipe_core::recorder::{ControlKind, Step};

use crate::events::{
    Memory, What, Work, close_out, compared, copied_in, copied_out, grow_in, grow_out, grown_in, grown_out,
    image_begun, image_done, landing_begun, landing_done, larger_written, received, retired_in, retired_out,
    small_image_released, small_release_begun, small_released, small_written,
};
use crate::observed::Real;
use crate::on_each_fabric;
use crate::story::{Ground, Story, message};

on_each_fabric! {
    claim_01 claim_02 claim_03 claim_04 claim_05 claim_06 claim_07 claim_08 claim_09 claim_10
}

/// Settings of the protocol.
fn sizes(small_buffer_bytes: u32, threshold_bytes: u32) -> Tuning {
    Tuning {
        small_buffer_bytes: Some(small_buffer_bytes),
        threshold_bytes: Some(threshold_bytes),
        ..Tuning::default()
    }
}

/// Finds that the small buffer is too small, provisions a larger one, and transfers by it.
fn claim_01<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(5000)]);
    let trace = story.trace();
    trace.is_in_order(&[
        (0, "compared", compared),
        (1, "provisioned", landing_done),
        (0, "transferred", larger_written),
        (1, "received", received),
    ]);
    assert!(!trace.wrote(0, Memory::Small), "nothing of it went through the small buffer");
}

/// A control message asks the receiver, and its acknowledgement comes before the transfer.
fn claim_02<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(5000)]);
    story.trace().is_in_order(&[
        (0, "compared", compared),
        (0, "control message sent", grow_out),
        (1, "control message received", grow_in),
        (1, "registration begun", landing_begun),
        (1, "registration done", landing_done),
        (1, "acknowledgement sent", grown_out),
        (0, "acknowledgement received", grown_in),
        (0, "first write", larger_written),
    ]);
}

/// The size is compared with a threshold, also where the small buffer would hold more.
fn claim_03<F: Real>(ground: &Ground<'_, F>) {
    for threshold_bytes in [500, 904] {
        let mut story = Story::of(ground, sizes(1024, threshold_bytes));
        story.send(&[&message(threshold_bytes as usize)]);
        let trace = story.trace();
        let all = u64::from(threshold_bytes);
        let at_it = [(all, threshold_bytes, Some(0)), (all, threshold_bytes, None)];
        assert_eq!(trace.compared(0), at_it, "at the threshold");
        assert_eq!((trace.sent(0, ControlKind::Grow), trace.provisioned(1)), (0, vec![]));
        assert!(trace.wrote(0, Memory::Small) && !trace.wrote(0, Memory::Larger));

        story.send(&[&message(threshold_bytes as usize + 1)]);
        let trace = story.trace();
        assert_eq!(trace.compared(0)[2], (all + 1, threshold_bytes, Some(0)));
        assert_eq!((trace.sent(0, ControlKind::Grow), trace.provisioned(1).len()), (1, 1));
        trace.first(0, larger_written);
    }
}

/// The sizes of the elements of an I/O vector are compared as well, first, and GROW names the one that is larger.
fn claim_04<F: Real>(ground: &Ground<'_, F>) {
    let of = |bytes: &[usize]| bytes.iter().map(|bytes| message(*bytes)).collect::<Vec<_>>();
    // One element is above the threshold.
    let mut story = Story::new(ground);
    let elements = of(&[100, 0, 950, 30]);
    story.send(&elements.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let once = [(100, 904, Some(0)), (0, 904, Some(1)), (950, 904, Some(2))];
    assert_eq!(story.trace().compared(0), [once, once].concat(), "at once, then as a transfer");
    assert_eq!((story.said(0)[0], story.said(0)[3]), (4, 2 | 2 << 32), "GROW names element 2");

    // Only the message is.
    let mut story = Story::new(ground);
    let elements = of(&[500, 500]);
    story.send(&elements.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let once = [(500, 904, Some(0)), (500, 904, Some(1)), (1000, 904, None)];
    assert_eq!(story.trace().compared(0), [once, once].concat());
    assert_eq!((story.said(0)[0], story.said(0)[3]), (4, 1), "GROW names the message");

    // A stream has no size: the elements of each push are compared.
    let mut story = Story::new(ground);
    let [few, more, many] = [300, 400, 2000].map(message);
    story.stream(&[&[&few, &more], &[&few, &many]]);
    let trace = story.trace();
    assert_eq!(trace.compared(0)[..2], [(300, 904, Some(0)), (400, 904, Some(1))]);
    assert!(trace.compared(0).contains(&(2000, 904, Some(1))));
    assert_eq!((story.said(0)[0], story.said(0)[3]), (4, 2 | 1 << 32), "GROW names element 1 of its push");
    trace.is_in_order(&[(0, "small", small_written), (0, "GROW", grow_out), (0, "larger", larger_written)]);
}

/// The larger buffer is allocated and registered during the communication phase, at both ends, as the kernel counts it.
fn claim_05<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(100)]);
    assert_eq!(story.agrees("before"), story.first_bytes);
    story.send(&[&message(5000)]);
    story.close();
    let trace = story.trace();
    trace.is_in_order(&[
        (1, "a first message has come", received),
        (1, "landing begun", landing_begun),
        (1, "landing done", landing_done),
        (0, "image begun", image_begun),
        (0, "image done", image_done),
        (0, "CLOSE", close_out),
    ]);
    let [larger] = trace.provisioned(1)[..] else { panic!("{trace:?}") };
    let [before, after] = trace.kernel_bytes(1, Work::MakeLanding(larger));
    assert_eq!(after - before, crate::observed::page_bytes_of(larger), "{}", F::NAME);
}

/// The small buffer is deregistered and freed, at the sender its image, as the kernel counts it.
fn claim_06<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(300)]);
    assert_eq!(story.agrees("the small buffers are enough"), story.first_bytes);
    story.send(&[&message(5000)]);
    let trace = story.trace();
    trace.is_in_order(&[
        (0, "small buffer used", small_written),
        (0, "acknowledgement received", grown_in),
        (0, "small buffer left", retired_out),
        (0, "image of the small buffer freed", small_image_released),
    ]);
    // What is empty may be left before the first write to the larger one.
    trace.is_in_order(&[(0, "acknowledged", grown_in), (0, "larger buffer used", larger_written)]);
    trace.is_in_order(&[
        (1, "left", retired_in),
        (1, "deregistration begun", small_release_begun),
        (1, "small buffer freed", small_released),
    ]);
    let [before, after] = trace.kernel_bytes(1, Work::FreeLanding(Memory::Small));
    assert!(after < before, "{}: {before} bytes, then {after}", F::NAME);
    let larger = trace.provisioned(1);
    assert_eq!(larger.len(), 1);
    assert_eq!(story.agrees("the other direction is as it was"), story.bytes_with(1, &larger), "{}", F::NAME);
}

/// Data is copied from its source to the larger buffer, and sent out of it. With direct store the copy is the transfer.
fn claim_07<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(5000)]);
    let trace = story.trace();
    assert_eq!(trace.copied(0).0, 5000, "each byte once");
    let posted = trace.all(0, |what| match what {
        What::Step(Step::Post { bytes, .. }) => Some(*bytes),
        _ => None,
    });
    if F::DIRECT {
        assert_eq!(posted, [], "nothing is posted");
        trace.is_in_order(&[(0, "image", image_done), (0, "copied", copied_in)]);
    } else {
        assert_eq!(posted.len(), 1, "one write: {posted:?}");
        assert!(posted[0] >= 5000);
        trace.is_in_order(&[(0, "image", image_done), (0, "copied", copied_in), (0, "sent", larger_written)]);
    }
}

/// A size is larger than the threshold, and the buffer that is allocated and registered then is so, too.
fn claim_08<F: Real>(ground: &Ground<'_, F>) {
    for (small_buffer_bytes, threshold_bytes, more) in [(100, 40, 1), (1024, 41, 700), (2000, 1744, 1)] {
        let mut story = Story::of(ground, sizes(small_buffer_bytes, threshold_bytes));
        story.send(&[&message((threshold_bytes + more) as usize)]);
        story.close();
        let trace = story.trace();
        let [larger] = trace.provisioned(1)[..] else { panic!("{trace:?}") };
        assert!(larger.capacity(larger.block_count) > threshold_bytes, "{larger:?}");
        assert!(larger.capacity(larger.block_count) >= threshold_bytes + more, "{larger:?}");
        trace.is_in_order(&[
            (0, "larger than the threshold", compared),
            (1, "registered", landing_done),
            (0, "the end of the communication", close_out),
        ]);
    }
}

/// The message asks for more than the threshold, and the acknowledgement tells the size that was provisioned.
fn claim_09<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(20_000)]);
    let trace = story.trace();
    let [kind, request, bytes, ..] = story.said(0);
    assert_eq!((kind, request), (4, 1));
    assert!((20_000..22_000).contains(&bytes), "{bytes}");
    let [larger] = trace.provisioned(1)[..] else { panic!("{trace:?}") };
    assert!(u64::from(larger.block_bytes * larger.block_count) >= bytes);
    trace.is_in_order(&[
        (0, "asked", grow_out),
        (1, "provisioned", landing_done),
        (0, "acknowledged", grown_in),
        (0, "used", larger_written),
    ]);
}

/// Data is copied to the larger buffer, and gets from there to the receiving node.
fn claim_10<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(60_000)]);
    story.trace().is_in_order(&[
        (0, "provisioned", image_done),
        (0, "copied", copied_in),
        (1, "at the receiving node", copied_out),
    ]);
}
