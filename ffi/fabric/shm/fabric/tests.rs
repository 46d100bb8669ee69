//! Two ends on the segments of each other, as they ship: what core names is what is written and read, and who is woken.

use super::*;
use crate::fabric::shm::segment::Segment;
use crate::fabric::shm::segments::segment_bytes;
use crate::os::membarrier;
use crate::os::poll::{poll, poll_now};
use superpipe_core::driver::{Driver, Received, WaitStrategy};
use superpipe_core::{Arrival, Config, FlagPlace, Origin};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
const SECOND_NS: u64 = 1_000_000_000;

fn attachments() -> [Attachment<Shm>; 2] {
    let bytes = segment_bytes(LAYOUT) as usize;
    let made = [c"a", c"b"].map(|name| Segment::create(name, bytes).unwrap());
    let taken = made.each_ref().map(|segment| {
        let fd = segment.fd().try_clone_to_owned().unwrap();
        Segment::adopt(fd, segment.len() as u64).unwrap()
    });
    let (a, b) = Socket::pair().unwrap();
    let ([mine_a, mine_b], [theirs_b, theirs_a]) = (made, taken);
    let fenced = membarrier::register();
    [
        Shm::attach(Segments::Whole { mine: mine_a, theirs: theirs_a }, LAYOUT, a, fenced, true, None),
        Shm::attach(Segments::Whole { mine: mine_b, theirs: theirs_b }, LAYOUT, b, fenced, false, None),
    ]
}

fn drivers() -> [Driver<Shm>; 2] {
    let config = Config { arrival: Arrival::Flag, c0_bytes: 600, order_asserted: true, ..Config::default() };
    attachments().map(|attachment| {
        let endpoint = Endpoint::new(&Shm::new(), attachment, config, Origin::default()).unwrap();
        Driver::new(endpoint, 1, WaitStrategy::Sleep, SECOND_NS, Nanos(0))
    })
}

fn is_marked_asleep(driver: &Driver<Shm>) -> bool {
    sleep_flag(&driver.endpoint().link().mine).load(core::sync::atomic::Ordering::Relaxed) != 0
}

/// Ends a sleep as a poll finds it.
fn end(fabric: &Shm, driver: &mut Driver<Shm>) -> SleepEnd {
    let mut fds = fabric.sleep_interests(driver.endpoint().link());
    let polled = poll(&mut fds, 0);
    // SAFETY: the link, which has the descriptors, lives until the end of this function.
    let fds = fds.map(|fd| unsafe { fd.without_borrow() });
    fabric.end_sleep(driver.endpoint_mut(), polled, fds)
}

#[test]
fn a_doorbell_wakes_only_a_peer_that_sleeps() {
    let fabric = &mut Shm::new();
    let [mut a, mut b] = drivers();
    b.try_send(fabric, 1, &[b"awake"]).unwrap();
    b.progress(fabric);
    assert!(!poll_now(&mut [a.endpoint().link().socket.interest()]), "nobody sleeps");
    assert_eq!(fabric.begin_sleep(a.endpoint_mut(), SECOND_NS), Err(SleepEnd::Poll), "it has come");
    let mut place = [0; 8];
    assert_eq!(a.try_recv(fabric, &mut [&mut place]), Ok(Some(Received { tag: 1, bytes: 5 })));
    a.progress(fabric);

    let longest_ns = fabric.begin_sleep(a.endpoint_mut(), 1000).unwrap();
    assert_eq!((longest_ns, is_marked_asleep(&a)), (1000, true));
    assert_eq!((end(fabric, &mut a), is_marked_asleep(&a)), (SleepEnd::TimedOut, false));

    let longest_ns = fabric.begin_sleep(a.endpoint_mut(), SECOND_NS).unwrap();
    assert!(longest_ns < SECOND_NS, "no sleep is so long");
    fabric.ring_doorbell(b.endpoint_mut().link_mut());
    assert_eq!((end(fabric, &mut a), is_marked_asleep(&a)), (SleepEnd::Poll, false));

    fabric.begin_sleep(a.endpoint_mut(), SECOND_NS).unwrap();
    b.try_send(fabric, 2, &[b"wake"]).unwrap();
    b.progress(fabric);
    assert_eq!(end(fabric, &mut a), SleepEnd::Poll);
    assert_eq!(a.try_recv(fabric, &mut [&mut place]), Ok(Some(Received { tag: 2, bytes: 4 })));
}

