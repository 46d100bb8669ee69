//! Shared CQs on a device that does what the test says.

use super::*;
use crate::fabric::rdma::cm::Cm;
use crate::fabric::rdma::connection::RdmaConnection;
use crate::os::MemoryNode;
use crate::os::poll::poll_now;
use crate::os::wakeup::Wakeup;
use core::net::SocketAddr;
use superpipe_verbs::fake::{answer, begin, calls, channel, script, sent};
use superpipe_verbs::{CmId, EventChannel, WcStatus};

/// Depth of one connection, and the number of the poller.
const DEPTH: u32 = 100;
const POLLER: u32 = 3;

/// A device whose CQs have room for this many connections, and what the connections of a poller share.
struct Device {
    channel: EventChannel,
    context: Context,
    set: ShardSet,
}

impl Device {
    fn new(places: i32) -> Self {
        begin();
        script(|script| script.cq_depth = places * DEPTH.cast_signed() + 1);
        // No event has come.
        answer("ibv_get_cq_event", libc::EAGAIN);
        let channel = channel();
        let context = CmId::create(&channel).unwrap().context().unwrap();
        calls();
        Self { channel, context, set: ShardSet::new(POLLER, Wakeup::new().unwrap()) }
    }

    fn try_seat(&self) -> Option<Seat> {
        let local: SocketAddr = "192.0.2.1:9".parse().unwrap();
        let limits = self.context.limits().unwrap();
        self.set.seat(&self.context, &limits, DEPTH, local, &self.channel).unwrap()
    }

    fn seat(&self) -> Seat {
        self.try_seat().unwrap()
    }

    /// Numbers of the connections that the poller is to wake.
    fn woken(&self) -> Vec<u64> {
        let mut woken = heapless::Vec::<_, 8>::new();
        self.set.look(false, &mut woken);
        woken.to_vec()
    }
}

fn polled(seat: &mut Seat) -> Vec<u32> {
    let mut some = [Completed::NONE; POLLED];
    let count = seat.poll(&mut some).unwrap();
    some[..count].iter().map(|completed| completed.number).collect()
}

fn count(of: &str) -> usize {
    calls().into_iter().filter(|call| *call == of).count()
}

#[test]
fn a_shard_has_the_places_that_its_queue_has_room_for() {
    let device = Device::new(3);
    let mut seats: Vec<Seat> = (0..4).map(|_| device.seat()).collect();
    assert_eq!(count("ibv_create_cq"), 2);
    // The first one leaves, and its place is taken again by one with other ids.
    let before = seats[0].work_ids();
    seats.remove(0);
    let next = device.seat();
    assert_ne!(next.work_ids(), before);
    seats.push(next);
    assert_eq!(count("ibv_create_cq"), 0);
    seats.drain(..2);
    assert_eq!(count("ibv_destroy_cq"), 0, "others use both");
    drop(seats);
    assert_eq!(count("ibv_destroy_cq"), 2);
    // A queue for one connection is not worth sharing.
    assert!(Device::new(1).try_seat().is_none());
}

#[test]
fn shards_grow_with_their_number() {
    let device = Device::new(1000);
    let seats: Vec<Seat> = (0..64).map(|_| device.seat()).collect();
    assert_eq!(count("ibv_create_cq"), 4, "8, 8, 16 and 32 places");
    drop(seats);
}

#[test]
fn each_gets_its_own_whoever_polls() {
    let device = Device::new(4);
    let (mut one, mut other) = (device.seat(), device.seat());
    sent(other.work_ids().send(7), WcStatus::SUCCESS);
    sent(one.work_ids().send(5), WcStatus::SUCCESS);
    assert_eq!((polled(&mut one), polled(&mut other)), (vec![5], vec![7]));
    // Leftovers of one are its own, and go with it.
    sent(one.work_ids().send(6), WcStatus::FLUSHED);
    sent(other.work_ids().send(8), WcStatus::SUCCESS);
    let gone = one.work_ids();
    drop(one);
    sent(gone.send(7), WcStatus::FLUSHED);
    let mut next = device.seat();
    assert_eq!((polled(&mut next), polled(&mut other)), (vec![], vec![8]));
}

