//! Claims 11 to 13 (a system with both ends) and 15 to 20 (the receiving end).

use superpipe_core::Config;
use superpipe_core::driver::Drive;
use superpipe_core::recorder::{ControlKind, Step};
use superpipe_testkit::TestFabric;

use super::on_both;
use super::story::{
    Story, What, close_out, compared, copied_in, copied_out, grow_in, grow_out, grown_in, grown_out,
    image_begun, image_done, landing_begun, landing_done, larger_written, message, received, retired_in,
    small_release_begun, small_released, small_written,
};

on_both! {
    claim_11 claim_12 claim_13 claim_15 claim_16 claim_17 claim_18 claim_19 claim_20
}

/// The buffer that is provisioned is larger than the pre-registered one.
fn claim_11<F: TestFabric>() {
    for small_buffer_bytes in [100, 1024, 2000] {
        let threshold_bytes = 40;
        let config = Config { small_buffer_bytes, threshold_bytes, ..Config::default() };
        let mut story = Story::<F>::of(config, 0);
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
fn claim_12<F: TestFabric>() {
    let mut story = Story::<F>::new();
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
fn claim_13<F: TestFabric>() {
    let mut story = Story::<F>::new();
    story.send(&[&message(30)]);
    story.send(&[&message(9000)]);
    story.close();
    story.trace().is_in_order(&[
        (1, "communication has begun", received),
        (0, "compared", compared),
        (0, "send buffer allocated and registered", image_begun),
        (0, "send buffer ready", image_done),
        (0, "data copied to it", copied_in),
        (0, "communication ends", close_out),
    ]);
}

/// A control message comes, the buffer is provisioned, data are received into it.
fn claim_15<F: TestFabric>() {
    let mut story = Story::<F>::new();
    story.send(&[&message(5000)]);
    let trace = story.trace();
    trace.is_in_order(&[
        (1, "control message", grow_in),
        (1, "provisioning", landing_begun),
        (1, "provisioned", landing_done),
        (1, "data", copied_out),
    ]);
    assert!(trace.wrote(0, |index| index == 1) && !trace.wrote(0, |index| index == 0));
}

/// The receiver acknowledges once the buffer is provisioned, and only then.
fn claim_16<F: TestFabric>() {
    let mut story = Story::<F>::new();
    story.send(&[&message(5000)]);
    let trace = story.trace();
    trace.is_in_order(&[(1, "provisioned", landing_done), (1, "acknowledged", grown_out)]);
    assert_eq!((trace.sent(1, ControlKind::Grown), trace.sent(1, ControlKind::GrowRefused)), (1, 0));
}

/// It is allocated and registered during the communication phase.
fn claim_17<F: TestFabric>() {
    let mut story = Story::<F>::new();
    for _ in 0..3 {
        story.send(&[&message(200)]);
    }
    assert_eq!(story.trace().provisioned(1), [], "nothing before it is needed");
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
fn claim_18<F: TestFabric>() {
    let mut story = Story::<F>::new();
    // The receiver takes nothing out while the sender asks for more, so that both buffers are in use.
    let (few, many) = (message(700), message(5000));
    story.ends[0].try_send(&mut story.fabric, 5, &[&few]).unwrap();
    let mut sending = story.ends[0].begin_send(&mut story.fabric, 5, &[&many]);
    for _ in 0..20_000 {
        story.round();
        if let Some(operation) = &mut sending
            && let Drive::Done(done) = story.ends[0].drive_send(&mut story.fabric, operation, &[&many])
        {
            assert_eq!(done, Ok(()));
            sending = None;
        }
    }
    assert!(sending.is_none(), "{}: it is in the larger buffer", F::NAME);
    let held = story.fabric.grown_bytes();
    let (mut got, mut ends) = (Vec::new(), 0);
    story.until("both have come out", |story| {
        ends += u32::from(story.receive(1, &mut got));
        ends == 2
    });
    assert!(got == [few, many].concat());
    story.settle();
    let freed = if F::DIRECT { 1024 } else { 2048 };
    assert_eq!(held - story.fabric.grown_bytes(), freed, "{}", F::NAME);
    story.trace().is_in_order(&[
        (0, "in the small buffer", small_written),
        (0, "in the larger buffer", larger_written),
        (1, "the small buffer is drained", copied_out),
        (1, "left", retired_in),
        (1, "deregistration begun", small_release_begun),
        (1, "deregistered and freed", small_released),
    ]);
}

/// Data are copied out of the provisioned buffer to their destination.
fn claim_19<F: TestFabric>() {
    let mut story = Story::<F>::new();
    story.send(&[&message(5000)]);
    let trace = story.trace();
    let copied: u32 = trace
        .all(1, |what| match what {
            What::Step(Step::CopyOut { bytes, .. }) => Some(*bytes),
            _ => None,
        })
        .iter()
        .sum();
    assert_eq!(copied, 5000, "each byte once");
    trace.is_in_order(&[(0, "in the provisioned buffer", larger_written), (1, "copied out", copied_out)]);
}

/// A device does all of it, and in both directions at once: each end is told by the other, and provisions while it asks.
fn claim_20<F: TestFabric>() {
    let mut story = Story::<F>::new();
    let bytes = [message(7000), message(9000)];
    let mut sending = [0, 1].map(|side| story.ends[side].begin_send(&mut story.fabric, 5, &[&bytes[side]]));
    let (mut got, mut is_over) = ([Vec::new(), Vec::new()], [false; 2]);
    story.until("both have come out", |story| {
        for side in 0..2 {
            if let Some(operation) = &mut sending[side]
                && let Drive::Done(done) =
                    story.ends[side].drive_send(&mut story.fabric, operation, &[&bytes[side]])
            {
                assert_eq!(done, Ok(()));
                sending[side] = None;
            }
            is_over[side] |= story.receive(side, &mut got[side]);
        }
        is_over == [true; 2] && sending.iter().all(Option::is_none)
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
}
