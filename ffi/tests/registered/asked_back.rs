//! Registered buffers whose memory others wait for.

use core::time::Duration;
use std::thread;

use superpipe::{Budget, BudgetShare, Connection, MemoryKind, Registered, TrySend};

use crate::{DEADLINE, alone, await_that, buffer, pair, receive, register, settle};

/// Sends lines until the ring is full, also after both ends have acknowledged what they had. Returns their number.
fn fill_ring(a: &mut Connection, b: &mut Connection) -> usize {
    let mut lines = 0;
    loop {
        settle(a, b);
        let before = lines;
        while a.try_send(3, &[&[1; 30]]).unwrap() == TrySend::Sent {
            lines += 1;
        }
        if lines == before {
            return lines;
        }
    }
}

#[test]
fn a_buffer_is_given_back_while_its_message_waits() {
    let _alone = alone();
    Budget::set_shared_max(12 << 20);
    let (mut a, mut b) = pair();
    let source = buffer(1, 4 << 20);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let lines = fill_ring(&mut a, &mut b);
    let (mut sending, mut receiving) = a.split();
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            sending.send_registered(7, &source, 0..10_000, DEADLINE).unwrap();
            sending.counters()
        });
        // Time for the call to begin. If it begins later, the buffer is given back before it, which is fine, too.
        thread::sleep(Duration::from_millis(50));
        let other = BudgetShare::open(MemoryKind::Shared, 0).unwrap();
        let mut is_grown = false;
        await_that("the memory of the buffer is given back", || {
            receiving.progress();
            b.progress();
            is_grown = is_grown || other.grow(2 << 20).is_ok();
            is_grown && Budget::shared_use().cached_bytes == 0
        });
        assert!(!sender.is_finished(), "the ring is full");
        let mut line = [0; 64];
        for _ in 0..lines {
            b.recv_into(&mut [&mut line], DEADLINE).unwrap();
        }
        receive(&mut b, &source[..10_000]);
        let counters = sender.join().unwrap();
        assert_eq!((counters.registrations_hit, counters.registrations_missed), (0, 1));
    });
}
