//! Claims 11 to 14 (a system with both ends, and sizes) and 15 to 20 (the receiving end).

use superpipe::Tuning;
use superpipe_core::recorder::ControlKind;

use crate::events::{
    Memory, Work, close_out, compared, copied_in, copied_out, grow_in, grow_out, grown_in, grown_out,
    image_begun, image_done, landing_begun, landing_done, larger_written, received, retired_in,
    small_release_begun, small_released, small_written,
};
use crate::observed::Real;
use crate::on_each_fabric;
use crate::story::{Ground, Story, message};

on_each_fabric! {
    claim_11 claim_12 claim_13 claim_14 claim_15 claim_16 claim_17 claim_18 claim_19 claim_20
}

/// The buffer that is provisioned is larger than the pre-registered one.
fn claim_11<F: Real>(ground: &Ground<'_, F>) {
    for small_buffer_bytes in [100, 2000] {
        let sizes = Tuning {
            small_buffer_bytes: Some(small_buffer_bytes),
            threshold_bytes: Some(40),
            ..Tuning::default()
        };
        let mut story = Story::of(ground, sizes);
        story.send(&[&message(41)]);
        let trace = story.trace();
        let [larger] = trace.provisioned(1)[..] else { panic!("{trace:?}") };
        assert!(larger.block_bytes * larger.block_count > small_buffer_bytes, "{larger:?}");
        trace.is_in_order(&[
            (0, "too small", compared),
            (1, "provisioned", landing_done),
            (0, "transferred", larger_written),
        ]);
    }
}

/// The receiver is told to provision a buffer larger than the pre-registered one, and acknowledges it before the transfer.
fn claim_12<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(905)]);
    let trace = story.trace();
    assert!(story.said(0)[2] > 1024, "more than the small buffer has");
    trace.is_in_order(&[
        (0, "told", grow_out),
        (1, "provisioned", landing_done),
        (1, "acknowledges", grown_out),
        (0, "acknowledged", grown_in),
        (0, "transferred", larger_written),
    ]);
}

/// Compared with the threshold; the larger send buffer, which is the image, is registered during the communication, and data copied to it.
fn claim_13<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(30)]);
    story.send(&[&message(9000)]);
    story.close();
    let trace = story.trace();
    trace.is_in_order(&[
        (1, "communication has begun", received),
        (0, "compared", compared),
        (0, "send buffer allocated and registered", image_begun),
        (0, "send buffer ready", image_done),
        (0, "data copied to it", copied_in),
        (0, "communication ends", close_out),
    ]);
    if !F::DIRECT {
        // Over shared memory it is the receive buffer, which is there.
        let [larger] = trace.provisioned(1)[..] else { panic!("{trace:?}") };
        let [before, after] = trace.kernel_bytes(0, Work::MakeImage(larger));
        assert_eq!(after - before, crate::observed::page_bytes_of(larger), "registered");
    }
}

/// The pre-registered buffer has 100 to 2,000 bytes, the provisioned one 1,000 to 200,000.
fn claim_14<F: Real>(ground: &Ground<'_, F>) {
    for (small_buffer_bytes, threshold_bytes, bytes) in
        [(100, 40, 41), (1024, 904, 4000), (2000, 1744, 64 << 10), (1024, 904, 150_000)]
    {
        let sizes = Tuning {
            small_buffer_bytes: Some(small_buffer_bytes),
            threshold_bytes: Some(threshold_bytes),
            ..Tuning::default()
        };
        let mut story = Story::of(ground, sizes);
        assert!((100..=2000).contains(&story.small.bytes()), "{:?}", story.small);
        assert!(story.small.bytes() <= small_buffer_bytes.max(256), "{:?}", story.small);
        story.send(&[&message(bytes)]);
        let trace = story.trace();
        let [larger] = trace.provisioned(1)[..] else { panic!("{trace:?}") };
        assert!((1000..=200_000).contains(&larger.bytes()), "{larger:?}");
        assert!(larger.capacity(larger.block_count) as usize >= bytes, "{larger:?}");
    }
}

/// A control message comes, the buffer is provisioned, data are received into it.
fn claim_15<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(5000)]);
    let trace = story.trace();
    trace.is_in_order(&[
        (1, "control message", grow_in),
        (1, "provisioning", landing_begun),
        (1, "provisioned", landing_done),
        (1, "data", copied_out),
    ]);
    assert!(trace.wrote(0, Memory::Larger) && !trace.wrote(0, Memory::Small));
}

