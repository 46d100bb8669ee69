//! A larger landing buffer that cannot be had: the transfer goes through what there is, and never fails.

use superpipe_core::driver::{Driver, WaitStrategy};
use superpipe_core::recorder::ControlKind;
use superpipe_core::{Config, Endpoint, Layout, Length, Nanos, Origin, Protocol, Reason, small_layout};
use superpipe_testkit::{Setup, TestFabric};

use super::on_both;
use super::story::{Story, message};

on_both! {
    a_refusal_folds_the_message_and_is_not_asked_again_at_once
    jobs_that_often_fail_never_stop_a_transfer
    without_growth_nothing_waits
    a_wait_ends_with_the_transfer
    a_peer_that_closes_is_not_waited_for
    a_peer_that_grants_too_little_is_asked_once
    a_shrink_is_followed_by_the_next_demand
    a_reservation_that_waits_ends_the_one_before
}

fn a_refusal_folds_the_message_and_is_not_asked_again_at_once<F: TestFabric>() {
    let mut story = Story::<F>::of(Config::default(), 1);
    for _ in 0..3 {
        story.send(&[&message(5000)]);
    }
    let trace = story.trace();
    assert_eq!(trace.sent(0, ControlKind::Grow), 1, "it backs off");
    assert_eq!(trace.sent(1, ControlKind::GrowRefused), 1);
    assert_eq!(trace.provisioned(1), []);
    assert!(trace.wrote(0, |index| index == 0) && !trace.wrote(0, |index| index > 0));
    // It asks again after some more.
    for _ in 0..70 {
        story.send(&[&message(1000)]);
    }
    assert!(story.ends[0].counters().growths_asked > 1, "{}", F::NAME);
}

fn jobs_that_often_fail_never_stop_a_transfer<F: TestFabric>() {
    let mut story = Story::<F>::of(Config::default(), 3);
    for turn in 0..800_usize {
        let bytes = [50, 905, 3000, 20_000][turn % 4] + turn;
        story.send_from(turn / 4 % 2, &[&message(bytes)]);
        if turn % 16 == 0 {
            story.ends.iter_mut().for_each(|end| _ = end.endpoint_mut().shrink());
        }
    }
    let asked = story.ends.each_ref().map(|end| end.counters().growths_asked);
    let refused = story.ends.each_ref().map(|end| end.counters().growths_refused);
    assert!(asked.iter().all(|asked| *asked > 1) && refused.iter().any(|refused| *refused > 0));
    story.ends.iter_mut().for_each(|end| _ = end.endpoint_mut().shrink());
    story.settle();
    assert_eq!(story.fabric.grown_bytes(), 0, "{}: the base alone is left", F::NAME);
}

fn without_growth_nothing_waits<F: TestFabric>() {
    let mut fabric = F::new(&Setup::new(small_layout(1024), 3));
    let config = Config { protocol: Protocol::Provision, ..Config::default() };
    let mut ends = [0, 1]
        .map(|side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap());
    let sent = message(5000);
    let id = ends[0].start(1, Length::Exact(5000)).unwrap();
    let (mut pushed, mut got) = (0, Vec::new());
    for _ in 0..200_000 {
        if pushed < sent.len() {
            pushed += ends[0].push_from(&mut fabric, id, &[&sent], pushed).unwrap();
        }
        let mut place = [0; 700];
        let pulled = ends[1].pull(&mut fabric, &mut [&mut place]);
        got.extend_from_slice(&place[..pulled.bytes]);
        ends.iter_mut().for_each(|end| _ = end.progress(&mut fabric));
        fabric.step();
    }
    assert!(got == sent, "{}: {} bytes", F::NAME, got.len());
}

