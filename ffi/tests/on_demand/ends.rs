//! Ends that come in the middle of growth: of the peer's process, of the connection, and of a child of fork.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::thread;

use superpipe::{Address, Budget, Connection, ErrorKind, LandingMode, Listener, Options};

use crate::{DEADLINE, alone, await_that, bytes, carry, mapped, options, pair, path};

/// Runs `work` in a child, which then ends. Its pid.
fn fork(work: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child has only this thread. What the tests do there takes no lock that another thread of the parent could
    // hold but those of the allocator, which the C library hands to the child.
    match unsafe { libc::fork() } {
        0 => {
            let is_well = catch_unwind(AssertUnwindSafe(work)).is_ok();
            // SAFETY: _exit ends the child and runs nothing of the program's.
            unsafe { libc::_exit(i32::from(!is_well)) }
        }
        pid => pid,
    }
}

/// Waits for a child: 0 if all is well.
fn wait(pid: libc::pid_t) -> i32 {
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

#[test]
fn a_peer_that_is_killed_during_growth_is_lost() {
    let _alone = alone();
    let message = bytes(1, 64 << 20);
    for delay_us in [0, 50, 100, 200, 400, 1000, 3000, 10_000] {
        let address = Address::Shm(path());
        let mut listener = Listener::bind(&address, Options::default()).unwrap();
        let child = fork(|| {
            let mut peer = Connection::connect(&address, options(LandingMode::OnDemand), DEADLINE).unwrap();
            let mut place = vec![0; 64 << 20];
            loop {
                // It never has all of it before it is killed, or then takes the next.
                peer.recv_into(&mut [&mut place], DEADLINE).unwrap();
            }
        });
        let mut end = listener.accept(DEADLINE).unwrap();
        let killing = thread::spawn(move || {
            thread::sleep(Duration::from_micros(delay_us));
            // SAFETY: it is a child of ours that was not waited for.
            assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
        });
        let error = loop {
            if let Err(error) = end.send(1, &[&message], DEADLINE) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::PeerLost, "{error}");
        killing.join().unwrap();
        assert_eq!(wait(child), libc::SIGKILL);
        drop(end);
        await_that("no segment is mapped", || mapped().count == 0);
        await_that("the budget has all back", || Budget::shared_bytes() == 0);
    }
}

#[test]
fn a_child_drops_a_connection_with_jobs_and_the_parent_goes_on() {
    let _alone = alone();
    for _ in 0..20 {
        let (mut a, mut b) = pair();
        let message = bytes(2, 300_000);
        let mut send = superpipe::SendOperation::new(7, message.len());
        // Jobs are under way at one end or both.
        for _ in 0..20 {
            let _ = a.drive_send(&mut send, &[&message]).unwrap();
            b.progress();
        }
        let (mut a, mut b) = (Some(a), Some(b));
        let child = fork(|| {
            drop(a.take());
            drop(b.take());
        });
        assert_eq!(wait(child), 0);
        let (mut a, mut b) = (a.unwrap(), b.unwrap());
        thread::scope(|scope| {
            let (a, message) = (&mut a, &message);
            scope.spawn(move || {
                while a.drive_send(&mut send, &[message]).unwrap() != superpipe::Drive::Done(()) {
                    thread::yield_now();
                }
                a.flush(DEADLINE).unwrap();
            });
            let mut place = vec![0; message.len()];
            assert_eq!(b.recv_into(&mut [&mut place], DEADLINE).unwrap().bytes, message.len());
            assert!(place == *message);
            // For the flush of the other end.
            b.flush(DEADLINE).unwrap();
        });
        carry(&mut b, &mut a, &message);
    }
}

#[test]
fn a_child_connects_on_demand_after_its_parent_did() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    carry(&mut a, &mut b, &bytes(1, 1_000_000));
    let child = fork(|| {
        // The parent's helper thread is not here.
        let (mut one, mut other) = pair();
        for seed in 0..5 {
            carry(&mut one, &mut other, &bytes(seed, 1_000_000));
        }
        assert!(one.counters().moves > 0);
    });
    assert_eq!(wait(child), 0);
    carry(&mut b, &mut a, &bytes(3, 1_000_000));
}
