//! What is left of a page: after its publisher, its process, and in children of fork.

use std::thread;

use superpipe::ErrorKind;
use superpipe::metrics::{PublishOptions, Reader, processes, publish};

use super::support::{COPY_PERIOD, fork, pair, publish_now, read_own, turn, until, wait};

#[test]
fn a_page_is_there_as_long_as_one_of_its_publishers() {
    let _turn = turn();
    let own = std::process::id();
    let (first, second) = (publish_now(), publish_now());
    let mut reader = Reader::open(own).unwrap();
    assert!(processes().unwrap().contains(&own));
    drop(first);
    assert!(reader.read().is_ok() && processes().unwrap().contains(&own));
    drop(second);
    assert_eq!(reader.read().unwrap_err().kind(), ErrorKind::PeerLost, "also for those who have it open");
    let error = Reader::open(own).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.to_string().contains("superpipe::metrics::publish"), "{error}");
    assert!(!processes().unwrap().contains(&own));
}

#[test]
fn connections_move_to_the_next_page() {
    let _turn = turn();
    let publisher = publish_now();
    let (mut one, _other) = pair("next");
    assert_eq!(read_own().connections.len(), 2);
    drop(publisher);
    thread::sleep(COPY_PERIOD);
    one.progress();
    let _publisher = publish(PublishOptions { connections_max: 3 }).unwrap();
    thread::sleep(COPY_PERIOD);
    one.progress();
    let found = read_own();
    assert_eq!((found.connections.len(), found.process.connections_made), (1, 1));
}

#[test]
fn a_page_of_no_connections_or_too_many_is_refused() {
    let _turn = turn();
    for connections_max in [0, 65_537, u32::MAX] {
        let error = publish(PublishOptions { connections_max }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(&connections_max.to_string()), "{error}");
    }
    let _publisher = publish(PublishOptions { connections_max: 65_536 }).unwrap();
    assert_eq!(read_own().connections, []);
}

#[test]
fn a_killed_process_leaves_nothing() {
    let _turn = turn();
    let child = fork(|| {
        let _publisher = publish_now();
        thread::sleep(super::support::DEADLINE);
    });
    let pid = u32::try_from(child).unwrap();
    until("the child publishes", || processes().unwrap().contains(&pid));
    let mut reader = Reader::open(pid).unwrap();
    assert_eq!(reader.read().unwrap().pid, pid);
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    until("the end of the child is seen", || {
        reader.read().is_err_and(|error| error.kind() == ErrorKind::PeerLost)
    });
    assert!(!processes().unwrap().contains(&pid));
    wait(child);
    assert_eq!(Reader::open(pid).unwrap_err().kind(), ErrorKind::Connect);
}

/// A child has its parent's descriptor, and is not its parent.
#[test]
fn a_child_shows_nothing_of_its_parent_and_publishes_itself() {
    let _turn = turn();
    let publisher = publish_now();
    let (mut one, other) = pair("child");
    let child = fork(|| {
        let own = std::process::id();
        assert_eq!(Reader::open(own).unwrap_err().kind(), ErrorKind::Connect);
        assert!(!processes().unwrap().contains(&own));
        // SAFETY: these are the child's copies, and its own are never used again: it ends without dropping anything.
        unsafe {
            drop(core::ptr::read(&raw const one));
            drop(core::ptr::read(&raw const other));
            drop(core::ptr::read(&raw const publisher));
        }
        let publisher = publish_now();
        let (_third, _fourth) = pair("grandchild");
        assert_eq!(read_own().connections.len(), 2);
        drop(publisher);
        assert!(Reader::open(own).is_err());
    });
    assert_eq!(wait(child), 0);
    thread::sleep(COPY_PERIOD);
    one.progress();
    let found = read_own();
    assert_eq!(
        (found.connections.len(), found.process.connections_made),
        (2, 2),
        "the parent's are as before"
    );
    assert_eq!(found.process.connections_ended, 0);
}
