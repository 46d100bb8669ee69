//! Planned messages over shared memory: they arrive, each way is tried, and what they took is told.

use std::thread;

use superpipe::plan::{Memory, Way};
use superpipe::{Budget, Connection, LandingMode, Options, Protocol, Registered, Tuning};

use crate::{DEADLINE, LANDINGS, alone, buffer, bytes, options, pair_with, receive, register};

/// Messages within which each way must have been observed. A planner tries all within 32; on a busy machine some ends are seen too late to count.
const MESSAGES_MAX: usize = 3000;
const BYTES: usize = 256 << 10;

/// Returns true if messages out of such memory were observed each way.
fn has_tried_all(connection: &mut Connection, memory: Memory, ways: &[Way]) -> bool {
    let explanation = connection.explain(BYTES as u64, memory).unwrap();
    ways.iter().all(|way| explanation.ways().any(|known| known.way == *way && known.observations > 0))
}

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

/// Sends messages out of a registered buffer until each way was observed. Returns how many were sent.
fn send_until_all_are_tried(a: &mut Connection, b: &mut Connection) -> usize {
    let source = buffer(1, BYTES);
    assert_eq!(register(a, b, &source), Registered::Ready);
    let mut count = 0;
    while a.explain(BYTES as u64, Memory::Kept).is_none()
        || !has_tried_all(a, Memory::Kept, &[Way::Superpipeline, Way::OneCopy])
    {
        exchange(a, b, &source, |a| a.send_registered(7, &source, 0..BYTES, DEADLINE).unwrap());
        count += 1;
        assert!(count < MESSAGES_MAX, "{}", a.explain(BYTES as u64, Memory::Kept).unwrap());
    }
    count
}

#[test]
fn planned_messages_out_of_registered_buffers_try_every_way() {
    let _alone = alone();
    let (mut a, mut b) = pair_with(options(Protocol::RegisterCached, LandingMode::AtConnect));
    assert!(a.explain(BYTES as u64, Memory::Kept).is_none() && a.last_planned().is_none());
    a.plan_messages();
    let count = send_until_all_are_tried(&mut a, &mut b);
    let exposed_bytes = a.counters().exposed_bytes_sent;
    assert!((1..count as u64).contains(&(exposed_bytes / BYTES as u64)), "{exposed_bytes} of {count}");
    let last = a.last_planned().unwrap();
    assert_eq!((last.bytes, last.memory, last.is_declined), (BYTES as u64, Memory::Kept, false));
    assert!(last.took_ns > 0 && last.predicted_ns > 0.0);
}

/// An idle connection whose landing is on demand has no planner.
#[test]
fn by_default_messages_are_planned() {
    let _alone = alone();
    for landing in LANDINGS {
        let asked =
            Options { tuning: Tuning { landing: Some(landing), ..Tuning::default() }, ..Options::default() };
        let (mut a, mut b) = pair_with(asked);
        assert_eq!(a.description().protocol, Protocol::Auto);
        let is_there = a.explain(BYTES as u64, Memory::Kept).is_some();
        assert_eq!(is_there, landing == LandingMode::AtConnect, "{landing:?}");
        send_until_all_are_tried(&mut a, &mut b);
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
    assert!(a.last_planned().is_none());
    let explanation = a.explain(BYTES as u64, Memory::Unnamed).unwrap();
    assert_eq!(explanation.ways().map(|known| known.way).collect::<Vec<_>>(), [Way::Superpipeline]);
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
        exchange(&mut a, &mut b, &again, |a| a.send_registered(7, &again, 0..BYTES, DEADLINE).unwrap());
        count += 1;
        assert!(count < MESSAGES_MAX, "it is never mapped");
        assert!(count > 1 || cached_bytes() == 0, "after the first message");
    }
    assert!(count >= 3 && cached_bytes() >= BYTES as u64, "{count} messages");
}
