//! Kernels of copies, and the window.

use std::thread;

use superpipe::{Connection, CopyKernel, SIZE_CLASSES, WindowReason, size_class_bytes};

use crate::support::{DEADLINE, bytes, pair};

const SIZES: [usize; 7] = [8, 5000, 16 << 10, 40_000, 300_000, 1 << 20, 5_000_001];

/// Sends messages of many sizes, and compares them.
fn exchange(a: &mut Connection, b: &mut Connection) {
    thread::scope(|scope| {
        scope.spawn(|| {
            for (tag, size) in SIZES.into_iter().enumerate() {
                a.send(tag as u64, &[&bytes(tag as u64, size)], DEADLINE).unwrap();
            }
            a.flush(DEADLINE).unwrap();
        });
        for (tag, size) in SIZES.into_iter().enumerate() {
            let mut message = vec![0; size];
            let received = b.recv_into(&mut [&mut message], DEADLINE).unwrap();
            assert_eq!((received.tag, received.bytes), (tag as u64, size));
            assert!(message == bytes(tag as u64, size), "{size}");
        }
    });
}

#[test]
fn messages_arrive_by_every_kernel() {
    for copy_in in CopyKernel::ALL {
        for copy_out in CopyKernel::ALL {
            let (mut a, mut b) = pair();
            for end in [&mut a, &mut b] {
                end.pin_copies(Some(copy_in), Some(copy_out));
                end.set_window(Some(512 << 10));
            }
            let timed = b.counters().copies_timed;
            exchange(&mut a, &mut b);
            let [sent, received] = [a.counters(), b.counters()];
            assert_eq!(sent.copy_in, [copy_in; SIZE_CLASSES]);
            assert_eq!(received.copy_out, [copy_out; SIZE_CLASSES]);
            assert_eq!(received.copies_timed, timed, "nothing is timed where kernel and window are given");
        }
    }
}

#[test]
fn kernels_are_timed_unless_they_are_given() {
    let (mut a, mut b) = pair();
    let before = [a.counters().copies_timed[0], b.counters().copies_timed[1]];
    for _ in 0..4 {
        exchange(&mut a, &mut b);
    }
    let after = [a.counters().copies_timed[0], b.counters().copies_timed[1]];
    assert!(before[0] < after[0] && before[1] < after[1], "{before:?} {after:?}");
    a.pin_copies(Some(CopyKernel::String), None);
    // Windows are chosen by timings, too.
    a.set_window(Some(512 << 10));
    let before = a.counters().copies_timed[0];
    exchange(&mut a, &mut b);
    assert_eq!(a.counters().copies_timed[0], before);
    a.pin_copies(None, None);
    exchange(&mut a, &mut b);
    assert!(a.counters().copies_timed[0] > before);
    assert_eq!(size_class_bytes()[0], 4096);
}

/// 68 KiB hold a message of 64 KiB wherever it begins.
#[test]
fn messages_arrive_through_every_window() {
    for (wanted, window) in [(0, 68), (100 << 10, 100), (128 << 10, 128), (u32::MAX, 512)] {
        let (mut a, mut b) = pair();
        assert_eq!(a.counters().window_bytes, 512 << 10);
        a.set_window(Some(wanted));
        let reason = if wanted == u32::MAX { WindowReason::Start } else { WindowReason::Pinned };
        assert_eq!(a.counters().window_reason, reason);
        assert_eq!(a.counters().window_bytes, window << 10);
        b.set_window(Some(512 << 10));
        exchange(&mut a, &mut b);
        exchange(&mut b, &mut a);
        assert_eq!(b.counters().window_bytes, 512 << 10, "the window is of one direction");
        a.set_window(None);
        assert_eq!((a.counters().window_bytes, a.counters().window_reason), (512 << 10, WindowReason::Start));
    }
}
