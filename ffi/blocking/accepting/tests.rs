//! Room in the budget, which half-open connections give up for others of the same kind of memory, and the time of a try.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use superpipe_core::driver::EVICTION_SILENCE_NS;

use super::*;

/// More than any limit leaves.
const LARGE: u64 = 1 << 62;
/// Time that a peer may take to provision memory, once this end has.
const WORK_NS: u64 = 1_000_000_000;

/// A half-open connection that holds or lacks memory, and whose peer sends nothing. If there is memory, it takes what it lacks.
#[derive(Debug)]
struct Silent {
    kind: MemoryKind,
    share_bytes: u64,
    lacks: Option<u64>,
    is_refused: Arc<AtomicBool>,
}

impl PendingConnection for Silent {
    fn drive(&mut self, _: u64, _: bool) -> OpenProgress {
        if self.lacks.is_some_and(|bytes| bytes < LARGE / 2) {
            self.share_bytes = self.lacks.take().unwrap_or(0);
        }
        OpenProgress::Pending
    }

    fn interests(&self) -> [PollFd<'_>; 2] {
        [PollFd::none(); 2]
    }

    fn timeout_ns(&self) -> u64 {
        u64::MAX
    }

    fn steps(&self) -> u64 {
        0
    }

    fn work_ns(&self) -> u64 {
        if self.share_bytes > 0 { WORK_NS } else { 0 }
    }

    fn memory_kind(&self) -> MemoryKind {
        self.kind
    }

    fn share_bytes(&self) -> u64 {
        self.share_bytes
    }

    fn lacks(&self) -> Option<u64> {
        self.lacks
    }

    fn refuse(&mut self) {
        self.lacks = None;
        self.is_refused.store(true, Ordering::Relaxed);
    }
}

fn acceptor(name: &str) -> Acceptor {
    let path = std::env::temp_dir().join(format!("superpipe-{name}-{}.sock", std::process::id()));
    Acceptor::bind(&Address::Shm(path), Options::default()).unwrap()
}

/// Adds a half-open connection. Returns the flag that it is refused.
fn admit(acceptor: &mut Acceptor, kind: MemoryKind, share_bytes: u64, lacks: Option<u64>) -> Arc<AtomicBool> {
    let is_refused = Arc::default();
    let silent = Silent { kind, share_bytes, lacks, is_refused: Arc::clone(&is_refused) };
    assert!(acceptor.half_open.admit(Box::new(silent), acceptor.clock.listened()).is_ok());
    is_refused
}

#[test]
fn shares_of_one_kind_make_no_room_for_the_other() {
    for (held, lacked) in
        [(MemoryKind::Shared, MemoryKind::Registered), (MemoryKind::Registered, MemoryKind::Shared)]
    {
        let mut acceptor = acceptor("kinds");
        admit(&mut acceptor, held, LARGE, None);
        let is_refused = admit(&mut acceptor, lacked, 0, Some(LARGE / 2));
        assert!(acceptor.turn(0, (0, TURN_NS)).unwrap().is_none());
        assert!(is_refused.load(Ordering::Relaxed), "{held:?} cannot become {lacked:?}");
        assert_eq!(acceptor.half_open.len(), 2, "nobody was dropped for it");
    }
}

#[test]
fn a_wait_for_one_kind_does_not_delay_the_other() {
    let mut acceptor = acceptor("waits");
    admit(&mut acceptor, MemoryKind::Registered, LARGE, None);
    let waits = admit(&mut acceptor, MemoryKind::Registered, 0, Some(LARGE / 2));
    let refused = admit(&mut acceptor, MemoryKind::Shared, 0, Some(LARGE / 2));
    assert!(acceptor.turn(0, (0, TURN_NS)).unwrap().is_none());
    let [waits, refused] = [waits, refused].map(|it| it.load(Ordering::Relaxed));
    assert!(!waits, "the holder was not silent for long, and may still give its share up");
    assert!(refused, "no share is of its kind");
}

#[test]
fn the_first_silent_of_the_kind_is_dropped() {
    let mut acceptor = acceptor("drops");
    let [registered, shared] = MemoryKind::ALL;
    admit(&mut acceptor, shared, LARGE, None);
    admit(&mut acceptor, registered, LARGE, None);
    admit(&mut acceptor, registered, 0, Some(LARGE));
    // Longer than the silence that every peer is allowed: the clock advances by a bounded time per poll.
    let begun = monotonic_ns();
    acceptor.clock.begin();
    while acceptor.half_open.len() == 3 {
        assert!(until(begun + 60_000_000_000) > 0, "nobody was dropped");
        assert!(acceptor.turn(1_000_000, (0, TURN_NS)).unwrap().is_none());
    }
    let kinds: Vec<_> =
        acceptor.half_open.iter().map(|opening| (opening.memory_kind(), opening.share_bytes())).collect();
    assert!(kinds.contains(&(shared, LARGE)) && !kinds.contains(&(registered, LARGE)), "{kinds:?}");
}

#[test]
fn memory_that_was_waited_for_leaves_the_peer_its_time() {
    let mut acceptor = acceptor("work");
    for _ in 0..3 {
        admit(&mut acceptor, MemoryKind::Shared, 0, Some(1));
    }
    // It got its memory first, and so it is the first that is silent.
    for index in [1, 0, 2] {
        assert!(matches!(acceptor.drive(index, false), OpenProgress::Pending));
    }
    let Nanos(listened_ns) = acceptor.clock.listened();
    let silent =
        |after_ns| acceptor.half_open.silent(Nanos(listened_ns + EVICTION_SILENCE_NS + after_ns), |_| true);
    assert_eq!(silent(WORK_NS - 1), None, "it provisions memory");
    assert_eq!(silent(WORK_NS), Some(1));
}

/// Attack: peers that answer in time for the next turn, each of which takes a while.
#[derive(Debug)]
struct Restless(Arc<AtomicU32>);

impl PendingConnection for Restless {
    fn drive(&mut self, _: u64, _: bool) -> OpenProgress {
        self.0.fetch_add(1, Ordering::Relaxed);
        let begun = monotonic_ns();
        while monotonic_ns() < begun + 50_000 {}
        OpenProgress::Pending
    }

    fn interests(&self) -> [PollFd<'_>; 2] {
        [PollFd::none(); 2]
    }

    fn timeout_ns(&self) -> u64 {
        0
    }

    fn steps(&self) -> u64 {
        self.0.load(Ordering::Relaxed).into()
    }

    fn work_ns(&self) -> u64 {
        0
    }

    fn memory_kind(&self) -> MemoryKind {
        MemoryKind::Shared
    }

    fn share_bytes(&self) -> u64 {
        0
    }

    fn lacks(&self) -> Option<u64> {
        None
    }

    fn refuse(&mut self) {}
}

#[test]
fn peers_that_always_have_work_do_not_hold_a_try() {
    let (mut acceptor, driven) = (acceptor("restless"), Arc::new(AtomicU32::new(0)));
    for _ in 0..HALF_OPEN_MAX {
        let restless = Box::new(Restless(Arc::clone(&driven)));
        assert!(acceptor.half_open.admit(restless, acceptor.clock.listened()).is_ok());
    }
    assert!(acceptor.try_accept().unwrap().is_none());
    assert!(acceptor.has_more());
    // 50 us each, and 1 ms for all: with one turn's more than that there is time for 40.
    let driven = driven.load(Ordering::Relaxed);
    assert!(driven <= 40, "{driven} steps of 50 us in a call that does not wait");
}