fn a_wait_ends_with_the_transfer<F: TestFabric>() {
    let mut story = Story::<F>::new();
    let many = message(5000);
    let mut operation = story.ends[0].begin_send(&mut story.fabric, 5, &[&many]).unwrap();
    let _ = story.ends[0].drive_send(&mut story.fabric, &mut operation, &[&many]);
    assert_eq!(operation.sent(), 0, "it waits");
    story.ends[0].cancel_send(&mut story.fabric, &mut operation, Reason(9));
    // Another message does not wait, whatever has come of the growth.
    story.send(&[b"short"]);
    story.send(&[&many]);
    assert_eq!(story.ends[0].counters().growths_asked, 1, "{}", F::NAME);
}

fn a_peer_that_closes_is_not_waited_for<F: TestFabric>() {
    let mut story = Story::<F>::new();
    // The peer has sent something that this end has not taken out, and closes.
    story.ends[1].try_send(&mut story.fabric, 5, &[b"last"]).unwrap();
    story.ends[1].close(&mut story.fabric, Reason::DONE);
    story.until("CLOSE has come", |story| story.ends[0].endpoint().peer_closes());
    let bytes = message(905);
    let id = story.ends[0].endpoint_mut().start(5, Length::Exact(905)).unwrap();
    let mut sent = 0;
    for _ in 0..1000 {
        sent += story.ends[0].endpoint_mut().push_from(&mut story.fabric, id, &[&bytes], sent).unwrap();
        story.round();
    }
    assert!(sent > 0, "{}: it goes through the small buffer", F::NAME);
    assert_eq!(story.ends[0].counters().growths_asked, 0);
}

/// A peer that agreed on less grants a ring that does not hold the message. It is used, and not followed by another demand.
fn a_peer_that_grants_too_little_is_asked_once<F: TestFabric>() {
    let mut story = Story::<F>::new();
    let mut attachment = story.fabric.attachment(1);
    if let Some(terms) = &mut attachment.growth {
        terms.largest = Layout { block_bytes: 512, block_count: 4, ..terms.largest };
    }
    let config = *story.ends[0].endpoint().config();
    let end = Endpoint::new(&story.fabric, attachment, config, Origin::default()).unwrap();
    story.ends[1] = Driver::new(end, 1, WaitStrategy::Yield, 1 << 40, Nanos(0));
    story.send(&[&message(20_000)]);
    let counters = story.ends[0].counters();
    assert_eq!((counters.growths_asked, counters.growths_refused, counters.moves), (1, 0, 1), "{}", F::NAME);
    story.send(&[&message(20_000)]);
    let counters = story.ends[0].counters();
    assert_eq!((counters.growths_asked, counters.growths_refused, counters.moves), (2, 1, 1), "{}", F::NAME);
}

fn a_shrink_is_followed_by_the_next_demand<F: TestFabric>() {
    let mut story = Story::<F>::new();
    for _ in 0..3 {
        story.send(&[&message(5000)]);
        assert!(story.ends[1].endpoint_mut().shrink());
        // The next message demands while SHRINK is on its way.
        story.send(&[&message(6000)]);
        story.ends[1].endpoint_mut().shrink();
        story.settle();
    }
    let counters = story.ends[0].counters();
    assert!(counters.growths_asked >= 6, "{}: {counters:?}", F::NAME);
    assert_eq!(counters.growths_refused, 0);
}

/// A reservation keeps an end from moving. One that waits for a move must not be kept by the one before.
fn a_reservation_that_waits_ends_the_one_before<F: TestFabric>() {
    let mut story = Story::<F>::new();
    let id = story.ends[0].endpoint_mut().start(5, Length::Stream).unwrap();
    let few = story.ends[0].endpoint_mut().reserve(&mut story.fabric, id, 100).unwrap();
    assert_eq!(few.bytes(), 100);
    let mut many = None;
    story.until("there is room for more", |story| {
        many = story.ends[0].endpoint_mut().reserve(&mut story.fabric, id, 5000).ok();
        many.is_some()
    });
    assert_eq!(many.map(|many| many.bytes()), Some(5000), "{}", F::NAME);
}
