//! Shared CQs on a device that does what the test says.

use super::*;
use crate::fabric::rdma::cm::Cm;
use crate::fabric::rdma::connection::RdmaConnection;
use crate::os::MemoryNode;
use crate::os::poll::poll_now;
use crate::os::wakeup::Wakeup;
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
    fn new(slots: i32) -> Self {
        begin();
        script(|script| script.cq_depth = slots * DEPTH.cast_signed() + 1);
        // No event has come.
        answer("ibv_get_cq_event", libc::EAGAIN);
        let channel = channel();
        let context = CmId::create(&channel).unwrap().context().unwrap();
        calls();
        Self { channel, context, set: ShardSet::new(POLLER, Wakeup::new().unwrap()) }
    }

    fn try_share(&self) -> Option<CqShare> {
        self.try_share_at("192.0.2.1:9")
    }

    fn try_share_at(&self, local: &str) -> Option<CqShare> {
        let limits = self.context.limits().unwrap();
        self.set.share(&self.context, &limits, DEPTH, local.parse().unwrap(), &self.channel)
    }

    fn share(&self) -> CqShare {
        self.try_share().unwrap()
    }

    /// Numbers of the connections that the poller is to wake.
    fn woken(&self) -> Vec<u64> {
        let mut woken = heapless::Vec::<_, 8>::new();
        self.set.look(false, &mut woken);
        woken.to_vec()
    }
}

fn polled(share: &mut CqShare) -> Vec<u32> {
    let mut some = [Completed::NONE; POLLED];
    let count = share.poll(&mut some).unwrap();
    some[..count].iter().map(|completed| completed.number).collect()
}

fn count(of: &str) -> usize {
    calls().into_iter().filter(|call| *call == of).count()
}

#[test]
fn a_shard_has_the_slots_that_its_queue_has_room_for() {
    let device = Device::new(3);
    let mut shares: Vec<CqShare> = (0..4).map(|_| device.share()).collect();
    assert_eq!(count("ibv_create_cq"), 2);
    // The first one leaves, and its slot is taken again by one with other ids.
    let before = shares[0].work_ids();
    shares.remove(0);
    let next = device.share();
    assert_ne!(next.work_ids(), before);
    shares.push(next);
    assert_eq!(count("ibv_create_cq"), 0);
    shares.drain(..2);
    assert_eq!(count("ibv_destroy_cq"), 0, "others use both");
    drop(shares);
    assert_eq!(count("ibv_destroy_cq"), 2);
    // A queue for one connection is not worth sharing.
    assert!(Device::new(1).try_share().is_none());
}

/// A connection of a link-local address, which names no interface without its scope.
#[test]
fn a_link_local_address_has_its_scope() {
    let device = Device::new(4);
    assert!(device.try_share_at("[fe80::1%3]:9").is_some());
}

#[test]
fn without_a_shared_queue_there_is_one_for_each() {
    for call in ["rdma_bind_addr", "ibv_create_cq", "ibv_create_comp_channel"] {
        let device = Device::new(4);
        answer(call, libc::ENOMEM);
        assert!(device.try_share().is_none(), "{call}");
    }
}

#[test]
fn shards_grow_with_their_number() {
    let device = Device::new(1000);
    let shares: Vec<CqShare> = (0..64).map(|_| device.share()).collect();
    assert_eq!(count("ibv_create_cq"), 4, "8, 8, 16 and 32 slots");
    drop(shares);
}

#[test]
fn each_gets_its_own_whoever_polls() {
    let device = Device::new(4);
    let (mut one, mut other) = (device.share(), device.share());
    sent(other.work_ids().send(7), WcStatus::SUCCESS);
    sent(one.work_ids().send(5), WcStatus::SUCCESS);
    assert_eq!((polled(&mut one), polled(&mut other)), (vec![5], vec![7]));
    // Leftovers of one are its own, and go with it.
    sent(one.work_ids().send(6), WcStatus::FLUSHED);
    sent(other.work_ids().send(8), WcStatus::SUCCESS);
    let gone = one.work_ids();
    drop(one);
    sent(gone.send(7), WcStatus::FLUSHED);
    let mut next = device.share();
    assert_eq!((polled(&mut next), polled(&mut other)), (vec![], vec![8]));
}

#[test]
fn many_completions_of_one_hide_none_of_another() {
    let device = Device::new(4);
    let (mut one, mut other) = (device.share(), device.share());
    (0..70).for_each(|number| sent(other.work_ids().send(number), WcStatus::SUCCESS));
    sent(one.work_ids().send(5), WcStatus::SUCCESS);
    assert_eq!((polled(&mut one), polled(&mut other)), (vec![5], vec![69]));
    assert_eq!((polled(&mut one), polled(&mut other)), (vec![], vec![]));
}

#[test]
fn the_poller_wakes_its_own_and_a_descriptor_the_others() {
    let device = Device::new(4);
    let (mut one, mut other) = (device.share(), device.share());
    one.arm(false).unwrap();
    assert!(!one.is_woken() && one.interest().is_none());
    one.note_established();
    one.set_polled_by(Some(Owner { set: POLLER, number: 70 }));
    one.arm(true).unwrap();
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
    other.note_established();
    other.set_polled_by(None);
    other.arm(true).unwrap();
    assert!(!poll_now(&mut [other.interest()]));
    sent(other.work_ids().send(2), WcStatus::SUCCESS);
    assert!(device.woken().is_empty());
    assert!(poll_now(&mut [other.interest()]));
    other.disarm().unwrap();
    assert!(!poll_now(&mut [other.interest()]));
    assert_eq!(polled(&mut other), [2]);
    // By another poller, it is woken by the same descriptor.
    other.set_polled_by(Some(Owner { set: POLLER + 1, number: 70 }));
    other.arm(true).unwrap();
    assert!(other.is_woken() && !other.interest().is_none());
}

#[test]
fn a_queue_pair_goes_before_its_slot_and_its_queue() {
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
