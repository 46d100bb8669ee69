//! Planned messages over shared memory: which are, what they took, and that they wait for nobody.

use core::time::Duration;
use std::thread;

use superpipe::plan::{Memory, Way};
use superpipe::{Budget, Connection, LandingMode, Options, Protocol, Registered, RegisteredBuf, Tuning};

use crate::{DEADLINE, LANDINGS, alone, await_that, buffer, bytes, options, pair_with, receive, register};

/// Messages within which the end of one must have been seen in time. On a busy machine most are seen too late to count.
const MESSAGES_MAX: usize = 3000;
const BYTES: usize = 256 << 10;

/// Sends a message and receives an answer, as a ping-pong does.
fn exchange(
    a: &mut Connection,
    b: &mut Connection,
    message: &[u8],
    send: impl FnOnce(&mut Connection) + Send,
) {
    thread::scope(|scope| {
        scope.spawn(move || {
            send(a);
            assert_eq!(a.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap().bytes, 8);
        });
        receive(b, message);
        b.send(1, &[&[1; 8]], DEADLINE).unwrap();
    });
}

/// Sends messages out of a registered buffer until the time of one counts.
fn send_until_one_is_observed(a: &mut Connection, b: &mut Connection) {
    let source = buffer(1, BYTES);
    assert_eq!(register(a, b, &source), Registered::Ready);
    for count in 0.. {
        exchange(a, b, &source, |a| a.send_registered(7, &source, 0..BYTES, DEADLINE).unwrap());
        if a.explain(BYTES as u64, Memory::Kept).unwrap().ways().any(|known| known.observations > 0) {
            return;
        }
        assert!(count < MESSAGES_MAX, "{}", a.explain(BYTES as u64, Memory::Kept).unwrap());
    }
}

#[test]
fn messages_out_of_mapped_memory_are_observed() {
    let _alone = alone();
    let (mut a, mut b) = pair_with(options(Protocol::RegisterCached, LandingMode::AtConnect));
    assert!(a.explain(BYTES as u64, Memory::Kept).is_none() && a.last_planned().is_none());
    a.plan_messages();
    send_until_one_is_observed(&mut a, &mut b);
    let last = a.last_planned().unwrap();
    assert_eq!((last.bytes, last.memory, last.is_declined), (BYTES as u64, Memory::Kept, false));
    assert_eq!(last.way, Way::OneCopy);
    assert!(last.took_ns > 0 && last.predicted_ns > 0.0);
}

/// A connection that sends no message out of mapped memory has no planner.
#[test]
fn by_default_messages_are_planned() {
    let _alone = alone();
    for landing in LANDINGS {
        let tuning = Tuning { landing: Some(landing), ..Tuning::default() };
        let (mut a, mut b) = pair_with(Options { tuning, ..Options::default() });
        assert_eq!(a.description().protocol, Protocol::Auto);
        assert!(a.explain(BYTES as u64, Memory::Kept).is_none());
        send_until_one_is_observed(&mut a, &mut b);
    }
}

#[test]
fn messages_out_of_slices_over_shared_memory_have_no_choice() {
    let _alone = alone();
    let (mut a, mut b) = pair_with(Options::default());
    let message = bytes(2, BYTES);
    for _ in 0..100 {
        exchange(&mut a, &mut b, &message, |a| a.send(7, &[&message], DEADLINE).unwrap());
    }
    assert!(a.last_planned().is_none() && a.explain(BYTES as u64, Memory::Unnamed).is_none());
    a.plan_messages();
    let explanation = a.explain(BYTES as u64, Memory::Unnamed).unwrap();
    assert_eq!(explanation.ways().map(|known| known.way).collect::<Vec<_>>(), [Way::Superpipeline]);
}

/// A peer cannot fill the budget of an end that asked for nothing. By register-cached both ends have asked.
#[test]
fn by_auto_64_mib_of_the_peer_are_mapped() {
    let _alone = alone();
    let sizes = [40 << 20, (24 << 20) + 4096, 24 << 20];
    let registers = |protocol, expected: [Registered; 3]| {
        let tuning = Tuning { protocol, ..Tuning::default() };
        let (mut a, mut b) = pair_with(Options { tuning, ..Options::default() });
        let buffers = sizes.map(|bytes| RegisteredBuf::new(bytes).unwrap());
        assert_eq!(
            buffers.each_ref().map(|buffer| register(&mut a, &mut b, buffer)),
            expected,
            "{protocol:?}"
        );
    };
    registers(None, [Registered::Ready, Registered::Refused, Registered::Ready]);
    registers(Some(Protocol::RegisterCached), [Registered::Ready; 3]);
}

/// A buffer that is sent once is copied sooner than mapped.
#[test]
fn by_auto_a_buffer_is_registered_when_it_comes_again() {
    let _alone = alone();
    let (mut a, mut b) = pair_with(Options::default());
    let cached_bytes = || Budget::shared_use().cached_bytes;
    for seed in 0..12 {
        let once = buffer(seed, BYTES);
        exchange(&mut a, &mut b, &once, |a| a.send_registered(7, &once, 0..BYTES, DEADLINE).unwrap());
        assert_eq!(cached_bytes(), 0, "buffer {seed}");
    }
    let again = buffer(13, BYTES);
    let mut count = 0;
    while a.counters().registrations_hit == 0 {
        assert!(count < MESSAGES_MAX, "it is never mapped");
        exchange(&mut a, &mut b, &again, |a| a.send_registered(7, &again, 0..BYTES, DEADLINE).unwrap());
        count += 1;
        assert!(count > 1 || cached_bytes() == 0, "after the first message");
    }
    assert!(count >= 3 && cached_bytes() >= BYTES as u64, "{count} messages");
}

/// Planned messages once went through the ring now and then, where they waited for a receiver that knew nothing of it.
#[test]
fn by_auto_a_message_out_of_mapped_memory_waits_for_nobody() {
    let _alone = alone();
    let (mut a, mut b) = pair_with(Options::default());
    let source = buffer(1, BYTES);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    for number in 0..500 {
        let sent = a.send_registered(7, &source, 0..BYTES, Duration::ZERO);
        assert!(sent.is_ok(), "{number}: {sent:?}");
        receive(&mut b, &source);
        await_that("the peer acknowledges", || {
            b.progress();
            !a.is_shared(&source)
        });
    }
    assert!(a.explain(BYTES as u64, Memory::Kept).is_some(), "they were planned");
    assert_eq!(a.counters().exposed_bytes_sent, 500 * BYTES as u64);
}
