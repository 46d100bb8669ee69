//! Planned messages over shared memory: they arrive, each way is tried, and what they took is told.

use std::thread;

use superpipe::plan::{Memory, Way};
use superpipe::{Connection, LandingMode, Protocol, Registered};

use crate::{DEADLINE, alone, buffer, bytes, options, pair_with, receive, register};

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

#[test]
fn planned_messages_out_of_registered_buffers_try_every_way() {
    let _alone = alone();
    let (mut a, mut b) = pair_with(options(Protocol::RegisterCached, LandingMode::AtConnect));
    assert!(a.explain(BYTES as u64, Memory::Kept).is_none() && a.last_planned().is_none());
    a.plan_messages();
    let source = buffer(1, BYTES);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let ways = [Way::Superpipeline, Way::Pipeline, Way::Eager, Way::OneCopy];
    let mut count = 0;
    while !has_tried_all(&mut a, Memory::Kept, &ways) {
        exchange(&mut a, &mut b, &source, |a| a.send_registered(7, &source, 0..BYTES, DEADLINE).unwrap());
        count += 1;
        assert!(count < MESSAGES_MAX, "{}", a.explain(BYTES as u64, Memory::Kept).unwrap());
    }
    let exposed_bytes = a.counters().exposed_bytes_sent;
    assert!((1..=count as u64 - 3).contains(&(exposed_bytes / BYTES as u64)), "{exposed_bytes} of {count}");
    let last = a.last_planned().unwrap();
    assert_eq!((last.bytes, last.memory, last.is_declined), (BYTES as u64, Memory::Kept, false));
    assert!(last.took_ns > 0 && last.predicted_ns > 0.0);
}

#[test]
fn planned_messages_out_of_slices_try_every_way() {
    let _alone = alone();
    let (mut a, mut b) = pair_with(options(Protocol::Superpipeline, LandingMode::AtConnect));
    a.plan_messages();
    let message = bytes(2, BYTES);
    let ways = [Way::Superpipeline, Way::Pipeline, Way::Eager];
    let mut count = 0;
    while !has_tried_all(&mut a, Memory::Unnamed, &ways) {
        exchange(&mut a, &mut b, &message, |a| a.send(7, &[&message], DEADLINE).unwrap());
        count += 1;
        assert!(count < MESSAGES_MAX, "{}", a.explain(BYTES as u64, Memory::Unnamed).unwrap());
    }
    assert_eq!(a.last_planned().unwrap().memory, Memory::Unnamed);
}