#[test]
fn the_end_and_an_unexpected_message_end_a_sleep() {
    let fabric = &mut Shm::new();
    let [mut a, b] = drivers();
    assert!(fabric.is_alive(a.endpoint().link()));
    let is_told = |a: &Driver<Shm>| poll_now(&mut fabric.interests(a.endpoint().link()));
    assert!(!is_told(&a));
    fabric.begin_sleep(a.endpoint_mut(), SECOND_NS).unwrap();
    b.endpoint().link().socket.send(b"message", None).unwrap();
    assert!(!is_told(&a), "a packet is no end");
    assert_eq!(end(fabric, &mut a), SleepEnd::PeerGone);
    fabric.begin_sleep(a.endpoint_mut(), SECOND_NS).unwrap();
    drop(b);
    assert!(is_told(&a) && !fabric.is_alive(a.endpoint().link()));
    assert_eq!(end(fabric, &mut a), SleepEnd::PeerGone);
}

#[cfg(feature = "recorder")]
#[test]
fn each_recording_begins_empty() {
    let fabric = &mut Shm::new();
    let [Attachment { link, .. }, _] = attachments();
    assert!(fabric.recorder(&link).is_none());
    for _ in 0..2 {
        fabric.record(true);
        assert!(fabric.recorder(&link).is_some());
        fabric.record(false);
        assert!(fabric.recorder(&link).is_none());
    }
}

#[test]
fn offsets_of_core_are_addresses_in_both_segments() {
    let fabric = &mut Shm::new();
    let line = Line([1, 2, 3, 4, 5, 6, 7, 8]);
    let bytes = line.0.map(u64::to_le_bytes).concat();
    let [Attachment { control_page, landing, mut link, .. }, there] = attachments();
    let (peer_control_page, peer_landing, mut peer_link) =
        (there.peer_control_page, there.peer_landing.memory, there.link);
    let landing = landing.memory;
    assert_eq!(fabric.crc(b"123456789", 0), 0xE306_9283, "the check value of CRC32C");
    let (before, now, after) = (monotonic_ns(), fabric.now().0, monotonic_ns());
    assert!((before..=after).contains(&now));
    let caps = fabric.caps(&link);
    assert_eq!((caps.order_inside_write, caps.notifications_max), (true, 0));
    assert_eq!(fabric.poll_cq(&mut link), None);

    fabric.write_line(&mut peer_link, peer_control_page, 128, &line);
    assert_eq!(
        (fabric.take_line(&link, control_page, 128), fabric.flag(&link, control_page, 128 + 48)),
        (line, 7)
    );
    fabric.publish(&mut peer_link, peer_control_page, 128 + 56, 99);
    assert_eq!(fabric.flag(&link, control_page, 128 + 56), 99);
    assert_eq!(fabric.take_line_if(&link, control_page, 128, 98), None);
    assert_eq!(
        fabric.take_line_if(&link, control_page, 128, 99).map(|taken| taken.0[..7].to_vec()),
        Some(vec![1, 2, 3, 4, 5, 6, 7])
    );

    fabric.expect_write(&mut peer_link, peer_landing, 256, 60, false);
    fabric.expect_read(&mut link, landing, 256 + 56, 0, 256, 60);
    for kernel in CopyKernel::ALL {
        fabric.copy_in(&mut peer_link, peer_landing, 256, &[0; 60], CopyKernel::Plain);
        fabric.copy_in(&mut peer_link, peer_landing, 256, &bytes[..60], kernel);
        let mut out = [0; 60];
        fabric.copy_out(&mut link, landing, 256, &mut out, kernel);
        assert_eq!(out, bytes[..60], "{kernel:?}");
    }
    let crc = fabric.crc(&bytes[..60], 5);
    assert_eq!(fabric.crc_out(&link, landing, 256, 60, 5), crc);
    assert_eq!(fabric.crc_in(&peer_link, peer_landing, 256, 60, 5), crc);
    let at = CONTROL_PAGE_BYTES as usize + 256;
    assert_eq!(
        fabric.source_of(&link, landing, 256, 64),
        link.mine.start().as_ptr().wrapping_add(at).cast_const()
    );
    assert_eq!(
        fabric.place_in(&peer_link, peer_landing, 256, 64),
        peer_link.theirs.start().as_ptr().wrapping_add(at)
    );
}