/// The receiver acknowledges once the buffer is provisioned, and only then.
fn claim_16<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(5000)]);
    let trace = story.trace();
    trace.is_in_order(&[(1, "provisioned", landing_done), (1, "acknowledged", grown_out)]);
    assert_eq!((trace.sent(1, ControlKind::Grown), trace.sent(1, ControlKind::GrowRefused)), (1, 0));
}

/// It is allocated and registered during the communication phase.
fn claim_17<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    for _ in 0..3 {
        story.send(&[&message(200)]);
    }
    assert_eq!(story.trace().provisioned(1), [], "nothing before it is needed");
    assert_eq!(story.agrees("before it is needed"), story.first_bytes);
    story.send(&[&message(5000)]);
    story.close();
    let trace = story.trace();
    trace.is_in_order(&[
        (0, "communication", small_written),
        (1, "begun", landing_begun),
        (1, "done", landing_done),
        (1, "the end", close_out),
    ]);
}

/// The pre-registered buffer is deregistered and freed once the sender has left it and all of it was taken out.
fn claim_18<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    // The receiver takes nothing out while the sender asks for more, so that both buffers are in use.
    let (few, many) = (message(700), message(5000));
    story.ends[0].try_send(&mut story.fabrics[0], 5, &[&few]).unwrap();
    let mut sending = story.sending(0, &[&many]);
    story.until("it is in the larger buffer", |story| story.drive(0, &mut sending, &[&many]));
    // Nothing is left while the receiver takes nothing out.
    for _ in 0..2000 {
        story.round();
    }
    let larger = story.trace().provisioned(1);
    assert_eq!(story.agrees("both buffers are in use"), story.bytes_with(0, &larger), "{}", F::NAME);
    let (mut got, mut ends) = (Vec::new(), 0);
    story.until("both have come out", |story| {
        ends += u32::from(story.receive(1, &mut got));
        ends == 2
    });
    assert!(got == [few, many].concat());
    story.settle();
    assert_eq!(story.agrees("one is gone"), story.bytes_with(1, &larger), "{}", F::NAME);
    let trace = story.trace();
    trace.is_in_order(&[
        (0, "in the small buffer", small_written),
        (0, "in the larger buffer", larger_written),
        (1, "the small buffer is drained", copied_out),
        (1, "left", retired_in),
        (1, "deregistration begun", small_release_begun),
        (1, "deregistered and freed", small_released),
    ]);
    let [before, after] = trace.kernel_bytes(1, Work::FreeLanding(Memory::Small));
    assert!(after < before, "{}: {before} bytes, then {after}", F::NAME);
}

/// Data are copied out of the provisioned buffer to their destination.
fn claim_19<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    story.send(&[&message(5000)]);
    let trace = story.trace();
    assert_eq!(trace.copied(1).1, 5000, "each byte once");
    trace.is_in_order(&[(0, "in the provisioned buffer", larger_written), (1, "copied out", copied_out)]);
}

/// A device does all of it, and in both directions at once: each end is told by the other, and provisions while it asks.
fn claim_20<F: Real>(ground: &Ground<'_, F>) {
    let mut story = Story::new(ground);
    let bytes = [message(7000), message(9000)];
    let mut sending = [0, 1].map(|side| story.sending(side, &[&bytes[side]]));
    let (mut got, mut is_over, mut is_sent) = ([Vec::new(), Vec::new()], [false; 2], [false; 2]);
    story.until("both have come out", |story| {
        for side in 0..2 {
            is_sent[side] = story.drive(side, &mut sending[side], &[&bytes[side]]);
            is_over[side] |= story.receive(side, &mut got[side]);
        }
        is_over == [true; 2] && is_sent == [true; 2]
    });
    assert!(got == [bytes[1].clone(), bytes[0].clone()]);
    story.settle();
    let trace = story.trace();
    for side in 0..2 {
        trace.is_in_order(&[
            (1 - side, "told", grow_in),
            (1 - side, "provisioned", landing_done),
            (side, "acknowledged", grown_in),
            (side, "transferred", larger_written),
            (1 - side, "received", copied_out),
        ]);
        assert!(trace.all(side, |what| small_released(what).then_some(())).len() == 1);
    }
    let larger = [trace.provisioned(0), trace.provisioned(1)].concat();
    assert_eq!(story.agrees("both have grown"), story.bytes_with(2, &larger), "{}", F::NAME);
}