#[test]
fn many_completions_of_one_hide_none_of_another() {
    let device = Device::new(4);
    let (mut one, mut other) = (device.seat(), device.seat());
    (0..70).for_each(|number| sent(other.work_ids().send(number), WcStatus::SUCCESS));
    sent(one.work_ids().send(5), WcStatus::SUCCESS);
    assert_eq!((polled(&mut one), polled(&mut other)), (vec![5], vec![69]));
    assert_eq!((polled(&mut one), polled(&mut other)), (vec![], vec![]));
}

#[test]
fn the_poller_wakes_its_own_and_a_bell_the_others() {
    let device = Device::new(4);
    let (mut one, mut other) = (device.seat(), device.seat());
    assert_eq!(one.arm(false), Ok(WokenBy::Nothing), "while it is being made");
    assert!(!one.is_woken() && one.interest().is_none());
    one.keep();
    one.set_polled_by(Some(Owner { set: POLLER, number: 70 }));
    assert_eq!(one.arm(true), Ok(WokenBy::Poller));
    assert!(one.is_woken() && one.interest().is_none());
    assert_eq!(count("ibv_req_notify_cq"), 0, "the poller looks while it is awake");
    sent(one.work_ids().send(1), WcStatus::SUCCESS);
    assert_eq!((device.woken(), device.woken()), (vec![70], vec![]));
    one.disarm().unwrap();
    assert_eq!(polled(&mut one), [1]);
    one.arm(true).unwrap();
    assert!(!device.set.arm() && !device.set.arm());
    assert_eq!(count("ibv_req_notify_cq"), 1, "for the poller's sleep");
    // The other one left the poller, and sleeps by itself.
    other.keep();
    other.set_polled_by(None);
    assert_eq!(other.arm(true), Ok(WokenBy::Descriptor));
    assert!(!poll_now(&mut [other.interest()]));
    sent(other.work_ids().send(2), WcStatus::SUCCESS);
    assert!(device.woken().is_empty());
    assert!(poll_now(&mut [other.interest()]));
    other.disarm().unwrap();
    assert!(!poll_now(&mut [other.interest()]));
    assert_eq!(polled(&mut other), [2]);
    // By another poller, it is woken by the same descriptor.
    other.set_polled_by(Some(Owner { set: POLLER + 1, number: 70 }));
    assert_eq!(other.arm(true), Ok(WokenBy::Descriptor));
}

#[test]
fn a_queue_pair_goes_before_its_place_and_its_queue() {
    let device = Device::new(1000);
    let made = || {
        let mut id = CmId::create(&device.channel).unwrap();
        id.bind("192.0.2.1:9".parse().unwrap()).unwrap();
        RdmaConnection::new(Cm::new(device.channel.clone(), id), MemoryNode::Auto, Some(&device.set)).unwrap()
    };
    let (one, mut other) = (made(), made());
    assert_eq!(count("ibv_create_cq"), 1);
    drop(one);
    let left: Vec<&str> =
        calls().into_iter().filter(|call| ["ibv_destroy_qp", "poll_cq"].contains(call)).collect();
    assert_eq!(left, ["ibv_destroy_qp", "poll_cq"]);
    answer("poll_cq", -1);
    assert_eq!(other.poll(), 0);
    assert!(matches!(other.state, crate::fabric::rdma::connection::State::Failed(_)));
    drop(other);
    let left = calls();
    let at = |name| left.iter().position(|call| *call == name).unwrap();
    assert!(at("ibv_destroy_qp") < at("ibv_destroy_cq"), "{left:?}");
    assert!(at("ibv_destroy_cq") < at("ibv_destroy_comp_channel"), "{left:?}");
}
